//! The zones of the store, beside those of files: opened, served, and given to a successor.
use crate::config::StoreKind;
use control::Control;
use control::status::StoreStatus;
use records::{Desk, Held, Others, Serving};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use store_redb::RedbStore;

/// The thread that writes.
pub const DESK: &str = records::DESK_THREAD;

/// The store of a server that has one.
pub struct Stored {
    pub desk: Desk,
    /// The tree and the log.
    files: [PathBuf; 2],
    /// Gone once it is stopped.
    serving: Mutex<Option<Serving>>,
}

impl Stored {
    /// Opens the store that a config asks for and has its zones answered; nothing: it asks for
    /// none. Who takes over waits until the predecessor has given it back.
    ///
    /// # Errors
    /// It cannot be had, with what to do.
    pub fn start(
        (kind, folder): (StoreKind, Option<PathBuf>),
        control: &Control,
        others: Arc<dyn Others>,
        takes_over: bool,
    ) -> Result<Option<Self>, Box<dyn Error + Send + Sync>> {
        let (StoreKind::Redb, Some(folder)) = (kind, folder) else {
            return Ok(None);
        };
        let began = Instant::now();
        let store = RedbStore::open(&folder, takes_over).map_err(|why| format!("[store] {why}"))?;
        let (desk, serving) = Desk::start(control.clone(), Box::new(store), others)?;
        let Held { revision, zones, sets } = desk.held()?;
        let milliseconds = began.elapsed().as_millis() as u64;
        let files = store_redb::paths(&folder);
        let file = files[0].display();
        tracing::info!(%file, zones, sets, %revision, milliseconds, "store opened");
        Ok(Some(Self { desk, files, serving: Mutex::new(Some(serving)) }))
    }

    /// What is told of it.
    pub fn status(&self) -> StoreStatus {
        let folder = self.files[0].parent().unwrap_or(Path::new("."));
        let free = rustix::fs::statvfs(folder).map(|found| found.f_bavail * found.f_frsize);
        let status = StoreStatus {
            file: self.files[0].display().to_string(),
            octets: self.files.iter().flat_map(fs::metadata).map(|found| found.len()).sum(),
            free_octets: free.unwrap_or_default(),
            ..StoreStatus::default()
        };
        match self.desk.held() {
            Ok(Held { revision, zones, sets }) => {
                StoreStatus { revision: revision.0, zones, rrsets: sets, ..status }
            }
            Err(why) => StoreStatus { fault: Some(why.to_string()), ..status },
        }
    }

    /// Writes what waits, and ends.
    pub fn stop(&self) {
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(serving) = serving {
            serving.stop();
        }
    }
}

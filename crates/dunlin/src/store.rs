//! The zones of the store, beside those of files: opened, served, and given to a successor.
use crate::config::StoreKind;
use control::Control;
use records::{Desk, Others, Serving};
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use store_redb::RedbStore;

/// The thread that writes.
pub const DESK: &str = records::DESK_THREAD;

/// The store of a server that has one.
pub struct Stored {
    pub desk: Desk,
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
        let (zones, revision) = (desk.zones()?, desk.revision()?);
        let zones = zones.iter().filter(|zone| zone.owner == records::Owner::Store).count();
        let milliseconds = began.elapsed().as_millis() as u64;
        let file = store_redb::path(&folder);
        tracing::info!(file = %file.display(), zones, %revision, milliseconds, "store opened");
        Ok(Some(Self { desk, serving: Mutex::new(Some(serving)) }))
    }

    /// Writes what waits, and ends.
    pub fn stop(&self) {
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(serving) = serving {
            serving.stop();
        }
    }
}

//! The zones of the store, beside those of files: opened, served, and given to a successor.
use config::StoreKind;
use records::{RecordService, ServiceThreads, StoreSettings, StoreSize, ZoneOwnership};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use store_redb::RedbStore;
use zone_manager::ZonePublisher;
use zone_manager::status::{StoreStatus, StoreZoneFault};

/// The thread that writes.
pub const DESK: &str = records::WRITER_THREAD;

/// The file that names the zones of the store, beside it.
const LIST: &str = "records.zones";

/// The store of a server that has one.
pub struct Stored {
    pub desk: RecordService,
    /// The tree and the log.
    files: [PathBuf; 2],
    /// Gone once it is stopped.
    serving: Mutex<Option<ServiceThreads>>,
}

impl Stored {
    /// Opens the store that a config asks for and has its zones answered; nothing: it asks for
    /// none. Who takes over waits until the predecessor has given it back. A store that cannot be
    /// opened is tried again until it can; its zones answer SERVFAIL until then (invariant I11).
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        (kind, folder): (StoreKind, Option<PathBuf>),
        control: &ZonePublisher,
        others: Arc<dyn ZoneOwnership>,
        takes_over: bool,
    ) -> io::Result<Option<Self>> {
        let (StoreKind::Redb, Some(folder)) = (kind, folder) else {
            return Ok(None);
        };
        let began = Instant::now();
        let store = Box::new(RedbStore::closed(&folder).map_err(io::Error::other)?);
        let opening = StoreSettings { store, waits: takes_over, list: Some(folder.join(LIST)) };
        let (desk, serving) = RecordService::start_on(control.clone(), opening, others)?;
        let files = store_redb::paths(&folder);
        // Why it cannot be used is logged by who tries.
        if let Ok(StoreSize { revision, zones, sets }) = desk.held() {
            let milliseconds = began.elapsed().as_millis() as u64;
            let file = files[0].display();
            tracing::info!(%file, zones, sets, %revision, milliseconds, "store opened");
        }
        Ok(Some(Self { desk, files, serving: Mutex::new(Some(serving)) }))
    }

    /// What is told of it.
    pub fn status(&self) -> StoreStatus {
        let folder = self.files[0].parent().unwrap_or(Path::new("."));
        let free = rustix::fs::statvfs(folder).map(|found| found.f_bavail * found.f_frsize);
        let health = self.desk.health();
        let named = health.unreadable.iter().map(|(zone, why)| (zone.to_string(), why.to_string()));
        let status = StoreStatus {
            file: self.files[0].display().to_string(),
            bytes: self.files.iter().flat_map(fs::metadata).map(|found| found.len()).sum(),
            free_bytes: free.unwrap_or_default(),
            servfail: health.unreadable_count as u64,
            servfail_zones: named.map(|(name, reason)| StoreZoneFault { name, reason }).collect(),
            list_fault: health.list.map(|why| why.to_string()),
            ..StoreStatus::default()
        };
        match self.desk.held() {
            Ok(StoreSize { revision, zones, sets }) => StoreStatus {
                revision: revision.0,
                zones,
                rrsets: sets,
                writes_refused: self.desk.writable().err().map(|why| why.to_string()),
                ..status
            },
            Err(why) => {
                // Without a reason in front of it: the file is told beside it.
                let why = health.unavailable.map_or_else(|| why.to_string(), |why| why.to_string());
                StoreStatus { fault: Some(why), zones: status.servfail, ..status }
            }
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

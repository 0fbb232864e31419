//! The store of the server: opens it, reports its status, and stops it.
use config::{Etcd, StoreKind};
use records::{RecordService, ServiceThreads, Store, StoreSettings, StoreSize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use store_etcd::{EtcdSettings, EtcdStore};
use store_redb::RedbStore;
use zone_manager::ZonePublisher;
use zone_manager::status::{StoreStatus, StoreZoneFault};

/// The writer thread.
pub const DESK: &str = records::WRITER_THREAD;

/// The file that names the zones of the store, beside it.
const LIST: &str = "records.zones";

/// The store of a server that has one.
pub struct Stored {
    pub desk: RecordService,
    /// The tree and the log.
    files: [PathBuf; 2],
    /// `None` once stopped.
    serving: Mutex<Option<ServiceThreads>>,
}

impl Stored {
    /// Opens the configured store, and serves its zones; `None`: none is configured. In a hot
    /// restart it waits until the old process has released it. Opening is retried until it
    /// succeeds; the zones answer SERVFAIL until then (invariant I11).
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        (kind, folder): (StoreKind, Option<PathBuf>),
        etcd: &Etcd,
        control: &ZonePublisher,
        is_hot_restart: bool,
    ) -> io::Result<Option<Self>> {
        let Some(folder) = folder else { return Ok(None) };
        let began = Instant::now();
        let (store, of_files): (Box<dyn Store>, PathBuf) = match kind {
            StoreKind::None => return Ok(None),
            StoreKind::Redb => {
                let store = RedbStore::closed(&folder).map_err(io::Error::other)?;
                (Box::new(store), folder.clone())
            }
            StoreKind::Etcd => {
                let store = EtcdStore::closed(&folder, settings(etcd)).map_err(io::Error::other)?;
                (Box::new(store), store_etcd::replica_folder(&folder))
            }
        };
        let opening = StoreSettings { store, waits: is_hot_restart, list: Some(folder.join(LIST)) };
        let (desk, serving) =
            RecordService::start_on(control.clone(), opening, Arc::new(control.clone()))?;
        let files = store_redb::paths(&of_files);
        // The service logs why it cannot be used.
        if let Ok(StoreSize { revision, zones, sets }) = desk.held() {
            let milliseconds = began.elapsed().as_millis() as u64;
            let file = files[0].display();
            tracing::info!(%file, zones, sets, %revision, milliseconds, "store opened");
        }
        Ok(Some(Self { desk, files, serving: Mutex::new(Some(serving)) }))
    }

    /// Its status.
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
                // The status has the file already.
                let why = health.unavailable.map_or_else(|| why.to_string(), |why| why.to_string());
                StoreStatus { fault: Some(why), zones: status.servfail, ..status }
            }
        }
    }

    /// Commits queued writes, and stops.
    pub fn stop(&self) {
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(serving) = serving {
            serving.stop();
        }
    }
}

/// The settings of a connection to etcd.
fn settings(etcd: &Etcd) -> EtcdSettings {
    let Etcd { endpoints, prefix, ca, cert, key, user, password_file } = etcd.clone();
    let user = (!user.is_empty()).then_some(user);
    EtcdSettings { endpoints, prefix, ca, identity: cert.zip(key), user: user.zip(password_file) }
}

//! What hosts files say, and what is to be told of each file.
use super::lock;
use super::registry::{seconds, told};
use compile::Zone;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use zone_manager::status::{HostsStatus, ZoneState};

/// The files in the order of the config; shared by who loads them and who tells of them.
#[derive(Default)]
pub struct Shelf {
    files: Mutex<Vec<Shelved>>,
    /// Seconds that what they say may be kept.
    ttl: AtomicU32,
}

/// What there is of a file.
#[derive(Default)]
struct Shelved {
    file: PathBuf,
    /// What it said when it was last in order.
    zone: Option<Arc<Zone>>,
    status: HostsStatus,
}

impl Shelf {
    /// Takes these files for the ones there were; what is known of those that stay is kept.
    pub fn set(&self, files: &[PathBuf]) {
        let mut shelved = lock(&self.files);
        let mut known = std::mem::take(&mut *shelved);
        shelved.extend(files.iter().map(|file| {
            let at = known.iter().position(|old| old.file == *file);
            at.map(|at| known.swap_remove(at)).unwrap_or_else(|| Shelved {
                status: HostsStatus { file: file.display().to_string(), ..HostsStatus::default() },
                file: file.clone(),
                zone: None,
            })
        }));
    }

    /// What is loaded from now on may be kept so long.
    pub fn set_ttl(&self, seconds: u32) {
        self.ttl.store(seconds, Ordering::Relaxed);
    }

    pub fn ttl(&self) -> u32 {
        self.ttl.load(Ordering::Relaxed)
    }

    /// What is answered of a file.
    pub fn zone(&self, file: &Path) -> Option<Arc<Zone>> {
        lock(&self.files).iter().find(|shelved| shelved.file == file)?.zone.clone()
    }

    /// What is answered of all.
    pub fn zones(&self) -> Vec<Arc<Zone>> {
        lock(&self.files).iter().filter_map(|shelved| shelved.zone.clone()).collect()
    }

    /// What is to be told of all.
    pub fn status(&self) -> Vec<HostsStatus> {
        lock(&self.files).iter().map(|shelved| shelved.status.clone()).collect()
    }

    /// Takes what a file says.
    pub fn put(&self, file: &Path, zone: Zone, names: u64) {
        self.edit(file, |shelved| {
            shelved.zone = Some(Arc::new(zone));
            shelved.status = HostsStatus {
                state: ZoneState::Current,
                names,
                loaded_seconds: Some(seconds(SystemTime::now())),
                file: std::mem::take(&mut shelved.status.file),
                ..HostsStatus::default()
            };
        });
    }

    /// Notes that a file was refused, and that what it said before goes on.
    pub fn refuse(&self, file: &Path, errors: impl ExactSizeIterator<Item = String>) {
        self.edit(file, |shelved| {
            let status = &mut shelved.status;
            if status.state == ZoneState::Current {
                status.state = ZoneState::Behind;
            }
            status.refused_seconds = Some(seconds(SystemTime::now()));
            status.errors = told(errors);
        });
    }

    fn edit(&self, file: &Path, edit: impl FnOnce(&mut Shelved)) {
        // It may have been taken away.
        if let Some(shelved) = lock(&self.files).iter_mut().find(|shelved| shelved.file == file) {
            edit(shelved);
        }
    }
}

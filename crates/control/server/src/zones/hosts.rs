//! The content and status of each hosts file.
use super::lock;
use super::registry::{seconds, shown_errors};
use compile::Zone;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use zone_manager::status::{HostsStatus, ZoneState};

/// The files in the order of the config, shared between threads.
#[derive(Default)]
pub struct HostsFiles {
    files: Mutex<Vec<HostsFile>>,
    /// The TTL of their records in seconds.
    ttl: AtomicU32,
}

/// One file.
#[derive(Default)]
struct HostsFile {
    file: PathBuf,
    /// Its last valid content.
    zone: Option<Arc<Zone>>,
    status: HostsStatus,
}

impl HostsFiles {
    /// Replaces the files; those that stay keep their content. Returns the removed ones.
    pub fn set(&self, files: &[PathBuf]) -> Vec<PathBuf> {
        let mut kept = lock(&self.files);
        let mut known = std::mem::take(&mut *kept);
        kept.extend(files.iter().map(|file| {
            let at = known.iter().position(|old| old.file == *file);
            at.map(|at| known.swap_remove(at)).unwrap_or_else(|| HostsFile {
                status: HostsStatus { file: file.display().to_string(), ..HostsStatus::default() },
                file: file.clone(),
                zone: None,
            })
        }));
        known.into_iter().map(|removed| removed.file).collect()
    }

    /// Sets the TTL of what is loaded from now on.
    pub fn set_ttl(&self, seconds: u32) {
        self.ttl.store(seconds, Ordering::Relaxed);
    }

    pub fn ttl(&self) -> u32 {
        self.ttl.load(Ordering::Relaxed)
    }

    /// The content of a file.
    pub fn zone(&self, file: &Path) -> Option<Arc<Zone>> {
        lock(&self.files).iter().find(|known| known.file == file)?.zone.clone()
    }

    /// The number of names in the served content of a file.
    pub fn names(&self, file: &Path) -> Option<u64> {
        Some(lock(&self.files).iter().find(|known| known.file == file)?.status.names)
    }

    /// The content of all.
    pub fn zones(&self) -> Vec<Arc<Zone>> {
        lock(&self.files).iter().filter_map(|file| file.zone.clone()).collect()
    }

    /// The status of all.
    pub fn status(&self) -> Vec<HostsStatus> {
        lock(&self.files).iter().map(|file| file.status.clone()).collect()
    }

    /// A file was loaded.
    pub fn put(&self, file: &Path, zone: Zone, names: u64) {
        self.edit(file, |known| {
            known.zone = Some(Arc::new(zone));
            known.status = HostsStatus {
                state: ZoneState::Current,
                names,
                loaded_seconds: Some(seconds(SystemTime::now())),
                file: std::mem::take(&mut known.status.file),
                ..HostsStatus::default()
            };
        });
    }

    /// The new content of a file is held; its content stays as it was.
    pub fn hold(&self, file: &Path) {
        self.edit(file, |known| {
            let status = &mut known.status;
            status.state = ZoneState::Behind;
            (status.refused_seconds, status.errors) = (None, Vec::new());
        });
    }

    /// A file was refused; its content stays as it was.
    pub fn refuse(&self, file: &Path, errors: impl ExactSizeIterator<Item = String>) {
        self.edit(file, |known| {
            let status = &mut known.status;
            if status.state == ZoneState::Current {
                status.state = ZoneState::Behind;
            }
            status.refused_seconds = Some(seconds(SystemTime::now()));
            status.errors = shown_errors(errors);
        });
    }

    fn edit(&self, file: &Path, edit: impl FnOnce(&mut HostsFile)) {
        // It may have been removed.
        if let Some(known) = lock(&self.files).iter_mut().find(|known| known.file == file) {
            edit(known);
        }
    }
}

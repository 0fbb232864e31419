//! The status of each hosts file; its content is a layer of the zone manager.
use super::lock;
use super::registry::{seconds, shown_errors};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;
use zone_manager::Target;
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
    status: HostsStatus,
}

impl HostsFiles {
    /// Replaces the files; those that stay keep their status.
    pub fn set(&self, files: &[PathBuf]) {
        let mut kept = lock(&self.files);
        let mut known = std::mem::take(&mut *kept);
        kept.extend(files.iter().map(|file| {
            let at = known.iter().position(|old| old.file == *file);
            at.map(|at| known.swap_remove(at)).unwrap_or_else(|| HostsFile {
                status: HostsStatus { file: file.display().to_string(), ..HostsStatus::default() },
                file: file.clone(),
            })
        }));
    }

    /// Sets the TTL of what is loaded from now on.
    pub fn set_ttl(&self, seconds: u32) {
        self.ttl.store(seconds, Ordering::Relaxed);
    }

    pub fn ttl(&self) -> u32 {
        self.ttl.load(Ordering::Relaxed)
    }

    /// The layer of a file.
    pub fn layer(&self, file: &Path) -> Option<Target> {
        let number = lock(&self.files).iter().position(|known| known.file == file)?;
        Some(Target::Layer(number as u32))
    }

    /// The number of names in the served content of a file.
    pub fn names(&self, file: &Path) -> Option<u64> {
        Some(lock(&self.files).iter().find(|known| known.file == file)?.status.names)
    }

    /// The status of all.
    pub fn status(&self) -> Vec<HostsStatus> {
        lock(&self.files).iter().map(|file| file.status.clone()).collect()
    }

    /// A file was loaded.
    pub fn put(&self, file: &Path, names: u64) {
        self.edit(file, |known| {
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

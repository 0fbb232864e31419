//! A file that is brought to the disk little by little: an order to the log, which shares the disk,
//! would wait for all that was written at once.
use crate::limits::PACE_OCTETS;
use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The file of a tree.
#[derive(Debug)]
pub struct Paced {
    file: FileBackend,
    /// Octets since the disk was told.
    written: AtomicUsize,
    /// Whether there is time for it.
    is_slow: Arc<AtomicBool>,
}

impl Paced {
    pub fn new(file: FileBackend, is_slow: Arc<AtomicBool>) -> Self {
        Self { file, written: AtomicUsize::new(0), is_slow }
    }
}

impl StorageBackend for Paced {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)?;
        let written = self.written.fetch_add(data.len(), Ordering::Relaxed) + data.len();
        match written >= PACE_OCTETS && self.is_slow.load(Ordering::Relaxed) {
            true => self.sync_data(),
            false => Ok(()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.written.store(0, Ordering::Relaxed);
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

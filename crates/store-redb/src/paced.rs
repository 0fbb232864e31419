//! A file that is brought to the disk little by little: an order to the log, which shares the disk,
//! would wait for all that was written at once.
use crate::limits::PACE_OCTETS;
use redb::{BackendError, StorageBackend};
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The file of a tree.
#[derive(Debug)]
pub struct Paced<B> {
    file: B,
    /// Octets since the disk was told.
    written: AtomicUsize,
    /// Whether there is time for it.
    is_slow: Arc<AtomicBool>,
    /// The disk tells once what it failed, and whoever is told may be somebody else than who needs
    /// to know: nothing is said to be on it any more, until it is opened again.
    has_failed: AtomicBool,
}

impl<B> Paced<B> {
    pub fn new(file: B, is_slow: Arc<AtomicBool>) -> Self {
        let (written, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { file, written, is_slow, has_failed }
    }
}

impl<B: StorageBackend> StorageBackend for Paced<B> {
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
        let synced = self.file.sync_data();
        if synced.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        } else if self.has_failed.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk failed an order before this one"));
        }
        synced
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails its second order, once, as a kernel tells of what was lost.
    #[derive(Debug, Default)]
    struct Failing(AtomicUsize);

    impl StorageBackend for Failing {
        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Ok(())
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                1 => Err(io::Error::other("lost")),
                _ => Ok(()),
            }
        }

        fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn it_is_brought_to_the_disk_as_it_is_written_while_there_is_time() {
        let is_slow = Arc::new(AtomicBool::new(false));
        let paced = Paced::new(Failing::default(), Arc::clone(&is_slow));
        let orders = || paced.file.0.load(Ordering::Relaxed);
        let page = [0; 4096];
        (0..40).for_each(|_| paced.write(0, &page).unwrap());
        assert_eq!(orders(), 0);
        is_slow.store(true, Ordering::Relaxed);
        paced.write(0, &page).unwrap();
        assert_eq!(orders(), 1);
    }

    #[test]
    fn what_the_disk_failed_is_not_forgotten() {
        let paced = Paced::new(Failing::default(), Arc::new(AtomicBool::new(true)));
        let page = [0; PACE_OCTETS];
        paced.write(0, &page).unwrap();
        assert!(paced.write(0, &page).is_err(), "whoever wrote this may not care");
        assert!(paced.sync_data().is_err() && paced.sync_data().is_err());
    }
}

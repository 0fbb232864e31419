//! A file that is synced in small steps, because a sync of the log, on the same disk, would wait
//! for all of its writes.
use crate::limits::PACE_BYTES;
use crate::locks::same_locks;
use redb::StorageBackend;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The tree's file.
#[derive(Debug)]
pub struct PacedFile<B> {
    file: B,
    /// Bytes since the last sync.
    written: AtomicUsize,
    /// Whether to sync in small steps.
    is_slow: Arc<AtomicBool>,
    /// The kernel reports an error only once, perhaps to another thread. So every later sync fails,
    /// too, until the file is opened again.
    has_failed: AtomicBool,
}

impl<B> PacedFile<B> {
    pub fn new(file: B, is_slow: Arc<AtomicBool>) -> Self {
        let (written, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { file, written, is_slow, has_failed }
    }
}

impl<B: StorageBackend> StorageBackend for PacedFile<B> {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)?;
        let written = self.written.fetch_add(data.len(), Ordering::Relaxed) + data.len();
        match written >= PACE_BYTES && self.is_slow.load(Ordering::Relaxed) {
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
            return Err(io::Error::other("the disk failed an earlier request"));
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

    same_locks!();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails its second sync, once, as a kernel reports lost writes.
    #[derive(Debug, Default)]
    struct FailingFile(AtomicUsize);

    impl StorageBackend for FailingFile {
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
    fn slow_file_is_synced_in_steps() {
        let is_slow = Arc::new(AtomicBool::new(false));
        let paced = PacedFile::new(FailingFile::default(), Arc::clone(&is_slow));
        let orders = || paced.file.0.load(Ordering::Relaxed);
        let page = [0; 4096];
        (0..40).for_each(|_| paced.write(0, &page).unwrap());
        assert_eq!(orders(), 0);
        is_slow.store(true, Ordering::Relaxed);
        paced.write(0, &page).unwrap();
        assert_eq!(orders(), 1);
    }

    #[test]
    fn sync_error_is_not_forgotten() {
        let paced = PacedFile::new(FailingFile::default(), Arc::new(AtomicBool::new(true)));
        let page = [0; PACE_BYTES];
        paced.write(0, &page).unwrap();
        assert!(paced.write(0, &page).is_err(), "a later writer sees the error, too");
        assert!(paced.sync_data().is_err() && paced.sync_data().is_err());
    }
}

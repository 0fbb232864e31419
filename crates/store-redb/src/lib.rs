//! The store of records on redb: durable, crash-safe.
//!
//! Sets lie in canonical order, so that a zone is read from front to end at a start, and a page is
//! a range. A group of writes is one entry of a log and one order to the disk; it is brought into
//! the tree with many others, and who reads waits for that.
#![forbid(unsafe_code)]

mod checkpoint;
pub mod limits;
mod migrate;
mod paced;
mod read;
mod shared;
mod tables;
mod wal;
mod write;

use limits::{FREE_OCTETS_EACH, FREE_OCTETS_EDIT, FREE_OCTETS_MIN, GROUP_OCTETS_MAX};
use records::{Prepared, Reader, Restoring, Revision, Store, StoreError};
use redb::StorageBackend;
pub use shared::paths;
use shared::{Opener, Shared};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// The side that reads.
struct Redb(Arc<Shared>);

/// A store in two files. One process has it at a time.
pub struct RedbStore {
    shared: Arc<Shared>,
    /// Brings what is in the log into the tree.
    thread: Option<JoinHandle<()>>,
    /// Whether sets of zones that are no more may be left.
    is_tidy: bool,
}

impl RedbStore {
    /// Opens the store of a server, or makes it. Who `waits` does so for a while until another
    /// process has given it back.
    ///
    /// # Errors
    /// Another process has it, it is damaged, or of a newer version; with what to do.
    pub fn open(data_dir: &Path, waits: bool) -> Result<Self, StoreError> {
        let folder = data_dir.to_owned();
        let open = move |is_slow: &_| shared::open_files(&folder, is_slow);
        Self::with(Some(data_dir.to_owned()), Box::new(open), waits)
    }

    /// A store on whatever `files` makes, a tree and a log: for tests.
    ///
    /// # Errors
    /// As [`RedbStore::open`].
    pub fn on<T: StorageBackend, L: StorageBackend>(
        files: impl Fn() -> (T, L) + Send + Sync + 'static,
    ) -> Result<Self, StoreError> {
        let open = move |is_slow: &_| {
            let (tree, log) = files();
            shared::opened(shared::database(tree, is_slow)?, log)
        };
        Self::with(None, Box::new(open), false)
    }

    fn with(folder: Option<PathBuf>, opener: Opener, waits: bool) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared::new(folder, opener));
        if waits {
            shared.open_patiently()?
        } else {
            shared.open()?
        }
        let theirs = Arc::clone(&shared);
        let thread = Builder::new()
            .name("checkpoint".into())
            .spawn(move || checkpoint::run(&theirs))
            .map_err(|error| failed(&format!("no thread for checkpoints: {error}")))?;
        Ok(Self { shared, thread: Some(thread), is_tidy: false })
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        self.shared.checkpoints.end();
        if let Some(thread) = self.thread.take() {
            // What it could not do stands in the log.
            let _ = thread.join();
        }
    }
}

fn failed(why: &str) -> StoreError {
    StoreError::Failed(why.into())
}

/// What went wrong, as the desk is told.
fn told(error: redb::Error) -> StoreError {
    match error {
        redb::Error::Io(error) if is_full(&error) => StoreError::Full,
        redb::Error::DatabaseClosed => StoreError::Closed,
        redb::Error::Corrupted(why) => failed(&format!("damaged ({why}): restore a snapshot")),
        error => StoreError::Failed(error.to_string()),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Store for RedbStore {
    fn commit(&mut self, writes: Vec<Prepared>) -> Result<(), StoreError> {
        let Some(first) = writes.first().map(|write| write.revision) else { return Ok(()) };
        self.shared.mend()?;
        let octets: u64 = writes.iter().map(write::octets).sum();
        let is_large = octets > GROUP_OCTETS_MAX;
        let edits = writes.iter().map(|write| write::changes(write).len() as u64);
        // Wherever its sets lie.
        let room = FREE_OCTETS_EACH * octets + FREE_OCTETS_EDIT * edits.sum::<u64>();
        self.check_room(if is_large { FREE_OCTETS_EACH * octets } else { room })?;
        self.is_tidy &= writes.iter().all(|write| write.changes().is_some());
        let done = match is_large {
            true => self.file(writes, room),
            false => self.log(writes, room),
        };
        self.outcome(done, first)
    }

    fn newest(&mut self) -> Result<Revision, StoreError> {
        self.shared.mend()?;
        self.reader().revision()
    }

    fn tidy(&mut self) -> Result<bool, StoreError> {
        self.shared.mend()?;
        if self.is_tidy {
            return Ok(false);
        }
        self.check_room(0)?;
        let settled = checkpoint::settle(&self.shared);
        let more = match settled.and_then(|()| self.shared.with(|all| write::sweep(&all.database)))
        {
            Err(StoreError::Closed) => false,
            // What was swept or not is nothing that a write is put upon.
            Err(why) => return self.shared.reopen().and(Err(why)),
            Ok(more) => more,
        };
        self.is_tidy = !more;
        Ok(more)
    }

    fn restore(&mut self, from: &mut dyn Read, write: &Restoring) -> Result<(), StoreError> {
        let restored = checkpoint::settle(&self.shared).and_then(|()| {
            self.shared.with(|opened| write::restore(&opened.database, from, write))
        });
        match restored {
            Ok(read) => read,
            Err(why) => self.outcome(Err(why), write.revision),
        }
    }

    fn close(&mut self) {
        // What could not be brought into the tree is in the log, which the next one reads.
        let _ = checkpoint::settle(&self.shared);
        self.shared.close();
    }

    fn open(&mut self) -> Result<(), StoreError> {
        self.shared.open_patiently()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(Redb(Arc::clone(&self.shared)))
    }
}

impl RedbStore {
    /// Lays a group down in the log.
    fn log(&self, writes: Vec<Prepared>, room: u64) -> Result<(), StoreError> {
        let group = self.shared.with(|opened| Ok(opened.wal.group(&writes)))?;
        self.shared.checkpoints.log(writes, room, group.len(), |half, at| {
            self.shared.with(|opened| Ok(opened.wal.append(half, at, &group)?))
        })
    }

    /// Brings a group into the tree, with all that came before it.
    fn file(&self, writes: Vec<Prepared>, room: u64) -> Result<(), StoreError> {
        self.shared.with(|_| Ok(()))?;
        self.shared.checkpoints.put(writes, room);
        checkpoint::settle(&self.shared)
    }

    /// What came of writes from a revision on. Where the disk failed them, that is known only once
    /// it is read again.
    fn outcome(&self, done: Result<(), StoreError>, first: Revision) -> Result<(), StoreError> {
        match done {
            Ok(()) | Err(StoreError::Closed) => done,
            Err(why) => {
                let newest = self.shared.reopen().and_then(|()| self.reader().revision());
                match (newest, why) {
                    (Ok(newest), _) if newest >= first => Ok(()),
                    (Err(_), StoreError::Failed(why)) => Err(failed(&format!(
                        "{why}: it may be on the disk all the same, and is answered then once \
                         that is back"
                    ))),
                    (_, why) => Err(why),
                }
            }
        }
    }

    /// A full disk is known before anything is tried: what is refused leaves the files as they are.
    /// Nor is more put into the log than there is room for in the tree.
    fn check_room(&self, octets: u64) -> Result<(), StoreError> {
        let Some(folder) = &self.shared.folder else { return Ok(()) };
        let free = || {
            let found = rustix::fs::statvfs(folder);
            found.map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize))
        };
        let needed = FREE_OCTETS_MIN + octets;
        if free() < needed + self.shared.checkpoints.room() {
            checkpoint::settle(&self.shared)?;
        }
        if free() < needed { Err(StoreError::Full) } else { Ok(()) }
    }
}

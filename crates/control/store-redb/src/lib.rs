//! The store of records on redb: durable, crash-safe.
//!
//! Sets are in canonical order, so that a start reads a zone sequentially, and a page is a range. A
//! group of writes is one entry of a log and one fsync; checkpoints move many groups into the tree.
//! Reads wait for a checkpoint.
#![forbid(unsafe_code)]

mod checkpoint;
mod checkpointer;
mod files;
pub mod limits;
mod locks;
mod paced;
mod read;
mod replace;
mod salvage;
mod shared;
mod tables;
mod tree;
mod verified;
mod wal;
mod write;

use files::TreeAccess;
pub use files::paths;
use limits::{CACHE_BYTES, FREE_BYTES_EACH, FREE_BYTES_EDIT, FREE_BYTES_MIN, GROUP_BYTES_MAX};
use redb::StorageBackend;
pub use salvage::salvage;
pub use shared::WriteCondition;
use shared::{SharedStore, StoreOpener};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use store::{
    Commit, CommitError, CommitId, Form, PreparedWrite, Reader, RestoreInfo, Revision, Store,
    StoreError, Watch, WatchWaker,
};
use verified::ChecksumMismatch;
use wal::WalGroup;

/// The reading side.
struct RedbReader(Arc<SharedStore>);

/// A store in two files, which only one process uses.
pub struct RedbStore {
    shared: Arc<SharedStore>,
    /// The checkpoint thread.
    thread: Option<JoinHandle<()>>,
    /// Whether no sets of removed zones are left.
    is_tidy: bool,
    /// The newest revision, as far as known.
    newest: Option<Revision>,
    /// The last commit, and its revision if it succeeded.
    last: Option<(CommitId, Revision)>,
}

impl RedbStore {
    /// Opens the store of a server; creates it if missing. With `waits`, waits a while for another
    /// process to release it.
    ///
    /// # Errors
    /// Another process uses it, it is damaged, or it has a newer format; the error says what to do.
    pub fn open(data_dir: &Path, waits: bool) -> Result<Self, StoreError> {
        let store = Self::closed(data_dir)?;
        if waits {
            store.shared.open_patiently()?
        } else {
            store.shared.open()?
        }
        Ok(store)
    }

    /// The store of a server, not yet open: requests fail until [`Store::open`] opens it or
    /// [`Store::restore`] replaces its files.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn closed(data_dir: &Path) -> Result<Self, StoreError> {
        let folder = data_dir.to_owned();
        let open = move |is_slow: &_| {
            files::open_files(&folder, &TreeAccess { is_slow, cache_bytes: CACHE_BYTES })
        };
        Self::unopened(Some(data_dir.to_owned()), Box::new(open))
    }

    /// A store on the tree and log that `files` creates, for tests.
    ///
    /// # Errors
    /// As [`RedbStore::open`].
    pub fn on<T: StorageBackend, L: StorageBackend>(
        files: impl Fn() -> (T, L) + Send + Sync + 'static,
    ) -> Result<Self, StoreError> {
        let open = move |is_slow: &_| {
            let (tree, log) = files();
            // The verified pages are cached in `files`.
            files::open_on(tree, log, &TreeAccess { is_slow, cache_bytes: 64 << 10 })
        };
        let store = Self::unopened(None, Box::new(open))?;
        store.shared.open()?;
        Ok(store)
    }

    /// Makes writes depend on a condition, too, which readers report. The first one counts.
    pub fn set_condition(&self, condition: WriteCondition) {
        // Set once, before anybody writes.
        let _ = self.shared.condition.set(condition);
    }

    fn unopened(folder: Option<PathBuf>, opener: StoreOpener) -> Result<Self, StoreError> {
        let shared = Arc::new(SharedStore::new(folder, opener));
        let theirs = Arc::clone(&shared);
        let thread = Builder::new()
            .name("checkpoint".into())
            .spawn(move || checkpointer::run(&theirs))
            .map_err(|error| failed(&format!("no thread for checkpoints: {error}")))?;
        Ok(Self { shared, thread: Some(thread), is_tidy: false, newest: None, last: None })
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        self.shared.checkpoints.end();
        if let Some(thread) = self.thread.take() {
            // Writes without a checkpoint are in the log.
            let _ = thread.join();
        }
    }
}

fn failed(why: &str) -> StoreError {
    StoreError::Failed(why.into())
}

/// Converts an error of redb.
fn store_error(error: redb::Error) -> StoreError {
    match error {
        redb::Error::Io(error) if is_full(&error) => StoreError::Full,
        redb::Error::Io(error)
            if error.get_ref().is_some_and(|why| why.is::<ChecksumMismatch>()) =>
        {
            StoreError::Damaged(error.to_string())
        }
        redb::Error::DatabaseClosed => StoreError::Closed,
        redb::Error::Corrupted(why) => StoreError::Damaged(format!("it is damaged ({why})")),
        error => StoreError::Failed(error.to_string()),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Store for RedbStore {
    fn commit(&mut self, commit: Commit) -> Result<Revision, CommitError> {
        let newest = self.known_newest().map_err(CommitError::Refused)?;
        let (id, revision) = (commit.id, commit.revision());
        if newest != commit.base {
            return Err(CommitError::Conflict { newest });
        }
        let checked = self.form().check_need(commit.form());
        checked.map_err(|why| CommitError::Refused(StoreError::Form(why)))?;
        let writes = commit.writes;
        let bytes: u64 = writes.iter().map(write::bytes).sum();
        let is_large = bytes > GROUP_BYTES_MAX;
        let edits = writes.iter().map(|write| write.changes().len() as u64);
        // Sets may be anywhere, so each needs its own page.
        let room = FREE_BYTES_EACH * bytes + FREE_BYTES_EDIT * edits.sum::<u64>();
        let needed = if is_large { FREE_BYTES_EACH * bytes } else { room };
        self.check_room(needed).map_err(CommitError::Refused)?;
        self.is_tidy &= !writes.iter().any(PreparedWrite::is_deletion);
        (self.last, self.newest) = (Some((id, revision)), None);
        let done = match is_large {
            true => self.file(writes, room),
            false => self.log(writes, room),
        };
        done.map_err(|why| match why {
            StoreError::Closed => CommitError::Refused(why),
            why => CommitError::Unknown(why),
        })?;
        self.newest = Some(revision);
        Ok(revision)
    }

    /// Only this process writes, so the last commit is durable if its revision is.
    fn outcome(&mut self, id: CommitId) -> Result<Option<Revision>, StoreError> {
        let Some((_, revision)) = self.last.filter(|(last, _)| *last == id) else {
            return Err(failed("only the outcome of the last commit is known"));
        };
        // After an error of the disk, only reading it again tells.
        self.shared.reopen()?;
        let newest = self.known_newest()?;
        Ok((newest >= revision).then_some(revision))
    }

    /// No other process can write while the files are open.
    fn watch(&mut self, _: Revision, _: WatchWaker) -> Result<Option<Box<dyn Watch>>, StoreError> {
        Ok(None)
    }

    fn newest(&mut self) -> Result<Revision, StoreError> {
        self.newest = None;
        self.known_newest()
    }

    fn tidy(&mut self) -> Result<bool, StoreError> {
        self.shared.mend()?;
        if self.is_tidy {
            return Ok(false);
        }
        self.check_room(0)?;
        let settled = checkpointer::settle(&self.shared);
        let more = match settled.and_then(|()| self.shared.with(|all| write::sweep(&all.database)))
        {
            Err(StoreError::Closed) => false,
            // Writes do not depend on the sweep.
            Err(why) => return self.shared.reopen().and(Err(why)),
            Ok(more) => more,
        };
        self.is_tidy = !more;
        Ok(more)
    }

    fn restore(&mut self, from: &mut dyn Read, write: &RestoreInfo) -> Result<(), StoreError> {
        (self.newest, self.last) = (None, None);
        match (self.shared.mend(), &self.shared.folder) {
            (Err(StoreError::Damaged(_)), Some(folder)) => {
                replace::files(folder, from, write)?;
                return self.shared.open();
            }
            (mended, _) => mended?,
        }
        match self.replaced(from, Some(write)) {
            Ok(read) => read,
            Err(StoreError::Closed) => Err(StoreError::Closed),
            Err(why) => {
                self.shared.reopen()?;
                if self.known_newest()? >= write.revision { Ok(()) } else { Err(why) }
            }
        }
    }

    fn form(&self) -> Form {
        self.shared.form()
    }

    fn upgrade(&mut self) -> Result<(), StoreError> {
        self.raise(Form::NEWEST)
    }

    fn close(&mut self) {
        (self.newest, self.last) = (None, None);
        // Writes without a checkpoint are in the log, which the next process reads.
        let _ = checkpointer::settle(&self.shared);
        self.shared.close();
    }

    fn open(&mut self) -> Result<(), StoreError> {
        self.shared.open_patiently()
    }

    fn open_now(&mut self) -> Result<(), StoreError> {
        self.shared.open()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(RedbReader(Arc::clone(&self.shared)))
    }
}

impl RedbStore {
    /// Makes this form that of the store, if its form is older: one transaction of the tree.
    ///
    /// # Errors
    /// The disk.
    pub fn raise(&mut self, form: Form) -> Result<(), StoreError> {
        self.shared.mend()?;
        if form <= self.form() {
            return Ok(());
        }
        self.check_room(0)?;
        checkpointer::settle(&self.shared)?;
        let raised = self.shared.with(|opened| write::raise(&opened.database, form));
        match raised {
            Ok(()) => self.shared.set_form(form),
            // What is on the disk decides.
            Err(why) => return self.shared.reopen().and(Err(why)),
        }
        Ok(())
    }

    /// Replaces everything by a snapshot with its revisions and its form, as a copy of the store
    /// that wrote it. There is no journal then.
    ///
    /// # Errors
    /// As [`Store::restore`].
    pub fn replace_by(&mut self, from: &mut dyn Read) -> Result<(), StoreError> {
        (self.newest, self.last) = (None, None);
        self.shared.mend()?;
        match self.replaced(from, None) {
            Ok(read) => read,
            Err(why) => self.shared.reopen().and(Err(why)),
        }
    }

    /// Replaces everything by a snapshot, as `write::restore`.
    fn replaced(
        &self,
        from: &mut dyn Read,
        write: Option<&RestoreInfo>,
    ) -> Result<Result<(), StoreError>, StoreError> {
        checkpointer::settle(&self.shared)?;
        self.shared.with(|opened| {
            let form = self.form();
            let restored = write::restore(&opened.database, from, (write, form))?;
            if let Ok((revision, form)) = &restored {
                opened.wal.note(*revision)?;
                self.shared.set_form(*form);
            }
            Ok(restored.map(drop))
        })
    }

    /// Adds a group to the log.
    fn log(&self, writes: Vec<PreparedWrite>, room: u64) -> Result<(), StoreError> {
        let group = WalGroup::new(&writes);
        self.shared.checkpoints.log(writes, room, group.len(), |half, at| {
            self.shared.with(|opened| Ok(opened.wal.append(half, at, &group)?))
        })
    }

    /// Writes a group into the tree, after all earlier ones.
    fn file(&self, writes: Vec<PreparedWrite>, room: u64) -> Result<(), StoreError> {
        self.shared.with(|_| Ok(()))?;
        let newest = writes.last().map_or(Revision::NONE, |write| write.revision);
        self.shared.checkpoints.put(writes, room);
        checkpointer::settle(&self.shared)?;
        self.shared.with(|opened| Ok(opened.wal.note(newest)?))
    }

    /// The newest revision; opens the files again after an error.
    fn known_newest(&mut self) -> Result<Revision, StoreError> {
        self.shared.mend()?;
        if let Some(newest) = self.newest {
            return Ok(newest);
        }
        let newest = self.reader().revision()?;
        self.newest = Some(newest);
        Ok(newest)
    }

    /// Checks for a full disk before any write, so that a refused write does not change the files.
    /// The log never has more than fits into the tree.
    fn check_room(&self, bytes: u64) -> Result<(), StoreError> {
        let free = || self.shared.free_bytes();
        let needed = FREE_BYTES_MIN + bytes;
        if free() < needed + self.shared.checkpoints.room() {
            checkpointer::settle(&self.shared)?;
        }
        if free() < needed { Err(StoreError::Full) } else { Ok(()) }
    }
}

//! The store of records on redb: durable, crash-safe, one file.
//!
//! Sets lie in canonical order, so that a zone is read from front to end at a start, and a page is
//! a range. A group of writes is one transaction and one order to the disk.
#![forbid(unsafe_code)]

pub mod limits;
mod migrate;
mod read;
mod tables;
mod write;

use limits::{CACHE_OCTETS, GIVEN_BACK_INTERVAL, GIVEN_BACK_MAX};
use records::{Prepared, Reader, Restoring, Revision, Store, StoreError};
use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::Instant;

/// The file in the folder of a server's data.
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("records.redb")
}

/// How the database is opened.
type Opener = Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>;

/// Whether the database can be used.
enum State {
    Open(Database),
    /// Given back.
    Closed,
    /// The disk failed it: to be opened again.
    Broken,
}

/// What both sides share.
struct Shared {
    state: RwLock<State>,
    opener: Opener,
    /// Where the file lies, if it is one.
    folder: Option<PathBuf>,
}

/// The side that reads.
struct Redb(Arc<Shared>);

/// A store in one file. One process has it at a time.
pub struct RedbStore {
    shared: Arc<Shared>,
    /// Whether sets of zones that are no more may be left.
    is_tidy: bool,
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the database.
    fn with<T>(
        &self,
        run: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        match &*self.read() {
            State::Open(database) => run(database).map_err(told),
            State::Closed => Err(StoreError::Closed),
            State::Broken => Err(failed("it failed, and is opened again with the next write")),
        }
    }

    /// Opens the database where it is not.
    fn open(&self) -> Result<(), StoreError> {
        let mut state = self.write();
        if matches!(*state, State::Open(_)) {
            return Ok(());
        }
        *state = State::Open((self.opener)()?);
        Ok(())
    }

    /// The same, but waits a while for another process to give it back.
    fn open_patiently(&self) -> Result<(), StoreError> {
        let until = Instant::now() + GIVEN_BACK_MAX;
        loop {
            match self.open() {
                Err(_) if Instant::now() < until => thread::sleep(GIVEN_BACK_INTERVAL),
                done => return done,
            }
        }
    }

    /// Nothing more is to be had of a database that the disk has failed.
    fn reopen(&self) -> Result<(), StoreError> {
        let mut state = self.write();
        // It is let go of before: one has it at a time.
        *state = State::Broken;
        *state = State::Open((self.opener)()?);
        Ok(())
    }
}

impl RedbStore {
    /// Opens the store of a server, or makes it. Who `waits` does so for a while until another
    /// process has given it back.
    ///
    /// # Errors
    /// Another process has it, it is damaged, or of a newer version; with what to do.
    pub fn open(data_dir: &Path, waits: bool) -> Result<Self, StoreError> {
        let file = path(data_dir);
        let folder = data_dir.to_owned();
        Self::with(Some(folder), Box::new(move || open_file(&file)), waits)
    }

    /// A store on whatever `backend` makes: for tests.
    ///
    /// # Errors
    /// As [`RedbStore::open`].
    pub fn on<B: redb::StorageBackend>(
        backend: impl Fn() -> B + Send + Sync + 'static,
    ) -> Result<Self, StoreError> {
        let open = move || {
            let database = builder().create_with_backend(backend()).map_err(unopened)?;
            migrate::to_newest(&database)?;
            Ok(database)
        };
        Self::with(None, Box::new(open), false)
    }

    fn with(folder: Option<PathBuf>, opener: Opener, waits: bool) -> Result<Self, StoreError> {
        let state = RwLock::new(State::Closed);
        let shared = Arc::new(Shared { state, opener, folder });
        if waits {
            shared.open_patiently()?
        } else {
            shared.open()?
        }
        Ok(Self { shared, is_tidy: false })
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_OCTETS);
    builder
}

fn open_file(path: &Path) -> Result<Database, StoreError> {
    let place = |why: StoreError| match why {
        StoreError::Failed(why) => StoreError::Failed(format!("{}: {why}", path.display())),
        other => other,
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let made = DirBuilder::new().recursive(true).mode(0o750).create(folder);
    let file = made.and_then(|()| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
    });
    let file = file.map_err(|error| place(unopened(DatabaseError::Storage(error.into()))))?;
    let database = FileBackend::new(file).and_then(|file| builder().create_with_backend(file));
    let database = database.map_err(|error| place(unopened(error)))?;
    migrate::to_newest(&database).map_err(place)?;
    Ok(database)
}

/// Why a database could not be opened, and what to do.
fn unopened(error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => failed(
            "another process has it: give each server a [server] data_dir of its own, or take \
             over with `dunlin serve --take-over`",
        ),
        DatabaseError::UpgradeRequired(form) => {
            failed(&format!("it was written by redb's form {form}, which this version cannot read"))
        }
        error => told(error.into()),
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
    fn commit(&mut self, writes: &[Prepared]) -> Result<(), StoreError> {
        let Some(first) = writes.first() else { return Ok(()) };
        // Upon a disk that failed nothing is put before it was asked for what it has.
        self.shared.with(|_| Ok(()))?;
        self.check_room(writes)?;
        let done = self.shared.with(|database| write::commit(database, writes));
        self.is_tidy &= writes.iter().all(|write| write.changes().is_some());
        self.outcome(done, first.revision)
    }

    fn newest(&mut self) -> Result<Revision, StoreError> {
        if matches!(*self.shared.read(), State::Broken) {
            self.shared.open()?;
        }
        self.reader().revision()
    }

    fn tidy(&mut self) -> Result<bool, StoreError> {
        if self.is_tidy {
            return Ok(false);
        }
        self.check_room(&[])?;
        let more = match self.shared.with(write::sweep) {
            Err(StoreError::Closed) => false,
            // What was swept or not is nothing that a write is put upon.
            Err(why) => return self.shared.reopen().and(Err(why)),
            Ok(more) => more,
        };
        self.is_tidy = !more;
        Ok(more)
    }

    fn restore(&mut self, from: &mut dyn Read, write: &Restoring) -> Result<(), StoreError> {
        match self.shared.with(|database| write::restore(database, from, write)) {
            Ok(read) => read,
            Err(why) => self.outcome(Err(why), write.revision),
        }
    }

    fn close(&mut self) {
        *self.shared.write() = State::Closed;
    }

    fn open(&mut self) -> Result<(), StoreError> {
        self.shared.open_patiently()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(Redb(Arc::clone(&self.shared)))
    }
}

impl RedbStore {
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

    /// A full disk is known before anything is tried: what is refused leaves the file as it is.
    fn check_room(&self, writes: &[Prepared]) -> Result<(), StoreError> {
        let Some(folder) = &self.shared.folder else { return Ok(()) };
        let Ok(found) = rustix::fs::statvfs(folder) else { return Ok(()) };
        let free = found.f_bavail * found.f_frsize;
        let octets: usize = writes.iter().map(write::octets).sum();
        match free >= limits::FREE_OCTETS_MIN + limits::FREE_OCTETS_EACH * octets as u64 {
            true => Ok(()),
            false => Err(StoreError::Full),
        }
    }
}

//! The files of a store, and whether they can be used: what both of its sides share.
use crate::checkpoint::Checkpoints;
use crate::limits::{CACHE_OCTETS, GIVEN_BACK_INTERVAL, GIVEN_BACK_MAX};
use crate::paced::Paced;
use crate::wal::Wal;
use crate::{failed, migrate, read, told, write};
use records::StoreError;
use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, StorageBackend};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::Instant;

/// The files.
pub struct Opened {
    pub database: Database,
    pub wal: Wal,
}

/// How they are opened; told when there is time to write to the tree.
pub type Opener = Box<dyn Fn(&Arc<AtomicBool>) -> Result<Opened, StoreError> + Send + Sync>;

/// Whether they can be used.
enum State {
    Open(Opened),
    /// Given back.
    Closed,
    /// The disk failed it: to be opened again.
    Broken,
}

/// What both sides share.
pub struct Shared {
    state: RwLock<State>,
    opener: Opener,
    /// Where the files lie, if they are any.
    pub folder: Option<PathBuf>,
    pub checkpoints: Checkpoints,
}

impl Shared {
    pub fn new(folder: Option<PathBuf>, opener: Opener) -> Self {
        let (state, checkpoints) = (RwLock::new(State::Closed), Checkpoints::default());
        Self { state, opener, folder, checkpoints }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the files.
    pub fn with<T>(
        &self,
        run: impl FnOnce(&Opened) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        match &*self.read() {
            State::Open(opened) => run(opened).map_err(told),
            State::Closed => Err(StoreError::Closed),
            State::Broken => Err(failed("it failed, and is opened again with the next write")),
        }
    }

    /// Opens what the disk failed; what was answered and is not in the tree is in the log.
    pub fn mend(&self) -> Result<(), StoreError> {
        let is_broken = matches!(*self.read(), State::Broken);
        if is_broken { self.open() } else { Ok(()) }
    }

    /// Opens the files where they are not. Who writes does, and nobody else.
    pub fn open(&self) -> Result<(), StoreError> {
        if matches!(*self.read(), State::Open(_)) {
            return Ok(());
        }
        self.checkpoints.reset();
        let opened = (self.opener)(&self.checkpoints.is_slow)?;
        *self.write() = State::Open(opened);
        Ok(())
    }

    /// The same, but waits a while for another process to give them back.
    pub fn open_patiently(&self) -> Result<(), StoreError> {
        let until = Instant::now() + GIVEN_BACK_MAX;
        loop {
            match self.open() {
                Err(_) if Instant::now() < until => thread::sleep(GIVEN_BACK_INTERVAL),
                done => return done,
            }
        }
    }

    /// Nothing more is to be had of files that the disk has failed: they are let go of, and opened.
    pub fn reopen(&self) -> Result<(), StoreError> {
        *self.write() = State::Broken;
        self.open()
    }

    /// Has the files opened again before anything else is done with them.
    pub fn give_up(&self) {
        let mut state = self.write();
        if matches!(*state, State::Open(_)) {
            *state = State::Broken;
        }
    }

    /// Gives the files back.
    pub fn close(&self) {
        *self.write() = State::Closed;
        self.checkpoints.reset();
    }
}

/// The files in the folder of a server's data: the tree, and the log of what is not yet there.
pub fn paths(folder: &Path) -> [PathBuf; 2] {
    ["records.redb", "records.wal"].map(|name| folder.join(name))
}

/// Opens the files in a folder, or makes them.
pub fn open_files(folder: &Path, is_slow: &Arc<AtomicBool>) -> Result<Opened, StoreError> {
    let [tree, log] = paths(folder);
    DirBuilder::new()
        .recursive(true)
        .mode(0o750)
        .create(folder)
        .map_err(|error| placed(folder, told(error.into())))?;
    let backend = |path: &Path| {
        let file = open_file(path).map_err(|error| placed(path, told(error.into())))?;
        FileBackend::new(file).map_err(|error| placed(path, unopened(error)))
    };
    let database = database(backend(&tree)?, is_slow).map_err(|why| placed(&tree, why))?;
    let log_file = backend(&log)?;
    // Their names are on the disk, too, before anything in them is said to be.
    let named = File::open(folder).and_then(|folder| folder.sync_all());
    named.map_err(|error| placed(folder, told(error.into())))?;
    opened(database, log_file).map_err(|why| placed(&log, why))
}

fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn placed(path: &Path, why: StoreError) -> StoreError {
    match why {
        StoreError::Failed(why) => StoreError::Failed(format!("{}: {why}", path.display())),
        StoreError::Full => StoreError::Failed(format!(
            "{}: the disk is full, and has writes to keep that were answered: make some room",
            path.display()
        )),
        other => other,
    }
}

/// The tree, in the newest form.
pub fn database(
    file: impl StorageBackend,
    is_slow: &Arc<AtomicBool>,
) -> Result<Database, StoreError> {
    let file = Paced::new(file, Arc::clone(is_slow));
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_OCTETS);
    let database = builder.create_with_backend(file).map_err(unopened)?;
    migrate::to_newest(&database)?;
    Ok(database)
}

/// The log beside its tree, which gets what it lacks.
pub fn opened(database: Database, log: impl StorageBackend) -> Result<Opened, StoreError> {
    let (revision, key) = read::log_of(&database)?;
    let wal = Wal::new(log, key);
    let writes = wal.behind(revision)?;
    if !writes.is_empty() {
        tracing::info!(writes = writes.len(), "the store gets what its log has");
        write::commit(&database, &writes).map_err(told)?;
    }
    Ok(Opened { database, wal })
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

//! The files of a store and their state, shared by both sides.
use crate::checkpoint::Checkpoints;
use crate::files::{OpenFiles, caught, paths, placed};
use crate::limits::{GIVEN_BACK_INTERVAL, GIVEN_BACK_MAX};
use crate::{failed, store_error};
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::Instant;
use store::{Form, StoreError};

/// Opens the files; the flag says when writes to the tree may be slow.
pub type StoreOpener = Box<dyn Fn(&Arc<AtomicBool>) -> Result<OpenFiles, StoreError> + Send + Sync>;

/// Whether a write would be accepted, beside what this store knows.
pub type WriteCondition = Box<dyn Fn() -> Result<(), StoreError> + Send + Sync>;

/// Whether the files can be used.
enum StoreState {
    Open(OpenFiles),
    /// Released.
    Closed,
    /// Why they must be opened again: the disk failed, or the content is unexpected.
    Broken(StoreError),
}

/// State shared by both sides.
pub struct SharedStore {
    state: RwLock<StoreState>,
    /// How often the state changed.
    changes: AtomicU64,
    /// The form of the files that were opened last.
    form: AtomicU32,
    opener: StoreOpener,
    /// The folder of the files, if there is one.
    pub folder: Option<PathBuf>,
    pub checkpoints: Checkpoints,
    /// Another condition of writes.
    pub condition: OnceLock<WriteCondition>,
}

impl SharedStore {
    pub fn new(folder: Option<PathBuf>, opener: StoreOpener) -> Self {
        let unopened = failed("the store is not open yet");
        let (state, checkpoints) =
            (RwLock::new(StoreState::Broken(unopened)), Checkpoints::default());
        let (changes, condition) = (AtomicU64::new(0), OnceLock::new());
        let form = AtomicU32::new(Form::PREVIOUS.0);
        Self { state, changes, form, opener, folder, checkpoints, condition }
    }

    fn read(&self) -> RwLockReadGuard<'_, StoreState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, StoreState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The form of the store.
    pub fn form(&self) -> Form {
        Form(self.form.load(Ordering::Acquire))
    }

    pub fn set_form(&self, form: Form) {
        self.form.store(form.0, Ordering::Release);
    }

    /// Uses the files.
    pub fn with<T>(
        &self,
        run: impl FnOnce(&OpenFiles) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        self.guarded(|| match &*self.read() {
            StoreState::Open(opened) => run(opened).map_err(store_error),
            StoreState::Closed => Err(StoreError::Closed),
            StoreState::Broken(why) => Err(why.clone()),
        })
    }

    /// Uses the files. If they turn out to be damaged, they must be opened and verified again
    /// before further use.
    pub fn guarded<T>(&self, run: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let before = self.changes.load(Ordering::Acquire);
        let done = caught(run);
        let is_old = self.changes.load(Ordering::Acquire) != before;
        let why = match done {
            // Errors of files that are closed by now say nothing about the open ones.
            Ok(Err(StoreError::Damaged(_))) if is_old => {
                return Err(failed("the store was reopened meanwhile"));
            }
            Ok(Err(StoreError::Damaged(why))) => match &self.folder {
                Some(folder) if !why.contains("records.") => {
                    placed(&paths(folder)[0], StoreError::Damaged(why))
                }
                _ => StoreError::Damaged(why),
            },
            Ok(done) => return done,
            Err(panic) => failed(&format!("a defect: {panic}")),
        };
        self.give_up(&why);
        Err(why)
    }

    /// Opens the files after the disk failed. Answered writes are in the tree or the log.
    pub fn mend(&self) -> Result<(), StoreError> {
        let is_broken = matches!(*self.read(), StoreState::Broken(_));
        if is_broken { self.open() } else { Ok(()) }
    }

    /// Opens the files if they are not open. Only the writer does this.
    pub fn open(&self) -> Result<(), StoreError> {
        if matches!(*self.read(), StoreState::Open(_)) {
            return Ok(());
        }
        self.checkpoints.reset();
        let (state, done) = match (self.opener)(&self.checkpoints.is_slow) {
            Ok(opened) => {
                self.set_form(opened.form);
                (StoreState::Open(opened), Ok(()))
            }
            Err(why) => (StoreState::Broken(why.clone()), Err(why)),
        };
        self.turn(state);
        done
    }

    fn turn(&self, next: StoreState) {
        let mut state = self.write();
        self.changes.fetch_add(1, Ordering::Release);
        let before = mem::replace(&mut *state, next);
        // redb writes while closing; the files must not be opened before it ends.
        if let Err(panic) = caught(|| drop(before)) {
            tracing::error!("a defect while closing the store: {panic}");
        }
    }

    /// As `open`, but waits a while for another process to release them. Does not wait for other
    /// errors.
    pub fn open_patiently(&self) -> Result<(), StoreError> {
        let until = Instant::now() + GIVEN_BACK_MAX;
        loop {
            match self.open() {
                Err(StoreError::Failed(_)) if Instant::now() < until => {
                    thread::sleep(GIVEN_BACK_INTERVAL);
                }
                done => return done,
            }
        }
    }

    /// Closes files after the disk failed, and opens them again.
    pub fn reopen(&self) -> Result<(), StoreError> {
        self.turn(StoreState::Broken(failed("it failed, and is reopened by the next write")));
        self.open()
    }

    /// Marks the files as broken, so that they are opened again before further use.
    pub fn give_up(&self, why: &StoreError) {
        let why = match why {
            StoreError::Damaged(_) => why.clone(),
            why => failed(&format!("{why}: it is reopened by the next write")),
        };
        if matches!(*self.read(), StoreState::Open(_)) {
            self.turn(StoreState::Broken(why));
        }
    }

    /// Free bytes on the disk of the files.
    pub fn free_bytes(&self) -> u64 {
        let Some(folder) = &self.folder else { return u64::MAX };
        let found = rustix::fs::statvfs(folder);
        found.map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Releases the files.
    pub fn close(&self) {
        self.turn(StoreState::Closed);
        self.checkpoints.reset();
    }
}

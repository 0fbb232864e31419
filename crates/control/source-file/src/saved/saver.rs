//! Saves changed zones in a background thread, the latest of each.
//!
//! A copy is written to a temporary file, synced, and renamed into place. A failure is logged once,
//! shown in the status while it lasts, and retried.
use super::sweep::{KeptCopies, SAVING, sweep};
use crate::limits::{SAVE_AT_END, SAVE_RETRY};
use crate::saved::{
    CopyNote, FileId, check_is_copy, file_name, form, holds, note, open, path, write_noted,
};
use compile::Zone;
use durable::files::Folder;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use wire::{Name, NameBuf};

/// Saves zones into a folder; dropping it ends the thread.
pub struct ZoneSaver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// Zones by lower-case origin.
type DueZones = BTreeMap<Box<[u8]>, Box<DueZone>>;

/// A zone to save.
struct DueZone {
    origin: NameBuf,
    file: Option<FileId>,
}

#[derive(Default)]
struct State {
    due: DueZones,
    failed: DueZones,
    /// When to retry failed zones.
    retry: Option<Instant>,
    /// The copies to keep; others are to be set aside, and removed later.
    kept: Option<Arc<KeptCopies>>,
    /// The folder is to be swept then.
    sweep: Option<Instant>,
    busy: bool,
    trouble: Option<String>,
    /// The thread is to end, and by when.
    end: Option<Instant>,
}

impl State {
    fn is_sweep_due(&self) -> bool {
        self.sweep.is_some_and(|at| at <= Instant::now())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ZoneSaver {
    /// Starts the thread. `newest` returns the served zone.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(
        folder: PathBuf,
        newest: impl Fn(Name<'_>) -> Option<Arc<Zone>> + Send + 'static,
    ) -> io::Result<Self> {
        Self::with(folder, newest, SAVE_RETRY, || Ok(()))
    }

    /// As [`ZoneSaver::start`], with a retry interval and what is done before a copy is written.
    pub(super) fn with(
        folder: PathBuf,
        newest: impl Fn(Name<'_>) -> Option<Arc<Zone>> + Send + 'static,
        retry: Duration,
        prepare: impl Fn() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let temporary = temporary_name().into();
        let run =
            move || SaverThread { folder, temporary, newest, prepare, retry, shared: theirs }.run();
        let thread = thread::Builder::new().name("zone-saver".into()).spawn(run)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Schedules saving a zone and the file it was last loaded from.
    pub fn save(&self, origin: Name<'_>, file: Option<FileId>) {
        let mut state = self.shared.state();
        let key: Box<[u8]> = origin.as_bytes().to_ascii_lowercase().into();
        state.failed.remove(&key);
        state.due.insert(key, Box::new(DueZone { origin: origin.into(), file }));
        self.shared.changed.notify_all();
    }

    /// Schedules removing all copies except those of these zones, the others after `saved_for`.
    pub fn keep_only<'n>(&self, origins: impl Iterator<Item = Name<'n>>, saved_for: Duration) {
        let names = origins.map(|origin| path(Path::new(""), origin)).collect();
        let mut state = self.shared.state();
        state.kept = Some(Arc::new(KeptCopies { names, saved_for }));
        state.sweep = Some(Instant::now());
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Why zones cannot be saved at the moment.
    pub fn trouble(&self) -> Option<String> {
        self.shared.state().trouble.clone()
    }

    /// Waits until all scheduled work is done or has failed.
    pub fn wait(&self) {
        let idle = |state: &mut State| {
            state.end.is_none() && (state.busy || !state.due.is_empty() || state.is_sweep_due())
        };
        drop(self.shared.changed.wait_while(self.shared.state(), idle));
    }
}

impl Drop for ZoneSaver {
    /// Saves scheduled zones first, for a limited time.
    fn drop(&mut self) {
        self.shared.state().end = Some(Instant::now() + SAVE_AT_END);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that saves zones panicked");
        }
    }
}

/// The state of the thread.
struct SaverThread<F, P> {
    folder: PathBuf,
    /// The temporary name of a copy.
    temporary: PathBuf,
    newest: F,
    prepare: P,
    retry: Duration,
    shared: Arc<Shared>,
}

impl<F, P> SaverThread<F, P>
where
    F: Fn(Name<'_>) -> Option<Arc<Zone>>,
    P: Fn() -> io::Result<()>,
{
    fn run(&self) {
        while let Some(task) = self.next() {
            match task {
                SaverTask::Sweep(kept) => {
                    let next = sweep(&self.folder, &kept);
                    let mut state = self.shared.state();
                    state.sweep = state.sweep.or(next.map(|after| Instant::now() + after));
                }
                SaverTask::Save(due) => {
                    let done = self.save(&due);
                    self.note(due, done);
                }
            }
        }
    }

    /// Waits for work; `None` when the thread is to end.
    fn next(&self) -> Option<SaverTask> {
        let mut state = self.shared.state();
        state.busy = false;
        self.shared.changed.notify_all();
        loop {
            if state.end.is_some_and(|end| state.due.is_empty() || end <= Instant::now()) {
                return None;
            }
            if state.retry.is_some_and(|at| at <= Instant::now()) {
                let mut again = std::mem::take(&mut state.failed);
                state.due.append(&mut again);
                state.retry = None;
            }
            state.busy = true;
            if state.is_sweep_due()
                && let Some(kept) = state.kept.clone()
            {
                state.sweep = None;
                return Some(SaverTask::Sweep(kept));
            }
            if let Some((_, due)) = state.due.pop_first() {
                return Some(SaverTask::Save(due));
            }
            state.busy = false;
            let next = state.retry.into_iter().chain(state.sweep).min();
            let left = next.map(|at| at.saturating_duration_since(Instant::now()));
            let changed = &self.shared.changed;
            let waited = changed.wait_timeout(state, left.unwrap_or(Duration::MAX));
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn save(&self, due: &DueZone) -> io::Result<()> {
        let origin = due.origin.as_name();
        let messages = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        // The zone may have been removed or not loaded yet.
        let zone = (self.newest)(origin).filter(|zone| zone.facts().loaded);
        let Some(zone) = zone else { return Ok(()) };
        let folder =
            Folder::create_below(&self.folder).map_err(|error| messages(&self.folder, error))?;
        if open(&folder, origin).is_ok_and(|copy| is_kept(&copy, &zone, due.file)) {
            return Ok(());
        }
        let to = PathBuf::from(file_name(origin));
        let note = CopyNote::new(&zone, due.file).to_string();
        let write = |out: &mut dyn Write| {
            write_noted(&zone, &note, &mut DeadlineWriter { out, shared: &self.shared })
        };
        let done = check_is_copy(&folder, &to).and_then(|()| {
            folder.replace_by(&self.temporary, &to, 0o640, |file| {
                (self.prepare)()?;
                form(origin).write(file, write)
            })
        });
        done.map_err(|error| messages(&path(&self.folder, origin), error))
    }

    /// Schedules a retry after a failure; logs when failures begin and end.
    fn note(&self, due: Box<DueZone>, done: io::Result<()>) {
        let mut state = self.shared.state();
        let had_trouble = state.trouble.is_some();
        if let Err(error) = &done {
            let origin = due.origin.as_name();
            let key: Box<[u8]> = origin.as_bytes().to_ascii_lowercase().into();
            // A newer request for the same zone replaces the failed one.
            if !state.due.contains_key(&key) {
                state.failed.insert(key, due);
                state.retry.get_or_insert(Instant::now() + self.retry);
            }
            state.trouble = Some(error.to_string());
        } else if state.failed.is_empty() && state.due.is_empty() {
            state.trouble = None;
        }
        let trouble = state.trouble.clone();
        drop(state);
        match (had_trouble, trouble) {
            (false, Some(why)) => tracing::warn!(
                "a zone cannot be saved: {why}; if its file is bad at the next start, the zone \
                 cannot be served; retrying every {SAVE_RETRY:?}"
            ),
            (true, None) => tracing::info!("zones are saved again"),
            _ => {}
        }
    }
}

/// Whether a copy equals this zone from this file. A newer modification time alone is no reason to
/// write the copy again.
fn is_kept(copy: &File, zone: &Zone, file: Option<FileId>) -> bool {
    let line = note::line(copy);
    let is_same_file = CopyNote::parse(&line).is_some_and(|noted| match (noted.file, file) {
        (Some(noted), Some(file)) => noted.is_same_file(&file),
        (noted, file) => noted == file,
    });
    is_same_file && holds(copy, zone, &line)
}

enum SaverTask {
    Sweep(Arc<KeptCopies>),
    Save(Box<DueZone>),
}

/// Refuses writes after the deadline of a stopping server.
struct DeadlineWriter<'s> {
    out: &'s mut dyn Write,
    shared: &'s Shared,
}

impl Write for DeadlineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.shared.state().end.is_some_and(|end| end <= Instant::now()) {
            return Err(io::Error::other("the server ends"));
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A random name: processes in containers that share a volume may all have the process ID 1.
pub(super) fn temporary_name() -> String {
    format!("{SAVING}{:016x}.tmp", RandomState::new().build_hasher().finish())
}

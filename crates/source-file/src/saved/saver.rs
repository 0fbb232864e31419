//! The thread that saves zones: in the background, the latest of each, and only what changed.
//!
//! A copy is written beside the old one, brought to the disk, and takes its place by one rename.
//! What cannot be written is told once, shown for as long as it lasts, and tried again.
use crate::limits::{SAVE_AT_END, SAVE_RETRY, TEMPORARY_AGE};
use crate::saved::{is_current, is_ours, path, write};
use compile::Zone;
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use wire::{Name, NameBuf};

/// How the names of temporary files begin.
const SAVING: &[u8] = b".saving-";

/// Saves zones into a folder; ends when dropped.
pub struct Saver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// Zones by their origins in lower case.
type Origins = BTreeMap<Box<[u8]>, Box<NameBuf>>;

#[derive(Default)]
struct State {
    due: Origins,
    failed: Origins,
    /// When those are tried again.
    retry: Option<Instant>,
    /// The zones whose copies stay, when others are to be looked for.
    sweep: Option<HashSet<PathBuf>>,
    busy: bool,
    trouble: Option<String>,
    /// It is to end, and until then.
    end: Option<Instant>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Saver {
    /// Starts the thread. `newest` gives the zone as it is served.
    ///
    /// # Errors
    /// When no thread could be started.
    pub fn start(
        folder: PathBuf,
        newest: impl Fn(Name<'_>) -> Option<Arc<Zone>> + Send + 'static,
    ) -> io::Result<Self> {
        Self::with(folder, newest, SAVE_RETRY, &temporary_name())
    }

    /// The same with another time between attempts, and name of the temporary file.
    pub(super) fn with(
        folder: PathBuf,
        newest: impl Fn(Name<'_>) -> Option<Arc<Zone>> + Send + 'static,
        retry: Duration,
        temporary: &str,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let temporary = folder.join(temporary);
        let run = move || Run { folder, temporary, newest, retry, shared: theirs }.run();
        let thread = thread::Builder::new().name("zone-saver".into()).spawn(run)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Has a zone saved as it is served when its turn comes.
    pub fn save(&self, origin: Name<'_>) {
        let mut state = self.shared.state();
        let key: Box<[u8]> = origin.octets().to_ascii_lowercase().into();
        state.failed.remove(&key);
        state.due.insert(key, Box::new(origin.into()));
        self.shared.changed.notify_all();
    }

    /// Has every copy removed but those of these zones.
    pub fn keep_only<'n>(&self, origins: impl Iterator<Item = Name<'n>>) {
        let kept = origins.map(|origin| path(Path::new(""), origin)).collect();
        self.shared.state().sweep = Some(kept);
        self.shared.changed.notify_all();
    }

    /// What keeps zones from being saved now, if something does.
    pub fn trouble(&self) -> Option<String> {
        self.shared.state().trouble.clone()
    }

    /// Waits until nothing is left to be done that has not failed.
    pub fn wait(&self) {
        let idle = |state: &mut State| {
            state.end.is_none() && (state.busy || !state.due.is_empty() || state.sweep.is_some())
        };
        drop(self.shared.changed.wait_while(self.shared.state(), idle));
    }
}

impl Drop for Saver {
    /// What is due is still saved, if that is soon done.
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

/// What the thread has.
struct Run<F> {
    folder: PathBuf,
    /// What a copy is called until it is whole.
    temporary: PathBuf,
    newest: F,
    retry: Duration,
    shared: Arc<Shared>,
}

impl<F: Fn(Name<'_>) -> Option<Arc<Zone>>> Run<F> {
    fn run(&self) {
        while let Some(task) = self.next() {
            match task {
                Task::Sweep(kept) => sweep(&self.folder, &kept),
                Task::Save(origin) => {
                    let done = self.save(origin.as_name());
                    self.note(origin, done);
                }
            }
        }
    }

    /// Waits for something to do; nothing once it is to end.
    fn next(&self) -> Option<Task> {
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
            if let Some(kept) = state.sweep.take() {
                return Some(Task::Sweep(kept));
            }
            if let Some((_, origin)) = state.due.pop_first() {
                return Some(Task::Save(origin));
            }
            state.busy = false;
            let left = state.retry.map(|at| at.saturating_duration_since(Instant::now()));
            let changed = &self.shared.changed;
            let waited = changed.wait_timeout(state, left.unwrap_or(Duration::MAX));
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn save(&self, origin: Name<'_>) -> io::Result<()> {
        let told = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        let to = path(&self.folder, origin);
        // It may have been removed since, or not be there yet.
        let zone = (self.newest)(origin).filter(|zone| zone.facts().loaded);
        let Some(zone) = zone.filter(|zone| !is_current(&self.folder, zone)) else {
            return Ok(());
        };
        if to.exists() && !is_ours(&to) {
            let why = "it is no copy: keep zone files elsewhere, or name another [server] data_dir";
            return Err(told(&to, io::Error::other(why)));
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(&self.folder)
            .map_err(|error| told(&self.folder, error))?;
        let temporary = &self.temporary;
        let written = self.write(&zone, temporary).and_then(|()| fs::rename(temporary, &to));
        if written.is_err() {
            // It may not even have come to be.
            let _ = fs::remove_file(temporary);
        }
        let brought = written.and_then(|()| File::open(&self.folder)?.sync_all());
        brought.map_err(|error| told(&to, error))
    }

    fn write(&self, zone: &Zone, temporary: &Path) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o640)
            .open(temporary)?;
        let limited = Limited { file, shared: &self.shared };
        let mut out = BufWriter::with_capacity(1 << 18, limited);
        write(zone, &mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.file.sync_all()
    }

    /// Keeps what failed for later, and tells when trouble begins and ends.
    fn note(&self, origin: Box<NameBuf>, done: io::Result<()>) {
        let mut state = self.shared.state();
        let had_trouble = state.trouble.is_some();
        if let Err(error) = &done {
            let key: Box<[u8]> = origin.as_name().octets().to_ascii_lowercase().into();
            // A newer wish about the same zone has come meanwhile: that one counts.
            if !state.due.contains_key(&key) {
                state.failed.insert(key, origin);
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
                "a zone cannot be saved: {why}; should its file be bad at the next start, it could \
                 not be served; it is tried again every {SAVE_RETRY:?}"
            ),
            (true, None) => tracing::info!("zones are saved again"),
            _ => {}
        }
    }
}

enum Task {
    Sweep(HashSet<PathBuf>),
    Save(Box<NameBuf>),
}

/// A file that takes nothing more when the server has ended for too long.
struct Limited<'s> {
    file: File,
    shared: &'s Shared,
}

impl Write for Limited<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.shared.state().end.is_some_and(|end| end <= Instant::now()) {
            return Err(io::Error::other("the server ends"));
        }
        self.file.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A name that no other process takes, at random: each container that shares a volume may well have
/// the process number 1.
pub(super) fn temporary_name() -> String {
    format!(".saving-{:016x}.tmp", RandomState::new().build_hasher().finish())
}

/// Removes copies of zones that are no more, and what a process that was killed left.
fn sweep(folder: &Path, kept: &HashSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = PathBuf::from(entry.file_name());
        let aged = || {
            let modified = entry.metadata().and_then(|found| found.modified());
            modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > TEMPORARY_AGE))
        };
        let goes = match name.extension().and_then(|extension| extension.to_str()) {
            Some("zone") => !kept.contains(&name) && is_ours(&entry.path()),
            Some("tmp") => entry.file_name().as_encoded_bytes().starts_with(SAVING) && aged(),
            _ => false,
        };
        if !goes {
            continue;
        }
        let file = entry.path();
        match fs::remove_file(&file) {
            // Told, since another server with the same folder would miss it.
            Ok(()) => tracing::info!(file = %file.display(), "an old copy is removed"),
            Err(error) => tracing::warn!(file = %file.display(), %error, "an old copy stays"),
        }
    }
}

//! Watches folders with inotify(7) and records the events of their files.
//!
//! The event thread and the thread that reads files both drain events. After a drain all earlier
//! events are recorded, so that reading a file is safe.
use crate::file_events::{Activities, PathEvent};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

const THREAD: &str = "zone-events";
/// Bytes read at once; an event has at most 272.
const BUFFER_LEN: usize = 4096;

/// The watched folders. Dropping it ends its thread.
pub struct WatchedFolders {
    shared: Arc<Shared>,
    /// Closing it wakes the thread to end.
    _end: UnixStream,
}

struct Shared {
    inotify: OwnedFd,
    /// The paths of each watch: several paths may lead to one folder.
    paths: Mutex<HashMap<i32, Vec<PathBuf>>>,
    activities: Activities,
}

impl WatchedFolders {
    /// Starts without folders. Calls `hint` after events.
    ///
    /// # Errors
    /// No inotify instance is left, or the thread could not be started.
    pub fn start(activities: Activities, hint: impl Fn() + Send + 'static) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let shared = Arc::new(Shared { inotify, paths: Mutex::default(), activities });
        let (end, ended) = UnixStream::pair()?;
        let theirs = Arc::clone(&shared);
        let run = move || theirs.run(&ended, hint);
        thread::Builder::new().name(THREAD.into()).spawn(run)?;
        Ok(Self { shared, _end: end })
    }

    /// Watches exactly these folders; returns whether one is new.
    pub fn set(&self, wanted: impl IntoIterator<Item = PathBuf>) -> bool {
        let mut wanted: HashSet<PathBuf> = wanted.into_iter().collect();
        let mut known = self.shared.paths();
        known.retain(|watch, paths| {
            paths.retain(|path| wanted.remove(path));
            if paths.is_empty() {
                // The folder and its watch may be gone.
                let _ = inotify::remove_watch(&self.shared.inotify, *watch);
            }
            !paths.is_empty()
        });
        let mut is_new = false;
        for folder in wanted {
            match inotify::add_watch(&self.shared.inotify, &folder, flags()) {
                Ok(watch) => {
                    known.entry(watch).or_default().push(folder);
                    is_new = true;
                }
                Err(error) => tracing::debug!(folder = %folder.display(), %error, "not watched"),
            }
        }
        is_new
    }

    /// Records all pending events; returns whether there were any.
    pub fn drain(&self) -> bool {
        self.shared.drain()
    }
}

fn flags() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        // A writer of a replaced file does not write the new file.
        | WatchFlags::EXCL_UNLINK
        | WatchFlags::ONLYDIR
}

impl Shared {
    fn paths(&self) -> MutexGuard<'_, HashMap<i32, Vec<PathBuf>>> {
        // The lock is never held across code that can panic midway.
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for events until the other end of `ended` is closed.
    fn run(&self, ended: &UnixStream, hint: impl Fn()) {
        loop {
            let mut ready =
                [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "file events have ended; files are polled instead");
                    return;
                }
            }
            if !ready[1].revents().is_empty() {
                return;
            }
            if self.drain() {
                hint();
            }
        }
    }

    fn drain(&self) -> bool {
        let mut known = self.paths();
        let mut buffer = [MaybeUninit::uninit(); BUFFER_LEN];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut any = false;
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                // Usually there is nothing more.
                Err(_) => return any,
            };
            any = true;
            let (watch, events) = (event.wd(), event.events());
            if events.contains(ReadFlags::QUEUE_OVERFLOW) {
                self.activities.forget_all();
            } else if events.contains(ReadFlags::MOVE_SELF) {
                // The path may lead to another folder now; the next visit watches it.
                known.remove(&watch);
                let _ = inotify::remove_watch(&self.inotify, watch);
            } else if events.contains(ReadFlags::IGNORED) {
                known.remove(&watch);
            } else if let Some(name) = event.file_name()
                && !events.contains(ReadFlags::ISDIR)
            {
                let name = Path::new(OsStr::from_bytes(name.to_bytes()));
                for folder in known.get(&watch).into_iter().flatten() {
                    let path = folder.join(name);
                    self.activities.note(&path, || happened(events, &path));
                }
            }
        }
    }
}

/// The meaning of an event for a path.
fn happened(events: ReadFlags, path: &Path) -> Option<PathEvent> {
    if events.contains(ReadFlags::CREATE) {
        let found = fs::symlink_metadata(path).ok()?;
        // A link is complete at once; a new file is opened for writing.
        let is_link = found.is_symlink() || found.nlink() > 1;
        return Some(if is_link { PathEvent::Placed } else { PathEvent::Created });
    }
    let each = [
        (ReadFlags::MODIFY, PathEvent::Written),
        (ReadFlags::CLOSE_WRITE, PathEvent::Closed),
        (ReadFlags::MOVED_TO, PathEvent::Placed),
        (ReadFlags::MOVED_FROM, PathEvent::Gone),
        (ReadFlags::DELETE, PathEvent::Gone),
    ];
    each.into_iter().find(|(flag, _)| events.contains(*flag)).map(|(_, happened)| happened)
}

#[cfg(test)]
mod tests;

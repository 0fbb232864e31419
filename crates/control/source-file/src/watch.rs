//! Watched folders and received commands.
//!
//! An event is only a reason to check a file; the check decides whether it changed. Events decide
//! whether a changed file is complete ([`Activities`]).
use crate::file_events::Activities;
use crate::folders::WatchedFolders;
use crate::handler::FilesToLoad;
use crate::limits::{PATIENCE, POLL, QUIET};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::NameBuf;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchCommand {
    /// Load what has changed.
    Look,
    /// Replace the files, if any are given; load new, changed and requested files.
    Change {
        files: Option<FilesToLoad>,
        load: ReloadScope,
    },
    Stop,
}

/// What to load even if unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadScope {
    All,
    /// These zones and hosts files.
    Named {
        zones: Vec<NameBuf>,
        hosts: Vec<PathBuf>,
    },
}

impl ReloadScope {
    /// What has changed.
    pub const CHANGED: Self = Self::Named { zones: Vec::new(), hosts: Vec::new() };
}

/// Identifies a sent command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommandId(u64);

/// Pending commands; a later command of a kind replaces an earlier one.
#[derive(Debug, Default)]
struct PendingCommands {
    look: bool,
    load_all: bool,
    /// Requested zones, each once.
    named: Vec<NameBuf>,
    /// Requested hosts files, each once.
    named_hosts: Vec<PathBuf>,
    files: Option<FilesToLoad>,
    stop: bool,
    /// Counters: sent commands, commands at work, finished commands.
    sent: u64,
    taken: u64,
    done: u64,
    /// The source has ended.
    ended: bool,
}

/// Sends commands to a source.
#[derive(Clone, Debug, Default)]
pub struct CommandSender(Arc<(Mutex<PendingCommands>, Condvar)>);

impl CommandSender {
    /// Replaces the files. Loads new and moved ones; others only if changed.
    pub fn set_files(&self, files: impl Into<FilesToLoad>) -> CommandId {
        self.send(|pending| pending.files = Some(files.into()))
    }

    /// Replaces the files, and loads all of them.
    pub fn reload(&self, files: impl Into<FilesToLoad>) -> CommandId {
        self.send(|pending| {
            pending.files = Some(files.into());
            pending.load_all = true;
        })
    }

    /// Loads a zone, even if unchanged.
    pub fn load(&self, origin: NameBuf) -> CommandId {
        self.send(|pending| {
            if !pending.named.contains(&origin) {
                pending.named.push(origin);
            }
        })
    }

    /// Loads a hosts file, even if unchanged.
    pub fn load_hosts(&self, file: PathBuf) -> CommandId {
        self.send(|pending| {
            if !pending.named_hosts.contains(&file) {
                pending.named_hosts.push(file);
            }
        })
    }

    /// Stops the source after the current load.
    pub fn stop(&self) {
        self.send(|pending| pending.stop = true);
    }

    /// Whether the source panicked.
    pub fn have_failed(&self) -> bool {
        let pending = self.pending();
        pending.ended && !pending.stop
    }

    /// Waits until a command is done: each of its zones was tried. False: the source ended before.
    pub fn wait(&self, id: CommandId) -> bool {
        let is_pending = |pending: &mut PendingCommands| pending.done < id.0 && !pending.ended;
        let waited = self.0.1.wait_while(self.pending(), is_pending);
        waited.unwrap_or_else(PoisonError::into_inner).done >= id.0
    }

    fn send(&self, change: impl FnOnce(&mut PendingCommands)) -> CommandId {
        let mut pending = self.pending();
        change(&mut pending);
        pending.sent += 1;
        let id = CommandId(pending.sent);
        drop(pending);
        self.0.1.notify_all();
        id
    }

    fn hint(&self) {
        self.pending().look = true;
        self.0.1.notify_all();
    }

    fn pending(&self) -> MutexGuard<'_, PendingCommands> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits up to a while for the most urgent command. A timeout means a check of all files.
    fn take(&self, patience: Duration) -> Option<WatchCommand> {
        let idle = |pending: &mut PendingCommands| {
            let is_named = !pending.named.is_empty() || !pending.named_hosts.is_empty();
            !(pending.stop || pending.look || pending.files.is_some() || is_named)
        };
        let (mut pending, _) = self
            .0
            .1
            .wait_timeout_while(self.pending(), patience, idle)
            .unwrap_or_else(PoisonError::into_inner);
        if pending.stop {
            return Some(WatchCommand::Stop);
        }
        let look = std::mem::take(&mut pending.look);
        let zones = std::mem::take(&mut pending.named);
        let hosts = std::mem::take(&mut pending.named_hosts);
        let files = pending.files.take();
        if files.is_some() || !zones.is_empty() || !hosts.is_empty() {
            pending.taken = pending.sent;
            let load = if std::mem::take(&mut pending.load_all) {
                ReloadScope::All
            } else {
                ReloadScope::Named { zones, hosts }
            };
            return Some(WatchCommand::Change { files, load });
        }
        look.then_some(WatchCommand::Look)
    }

    /// Marks taken commands as done, or the source as ended.
    fn mark_done(&self, ended: bool) {
        let mut pending = self.pending();
        match ended {
            true => pending.ended = true,
            false => pending.done = pending.taken,
        }
        drop(pending);
        self.0.1.notify_all();
    }
}

/// Receives commands and the events of watched folders.
pub struct CommandReceiver {
    /// `None`: no inotify; files are checked every `POLL`.
    folders: Option<WatchedFolders>,
    commands: CommandSender,
    /// What events say about files.
    pub activities: Activities,
}

impl CommandReceiver {
    /// Starts without folders. With inotify, `POLL` is only a fallback.
    pub fn new() -> (CommandSender, Self) {
        let commands = CommandSender::default();
        let activities = Activities::default();
        let hints = commands.clone();
        let folders = WatchedFolders::start(activities.clone(), move || hints.hint());
        if let Err(error) = &folders {
            tracing::warn!(%error, "files cannot be watched; polling every {POLL:?}");
        }
        let watch = Self { folders: folders.ok(), commands: commands.clone(), activities };
        (commands, watch)
    }

    /// Whether the source is to end.
    pub fn is_stopped(&self) -> bool {
        self.commands.pending().stop
    }

    /// Marks the last command as done.
    pub fn finish(&self) {
        self.commands.mark_done(false);
    }

    /// Watches exactly these folders; returns whether one is new.
    pub fn set_folders(&self, folders: impl IntoIterator<Item = PathBuf>) -> bool {
        self.folders.as_ref().is_some_and(|watched| watched.set(folders))
    }

    /// Records all events up to now.
    pub fn catch_up(&self) {
        if self.folders.as_ref().is_some_and(WatchedFolders::drain) {
            // The event may be of a file that was checked already.
            self.commands.hint();
        }
    }

    /// Waits for something to do, at most until `due`. Collects events until the folders are quiet.
    pub fn wait(&self, due: Option<Instant>) -> WatchCommand {
        let patience =
            due.map_or(POLL, |due| due.saturating_duration_since(Instant::now()).min(POLL));
        let mut command = self.commands.take(patience).unwrap_or(WatchCommand::Look);
        let until = Instant::now() + PATIENCE;
        while command == WatchCommand::Look && Instant::now() < until {
            match self.commands.take(QUIET) {
                Some(next) => command = next,
                None => break,
            }
        }
        command
    }
}

impl Drop for CommandReceiver {
    /// Wakes waiters: no command will be done any more.
    fn drop(&mut self) {
        self.commands.mark_done(true);
    }
}

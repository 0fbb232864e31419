//! Folders that are watched, and wishes that arrive.
//!
//! What the kernel tells is only a hint: whether a zone is loaded is decided by looking at its
//! files. So nothing depends on which events an editor's way of saving comes to.
use crate::limits::{PATIENCE, POLL, QUIET, WISHES_MAX};
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Instant;

/// What somebody wants of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Load what has changed.
    Look,
    /// Load every zone.
    ReloadAll,
    /// End.
    Stop,
}

/// Sends wishes.
#[derive(Clone, Debug)]
pub struct Wishes(SyncSender<Wish>);

impl Wishes {
    /// Has every zone loaded again. When as many wishes wait already, one of them does it.
    pub fn reload_all(&self) {
        let _ = self.0.send(Wish::ReloadAll);
    }

    /// Ends the source; a load at work is finished.
    pub fn stop(&self) {
        let _ = self.0.send(Wish::Stop);
    }
}

/// The watched folders.
pub struct Watch {
    watcher: Option<RecommendedWatcher>,
    folders: HashSet<PathBuf>,
    wishes: Receiver<Wish>,
}

impl Watch {
    /// Watches nothing yet. Where the kernel's watching is to be had, `POLL` is only the net below.
    pub fn new() -> (Wishes, Self) {
        let (sender, wishes) = sync_channel(WISHES_MAX);
        let hints = sender.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| is_change(event.kind)) {
                // Full: there are wishes waiting, and each of them includes a look.
                let _ = hints.try_send(Wish::Look);
            }
        });
        if let Err(error) = &watcher {
            tracing::warn!(%error, "files cannot be watched; they are looked at every {POLL:?}");
        }
        (Wishes(sender), Self { watcher: watcher.ok(), folders: HashSet::new(), wishes })
    }

    /// Watches these folders and no others; whether one is new.
    pub fn set_folders(&mut self, folders: impl IntoIterator<Item = PathBuf>) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let wanted: HashSet<PathBuf> = folders.into_iter().collect();
        for folder in self.folders.difference(&wanted) {
            // It may have gone, and its watch with it.
            let _ = watcher.unwatch(folder);
        }
        self.folders.retain(|folder| wanted.contains(folder));
        let mut new = false;
        for folder in wanted {
            if self.folders.contains(&folder) {
                continue;
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => new |= self.folders.insert(folder),
                Err(error) => tracing::debug!(folder = %folder.display(), %error, "not watched"),
            }
        }
        new
    }

    /// Waits for a wish. Hints are gathered until the folders are quiet.
    pub fn wait(&self) -> Wish {
        let wish = match self.wishes.recv_timeout(POLL) {
            Ok(wish) => wish,
            Err(RecvTimeoutError::Timeout) => return Wish::Look,
            Err(RecvTimeoutError::Disconnected) => return Wish::Stop,
        };
        let until = Instant::now() + PATIENCE;
        let mut gathered = wish;
        while gathered == Wish::Look && Instant::now() < until {
            match self.wishes.recv_timeout(QUIET) {
                Ok(wish) => gathered = wish,
                Err(_) => break,
            }
        }
        gathered
    }
}

/// Whether an event may mean that a file is another now. To be read is not.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

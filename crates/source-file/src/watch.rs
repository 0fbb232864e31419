//! Folders that are watched, and wishes that arrive.
//!
//! What the kernel tells is only a hint: whether a zone is loaded is decided by looking at its
//! files. So nothing depends on which events an editor's way of saving comes to.
use crate::limits::{PATIENCE, POLL, QUIET};
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Load what has changed.
    Look,
    /// Load every zone.
    ReloadAll,
    /// End.
    Stop,
}

/// Wishes that are not yet granted: one of a kind is as good as many.
#[derive(Debug, Default)]
struct Wanted {
    look: bool,
    reload_all: bool,
    stop: bool,
}

/// Wishes something of a source.
#[derive(Clone, Debug, Default)]
pub struct Wishes(Arc<(Mutex<Wanted>, Condvar)>);

impl Wishes {
    /// Has every zone loaded again.
    pub fn reload_all(&self) {
        self.wish(|wanted| wanted.reload_all = true);
    }

    /// Ends the source; a load at work is finished.
    pub fn stop(&self) {
        self.wish(|wanted| wanted.stop = true);
    }

    fn wish(&self, wish: impl FnOnce(&mut Wanted)) {
        wish(&mut self.wanted());
        self.0.1.notify_one();
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits up to a while; the most urgent wish, if there is one. To load all is to look too.
    fn take(&self, patience: Duration) -> Option<Wish> {
        let idle = |wanted: &mut Wanted| !(wanted.stop || wanted.reload_all || wanted.look);
        let (mut wanted, _) = self
            .0
            .1
            .wait_timeout_while(self.wanted(), patience, idle)
            .unwrap_or_else(PoisonError::into_inner);
        let Wanted { look, reload_all, stop } = *wanted;
        *wanted = Wanted { stop, ..Wanted::default() };
        match (stop, reload_all, look) {
            (true, ..) => Some(Wish::Stop),
            (_, true, _) => Some(Wish::ReloadAll),
            (.., true) => Some(Wish::Look),
            _ => None,
        }
    }
}

/// The watched folders.
pub struct Watch {
    watcher: Option<RecommendedWatcher>,
    folders: HashSet<PathBuf>,
    wishes: Wishes,
}

impl Watch {
    /// Watches nothing yet. Where the kernel's watching is to be had, `POLL` is only the net below.
    pub fn new() -> (Wishes, Self) {
        let wishes = Wishes::default();
        let hints = wishes.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| is_change(event.kind)) {
                hints.wish(|wanted| wanted.look = true);
            }
        });
        if let Err(error) = &watcher {
            tracing::warn!(%error, "files cannot be watched; they are looked at every {POLL:?}");
        }
        let watch = Self { watcher: watcher.ok(), folders: HashSet::new(), wishes: wishes.clone() };
        (wishes, watch)
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

    /// Waits for something to do. Hints are gathered until the folders are quiet.
    pub fn wait(&self) -> Wish {
        let mut wish = self.wishes.take(POLL).unwrap_or(Wish::Look);
        let until = Instant::now() + PATIENCE;
        while wish == Wish::Look && Instant::now() < until {
            match self.wishes.take(QUIET) {
                Some(next) => wish = next,
                None => break,
            }
        }
        wish
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

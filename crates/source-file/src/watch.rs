//! Folders that are watched, and wishes that arrive.
//!
//! What the kernel tells is only a hint: whether a zone is loaded is decided by looking at its
//! files. So nothing depends on which events an editor's way of saving comes to.
use crate::limits::{PATIENCE, POLL, QUIET};
use crate::source::Files;
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What there is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Load what has changed.
    Look,
    /// Take these files, load what is new and what has changed, or all.
    Change { files: Files, load_all: bool },
    /// End.
    Stop,
}

/// Stands for something that was wished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wished(u64);

/// Wishes that are not yet granted: the latest of a kind stands for those before it.
#[derive(Debug, Default)]
struct Wanted {
    look: bool,
    load_all: bool,
    files: Option<Files>,
    stop: bool,
    /// Wishes so far; those at work; those that are granted.
    wished: u64,
    taken: u64,
    granted: u64,
    /// Nobody grants any more.
    ended: bool,
}

/// Wishes something of a source.
#[derive(Clone, Debug, Default)]
pub struct Wishes(Arc<(Mutex<Wanted>, Condvar)>);

impl Wishes {
    /// Has these kept from now on, and no others. Zones and hosts that are new or have another file
    /// are loaded; those that stay are not, unless their files changed.
    pub fn set_files(&self, files: impl Into<Files>) -> Wished {
        self.wish(|wanted| wanted.files = Some(files.into()))
    }

    /// Has these kept from now on, and no others, and each loaded once, be it new or not.
    pub fn reload(&self, files: impl Into<Files>) -> Wished {
        self.wish(|wanted| {
            wanted.files = Some(files.into());
            wanted.load_all = true;
        })
    }

    /// Ends the source; a load at work is finished.
    pub fn stop(&self) {
        self.wish(|wanted| wanted.stop = true);
    }

    /// Whether nobody grants wishes any more though nobody wished that: the source panicked.
    pub fn have_failed(&self) -> bool {
        let wanted = self.wanted();
        wanted.ended && !wanted.stop
    }

    /// Waits until a wish is granted: each zone it is about was tried. False: the source ended
    /// before.
    pub fn wait(&self, wished: Wished) -> bool {
        let pending = |wanted: &mut Wanted| wanted.granted < wished.0 && !wanted.ended;
        let waited = self.0.1.wait_while(self.wanted(), pending);
        waited.unwrap_or_else(PoisonError::into_inner).granted >= wished.0
    }

    fn wish(&self, wish: impl FnOnce(&mut Wanted)) -> Wished {
        let mut wanted = self.wanted();
        wish(&mut wanted);
        wanted.wished += 1;
        let wished = Wished(wanted.wished);
        drop(wanted);
        self.0.1.notify_all();
        wished
    }

    fn hint(&self) {
        self.wanted().look = true;
        self.0.1.notify_all();
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits up to a while; the most urgent wish, if there is one. Any other is to look too.
    fn take(&self, patience: Duration) -> Option<Wish> {
        let idle = |wanted: &mut Wanted| !(wanted.stop || wanted.look || wanted.files.is_some());
        let (mut wanted, _) = self
            .0
            .1
            .wait_timeout_while(self.wanted(), patience, idle)
            .unwrap_or_else(PoisonError::into_inner);
        if wanted.stop {
            return Some(Wish::Stop);
        }
        let look = std::mem::take(&mut wanted.look);
        let load_all = std::mem::take(&mut wanted.load_all);
        if let Some(files) = wanted.files.take() {
            wanted.taken = wanted.wished;
            return Some(Wish::Change { files, load_all });
        }
        look.then_some(Wish::Look)
    }

    /// What was taken is done; or it is not, and nothing more will be.
    fn grant(&self, ended: bool) {
        let mut wanted = self.wanted();
        match ended {
            true => wanted.ended = true,
            false => wanted.granted = wanted.taken,
        }
        drop(wanted);
        self.0.1.notify_all();
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
                hints.hint();
            }
        });
        if let Err(error) = &watcher {
            tracing::warn!(%error, "files cannot be watched; they are looked at every {POLL:?}");
        }
        let watch = Self { watcher: watcher.ok(), folders: HashSet::new(), wishes: wishes.clone() };
        (wishes, watch)
    }

    /// Whether it is to end.
    pub fn is_stopped(&self) -> bool {
        self.wishes.wanted().stop
    }

    /// What it waited for last is done.
    pub fn granted(&self) {
        self.wishes.grant(false);
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

impl Drop for Watch {
    /// Nobody is to wait for wishes that none will grant.
    fn drop(&mut self) {
        self.wishes.grant(true);
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

//! Tracks watched files from events: being written, closed, or renamed into place.
//!
//! Events name paths. A file is tracked by its own path and the path that its links lead to. Only
//! watched files have an entry, so the table is bounded.
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// The events of a file since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Being written in place since then.
    Writing(SystemTime),
    /// Written in place, and closed.
    Closed,
    /// Renamed or linked into place, and not written since.
    Placed,
}

/// An event of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// A writer created the file.
    Created,
    /// A complete file, or a link to one, was put there.
    Placed,
    /// The file was written.
    Written,
    /// A writer closed it.
    Closed,
    /// It was removed.
    Gone,
}

impl Activity {
    /// The activity after an event.
    fn after(old: Option<Self>, happened: PathEvent, now: SystemTime) -> Option<Self> {
        match (old, happened) {
            (_, PathEvent::Gone) => None,
            (_, PathEvent::Placed) => Some(Self::Placed),
            // A writer may close a file only after renaming it into place.
            (Some(Self::Placed), PathEvent::Closed) => old,
            (Some(Self::Writing(_)), PathEvent::Created | PathEvent::Written) => old,
            (_, PathEvent::Created | PathEvent::Written) => Some(Self::Writing(now)),
            (_, PathEvent::Closed) => Some(Self::Closed),
        }
    }
}

/// The watched files by path. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Activities(Arc<Mutex<HashMap<PathBuf, Option<Activity>>>>);

impl Activities {
    /// Watches exactly these paths. Keeps the state of those watched before.
    pub fn set_interest(&self, paths: impl IntoIterator<Item = PathBuf>) {
        let mut known = self.known();
        let mut old = std::mem::take(&mut *known);
        for path in paths {
            // A path may occur twice.
            if let Entry::Vacant(place) = known.entry(path) {
                let activity = old.remove(place.key()).flatten();
                place.insert(activity);
            }
        }
    }

    /// Records an event of a path, if it is watched.
    pub fn note(&self, path: &Path, happened: impl FnOnce() -> Option<PathEvent>) {
        if !self.known().contains_key(path) {
            return;
        }
        // `happened` may do I/O, so call it without the lock.
        let Some(happened) = happened() else { return };
        if let Some(activity) = self.known().get_mut(path) {
            *activity = Activity::after(*activity, happened, SystemTime::now());
        }
    }

    /// Forgets all states after events were lost: a missed close would never be seen.
    pub fn forget_all(&self) {
        self.known().values_mut().for_each(|activity| *activity = None);
    }

    /// The activity of a file with these paths: being written goes before closed, and both before
    /// renamed into place.
    pub fn of(&self, paths: &[PathBuf]) -> Option<Activity> {
        let known = self.known();
        paths.iter().filter_map(|path| known.get(path).copied().flatten()).min()
    }

    /// Removes and returns the activity of these paths, before they are read.
    pub fn take(&self, paths: &[PathBuf]) -> Vec<(PathBuf, Activity)> {
        let mut known = self.known();
        let mut take = |path: &PathBuf| Some((path.clone(), known.get_mut(path)?.take()?));
        paths.iter().filter_map(&mut take).collect()
    }

    /// Forgets a finished activity of these paths: the file is unchanged since it was read.
    pub fn forget(&self, paths: &[PathBuf], activity: Option<Activity>) {
        if matches!(activity, None | Some(Activity::Writing(_))) {
            return;
        }
        let mut known = self.known();
        for path in paths {
            if let Some(found) = known.get_mut(path).filter(|found| **found == activity) {
                *found = None;
            }
        }
    }

    /// Restores taken activity, unless there were events since.
    pub fn give_back(&self, taken: Vec<(PathBuf, Activity)>) {
        let mut known = self.known();
        for (path, activity) in taken {
            if let Some(now) = known.get_mut(&path) {
                now.get_or_insert(activity);
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, Option<Activity>>> {
        // The lock is never held across code that can panic midway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

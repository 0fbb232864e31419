//! Decides whether a changed file is complete and can be read: a pure function of its states, its
//! events and the time.
use crate::file_events::Activity;
use crate::limits::SETTLED;
use crate::stamp::{Stamp, StampedFile};
use std::time::{Instant, SystemTime};

/// The decision about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileVerdict {
    /// Unchanged since it was read.
    Same,
    /// Changed and complete; whether it was renamed into place.
    Whole { renamed: bool },
    /// Changed; a writer has had it open since then.
    Writing(SystemTime),
    /// Changed, without events: it is complete if it stays the same until then.
    Unsettled { until: Instant, renamed: bool },
}

/// The state of a file without events, and since when it has that state.
#[derive(Clone, Copy, Debug)]
pub struct PendingFile {
    stamp: Stamp,
    since: Instant,
}

/// Compares a file's state when it was read (`old`) with its current state. Uses our own clock: the
/// clock of a file server may be wrong, and tools may set any file time.
pub fn judge(
    old: Option<&StampedFile>,
    new: &StampedFile,
    activity: Option<Activity>,
    pending: &mut Option<PendingFile>,
    now: Instant,
) -> FileVerdict {
    let waited = pending.take();
    if old.is_some_and(|old| is_same(old, new.stamp, activity)) {
        return FileVerdict::Same;
    }
    let read = old.filter(|old| old.stamp.exists());
    match activity {
        _ if !new.stamp.exists() => FileVerdict::Whole { renamed: false },
        Some(Activity::Writing(since)) => FileVerdict::Writing(since),
        Some(Activity::Closed) => FileVerdict::Whole { renamed: false },
        Some(Activity::Placed) => FileVerdict::Whole { renamed: true },
        // A ConfigMap update swaps the link to a folder: the file itself has no event.
        None if read.is_some_and(|old| old.end != new.end) => FileVerdict::Whole { renamed: true },
        None => {
            let renamed = read.is_some_and(|old| new.stamp.is_another_than(old.stamp));
            let stays = waited.filter(|waited| waited.stamp == new.stamp);
            let since = stays.map_or(now, |waited| waited.since);
            let until = since + SETTLED;
            if now >= until {
                return FileVerdict::Whole { renamed };
            }
            *pending = Some(PendingFile { stamp: new.stamp, since });
            FileVerdict::Unsettled { until, renamed }
        }
    }
}

/// Whether a file is unchanged since it was read.
pub fn is_same(old: &StampedFile, now: Stamp, activity: Option<Activity>) -> bool {
    old.stamp == now && !(old.is_racy && activity.is_some())
}

#[cfg(test)]
mod tests;

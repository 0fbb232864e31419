//! Decides and does what a visit requires for one zone or hosts file.
use crate::change::{self, FileVerdict, PendingFile};
use crate::file_events::Activity;
use crate::handler::{LoadAttempt, WriteKind};
use crate::limits::SETTLED;
use crate::stamp::{FileStamps, Stamp, StampedFile};
use crate::watch::CommandReceiver;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// The state of the files of a zone, or of a hosts file.
#[derive(Debug, Default)]
pub struct WatchedZone {
    /// Their stamps when last read; `None`: read them again in any case.
    read: Option<FileStamps>,
    /// Changed files without events.
    pending: HashMap<PathBuf, PendingFile>,
    /// A requested load waits for a writer.
    is_asked: bool,
    /// The handler has reported that a writer has the file open.
    pub is_writing: bool,
}

/// The remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadDecision {
    /// Nothing.
    Nothing,
    /// Read the files now.
    Load(WriteKind),
    /// Read the files now unless a copy can be served: they were never read, and may be
    /// half-written.
    LoadUnlessServed,
    /// Wait for the writer, which has had a file open since then.
    AwaitWriter(SystemTime),
    /// Check again then.
    LookAgain(Instant),
}

impl WatchedZone {
    /// The stamps of the files when read, or the current ones if never read.
    pub fn seen(&self, file: &Path) -> Cow<'_, FileStamps> {
        let there = || Cow::Owned(FileStamps::before(file, &FileStamps::default()));
        self.read.as_ref().map_or_else(there, Cow::Borrowed)
    }

    /// Whether the files were never read.
    pub fn is_first(&self) -> bool {
        self.read.is_none()
    }

    /// Checks the files. `asked`: read them even if unchanged.
    pub fn decide(
        &mut self,
        file: &Path,
        watch: &CommandReceiver,
        asked: bool,
        now: Instant,
    ) -> LoadDecision {
        self.is_asked |= asked;
        let Some(read) = &self.read else { return self.decide_first(file, watch, now) };
        let activities = &watch.activities;
        let (mut changed, mut renamed, mut writing, mut until) = (false, true, None, None);
        for old in read.files() {
            let activity = activities.of(&old.paths());
            if change::is_same(old, Stamp::of(&old.file), activity) {
                self.pending.remove(&old.file);
                activities.forget(&old.paths(), activity);
                continue;
            }
            let mut new = StampedFile::of(&old.file);
            let mut pending = self.pending.remove(&old.file);
            if activity.is_none() && pending.is_some() {
                new.stamp = Stamp::of_opened(&old.file);
            }
            // Links may lead to another path now, whose events count.
            let activity = activities.of(&new.paths()).or(activity);
            changed = true;
            match change::judge(Some(old), &new, activity, &mut pending, now) {
                FileVerdict::Same => {}
                FileVerdict::Whole { renamed: is_renamed } => renamed &= is_renamed,
                FileVerdict::Writing(since) => writing = writing.min(Some(since)).or(Some(since)),
                FileVerdict::Unsettled { until: at, renamed: is_renamed } => {
                    renamed &= is_renamed;
                    until = until.max(Some(at));
                }
            }
            self.pending.extend(pending.map(|pending| (old.file.clone(), pending)));
        }
        let arrival = if changed && renamed { WriteKind::Renamed } else { WriteKind::Written };
        match (writing, until) {
            _ if !changed && !self.is_asked => LoadDecision::Nothing,
            (Some(since), _) => LoadDecision::AwaitWriter(since),
            (None, Some(until)) if !self.is_asked => LoadDecision::LookAgain(until),
            (None, _) => LoadDecision::Load(arrival),
        }
    }

    /// As `decide`, for a file that was never read and has few events yet.
    fn decide_first(&mut self, file: &Path, watch: &CommandReceiver, now: Instant) -> LoadDecision {
        let mut new = StampedFile::of(file);
        let activity = watch.activities.of(&new.paths());
        let mut pending = self.pending.remove(file);
        let is_new = pending.is_none() && !self.is_writing;
        if activity.is_none() && pending.is_some() {
            new.stamp = Stamp::of_opened(file);
        }
        let verdict = change::judge(None, &new, activity, &mut pending, now);
        self.pending.extend(pending.map(|pending| (file.into(), pending)));
        let clock = SystemTime::now();
        match verdict {
            FileVerdict::Writing(_) if is_new => LoadDecision::LoadUnlessServed,
            FileVerdict::Writing(since) => LoadDecision::AwaitWriter(since),
            FileVerdict::Unsettled { .. } if self.is_asked => LoadDecision::Load(WriteKind::First),
            FileVerdict::Unsettled { .. }
                if is_new && new.stamp.is_younger_than(SETTLED, clock) =>
            {
                LoadDecision::LoadUnlessServed
            }
            FileVerdict::Unsettled { until, .. } if !is_new => LoadDecision::LookAgain(until),
            _ => LoadDecision::Load(WriteKind::First),
        }
    }

    /// Reads the files with `load`, which returns their paths. Discards the result if they were
    /// written meanwhile, unless `anyway`; returns whether it was kept.
    pub fn load(
        &mut self,
        file: &Path,
        watch: &CommandReceiver,
        (arrival, anyway): (WriteKind, bool),
        load: impl FnOnce(&mut LoadAttempt<'_>) -> Vec<PathBuf>,
    ) -> bool {
        let began = SystemTime::now();
        let last = self.read.take();
        let before = FileStamps::before(file, last.as_ref().unwrap_or(&FileStamps::default()));
        let activities = watch.activities.clone();
        let taken = activities.take(&before.paths());
        let mut is_whole = || anyway || is_whole(last.as_ref(), &before, watch);
        let mut attempt = LoadAttempt::new(arrival, &mut is_whole);
        let files = load(&mut attempt);
        if attempt.is_torn() {
            activities.give_back(taken);
            self.read = last;
            return false;
        }
        self.read = Some(before.after(files, began));
        (self.is_asked, self.is_writing) = (false, false);
        self.pending.clear();
        true
    }
}

/// Whether files did not change while they were read and had no writer then.
fn is_whole(last: Option<&FileStamps>, before: &FileStamps, watch: &CommandReceiver) -> bool {
    let stays = |it: &StampedFile| Stamp::of(&it.file) == it.stamp;
    if !before.files().iter().all(stays) {
        return false;
    }
    watch.catch_up();
    // A writer seen only now had begun before. If it left the file unchanged, it writes another
    // file, which this one replaced.
    let is_written = |it: &StampedFile| {
        let is_known =
            last.and_then(|last| last.get(&it.file)).is_some_and(|old| old.stamp == it.stamp);
        !is_known && matches!(watch.activities.of(&it.paths()), Some(Activity::Writing(_)))
    };
    !before.files().iter().any(is_written)
}

//! The loop that knows all zone files and hosts files, and when to load each.
use crate::handler::{FilesToLoad, LoadHandler, WriteKind, ZoneFile};
use crate::limits::SETTLED;
use crate::visit::{LoadDecision, WatchedZone};
use crate::watch::{CommandReceiver, CommandSender, ReloadScope, WatchCommand};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// Loads files when they change.
pub struct FileLoop {
    files: FilesToLoad,
    /// The state of each zone's files, in the order of the zones.
    entries: Vec<WatchedZone>,
    /// The state of the hosts files.
    hosts_entries: Vec<WatchedZone>,
    watch: CommandReceiver,
}

impl FileLoop {
    /// A loop without files, and the sender of its commands.
    pub fn new() -> (CommandSender, Self) {
        let (commands, watch) = CommandReceiver::new();
        let (files, entries, hosts_entries) = (FilesToLoad::default(), Vec::new(), Vec::new());
        (commands, Self { files, entries, hosts_entries, watch })
    }

    /// Runs until stopped: loads new, changed and requested files.
    pub fn run(&mut self, handler: &mut impl LoadHandler) {
        let mut due = None;
        loop {
            match self.watch.wait(due) {
                WatchCommand::Look => due = self.visit(&ReloadScope::CHANGED, handler),
                WatchCommand::Change { files, load } => {
                    let is_given = files.is_some();
                    if let Some(files) = files {
                        self.set_files(files);
                        handler.set_files(&self.files);
                    }
                    due = self.visit(&load, handler);
                    if self.watch.is_stopped() {
                        return;
                    }
                    if is_given {
                        handler.settle(&self.files.zones);
                    }
                }
                WatchCommand::Stop => return,
            }
            self.watch.finish();
        }
    }

    /// Replaces the files; keeps the state of those that stay.
    fn set_files(&mut self, files: FilesToLoad) {
        let key = |zone: &ZoneFile| zone.origin.as_name().as_bytes().to_ascii_lowercase();
        let FilesToLoad { zones, hosts } = std::mem::replace(&mut self.files, files);
        let mut known: HashMap<Vec<u8>, (ZoneFile, WatchedZone)> = zones
            .into_iter()
            .zip(self.entries.drain(..))
            .map(|(zone, entry)| (key(&zone), (zone, entry)))
            .collect();
        let same = |zone: &ZoneFile| {
            let known = known
                .remove(&key(zone))
                .filter(|(known, _)| known.file == zone.file && known.views == zone.views);
            known.map_or_else(WatchedZone::default, |(_, entry)| entry)
        };
        self.entries = self.files.zones.iter().map(same).collect();
        let mut known: HashMap<PathBuf, WatchedZone> =
            hosts.into_iter().zip(self.hosts_entries.drain(..)).collect();
        let same = |file: &PathBuf| known.remove(file).unwrap_or_default();
        self.hosts_entries = self.files.hosts.iter().map(same).collect();
    }

    /// Loads hosts files and zones that are requested, new or changed. Ends early on a stop.
    /// Returns the latest time of the next visit.
    fn visit(&mut self, load: &ReloadScope, handler: &mut impl LoadHandler) -> Option<Instant> {
        let (mut all, mut named, mut named_hosts) = match load {
            ReloadScope::All => (true, &[][..], &[][..]),
            ReloadScope::Named { zones, hosts } => (false, &zones[..], &hosts[..]),
        };
        loop {
            let mut due = None;
            self.watch.catch_up();
            for (file, entry) in self.files.hosts.iter().zip(&mut self.hosts_entries) {
                if self.watch.is_stopped() {
                    return None;
                }
                let asked = all || named_hosts.contains(file);
                let next = visit_hosts(file, entry, &self.watch, asked, handler);
                due = sooner(due, next);
            }
            for (zone, entry) in self.files.zones.iter().zip(&mut self.entries) {
                if self.watch.is_stopped() {
                    return None;
                }
                let asked = all || named.contains(&zone.origin);
                let next = visit_zone(zone, entry, &self.watch, asked, handler);
                due = sooner(due, next);
            }
            // Visit again for changes in folders before they were watched.
            if !self.watch_all() {
                return due;
            }
            (all, named, named_hosts) = (false, &[], &[]);
        }
    }

    /// Watches all files; returns whether a folder is new.
    fn watch_all(&mut self) -> bool {
        let zones = self.files.zones.iter().map(|zone| &zone.file).zip(&self.entries);
        let all = zones.chain(self.files.hosts.iter().zip(&self.hosts_entries));
        let seen: Vec<_> = all.map(|(file, entry)| entry.seen(file)).collect();
        self.watch.activities.set_interest(seen.iter().flat_map(|seen| seen.paths()));
        self.watch.set_folders(seen.iter().flat_map(|seen| seen.folders()))
    }
}

fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

/// Handles one zone; returns the latest time of the next visit.
fn visit_zone(
    zone: &ZoneFile,
    entry: &mut WatchedZone,
    watch: &CommandReceiver,
    asked: bool,
    handler: &mut impl LoadHandler,
) -> Option<Instant> {
    let now = Instant::now();
    let was_writing = entry.is_writing;
    let loaded = match entry.decide(&zone.file, watch, asked, now) {
        LoadDecision::Nothing => {
            if std::mem::take(&mut entry.is_writing) {
                handler.set_writing(zone, None);
            }
            return None;
        }
        LoadDecision::LookAgain(until) => return Some(until),
        LoadDecision::AwaitWriter(since) => {
            entry.is_writing = true;
            if !was_writing {
                handler.set_writing(zone, Some(since));
            }
            return None;
        }
        LoadDecision::LoadUnlessServed => false,
        LoadDecision::Load(arrival) => {
            entry.load(&zone.file, watch, (arrival, false), |attempt| handler.load(zone, attempt))
        }
    };
    if loaded {
        return None;
    }
    // It is written while it is read, or may be.
    if entry.is_first() && !handler.serve_saved(zone) {
        let how = (WriteKind::First, true);
        entry.load(&zone.file, watch, how, |attempt| handler.load(zone, attempt));
        return None;
    }
    entry.is_writing = true;
    if !was_writing {
        handler.set_writing(zone, Some(SystemTime::now()));
    }
    Some(now + SETTLED)
}

/// Handles one hosts file, which has no saved copy.
fn visit_hosts(
    file: &Path,
    entry: &mut WatchedZone,
    watch: &CommandReceiver,
    asked: bool,
    handler: &mut impl LoadHandler,
) -> Option<Instant> {
    let now = Instant::now();
    let how = match entry.decide(file, watch, asked, now) {
        LoadDecision::Nothing | LoadDecision::AwaitWriter(_) => return None,
        LoadDecision::LookAgain(until) => return Some(until),
        LoadDecision::LoadUnlessServed => (WriteKind::First, true),
        LoadDecision::Load(arrival) => (arrival, entry.is_first()),
    };
    let loaded = entry.load(file, watch, how, |attempt| {
        handler.load_hosts(file, attempt);
        vec![file.to_owned()]
    });
    if loaded { None } else { Some(now + SETTLED) }
}

#[cfg(test)]
mod tests;

//! The source: which zones and hosts files there are, and when each is loaded.
use crate::stamp::Stamps;
use crate::watch::{Watch, Wish, Wishes};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use wire::NameBuf;

/// A zone and the master file it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneFile {
    /// The name of its apex.
    pub origin: NameBuf,
    /// The file; what it includes is found by reading it.
    pub file: PathBuf,
}

/// What there is to load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Zones, each of another name.
    pub zones: Vec<ZoneFile>,
    /// Hosts files, each another one.
    pub hosts: Vec<PathBuf>,
}

impl From<Vec<ZoneFile>> for Files {
    /// Zones alone.
    fn from(zones: Vec<ZoneFile>) -> Self {
        Self { zones, hosts: Vec::new() }
    }
}

/// Does what there is to do about a zone or a hosts file.
pub trait Keeper {
    /// Loads it. Returns all files that had a part in it, those that could not be opened included.
    fn load(&mut self, zone: &ZoneFile) -> Vec<PathBuf>;

    /// Loads a hosts file.
    fn load_hosts(&mut self, file: &Path);

    /// Zones and hosts files are these from now on. Those that are new, or have another file, are
    /// loaded next.
    fn set_files(&mut self, files: &Files);

    /// All that had to be loaded of these zones has been.
    fn settle(&mut self, zones: &[ZoneFile]);
}

/// Files that are loaded when they change.
pub struct Source {
    files: Files,
    /// What was seen of the files of each, in the order of the zones.
    seen: Vec<Seen>,
    /// The same of the hosts files.
    hosts_seen: Vec<Seen>,
    watch: Watch,
}

/// Nothing: the zone is to be loaded, whatever its files are.
type Seen = Option<Stamps>;

impl Source {
    /// A source without zones, and who may wish some of it.
    pub fn new() -> (Wishes, Self) {
        let (wishes, watch) = Watch::new();
        let (files, seen, hosts_seen) = (Files::default(), Vec::new(), Vec::new());
        (wishes, Self { files, seen, hosts_seen, watch })
    }

    /// Grants wishes until it is to stop: loads what it is given, that whose files change,
    /// and all when that is wished.
    pub fn run(&mut self, keeper: &mut impl Keeper) {
        loop {
            match self.watch.wait() {
                Wish::Look => self.visit(false, keeper),
                Wish::Change { files, load_all } => {
                    self.set_files(files);
                    keeper.set_files(&self.files);
                    self.visit(load_all, keeper);
                    if self.watch.is_stopped() {
                        return;
                    }
                    keeper.settle(&self.files.zones);
                }
                Wish::Stop => return,
            }
            self.watch.granted();
        }
    }

    /// Takes these files for the ones it had; what stays the same keeps what was seen of it.
    fn set_files(&mut self, files: Files) {
        let key = |zone: &ZoneFile| zone.origin.as_name().octets().to_ascii_lowercase();
        let Files { zones, hosts } = std::mem::replace(&mut self.files, files);
        let mut known: HashMap<Vec<u8>, (PathBuf, Seen)> = zones
            .into_iter()
            .zip(self.seen.drain(..))
            .map(|(zone, seen)| (key(&zone), (zone.file, seen)))
            .collect();
        let same = |zone: &ZoneFile| {
            let (file, seen) = known.remove(&key(zone))?;
            seen.filter(|_| file == zone.file)
        };
        self.seen = self.files.zones.iter().map(same).collect();
        let mut known: HashMap<PathBuf, Seen> =
            hosts.into_iter().zip(self.hosts_seen.drain(..)).collect();
        let same = |file: &PathBuf| known.remove(file).flatten();
        self.hosts_seen = self.files.hosts.iter().map(same).collect();
    }

    /// Loads hosts and zones: all, or those that are new or whose files are not as they were. Ends
    /// early when it is to stop.
    fn visit(&mut self, mut all: bool, keeper: &mut impl Keeper) {
        loop {
            for (file, seen) in self.files.hosts.iter().zip(&mut self.hosts_seen) {
                if self.watch.is_stopped() {
                    return;
                }
                look(file, seen, all, || {
                    keeper.load_hosts(file);
                    vec![file.clone()]
                });
            }
            for (zone, seen) in self.files.zones.iter().zip(&mut self.seen) {
                if self.watch.is_stopped() {
                    return;
                }
                look(&zone.file, seen, all, || keeper.load(zone));
            }
            // What happened in a folder before it was watched is found by one more look.
            let all_seen = self.seen.iter().chain(&self.hosts_seen).flatten();
            let folders = all_seen.flat_map(Stamps::folders);
            if !self.watch.set_folders(folders) {
                return;
            }
            all = false;
        }
    }
}

/// Has a file loaded, if it is new, not as it was, or if all are.
fn look(file: &Path, seen: &mut Seen, all: bool, load: impl FnOnce() -> Vec<PathBuf>) {
    if all || seen.as_ref().is_none_or(Stamps::differ) {
        let began = SystemTime::now();
        let before = Stamps::before(file, &seen.take().unwrap_or_default());
        *seen = Some(before.after(load(), began));
    }
}

#[cfg(test)]
mod tests;

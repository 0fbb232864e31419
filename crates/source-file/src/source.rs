//! The source: which zones there are, and when each is loaded.
use crate::stamp::Stamps;
use crate::watch::{Watch, Wish, Wishes};
use std::collections::HashMap;
use std::path::PathBuf;
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

/// Does what there is to do about a zone.
pub trait Keeper {
    /// Loads it. Returns all files that had a part in it, those that could not be opened included.
    fn load(&mut self, zone: &ZoneFile) -> Vec<PathBuf>;

    /// The zones are these from now on. Those that are new, or have another file, are loaded next.
    fn set_zones(&mut self, zones: &[ZoneFile]);

    /// All that had to be loaded of these zones has been.
    fn settle(&mut self, zones: &[ZoneFile]);
}

/// Zone files that are loaded when they change.
pub struct Source {
    zones: Vec<ZoneFile>,
    /// What was seen of the files of each, in the order of the zones.
    seen: Vec<Seen>,
    watch: Watch,
}

/// Nothing: the zone is to be loaded, whatever its files are.
type Seen = Option<Stamps>;

impl Source {
    /// A source without zones, and who may wish some of it.
    pub fn new() -> (Wishes, Self) {
        let (wishes, watch) = Watch::new();
        (wishes, Self { zones: Vec::new(), seen: Vec::new(), watch })
    }

    /// Grants wishes until it is to stop: loads the zones it is given, those whose files change,
    /// and all when that is wished.
    pub fn run(&mut self, keeper: &mut impl Keeper) {
        loop {
            match self.watch.wait() {
                Wish::Look => self.visit(false, keeper),
                Wish::Change { zones, load_all } => {
                    self.set_zones(zones);
                    keeper.set_zones(&self.zones);
                    self.visit(load_all, keeper);
                    if self.watch.is_stopped() {
                        return;
                    }
                    keeper.settle(&self.zones);
                }
                Wish::Stop => return,
            }
            self.watch.granted();
        }
    }

    /// Takes these zones for the ones it had; what stays the same keeps what was seen of it.
    fn set_zones(&mut self, zones: Vec<ZoneFile>) {
        let key = |zone: &ZoneFile| zone.origin.as_name().octets().to_ascii_lowercase();
        let old = std::mem::replace(&mut self.zones, zones).into_iter();
        let mut known: HashMap<Vec<u8>, (PathBuf, Seen)> = old
            .zip(self.seen.drain(..))
            .map(|(zone, seen)| (key(&zone), (zone.file, seen)))
            .collect();
        let same = |zone: &ZoneFile| {
            let (file, seen) = known.remove(&key(zone))?;
            seen.filter(|_| file == zone.file)
        };
        self.seen = self.zones.iter().map(same).collect();
    }

    /// Loads zones: all, or those that are new or whose files are not as they were. Ends early
    /// when it is to stop.
    fn visit(&mut self, mut all: bool, keeper: &mut impl Keeper) {
        loop {
            for (zone, seen) in self.zones.iter().zip(&mut self.seen) {
                if self.watch.is_stopped() {
                    return;
                }
                if all || seen.as_ref().is_none_or(Stamps::differ) {
                    let began = SystemTime::now();
                    let before = Stamps::before(&zone.file, &seen.take().unwrap_or_default());
                    *seen = Some(before.after(keeper.load(zone), began));
                }
            }
            // What happened in a folder before it was watched is found by one more look.
            let folders = self.seen.iter().flatten().flat_map(Stamps::folders);
            if !self.watch.set_folders(folders) {
                return;
            }
            all = false;
        }
    }
}

#[cfg(test)]
mod tests;

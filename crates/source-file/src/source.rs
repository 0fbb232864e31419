//! The source: which zones there are, and when each is loaded.
use crate::stamp::Stamps;
use crate::watch::{Watch, Wish, Wishes};
use std::path::PathBuf;
use std::time::SystemTime;
use wire::NameBuf;

/// A zone and the master file it is in.
#[derive(Clone, Debug)]
pub struct ZoneFile {
    /// The name of its apex.
    pub origin: NameBuf,
    /// The file; what it includes is found by reading it.
    pub file: PathBuf,
}

/// Zone files that are loaded when they change.
pub struct Source {
    zones: Vec<(ZoneFile, Stamps)>,
    watch: Watch,
}

impl Source {
    /// A source of these zones, and who may wish something of it.
    pub fn new(zones: impl IntoIterator<Item = ZoneFile>) -> (Wishes, Self) {
        let (wishes, watch) = Watch::new();
        let zones = zones
            .into_iter()
            .map(|zone| {
                let stamps = Stamps::before(&zone.file, &Stamps::default());
                (zone, stamps)
            })
            .collect();
        (wishes, Self { zones, watch })
    }

    /// Loads every zone once.
    ///
    /// `load` does what there is to do about a zone, and gives back all files that had a part in
    /// it, those that could not be opened included.
    pub fn load_all(&mut self, mut load: impl FnMut(&ZoneFile) -> Vec<PathBuf>) {
        self.watch_folders();
        self.visit(true, &mut load);
    }

    /// Loads the zones whose files change, and all when that is wished, until it is to stop.
    pub fn run(&mut self, mut load: impl FnMut(&ZoneFile) -> Vec<PathBuf>) {
        loop {
            match self.watch.wait() {
                Wish::Look => self.visit(false, &mut load),
                Wish::ReloadAll => self.visit(true, &mut load),
                Wish::Stop => return,
            }
        }
    }

    /// Loads zones: all, or those whose files are not as they were.
    fn visit(&mut self, mut all: bool, load: &mut impl FnMut(&ZoneFile) -> Vec<PathBuf>) {
        loop {
            for (zone, stamps) in &mut self.zones {
                if all || stamps.differ() {
                    let began = SystemTime::now();
                    let before = Stamps::before(&zone.file, stamps);
                    *stamps = before.after(load(zone), began);
                }
            }
            // What happened in a folder before it was watched is found by one more look.
            if !self.watch_folders() {
                return;
            }
            all = false;
        }
    }

    /// Watches where the files are; whether that is a folder more.
    fn watch_folders(&mut self) -> bool {
        self.watch.set_folders(self.zones.iter().flat_map(|(_, stamps)| stamps.folders()))
    }
}

#[cfg(test)]
mod tests;

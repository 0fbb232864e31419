//! The input of a source's handler: the files, and each load.

use compile::View;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use wire::NameBuf;

/// A zone and its zone file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneFile {
    /// The name of its apex.
    pub origin: NameBuf,
    /// The file; it may include others.
    pub file: PathBuf,
    /// The files of its views.
    pub views: Vec<ViewFile>,
}

/// A view of a zone, and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewFile {
    /// The view.
    pub view: View,
    /// The file with the sets that it lays over the zone.
    pub file: PathBuf,
}

/// The files to load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesToLoad {
    /// Zones with distinct names.
    pub zones: Vec<ZoneFile>,
    /// Distinct hosts files.
    pub hosts: Vec<PathBuf>,
}

impl From<Vec<ZoneFile>> for FilesToLoad {
    fn from(zones: Vec<ZoneFile>) -> Self {
        Self { zones, hosts: Vec::new() }
    }
}

/// How the files of a zone were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// Not read before from this path.
    First,
    /// Written in place, at least one; or unchanged.
    Written,
    /// Renamed into place, all changed ones.
    Renamed,
}

/// A load in progress.
pub struct LoadAttempt<'a> {
    arrival: WriteKind,
    is_whole: &'a mut dyn FnMut() -> bool,
    is_torn: bool,
}

impl<'a> LoadAttempt<'a> {
    pub(crate) fn new(arrival: WriteKind, is_whole: &'a mut dyn FnMut() -> bool) -> Self {
        Self { arrival, is_whole, is_torn: false }
    }

    /// How the files were written.
    pub fn arrival(&self) -> WriteKind {
        self.arrival
    }

    /// Whether all files were complete when they were read. If not, discard the result; another
    /// load follows.
    pub fn is_whole(&mut self) -> bool {
        let is_whole = (self.is_whole)();
        self.is_torn |= !is_whole;
        is_whole
    }

    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn
    }
}

/// Loads zones and hosts files.
pub trait LoadHandler {
    /// Loads a zone. After reading and before using the files, asks whether they were complete.
    /// Returns all involved files, also those that could not be opened.
    fn load(&mut self, zone: &ZoneFile, attempt: &mut LoadAttempt<'_>) -> Vec<PathBuf>;

    /// Loads a hosts file in the same way.
    fn load_hosts(&mut self, file: &Path, attempt: &mut LoadAttempt<'_>);

    /// Serves the saved copy of a zone whose file may be half-written at the start. False if there
    /// is none or it is of this very file: then the file is loaded at once.
    fn serve_saved(&mut self, zone: &ZoneFile) -> bool;

    /// A writer has had the files of a zone open since then; `None`: not any more.
    fn set_writing(&mut self, zone: &ZoneFile, since: Option<SystemTime>);

    /// The zones and hosts files from now on. New and moved ones are loaded next.
    fn set_files(&mut self, files: &FilesToLoad);

    /// All pending loads of these zones are done.
    fn settle(&mut self, zones: &[ZoneFile]);
}

//! What is to be told of each configured zone.
use crate::limits::ZONE_ERRORS_MAX;
use source_file::ZoneFile;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::{Name, NameBuf};
use zone_manager::status::{ZoneState, ZoneStatus};

/// The zones in the order of the config, and where each is among them.
#[derive(Default)]
struct Inner {
    zones: Vec<ZoneStatus>,
    places: HashMap<String, usize>,
}

/// Shared by who loads zones and who tells of them.
#[derive(Default)]
pub struct Registry(Mutex<Inner>);

/// What was loaded of a zone.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    pub serial: Option<u32>,
    pub records: u64,
    /// When it was read, or saved.
    pub at: SystemTime,
}

/// How a zone is called here: in lower case, with its final dot.
fn key(origin: Name<'_>) -> String {
    origin.to_string().to_ascii_lowercase()
}

/// Seconds since 1970.
pub(super) fn seconds(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64()
}

/// As many errors of a file as the status tells.
pub(super) fn told(errors: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = errors.len().saturating_sub(ZONE_ERRORS_MAX);
    let more = (more > 0).then(|| format!("and {more} more: `dunlin check` tells them all"));
    errors.take(ZONE_ERRORS_MAX).chain(more).collect()
}

impl Registry {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes these zones for the ones there were. Those that stay keep what is told of them;
    /// those that go are returned.
    pub fn set(&self, zones: &[ZoneFile]) -> Vec<ZoneStatus> {
        let mut inner = self.inner();
        let old = std::mem::take(&mut *inner);
        let mut known: HashMap<String, ZoneStatus> =
            old.zones.into_iter().map(|zone| (zone.name.clone(), zone)).collect();
        for (place, zone) in zones.iter().enumerate() {
            let name = key(zone.origin.as_name());
            let status = known.remove(&name).unwrap_or_default();
            let file = zone.file.display().to_string();
            inner.zones.push(ZoneStatus { name: name.clone(), file, ..status });
            inner.places.insert(name, place);
        }
        known.into_values().collect()
    }

    /// What is to be told of all.
    pub fn status(&self) -> Vec<ZoneStatus> {
        self.inner().zones.clone()
    }

    /// Whether a zone is configured.
    pub fn knows(&self, origin: Name<'_>) -> bool {
        self.inner().places.contains_key(&key(origin))
    }

    /// The file of a configured zone.
    pub fn file(&self, origin: Name<'_>) -> Option<PathBuf> {
        let inner = self.inner();
        inner.places.get(&key(origin)).map(|at| PathBuf::from(&inner.zones[*at].file))
    }

    /// The names of the configured zones.
    pub fn names(&self) -> Vec<NameBuf> {
        let name = |zone: &ZoneStatus| NameBuf::from_text(zone.name.as_bytes(), Name::ROOT).ok();
        self.inner().zones.iter().filter_map(name).collect()
    }

    /// What is answered of a zone.
    pub fn state(&self, origin: Name<'_>) -> ZoneState {
        let inner = self.inner();
        inner.places.get(&key(origin)).map_or(ZoneState::Unloaded, |at| inner.zones[*at].state)
    }

    /// Notes that a zone is what its file says.
    pub fn note_loaded(&self, origin: Name<'_>, loaded: Loaded) {
        self.edit(origin, |zone| {
            zone.note(ZoneState::Current, loaded);
            zone.writing_seconds = None;
            (zone.refused_seconds, zone.errors) = (None, Vec::new());
        });
    }

    /// Notes that what a zone's file says is held, and the zone stays what it was.
    pub fn note_held(&self, origin: Name<'_>) {
        self.edit(origin, |zone| {
            if zone.state == ZoneState::Current {
                zone.state = ZoneState::Behind;
            }
            (zone.refused_seconds, zone.errors) = (None, Vec::new());
            zone.writing_seconds = None;
        });
    }

    /// Notes since when a writer is at work on a zone's file, or that none is.
    pub fn note_writing(&self, origin: Name<'_>, since: Option<SystemTime>) {
        self.edit(origin, |zone| zone.writing_seconds = since.map(seconds));
    }

    /// Notes that a zone is what was saved of it.
    pub fn note_saved(&self, origin: Name<'_>, loaded: Loaded) {
        self.edit(origin, |zone| zone.note(ZoneState::Saved, loaded));
    }

    /// Notes that a zone's file was refused, and the zone stays what it was.
    pub fn note_refused(&self, origin: Name<'_>, errors: impl ExactSizeIterator<Item = String>) {
        self.edit(origin, |zone| {
            if zone.state == ZoneState::Current {
                zone.state = ZoneState::Behind;
            }
            zone.refused_seconds = Some(seconds(SystemTime::now()));
            zone.errors = told(errors);
            zone.writing_seconds = None;
        });
    }

    fn edit(&self, origin: Name<'_>, edit: impl FnOnce(&mut ZoneStatus)) {
        let mut inner = self.inner();
        // It may have been taken away.
        if let Some(place) = inner.places.get(&key(origin)).copied() {
            edit(&mut inner.zones[place]);
        }
    }
}

trait Note {
    fn note(&mut self, state: ZoneState, loaded: Loaded);
}

impl Note for ZoneStatus {
    fn note(&mut self, state: ZoneState, loaded: Loaded) {
        self.state = state;
        self.serial = loaded.serial;
        self.records = loaded.records;
        self.loaded_seconds = Some(seconds(loaded.at));
    }
}

//! The status of each configured zone.
use crate::handler::ZoneFile;
use crate::limits::ZONE_ERRORS_MAX;
use server_status::{SignatureSpan, ZoneState, ZoneStatus, seconds};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use wire::Name;

/// The zones in the order of the config, and the index of each.
#[derive(Default)]
struct RegistryState {
    zones: Vec<ZoneStatus>,
    indexes: HashMap<String, usize>,
}

/// The status of all zones, shared between threads.
#[derive(Default)]
pub struct ZoneRegistry(Mutex<RegistryState>);

/// The content of a zone, in short.
#[derive(Clone, Copy, Debug)]
pub struct ContentInfo {
    pub serial: Option<u32>,
    pub records: u64,
    /// When it was loaded from its file, or saved.
    pub at: SystemTime,
    /// How long its signatures are valid.
    pub signatures: Option<SignatureSpan>,
}

/// The key of a zone: in lower case, with its final dot.
fn key(origin: Name<'_>) -> String {
    origin.to_string().to_ascii_lowercase()
}

/// The errors of a file that the status shows.
pub(super) fn shown_errors(errors: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = errors.len().saturating_sub(ZONE_ERRORS_MAX);
    let more = (more > 0).then(|| format!("and {more} more: `dunlin check` lists all of them"));
    errors.take(ZONE_ERRORS_MAX).chain(more).collect()
}

impl ZoneRegistry {
    fn lock(&self) -> MutexGuard<'_, RegistryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the zones. A zone that stays keeps its status. Returns the removed zones.
    pub fn set(&self, zones: &[ZoneFile]) -> Vec<ZoneStatus> {
        let mut state = self.lock();
        let old = std::mem::take(&mut *state);
        let mut known: HashMap<String, ZoneStatus> =
            old.zones.into_iter().map(|zone| (zone.name.clone(), zone)).collect();
        for (index, zone) in zones.iter().enumerate() {
            let name = key(zone.origin.as_name());
            let status = known.remove(&name).unwrap_or_default();
            let file = zone.file.display().to_string();
            state.zones.push(ZoneStatus { name: name.clone(), file, ..status });
            state.indexes.insert(name, index);
        }
        known.into_values().collect()
    }

    /// The status of all zones.
    pub fn status(&self) -> Vec<ZoneStatus> {
        self.lock().zones.clone()
    }

    /// The state of a zone.
    pub fn zone_state(&self, origin: Name<'_>) -> ZoneState {
        let state = self.lock();
        state.indexes.get(&key(origin)).map_or(ZoneState::Unloaded, |at| state.zones[*at].state)
    }

    /// Records that a zone was loaded from its file.
    pub fn note_loaded(&self, origin: Name<'_>, loaded: ContentInfo) {
        self.edit(origin, |zone| {
            set_content(zone, ZoneState::Current, loaded);
            zone.writing_seconds = None;
            (zone.refused_seconds, zone.errors) = (None, Vec::new());
        });
    }

    /// Records that the content of a zone's file is held. The zone is served as before.
    pub fn note_held(&self, origin: Name<'_>) {
        self.edit(origin, |zone| {
            mark_behind(zone);
            (zone.refused_seconds, zone.errors) = (None, Vec::new());
            zone.writing_seconds = None;
        });
    }

    /// Records since when a writer has had a zone's file open; `None`: it is closed.
    pub fn note_writing(&self, origin: Name<'_>, since: Option<SystemTime>) {
        self.edit(origin, |zone| zone.writing_seconds = since.map(seconds));
    }

    /// Records that a zone was loaded from its saved copy.
    pub fn note_saved(&self, origin: Name<'_>, loaded: ContentInfo) {
        self.edit(origin, |zone| set_content(zone, ZoneState::Saved, loaded));
    }

    /// Records that a zone's file was refused. The zone is served as before.
    pub fn note_refused(&self, origin: Name<'_>, errors: impl ExactSizeIterator<Item = String>) {
        self.edit(origin, |zone| {
            mark_behind(zone);
            zone.refused_seconds = Some(seconds(SystemTime::now()));
            zone.errors = shown_errors(errors);
            zone.writing_seconds = None;
        });
    }

    fn edit(&self, origin: Name<'_>, edit: impl FnOnce(&mut ZoneStatus)) {
        let mut state = self.lock();
        // The zone may have been removed meanwhile.
        if let Some(index) = state.indexes.get(&key(origin)).copied() {
            edit(&mut state.zones[index]);
        }
    }
}

/// Sets the state and the content of a zone.
fn set_content(zone: &mut ZoneStatus, state: ZoneState, content: ContentInfo) {
    zone.state = state;
    zone.serial = content.serial;
    zone.records = content.records;
    zone.signatures = content.signatures;
    zone.loaded_seconds = Some(seconds(content.at));
}

/// The file is newer than the content that is served.
fn mark_behind(zone: &mut ZoneStatus) {
    if zone.state == ZoneState::Current {
        zone.state = ZoneState::Behind;
    }
}

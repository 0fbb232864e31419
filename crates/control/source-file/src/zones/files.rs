//! Zone files as a source: their zones, each from its file or from the copy saved of it.
use super::registry::{ContentInfo, ZoneRegistry};
use crate::handler::{LoadAttempt, WriteKind, ZoneFile};
use crate::load::load_view;
use crate::saved::{self, CopyNote, FileId, ZoneSaver};
use crate::{
    VERIFIED_AT_LOAD_MAX, ViewFile, check_serial, check_signatures, load_with_views, seconds_now,
    signature_span,
};
use image::HashKey;
use server_status::HeldZone;
use server_status::ZoneState;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use wire::{Name, NameBuf};
use zone_manager::hold::{Arrival, Evidence};
use zone_manager::{
    HoldPolicy, Lane, Source, SourceKind, SourceSettings, Stopped, SyncOutcome, Target,
    UpdateSender, ZonePublisher,
};
use zonefile::LoadSummary;

/// The saved copies of zones.
pub struct Copies {
    pub folder: PathBuf,
    /// Their writer.
    pub saver: Arc<ZoneSaver>,
    /// How long those stay whose zone the config does not name any more.
    pub saved_for: Arc<Mutex<Duration>>,
}

/// The source of the zones that the config names.
pub struct FileSource {
    pub registry: Arc<ZoneRegistry>,
    pub copies: Option<Copies>,
}

impl Source for FileSource {
    type Started = FileLoader;

    fn settings(&self) -> SourceSettings {
        let (name, kind) = (super::LOADER.to_owned(), SourceKind::File);
        SourceSettings { name, kind, lane: Lane::Normal, hold: HoldPolicy::Source }
    }

    fn start(self, updates: UpdateSender) -> FileLoader {
        let Self { registry, copies } = self;
        FileLoader { control: updates.publisher(), updates, registry, copies }
    }
}

/// Loads zone files and gives them to the zone manager.
pub struct FileLoader {
    control: ZonePublisher,
    updates: UpdateSender,
    registry: Arc<ZoneRegistry>,
    copies: Option<Copies>,
}

/// A zone's file as it was when reading began.
struct Read<'z> {
    zone: &'z ZoneFile,
    file: Option<FileId>,
    began: Instant,
}

impl FileLoader {
    /// Owns these zones; until one is loaded, it answers SERVFAIL (invariant I10).
    pub fn claim(&self, zones: &[ZoneFile]) {
        for ZoneFile { origin, file, .. } in zones {
            self.updates.claim(origin.clone(), Some(file.clone()));
        }
    }

    /// Publishes what was believed before.
    fn publish(&self, zone: impl Into<Arc<compile::Zone>>) {
        // The zone manager ends with the server.
        let _ = self.updates.sync_zone(zone, None).wait();
    }

    /// Publishes the saved copy of a zone, if there is one.
    fn publish_copy(&self, zone: &ZoneFile) {
        let origin = zone.origin.as_name();
        let Some(Copies { folder, .. }) = &self.copies else { return };
        let image = self.control.image();
        match saved::read(folder, origin, image.key()) {
            Ok(Some((copy, records))) => {
                let copy = with_views(copy, zone, image.key());
                let file = saved::path(folder, origin);
                let at = file.metadata().and_then(|found| found.modified());
                let at = at.unwrap_or_else(|_| SystemTime::now());
                let serial = copy.serial();
                let signatures = signature_span(&copy, seconds_now());
                self.publish(copy);
                self.registry.note_saved(origin, ContentInfo { serial, records, at, signatures });
                tracing::warn!(zone = %origin, file = %file.display(), serial, records,
                    "zone served from the copy saved when it was last good");
            }
            Ok(None) => {}
            Err(why) => tracing::error!(zone = %origin, "saved copy refused: {why}"),
        }
    }

    /// Lets a configured zone that cannot be loaded answer SERVFAIL, not the content of a zone
    /// above it or of a built-in one (invariant I10).
    fn publish_unloaded(&self, origin: Name<'_>) {
        let image = self.control.image();
        if image.zone(origin).is_none_or(|zone| zone.facts().loaded) {
            self.publish(compile::Zone::unloaded(Arc::clone(image.key()), origin));
        }
    }

    /// The content before, in this process or, by its copy, in an earlier one. `None`: there is
    /// nothing to lose, or it is meant to be replaced.
    fn before(
        &self,
        zone: &ZoneFile,
        arrival: WriteKind,
        old: Option<CopyNote>,
    ) -> Option<CopyNote> {
        let origin = zone.origin.as_name();
        match (arrival, self.registry.zone_state(origin)) {
            (WriteKind::Written, ZoneState::Unloaded) => None,
            (WriteKind::Written | WriteKind::Renamed, _) => old,
            // The config names another file of a zone that was served.
            (WriteKind::First, ZoneState::Current | ZoneState::Behind) => old,
            (WriteKind::First, ZoneState::Unloaded | ZoneState::Saved) => self.note(origin),
        }
    }

    /// The note of a zone's copy.
    fn note(&self, origin: Name<'_>) -> Option<CopyNote> {
        let copies = self.copies.as_ref()?;
        saved::note(&copies.folder, origin, self.control.image().key())
    }

    /// Whether a file may lose names without a hold: it was renamed into place, which a writer does
    /// once it is done, or it is new in the config.
    fn is_trusted(&self, zone: &ZoneFile, arrival: WriteKind, before: &CopyNote) -> bool {
        match (arrival, self.registry.zone_state(zone.origin.as_name())) {
            (WriteKind::Renamed, _) => true,
            (WriteKind::Written, _) => false,
            (WriteKind::First, ZoneState::Current | ZoneState::Behind) => true,
            // Renamed while no process watched it.
            (WriteKind::First, ZoneState::Unloaded | ZoneState::Saved) => {
                let file = FileId::of(&zone.file);
                before.file.zip(file).is_some_and(|(before, now)| !before.is_same_file(&now))
            }
        }
    }

    /// Whether this is what is served, or what the copy has.
    fn is_known(&self, new: &compile::Zone) -> bool {
        let image = self.control.image();
        match image.zone(new.origin()).filter(|old| old.facts().loaded) {
            Some(old) => saved::are_equal(old, new),
            None => {
                self.copies.as_ref().is_some_and(|copies| saved::is_current(&copies.folder, new))
            }
        }
    }

    /// What is known of how the new content of a zone came. `before` is the content that it
    /// replaces.
    fn evidence(
        &self,
        read: &Read<'_>,
        (new, cut_off): (&compile::Zone, Option<&zonefile::Error>),
        arrival: WriteKind,
        before: Option<&CopyNote>,
    ) -> Evidence {
        let is_whole = before.is_some_and(|before| self.is_trusted(read.zone, arrival, before));
        Evidence {
            arrival: if is_whole { Arrival::Whole } else { Arrival::InPlace },
            is_cut: cut_off.is_some() && !self.is_known(new),
            had: before.map(|before| before.names),
            has: CopyNote::new(new, None).names,
        }
    }

    /// Gives a zone that was read from its file to the zone manager; returns whether it is served.
    fn give(&self, read: &Read<'_>, new: Arc<compile::Zone>, evidence: Evidence) -> bool {
        let (zone, is_cut) = (read.zone, evidence.is_cut);
        let origin = zone.origin.as_name();
        let synced = self.updates.sync_zone(Arc::clone(&new), Some(evidence)).wait();
        match synced.map(|synced| synced.outcome) {
            Ok(SyncOutcome::Held(held)) if self.hold(read, held) => return false,
            Ok(SyncOutcome::Held(_)) => self.publish(new),
            Ok(SyncOutcome::Doubted) if !is_cut => {
                tracing::warn!(zone = %origin, file = %zone.file.display(),
                    names_served = evidence.had, names_in_file = evidence.has,
                    "the file has lost more than half of its names; it is served, because it was \
                     put into place as a whole");
            }
            Ok(SyncOutcome::Refused(why)) => {
                tracing::error!(zone = %origin, file = %zone.file.display(), "zone refused: {why}");
                return false;
            }
            Ok(SyncOutcome::Published | SyncOutcome::Doubted) | Err(Stopped) => {}
        }
        true
    }

    /// Keeps the content before, if there is any, because a zone's file is in doubt.
    fn hold(&self, read: &Read<'_>, held: HeldZone) -> bool {
        let zone = read.zone;
        let origin = zone.origin.as_name();
        if self.registry.zone_state(origin) == ZoneState::Unloaded {
            self.publish_copy(zone);
        }
        if self.registry.zone_state(origin) == ZoneState::Unloaded {
            self.updates.drop_held(&Target::Zone(zone.origin.clone()));
            return false;
        }
        self.registry.note_held(origin);
        // After a restart, the copy's note says that this file was held: hold it again.
        if let Some(Copies { saver, .. }) = &self.copies {
            saver.save(origin, read.file);
        }
        tracing::warn!(zone = %origin, file = %zone.file.display(), names_served = held.had,
            names_in_file = held.has,
            "zone held: its file {}; the zone as it was is served; `dunlin zones accept {origin}` \
             serves the file as it is", held.reason());
        true
    }

    /// Reports a zone that was read from its file and is served, and saves a copy.
    fn report(&self, read: Read<'_>, new: &compile::Zone, summary: &LoadSummary) {
        let Read { zone, file: id, began } = read;
        let origin = zone.origin.as_name();
        let (records, serial) = (summary.records, new.serial());
        let signatures = signature_span(new, seconds_now());
        let (generation, _) = self.control.published();
        let milliseconds = began.elapsed().as_millis() as u64;
        let at = SystemTime::now();
        self.registry.note_loaded(origin, ContentInfo { serial, records, at, signatures });
        let file = zone.file.display();
        tracing::info!(zone = %origin, %file, records, serial, generation, milliseconds,
            "zone loaded");
        if let Some(Copies { saver, .. }) = &self.copies {
            saver.save(origin, id);
        }
    }

    /// Warnings about the signatures of a zone that was published; none of an unsigned one.
    fn check_signatures(&self, zone: &ZoneFile) -> Vec<zonefile::Error> {
        let image = self.control.image();
        let served = image.zone(zone.origin.as_name()).filter(|served| served.facts().loaded);
        let check = |served: &Arc<compile::Zone>| {
            check_signatures(&zone.file, served, seconds_now(), VERIFIED_AT_LOAD_MAX)
        };
        served.and_then(check).map(|report| report.warnings).unwrap_or_default()
    }

    fn refuse(&self, zone: &ZoneFile, failure: &zonefile::LoadFailure) {
        let origin = zone.origin.as_name();
        for error in &failure.errors {
            tracing::error!(zone = %origin, rule = error.rule.id, "{error}");
        }
        self.updates.drop_held(&Target::Zone(zone.origin.clone()));
        self.registry.note_refused(origin, failure.errors.iter().map(ToString::to_string));
        if self.registry.zone_state(origin) == ZoneState::Unloaded {
            self.publish_copy(zone);
        }
        let instead = match self.registry.zone_state(origin) {
            ZoneState::Saved => "its saved copy is served until its file is corrected",
            ZoneState::Unloaded => {
                self.publish_unloaded(origin);
                "it answers SERVFAIL until its file is corrected"
            }
            ZoneState::Current | ZoneState::Behind => "the zone as it was is served",
        };
        tracing::error!(zone = %origin, errors = failure.errors.len(),
            "zone file refused: {instead}");
    }

    /// Loads the zone of a file; see [`crate::LoadHandler::load`].
    pub fn load(&mut self, zone: &ZoneFile, attempt: &mut LoadAttempt<'_>) -> Vec<PathBuf> {
        let origin = zone.origin.as_name();
        let reading = Read { zone, file: FileId::of(&zone.file), began: Instant::now() };
        let image = self.control.image();
        let old = image.zone(origin).filter(|old| old.facts().loaded);
        let before = old.map(|old| CopyNote::new(old, None));
        let read = load_with_views(zone, image.key(), old.map(|old| &**old));
        let is_changed = match (&read, old) {
            (Ok((new, _)), Some(old)) => !new.has_same_records(old),
            _ => false,
        };
        // Free the old zone when the new one is published.
        drop(image);
        if !attempt.is_whole() {
            return Vec::new();
        }
        let (new, summary) = match read {
            Ok(read) => read,
            Err(failure) => {
                self.refuse(zone, &failure);
                return failure.files;
            }
        };
        let arrival = attempt.arrival();
        let before = self.before(zone, arrival, before);
        let content = (&new, summary.cut_off.as_ref());
        let evidence = self.evidence(&reading, content, arrival, before.as_ref());
        let new = Arc::new(new);
        if !self.give(&reading, Arc::clone(&new), evidence) {
            return summary.files;
        }
        let serials = before.and_then(|before| before.serial).zip(new.serial());
        self.report(reading, &new, &summary);
        drop(new);
        let changed = serials.filter(|(old, new)| is_changed || old != new);
        let serial = changed.and_then(|(old, new)| check_serial(&zone.file, old, new));
        let signatures = self.check_signatures(zone);
        let read = summary.warnings.iter().chain(&summary.cut_off);
        for warning in read.chain(&serial).chain(&signatures) {
            tracing::warn!(zone = %origin, rule = warning.rule.id, "{warning}");
        }
        summary.files
    }

    /// Serves the saved copy of a zone; see [`crate::LoadHandler::serve_saved`].
    pub fn serve_saved(&mut self, zone: &ZoneFile) -> bool {
        let origin = zone.origin.as_name();
        if self.registry.zone_state(origin) == ZoneState::Unloaded {
            // A file that did not change since it was loaded is complete.
            if self.note(origin).is_some_and(|note| note.file == FileId::of(&zone.file)) {
                return false;
            }
            self.publish_copy(zone);
        }
        self.registry.zone_state(origin) != ZoneState::Unloaded
    }

    /// Notes a writer of a zone's file.
    pub fn set_writing(&mut self, zone: &ZoneFile, since: Option<SystemTime>) {
        let origin = zone.origin.as_name();
        self.registry.note_writing(origin, since);
        if since.is_some() {
            tracing::info!(zone = %origin, file = %zone.file.display(),
                "zone file is being written: it is loaded once it is complete");
        }
    }

    /// The zones from now on. Waits until the removed ones are gone.
    pub fn set_files(&mut self, zones: &[ZoneFile]) {
        for removed in self.registry.set(zones) {
            let Ok(origin) = NameBuf::from_text(removed.name.as_bytes(), Name::ROOT) else {
                continue;
            };
            self.updates.remove_zone(origin.as_name());
            tracing::info!(zone = %origin, "zone removed: the config does not name it any more");
        }
        self.claim(zones);
        self.control.wait(self.control.last());
        if let Some(Copies { saver, saved_for, .. }) = &self.copies {
            let saved_for = *super::lock(saved_for);
            saver.keep_only(zones.iter().map(|zone| zone.origin.as_name()), saved_for);
        }
    }
}

/// A copy of a zone with those of its views that can be loaded. The others answer SERVFAIL
/// (invariant I10).
fn with_views(copy: compile::Zone, zone: &ZoneFile, key: &Arc<HashKey>) -> compile::Zone {
    let views = zone.views.iter().map(|ViewFile { view, file }| {
        let loaded = load_view(file, &copy, key).inspect_err(|failure| {
            for error in &failure.errors {
                tracing::error!(zone = %zone.origin, rule = error.rule.id, "{error}");
            }
        });
        (*view, loaded.ok().map(|(sets, _)| sets))
    });
    let views = views.collect();
    copy.clone().with_views(views).unwrap_or(copy)
}

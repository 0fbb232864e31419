//! Zone files, hosts files and built-in zones as sources of the zone manager.
use crate::local::{self, BuiltInZones};
use crate::zones::hosts::HostsFiles;
use crate::zones::registry::{ContentInfo, ZoneRegistry};
use source_file::saved::{self, CopyNote, FileId};
use source_file::{
    FilesToLoad, LoadAttempt, LoadHandler, LoadedHosts, VERIFIED_AT_LOAD_MAX, WriteKind, ZoneFile,
    ZoneSaver, check_serial, check_signatures, load, load_hosts, seconds_now, signature_span,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use wire::{Name, NameBuf};
use zone_manager::hold::{Arrival, Evidence, HeldZone};
use zone_manager::status::ZoneState;
use zone_manager::{
    HoldPolicy, Lane, Sequence, SourceKind, SourceSettings, Stopped, SyncOutcome, Target,
    UpdateSender, ZonePublisher,
};
use zonefile::LoadSummary;

/// The senders of the three sources of this thread.
pub struct Updates {
    files: UpdateSender,
    hosts: UpdateSender,
    built_in: UpdateSender,
}

impl Updates {
    /// Registers the sources.
    pub fn new(publisher: &ZonePublisher) -> Self {
        let register = |(name, kind): (&str, _)| {
            let (lane, hold) = (Lane::Normal, HoldPolicy::Source);
            publisher.start_source(SourceSettings { name: name.to_owned(), kind, lane, hold })
        };
        Self {
            files: register((super::LOADER, SourceKind::File)),
            hosts: register(("hosts-files", SourceKind::Hosts)),
            built_in: register(("built-in", SourceKind::BuiltIn)),
        }
    }

    /// Owns these zones; until one is loaded, it answers SERVFAIL (invariant I10).
    pub fn claim(&self, zones: &[ZoneFile]) {
        for ZoneFile { origin, file } in zones {
            self.files.claim(origin.clone(), Some(file.clone()));
        }
    }
}

/// The saved copies of zones.
pub struct Copies {
    pub folder: PathBuf,
    /// Their writer.
    pub saver: Arc<ZoneSaver>,
    /// How long those stay whose zone the config does not name any more.
    pub saved_for: Arc<Mutex<Duration>>,
}

/// The state of the thread that loads zones.
pub struct FileZones {
    control: ZonePublisher,
    updates: Updates,
    registry: Arc<ZoneRegistry>,
    copies: Option<Copies>,
    /// Which built-in zones the config asks for.
    wanted: Arc<Mutex<BuiltInZones>>,
    /// The built-in zones that were passed to the zone manager.
    built_in: Vec<NameBuf>,
    hosts: Arc<HostsFiles>,
}

/// A zone's file as it was when reading began.
struct Read<'z> {
    zone: &'z ZoneFile,
    file: Option<FileId>,
    began: Instant,
}

impl FileZones {
    /// No zones.
    pub fn new(
        control: ZonePublisher,
        updates: Updates,
        registry: Arc<ZoneRegistry>,
        copies: Option<Copies>,
        wanted: Arc<Mutex<BuiltInZones>>,
        hosts: Arc<HostsFiles>,
    ) -> Self {
        Self { control, updates, registry, copies, wanted, built_in: Vec::new(), hosts }
    }

    /// Publishes what was believed before.
    fn publish(&self, zone: impl Into<Arc<compile::Zone>>) {
        // The zone manager ends with the server.
        let _ = self.updates.files.sync_zone(zone, None).wait();
    }

    /// Waits until the last of several updates is published.
    fn wait(&self, last: Option<Sequence>) {
        last.and_then(|sequence| self.control.wait(sequence));
    }

    /// Publishes the saved copy of a zone, if there is one.
    fn publish_copy(&self, origin: Name<'_>) {
        let Some(Copies { folder, .. }) = &self.copies else { return };
        let image = self.control.image();
        match saved::read(folder, origin, image.key()) {
            Ok(Some((zone, records))) => {
                let file = saved::path(folder, origin);
                let at = file.metadata().and_then(|found| found.modified());
                let at = at.unwrap_or_else(|_| SystemTime::now());
                let serial = zone.serial();
                let signatures = signature_span(&zone, seconds_now());
                self.publish(zone);
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
        let synced = self.updates.files.sync_zone(Arc::clone(&new), Some(evidence)).wait();
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
            self.publish_copy(origin);
        }
        if self.registry.zone_state(origin) == ZoneState::Unloaded {
            self.updates.files.drop_held(&Target::Zone(zone.origin.clone()));
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

    /// Gives the content of a hosts file to the zone manager; returns whether it is served.
    fn give_hosts(&self, file: &Path, loaded: LoadedHosts, arrival: WriteKind) -> bool {
        let LoadedHosts { zone, names, cut_off } = loaded;
        let Some(layer) = self.hosts.layer(file) else { return false };
        let old = self.updates.hosts.content(&layer);
        let is_known = |old: &Arc<compile::Zone>| saved::are_equal(old, &zone);
        let is_whole = arrival == WriteKind::Renamed;
        let evidence = Evidence {
            arrival: if is_whole { Arrival::Whole } else { Arrival::InPlace },
            is_cut: cut_off.is_some() && !old.as_ref().is_some_and(is_known),
            had: old.and_then(|_| self.hosts.names(file)),
            has: names,
        };
        let synced = self.updates.hosts.sync(layer, zone, Some(evidence)).wait();
        let Ok(SyncOutcome::Held(held)) = synced.map(|synced| synced.outcome) else {
            self.hosts.put(file, names);
            return true;
        };
        self.hosts.hold(file);
        let file = file.display();
        tracing::warn!(%file, names_served = held.had, names_in_file = held.has,
            "hosts file held: it {}; its content before is served; `dunlin zones accept {file}` \
             serves it as it is", held.reason());
        false
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
        self.updates.files.drop_held(&Target::Zone(zone.origin.clone()));
        self.registry.note_refused(origin, failure.errors.iter().map(ToString::to_string));
        if self.registry.zone_state(origin) == ZoneState::Unloaded {
            self.publish_copy(origin);
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

    /// The built-in zones that the config asks for, beside these zones.
    fn wanted(&self, zones: &[ZoneFile]) -> Vec<NameBuf> {
        let configured: Vec<NameBuf> = zones.iter().map(|zone| zone.origin.clone()).collect();
        super::lock(&self.wanted).names(&configured).collect()
    }

    /// Passes built-in zones to the zone manager that it does not have yet.
    pub fn put_built_in(&mut self, zones: &[ZoneFile]) {
        let key = self.control.key();
        for name in self.wanted(zones) {
            if !self.built_in.contains(&name) {
                let zone = local::load(&key, name.as_name());
                // Configured zones go before it; it takes the place of a removed one.
                drop(self.updates.built_in.sync_zone(zone, None));
                self.built_in.push(name);
            }
        }
    }
}

impl LoadHandler for FileZones {
    fn load(&mut self, zone: &ZoneFile, attempt: &mut LoadAttempt<'_>) -> Vec<PathBuf> {
        let origin = zone.origin.as_name();
        let reading = Read { zone, file: FileId::of(&zone.file), began: Instant::now() };
        let image = self.control.image();
        let old = image.zone(origin).filter(|old| old.facts().loaded);
        let before = old.map(|old| CopyNote::new(old, None));
        let read = load(&zone.file, origin, image.key(), old.map(|old| &**old));
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

    fn serve_saved(&mut self, zone: &ZoneFile) -> bool {
        let origin = zone.origin.as_name();
        if self.registry.zone_state(origin) == ZoneState::Unloaded {
            // A file that did not change since it was loaded is complete.
            if self.note(origin).is_some_and(|note| note.file == FileId::of(&zone.file)) {
                return false;
            }
            self.publish_copy(origin);
        }
        self.registry.zone_state(origin) != ZoneState::Unloaded
    }

    fn set_writing(&mut self, zone: &ZoneFile, since: Option<SystemTime>) {
        let origin = zone.origin.as_name();
        self.registry.note_writing(origin, since);
        if since.is_some() {
            tracing::info!(zone = %origin, file = %zone.file.display(),
                "zone file is being written: it is loaded once it is complete");
        }
    }

    fn load_hosts(&mut self, file: &Path, attempt: &mut LoadAttempt<'_>) {
        let began = Instant::now();
        let layer = self.hosts.layer(file);
        let content = || self.updates.hosts.content(layer.as_ref()?);
        let old = content();
        let key = self.control.key();
        let read = load_hosts(file, self.hosts.ttl(), &key, old.as_deref());
        // Free the old content when the new one is published.
        drop(old);
        if !attempt.is_whole() {
            return;
        }
        match read {
            Ok(loaded) => {
                let (names, warning) = (loaded.names, loaded.cut_off.clone());
                if !self.give_hosts(file, loaded, attempt.arrival()) {
                    return;
                }
                let (generation, _) = self.control.published();
                let milliseconds = began.elapsed().as_millis() as u64;
                let file = file.display();
                tracing::info!(%file, names, generation, milliseconds, "hosts file loaded");
                if let Some(warning) = &warning {
                    tracing::warn!(rule = warning.rule.id, "{warning}");
                }
            }
            Err(failure) => {
                let errors = failure.errors.len();
                for error in &failure.errors {
                    tracing::error!(rule = error.rule.id, "{error}");
                }
                layer.iter().for_each(|layer| self.updates.hosts.drop_held(layer));
                self.hosts.refuse(file, failure.errors.iter().map(ToString::to_string));
                let instead = match content() {
                    Some(_) => "its content before is served",
                    None => "its names are not served until it is corrected",
                };
                tracing::error!(file = %file.display(), errors, "hosts file refused: {instead}");
            }
        }
    }

    fn set_files(&mut self, FilesToLoad { zones, hosts }: &FilesToLoad) {
        self.hosts.set(hosts);
        self.updates.hosts.set_layers(hosts.clone());
        // A built-in zone takes the place of a removed one at once.
        self.put_built_in(zones);
        for removed in self.registry.set(zones) {
            let Ok(origin) = NameBuf::from_text(removed.name.as_bytes(), Name::ROOT) else {
                continue;
            };
            self.updates.files.remove_zone(origin.as_name());
            tracing::info!(zone = %origin, "zone removed: the config does not name it any more");
        }
        self.updates.claim(zones);
        self.wait(Some(self.control.last()));
        if let Some(Copies { saver, saved_for, .. }) = &self.copies {
            let saved_for = *super::lock(saved_for);
            saver.keep_only(zones.iter().map(|zone| zone.origin.as_name()), saved_for);
        }
    }

    /// Built-in zones are removed once the zones in their place are loaded.
    fn settle(&mut self, zones: &[ZoneFile]) {
        let (wanted, mut last) = (self.wanted(zones), None);
        let updates = &self.updates;
        self.built_in.retain(|name| {
            let is_wanted = wanted.contains(name);
            if !is_wanted {
                last = Some(updates.built_in.remove_zone(name.as_name()));
            }
            is_wanted
        });
        self.wait(last);
    }
}

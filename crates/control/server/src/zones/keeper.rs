//! Loads zones into the image, or what was saved of them, and takes them out of it.
use crate::limits::MAILBOX_PATIENCE;
use crate::local::{self, Locals};
use crate::zones::hosts::Shelf;
use crate::zones::registry::{Loaded, Registry};
use source_file::saved::{self, CopyNote, FileId};
use source_file::{
    FilesToLoad, LoadAttempt, LoadHandler, WriteKind, ZoneFile, ZoneSaver, check_serial, load,
    load_hosts,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};
use wire::{Name, NameBuf};
use zone_manager::hold::HeldZone;
use zone_manager::status::ZoneState;
use zone_manager::{Sequence, UpdateQueueFull, ZonePublisher};
use zonefile::LoadSummary;

/// What the thread that loads zones has.
pub struct ZoneKeeper {
    control: ZonePublisher,
    registry: Arc<Registry>,
    /// Where copies are, and who writes them.
    copies: Option<(PathBuf, Arc<ZoneSaver>)>,
    /// Which local zones are wanted.
    locals: Arc<Mutex<Locals>>,
    /// What hosts files say.
    shelf: Arc<Shelf>,
}

/// A zone's file as it was when it began to be read.
struct Read<'z> {
    zone: &'z ZoneFile,
    file: Option<FileId>,
    began: Instant,
}

impl ZoneKeeper {
    /// A keeper without zones.
    pub fn new(
        control: ZonePublisher,
        registry: Arc<Registry>,
        copies: Option<(PathBuf, Arc<ZoneSaver>)>,
        locals: Arc<Mutex<Locals>>,
        shelf: Arc<Shelf>,
    ) -> Self {
        Self { control, registry, copies, locals, shelf }
    }

    /// Puts a zone into the image and waits until it is published; its generation.
    fn publish(&self, zone: compile::Zone) -> u64 {
        self.wait(Some(self.put(|| self.control.put_zone(zone.clone()))))
    }

    /// Tries again while the mailbox is full: control empties it all the time.
    fn put(&self, put: impl Fn() -> Result<Sequence, UpdateQueueFull>) -> Sequence {
        loop {
            match put() {
                Ok(ticket) => return ticket,
                Err(UpdateQueueFull) => std::thread::sleep(MAILBOX_PATIENCE),
            }
        }
    }

    /// Has answered what the hosts files say, and whose names are asked anew; the generation.
    fn publish_hosts(&self) -> u64 {
        let hosts = self.shelf.zones();
        self.wait(Some(self.put(|| self.control.put_hosts(hosts.clone()))))
    }

    /// Waits until the last of several changes is published.
    fn wait(&self, last: Option<Sequence>) -> u64 {
        last.and_then(|ticket| self.control.wait(ticket)).unwrap_or_default()
    }

    /// Serves what was saved of a zone, if that can be had.
    fn publish_copy(&self, origin: Name<'_>) {
        let Some((folder, _)) = &self.copies else { return };
        let image = self.control.image();
        match saved::read(folder, origin, image.key()) {
            Ok(Some((zone, records))) => {
                let file = saved::path(folder, origin);
                let at = file.metadata().and_then(|found| found.modified());
                let at = at.unwrap_or_else(|_| SystemTime::now());
                let serial = zone.serial();
                self.publish(zone);
                self.registry.note_saved(origin, Loaded { serial, records, at });
                tracing::warn!(zone = %origin, file = %file.display(), serial, records,
                    "zone served from the copy saved when it was last good");
            }
            Ok(None) => {}
            Err(why) => tracing::error!(zone = %origin, "saved copy refused: {why}"),
        }
    }

    /// Makes sure that a configured zone which cannot be had answers SERVFAIL, and not what a
    /// zone above it or a local zone says (invariant I10).
    fn publish_unloaded(&self, origin: Name<'_>) {
        let image = self.control.image();
        if image.zone(origin).is_none_or(|zone| zone.facts().loaded) {
            self.publish(compile::Zone::unloaded(Arc::clone(image.key()), origin));
        }
    }

    /// What was served of a zone before, in this process or, as far as its copy tells, in an
    /// earlier one; nothing: there is nothing to lose, or it is meant to be replaced.
    fn before(
        &self,
        zone: &ZoneFile,
        arrival: WriteKind,
        old: Option<CopyNote>,
    ) -> Option<CopyNote> {
        let origin = zone.origin.as_name();
        match (arrival, self.registry.state(origin)) {
            (WriteKind::Written, ZoneState::Unloaded) => None,
            (WriteKind::Written | WriteKind::Renamed, _) => old,
            // The config names another file of a zone that was served.
            (WriteKind::First, ZoneState::Current | ZoneState::Behind) => old,
            (WriteKind::First, ZoneState::Unloaded | ZoneState::Saved) => self.note(origin),
        }
    }

    /// What the copy of a zone says of it.
    fn note(&self, origin: Name<'_>) -> Option<CopyNote> {
        let (folder, _) = self.copies.as_ref()?;
        saved::note(folder, origin, self.control.image().key())
    }

    /// Whether a file may lose names without being held: it was renamed into place, which a writer
    /// does once it is done, or the config names it newly.
    fn is_trusted(&self, zone: &ZoneFile, arrival: WriteKind, before: &CopyNote) -> bool {
        match (arrival, self.registry.state(zone.origin.as_name())) {
            (WriteKind::Renamed, _) => true,
            (WriteKind::Written, _) => false,
            (WriteKind::First, ZoneState::Current | ZoneState::Behind) => true,
            // Renamed while no process watched: it is another file than was seen last.
            (WriteKind::First, ZoneState::Unloaded | ZoneState::Saved) => {
                let file = FileId::of(&zone.file);
                before.file.zip(file).is_some_and(|(before, now)| !before.is_same_file(&now))
            }
        }
    }

    /// Has what was served before go on, if that can be had, since a zone's file has lost too much.
    fn hold(&self, read: &Read<'_>, held: HeldZone) -> bool {
        let zone = read.zone;
        let origin = zone.origin.as_name();
        if self.registry.state(origin) == ZoneState::Unloaded {
            self.publish_copy(origin);
        }
        if self.registry.state(origin) == ZoneState::Unloaded {
            self.control.holds().release(origin);
            return false;
        }
        self.registry.note_held(origin);
        // A restart is to know that it was this file that lost so much, and hold it again.
        if let Some((_, saver)) = &self.copies {
            saver.save(origin, read.file);
        }
        tracing::warn!(zone = %origin, file = %zone.file.display(), names_served = held.had,
            names_in_file = held.has,
            "zone held: its file has lost more than half of its names, so the zone as it was goes \
             on; `dunlin zones accept {origin}` serves the file as it is");
        true
    }

    /// Serves a zone that was read from its file, and has it saved.
    fn serve(&self, read: Read<'_>, new: compile::Zone, summary: &LoadSummary) {
        let Read { zone, file: id, began } = read;
        let origin = zone.origin.as_name();
        let (records, serial) = (summary.records, new.serial());
        let generation = self.publish(new);
        let milliseconds = began.elapsed().as_millis() as u64;
        let at = SystemTime::now();
        self.registry.note_loaded(origin, Loaded { serial, records, at });
        let file = zone.file.display();
        tracing::info!(zone = %origin, %file, records, serial, generation, milliseconds,
            "zone loaded");
        if let Some((_, saver)) = &self.copies {
            saver.save(origin, id);
        }
    }

    fn refused(&self, zone: &ZoneFile, failure: &zonefile::LoadFailure) {
        let origin = zone.origin.as_name();
        for error in &failure.errors {
            tracing::error!(zone = %origin, rule = error.rule.id, "{error}");
        }
        self.control.holds().release(origin);
        self.registry.note_refused(origin, failure.errors.iter().map(ToString::to_string));
        if self.registry.state(origin) == ZoneState::Unloaded {
            self.publish_copy(origin);
        }
        let instead = match self.registry.state(origin) {
            ZoneState::Saved => "what was saved of it is served until its file is put right",
            ZoneState::Unloaded => {
                self.publish_unloaded(origin);
                "it answers SERVFAIL until its file is put right"
            }
            ZoneState::Current | ZoneState::Behind => "the zone as it was goes on",
        };
        tracing::error!(zone = %origin, errors = failure.errors.len(),
            "zone file refused: {instead}");
    }

    /// The local zones that are served, and those that should be, beside these zones.
    fn locals(&self, zones: &[ZoneFile]) -> (Vec<NameBuf>, Vec<NameBuf>) {
        let configured: Vec<NameBuf> = zones.iter().map(|zone| zone.origin.clone()).collect();
        let known = |name: &NameBuf| self.registry.knows(name.as_name());
        let image = self.control.image();
        let is_served = |name: &NameBuf| image.zone(name.as_name()).is_some();
        let locals = super::lock(&self.locals);
        let shown = locals
            .candidates()
            .filter(|name| !configured.contains(name) && !known(name) && is_served(name));
        (shown.collect(), locals.names(&configured).collect())
    }
}

impl LoadHandler for ZoneKeeper {
    fn load(&mut self, zone: &ZoneFile, attempt: &mut LoadAttempt<'_>) -> Vec<PathBuf> {
        let origin = zone.origin.as_name();
        let reading = Read { zone, file: FileId::of(&zone.file), began: Instant::now() };
        let image = self.control.image();
        let old = image.zone(origin).filter(|old| old.facts().loaded);
        let before = old.map(|old| CopyNote::new(old, None));
        let read = load(&zone.file, origin, image.key(), old.map(|old| &**old));
        // The old zone is not to be held by us as well while the new one is published.
        drop(image);
        if !attempt.is_whole() {
            return Vec::new();
        }
        let (new, summary) = match read {
            Ok(read) => read,
            Err(failure) => {
                self.refused(zone, &failure);
                return failure.files;
            }
        };
        let arrival = attempt.arrival();
        let before = self.before(zone, arrival, before);
        match before.as_ref().filter(|before| !self.is_trusted(zone, arrival, before)) {
            None => self.control.holds().release(origin),
            Some(before) => {
                let names = CopyNote::new(&new, None).names;
                let held = self.control.holds().judge(origin, before.names, names);
                if held.is_some_and(|held| self.hold(&reading, held)) {
                    return summary.files;
                }
            }
        }
        let serials = before.and_then(|before| before.serial).zip(new.serial());
        self.serve(reading, new, &summary);
        let changed = serials.filter(|(old, new)| old != new);
        let serial = changed.and_then(|(old, new)| check_serial(&zone.file, old, new));
        for warning in summary.warnings.iter().chain(&serial) {
            tracing::warn!(zone = %origin, rule = warning.rule.id, "{warning}");
        }
        summary.files
    }

    fn serve_saved(&mut self, zone: &ZoneFile) -> bool {
        let origin = zone.origin.as_name();
        if self.registry.state(origin) == ZoneState::Unloaded {
            // A file that is as it was when it was read whole is whole.
            if self.note(origin).is_some_and(|note| note.file == FileId::of(&zone.file)) {
                return false;
            }
            self.publish_copy(origin);
        }
        self.registry.state(origin) != ZoneState::Unloaded
    }

    fn set_writing(&mut self, zone: &ZoneFile, since: Option<SystemTime>) {
        let origin = zone.origin.as_name();
        self.registry.note_writing(origin, since);
        if since.is_some() {
            tracing::info!(zone = %origin, file = %zone.file.display(),
                "zone file is being written: it is loaded once it is whole");
        }
    }

    fn load_hosts(&mut self, file: &Path, attempt: &mut LoadAttempt<'_>) {
        let began = Instant::now();
        let old = self.shelf.zone(file);
        let key = Arc::clone(self.control.image().key());
        let read = load_hosts(file, self.shelf.ttl(), &key, old.as_deref());
        // It is not to be held by us as well while the new one is published.
        drop(old);
        if !attempt.is_whole() {
            return;
        }
        match read {
            Ok((zone, names)) => {
                self.shelf.put(file, zone, names);
                let generation = self.publish_hosts();
                let milliseconds = began.elapsed().as_millis() as u64;
                let file = file.display();
                tracing::info!(%file, names, generation, milliseconds, "hosts file loaded");
            }
            Err(failure) => {
                let errors = failure.errors.len();
                for error in &failure.errors {
                    tracing::error!(rule = error.rule.id, "{error}");
                }
                self.shelf.refuse(file, failure.errors.iter().map(ToString::to_string));
                let instead = match self.shelf.zone(file) {
                    Some(_) => "what it said before goes on",
                    None => "its names are nowhere until it is put right",
                };
                tracing::error!(file = %file.display(), errors, "hosts file refused: {instead}");
            }
        }
    }

    fn set_files(&mut self, FilesToLoad { zones, hosts }: &FilesToLoad) {
        self.shelf.set(hosts);
        self.publish_hosts();
        let (shown, wanted) = self.locals(zones);
        let key = Arc::clone(self.control.image().key());
        let mut last = None;
        for gone in self.registry.set(zones) {
            let Ok(origin) = NameBuf::from_text(gone.name.as_bytes(), Name::ROOT) else { continue };
            self.control.holds().release(origin.as_name());
            // A local zone takes its place at once.
            if !wanted.contains(&origin) {
                last = Some(self.put(|| self.control.remove_zone(origin.as_name())));
            }
            tracing::info!(zone = %origin, "zone taken away: the config names it no more");
        }
        for name in wanted.iter().filter(|name| !shown.contains(name)) {
            let zone = local::load(&key, name.as_name());
            last = Some(self.put(|| self.control.put_zone(zone.clone())));
        }
        self.wait(last);
        if let Some((_, saver)) = &self.copies {
            saver.keep_only(zones.iter().map(|zone| zone.origin.as_name()));
        }
    }

    /// Local zones go when what stands in their place is there.
    fn settle(&mut self, zones: &[ZoneFile]) {
        let (shown, wanted) = self.locals(zones);
        let mut last = None;
        for name in shown.iter().filter(|name| !wanted.contains(name)) {
            last = Some(self.put(|| self.control.remove_zone(name.as_name())));
        }
        self.wait(last);
    }
}

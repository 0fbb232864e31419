//! Loads zones into the image, or what was saved of them, and takes them out of it.
use crate::limits::MAILBOX_PATIENCE;
use crate::local::{self, Locals};
use crate::zones::hosts::Shelf;
use crate::zones::registry::{Loaded, Registry};
use control::status::ZoneState;
use control::{Control, MailboxFull, Ticket};
use source_file::{Files, Keeper, Saver, ZoneFile, load, load_hosts, saved};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};
use wire::{Name, NameBuf};

/// What the thread that loads zones has.
pub struct ZoneKeeper {
    control: Control,
    registry: Arc<Registry>,
    /// Where copies are, and who writes them.
    copies: Option<(PathBuf, Arc<Saver>)>,
    /// Which local zones are wanted.
    locals: Arc<Mutex<Locals>>,
    /// What hosts files say.
    shelf: Arc<Shelf>,
}

impl ZoneKeeper {
    /// A keeper without zones.
    pub fn new(
        control: Control,
        registry: Arc<Registry>,
        copies: Option<(PathBuf, Arc<Saver>)>,
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
    fn put(&self, put: impl Fn() -> Result<Ticket, MailboxFull>) -> Ticket {
        loop {
            match put() {
                Ok(ticket) => return ticket,
                Err(MailboxFull) => std::thread::sleep(MAILBOX_PATIENCE),
            }
        }
    }

    /// Has answered what the hosts files say, and whose names are asked anew; the generation.
    fn publish_hosts(&self) -> u64 {
        let hosts = self.shelf.zones();
        self.wait(Some(self.put(|| self.control.put_hosts(hosts.clone()))))
    }

    /// Waits until the last of several changes is published.
    fn wait(&self, last: Option<Ticket>) -> u64 {
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

    fn refused(&self, zone: &ZoneFile, failure: &zonefile::Failure) {
        let origin = zone.origin.as_name();
        for error in &failure.errors {
            tracing::error!(zone = %origin, rule = error.rule.id, "{error}");
        }
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

impl Keeper for ZoneKeeper {
    fn load(&mut self, zone: &ZoneFile) -> Vec<PathBuf> {
        let origin = zone.origin.as_name();
        let began = Instant::now();
        let image = self.control.image();
        let old = image.zone(origin).filter(|old| old.facts().loaded);
        let read = load(&zone.file, origin, image.key(), old.map(|old| &**old));
        // The old zone is not to be held by us as well while the new one is published.
        drop(image);
        match read {
            Ok((new, summary)) => {
                let (records, serial) = (summary.records, new.serial());
                let generation = self.publish(new);
                let milliseconds = began.elapsed().as_millis() as u64;
                let at = SystemTime::now();
                self.registry.note_loaded(origin, Loaded { serial, records, at });
                let file = zone.file.display();
                tracing::info!(zone = %origin, %file, records, serial, generation, milliseconds,
                    "zone loaded");
                for warning in &summary.warnings {
                    tracing::warn!(zone = %origin, rule = warning.rule.id, "{warning}");
                }
                if let Some((_, saver)) = &self.copies {
                    saver.save(origin);
                }
                summary.files
            }
            Err(failure) => {
                self.refused(zone, &failure);
                failure.files
            }
        }
    }

    fn load_hosts(&mut self, file: &Path) {
        let began = Instant::now();
        let old = self.shelf.zone(file);
        let key = Arc::clone(self.control.image().key());
        let read = load_hosts(file, self.shelf.ttl(), &key, old.as_deref());
        // It is not to be held by us as well while the new one is published.
        drop(old);
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

    fn set_files(&mut self, Files { zones, hosts }: &Files) {
        self.shelf.set(hosts);
        self.publish_hosts();
        let (shown, wanted) = self.locals(zones);
        let key = Arc::clone(self.control.image().key());
        let mut last = None;
        for gone in self.registry.set(zones) {
            let Ok(origin) = NameBuf::from_text(gone.name.as_bytes(), Name::ROOT) else { continue };
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

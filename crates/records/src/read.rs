//! What can be asked of the desk: sets, zones, the journal. Who asks is told of all that was
//! answered before, and may wait for the store to have it at hand; nobody who asks how much there
//! is waits.
//!
//! Zones of the store are read from the store, so that a set and its revision are of one moment;
//! those of others from the image.
use crate::desk::{Desk, refused};
use crate::limits::{JOURNAL_PAGE_MAX, PAGE_LOOKED_AT_MAX, PAGE_OCTETS_MAX, PAGE_SETS_MAX};
use crate::zones::{key, served};
use crate::{
    Filter, Held, JournalEntry, Owner, Page, Refused, Revision, SetKey, SetValue, StoredSet,
    StoredZone, View, ZoneInfo,
};
use compile::Zone;
use image::Tree;
use std::collections::HashSet;
use std::io::Write;
use std::ops::ControlFlow;
use wire::{Name, NameBuf, Rtype};

/// A part of a zone's journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// What was written, the oldest first.
    pub entries: Vec<JournalEntry>,
    /// From behind this revision nothing is missing; what was before it may be gone.
    pub whole_after: Revision,
    /// Whether there are more behind them.
    pub more: bool,
}

impl Desk {
    /// How much there is in the store, or was a second ago.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn held(&self) -> Result<Held, Refused> {
        self.0.reader.held().map_err(refused)
    }

    /// The newest revision on the disk.
    ///
    /// # Errors
    /// When the store cannot be read; so below.
    pub fn revision(&self) -> Result<Revision, Refused> {
        self.0.reader.revision().map_err(refused)
    }

    /// All zones, whoever has them, in canonical order.
    pub fn zones(&self) -> Result<Vec<ZoneInfo>, Refused> {
        let image = self.0.control.image();
        let stored = self.0.reader.zones().map_err(refused)?;
        let known: HashSet<_> = stored.iter().map(|zone| key(zone.origin.as_name())).collect();
        let others = image.zones().filter(|zone| {
            let origin = zone.origin();
            let is_foreign = || self.0.others.owner(origin).is_some();
            !known.contains(&key(origin)) && (is_foreign() || self.0.built_in(origin).is_some())
        });
        let mut zones: Vec<ZoneInfo> = others.map(|zone| self.info(zone.origin(), None)).collect();
        zones.extend(stored.iter().map(|zone| self.info(zone.origin.as_name(), Some(zone))));
        zones.sort_by(|a, b| a.origin.as_name().canonical_cmp(b.origin.as_name()));
        Ok(zones)
    }

    /// One zone.
    pub fn zone(&self, origin: Name<'_>) -> Result<Option<ZoneInfo>, Refused> {
        let stored = self.0.reader.zone(origin).map_err(refused)?;
        let is_there = || {
            stored.is_some()
                || self.0.others.owner(origin).is_some()
                || self.0.built_in(origin).is_some()
        };
        Ok(is_there().then(|| self.info(origin, stored.as_ref())))
    }

    fn info(&self, origin: Name<'_>, stored: Option<&StoredZone>) -> ZoneInfo {
        let owner = self.owner(origin, stored.is_some());
        let stored = stored.filter(|_| owner == Owner::Store);
        let serial = self.0.control.image().zone(origin).and_then(|zone| zone.serial());
        let mut origin = NameBuf::from(origin);
        origin.make_lowercase();
        ZoneInfo {
            origin,
            owner,
            revision: stored.map_or(Revision::NONE, |stored| stored.revision),
            serial,
            sets: stored.map(|stored| stored.sets),
        }
    }

    fn owner(&self, origin: Name<'_>, is_stored: bool) -> Owner {
        let otherwise = if is_stored { Owner::Store } else { Owner::BuiltIn };
        self.0.others.owner(origin).unwrap_or(otherwise)
    }

    /// The zone as it is answered, if it is not the store's.
    fn foreign(&self, origin: Name<'_>) -> Result<Option<std::sync::Arc<Zone>>, Refused> {
        let is_stored = self.0.reader.zone(origin).map_err(refused)?.is_some();
        match self.owner(origin, is_stored) {
            Owner::Store => Ok(None),
            Owner::BuiltIn => Ok(self.0.built_in(origin)),
            Owner::File(_) => match self.0.control.image().zone(origin) {
                // It is not empty: nobody knows what it holds (invariant I10).
                Some(zone) if zone.serial().is_none() => Err(Refused::Unloaded),
                zone => Ok(zone.cloned()),
            },
        }
    }

    /// One set; nothing where it is not there.
    ///
    /// # Errors
    /// When there is no such zone, or the store cannot be read; so below.
    pub fn set(&self, set: &SetKey) -> Result<Option<StoredSet>, Refused> {
        let zone = set.zone.as_name();
        if let Some(foreign) = self.foreign(zone)? {
            let found = foreign.set(set.name.as_name(), set.rtype);
            let (key, revision) = (set.clone(), Revision::NONE);
            return Ok(found.map(|found| StoredSet { key, value: found.into(), revision }));
        }
        let stored = self.0.reader.zone(zone).map_err(refused)?.ok_or(Refused::NoSuchZone)?;
        let found = self.0.reader.set(set).map_err(refused)?;
        Ok(found.map(|(revision, value)| {
            served(StoredSet { key: set.clone(), value, revision }, stored.revision)
        }))
    }

    /// The sets of a zone that pass a filter, from behind one of them or from the first: at most
    /// `limit`, and fewer where many do not pass.
    pub fn page(
        &self,
        origin: Name<'_>,
        after: Option<&SetKey>,
        filter: &Filter,
        limit: usize,
    ) -> Result<Page, Refused> {
        let mut pager = Pager::new(origin, filter, limit);
        if let Some(foreign) = self.foreign(origin)? {
            pager.walk(&foreign, after);
            return Ok(pager.page);
        }
        let scanned = self.0.reader.scan(origin, after, &mut |set| {
            pager.take(set.name, set.rtype, set.revision, || set.value.to_value())
        });
        let zone = scanned.map_err(refused)?.ok_or(Refused::NoSuchZone)?;
        let Page { sets, next } = pager.page;
        let sets = sets.into_iter().map(|set| served(set, zone.revision));
        Ok(Page { sets: sets.collect(), next })
    }

    /// What was written to a zone after a revision, the oldest first: at most `limit`, and fewer
    /// where they are large. A zone that is not the
    /// store's has no journal.
    pub fn journal(
        &self,
        origin: Name<'_>,
        after: Revision,
        limit: usize,
    ) -> Result<Journal, Refused> {
        if self.foreign(origin)?.is_some() {
            return Err(Refused::NotTheOwner { owner: self.owner(origin, false) });
        }
        let limit = limit.min(JOURNAL_PAGE_MAX);
        // The newest entry has the revision of its zone. What comes after this is for the next.
        let zone = self.0.reader.zone(origin).map_err(refused)?.ok_or(Refused::NoSuchZone)?;
        let found = self.0.reader.journal(origin, after, limit).map_err(refused)?;
        let (entries, whole_after) = found.ok_or(Refused::NoSuchZone)?;
        let more = entries.last().is_some_and(|last: &JournalEntry| last.revision < zone.revision);
        Ok(Journal { entries, whole_after, more })
    }

    /// Writes all zones of the store as they are now, while it is served and written.
    pub fn snapshot(&self, to: &mut dyn Write) -> Result<Revision, Refused> {
        self.0.reader.snapshot(to).map_err(refused)
    }
}

/// Fills a page.
struct Pager<'f> {
    origin: NameBuf,
    filter: &'f Filter,
    limit: usize,
    looked_at: usize,
    octets: usize,
    page: Page,
}

impl<'f> Pager<'f> {
    fn new(origin: Name<'_>, filter: &'f Filter, limit: usize) -> Self {
        let mut origin = NameBuf::from(origin);
        origin.make_lowercase();
        let limit = limit.clamp(1, PAGE_SETS_MAX);
        Self { origin, filter, limit, looked_at: 0, octets: 0, page: Page::default() }
    }

    /// Takes a set if it passes; says whether there is room for more.
    fn take(
        &mut self,
        name: &[u8],
        rtype: Rtype,
        revision: Revision,
        value: impl FnOnce() -> SetValue,
    ) -> ControlFlow<()> {
        let Ok(name) = NameBuf::joined(name, self.origin.as_name()) else {
            return ControlFlow::Continue(());
        };
        let key = SetKey { zone: self.origin.clone(), name, rtype, view: View::Default };
        self.looked_at += 1;
        if self.passes(&key) {
            let value = value();
            self.octets += value.data.iter().map(|data| data.len()).sum::<usize>();
            self.page.sets.push(StoredSet { key: key.clone(), value, revision });
        }
        let is_full = self.page.sets.len() >= self.limit || self.octets >= PAGE_OCTETS_MAX;
        if is_full || self.looked_at >= PAGE_LOOKED_AT_MAX {
            self.page.next = Some(key);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn passes(&self, key: &SetKey) -> bool {
        let Filter { prefix, rtype } = self.filter;
        rtype.is_none_or(|rtype| rtype == key.rtype)
            && (prefix.is_empty() || relative(key).starts_with(prefix.as_str()))
    }

    /// The sets of a zone in the image.
    fn walk(&mut self, zone: &Zone, after: Option<&SetKey>) {
        let names = zone.names();
        let after = after.and_then(|key| Some((zone.relative(key.name.as_name())?, key.rtype)));
        let first = after.as_ref().map_or(0, |(name, _)| names.rank(name));
        for node in (first..names.len()).filter_map(|rank| names.at(rank)) {
            let is_behind = |rtype: Rtype| {
                after.as_ref().is_none_or(|(name, last)| node.name() != *name || rtype > *last)
            };
            for set in node.sets().filter(|set| is_behind(set.rtype())) {
                let (name, rtype, value) = (node.name(), set.rtype(), || set.into());
                if self.take(name, rtype, Revision::NONE, value).is_break() {
                    return;
                }
            }
        }
    }
}

/// A set's name as it is written relative to its zone: `@` for the origin itself.
fn relative(key: &SetKey) -> String {
    let (name, zone) = (key.name.as_name(), key.zone.as_name());
    if name == zone {
        return "@".into();
    }
    let mut octets = name.octets()[..name.len() - zone.len()].to_vec();
    octets.push(0);
    let text = Name::parse(&octets).map(|name| name.to_string()).unwrap_or_default();
    text.strip_suffix('.').unwrap_or(&text).to_owned()
}

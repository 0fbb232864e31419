//! Reads: sets, zones, the journal. A read sees all answered writes, and may wait for the store;
//! reading sizes never waits.
//!
//! Zones of the store are read from the store, so that a set and its revision are consistent.
//! Others are read from the image.
use crate::limits::{JOURNAL_PAGE_MAX, PAGE_BYTES_MAX, PAGE_LOOKED_AT_MAX, PAGE_SETS_MAX};
use crate::service::RecordService;
use crate::zones::{key, served};
use crate::{
    JournalEntry, JournalPart, Refused, Revision, SetFilter, SetKey, SetPage, SetValue, StoreSize,
    StoredSet, StoredZone, View, ZoneInfo, ZoneOwner,
};
use compile::Zone;
use image::Tree;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::io::Write;
use std::iter::successors;
use std::ops::ControlFlow;
use store::serial::SerialStamp;
use wire::{Name, NameBuf, Rtype};

/// A part of a zone's journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPage {
    /// Writes, the oldest first.
    pub entries: Vec<JournalEntry>,
    /// The journal is complete after this revision; earlier entries may be missing.
    /// [`Revision::NONE`]: it is complete.
    pub whole_after: Revision,
    /// Whether there are more entries.
    pub more: bool,
}

impl RecordService {
    /// The size of the store, up to a second old.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn held(&self) -> Result<StoreSize, Refused> {
        self.read(|reader| reader.held())
    }

    /// The newest durable revision.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn revision(&self) -> Result<Revision, Refused> {
        self.read(|reader| reader.revision())
    }

    /// Zones after a name, or all, that `accept` accepts, in canonical order: at most `limit`, and
    /// whether there are more. With built-in ones on request.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn zones(
        &self,
        after: Option<Name<'_>>,
        limit: usize,
        with_built_in: bool,
        accept: impl Fn(Name<'_>) -> bool,
    ) -> Result<(Vec<ZoneInfo>, bool), Refused> {
        let is_wanted = |origin: Name<'_>| {
            let is_behind = |after| origin.canonical_cmp(after) == Ordering::Greater;
            after.is_none_or(is_behind) && accept(origin)
        };
        let mut stored = Vec::new();
        self.read(|reader| {
            stored.clear();
            reader.scan_zones(after, &mut |zone| {
                if accept(zone.origin.as_name()) {
                    stored.push(zone);
                }
                if stored.len() > limit {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
        })?;
        let mut origins = self.0.foreign_origins();
        if with_built_in {
            let image = self.0.publisher.image();
            let built_in = image.zones().filter(|zone| self.0.built_in(zone.origin()).is_some());
            origins.extend(built_in.map(|zone| NameBuf::from(zone.origin())));
        }
        origins.retain(|origin| is_wanted(origin.as_name()));
        let known: HashSet<_> = stored.iter().map(|zone| key(zone.origin.as_name())).collect();
        origins.retain(|origin| !known.contains(&key(origin.as_name())));
        let mut all: Vec<(NameBuf, Option<StoredZone>)> =
            origins.into_iter().map(|origin| (origin, None)).collect();
        all.extend(stored.into_iter().map(|zone| (zone.origin.clone(), Some(zone))));
        all.sort_by(|(a, _), (b, _)| a.as_name().canonical_cmp(b.as_name()));
        let has_more = all.len() > limit;
        all.truncate(limit);
        let next = self.revision()?.next();
        let info = |(origin, zone): &(NameBuf, Option<StoredZone>)| {
            self.info(origin.as_name(), zone.as_ref(), next)
        };
        Ok((all.iter().map(info).collect(), has_more))
    }

    /// One zone.
    pub fn zone(&self, origin: Name<'_>) -> Result<Option<ZoneInfo>, Refused> {
        // A failed store does not affect other zones (invariant I11).
        if self.0.foreign_owner(origin).is_some() {
            return Ok(Some(self.info(origin, None, Revision::NONE)));
        }
        let stored = self.read(|reader| reader.zone(origin))?;
        let is_there = || stored.is_some() || self.0.built_in(origin).is_some();
        let next = self.revision()?.next();
        Ok(is_there().then(|| self.info(origin, stored.as_ref(), next)))
    }

    fn info(&self, origin: Name<'_>, stored: Option<&StoredZone>, next: Revision) -> ZoneInfo {
        let owner = self.owner(origin, stored.is_some());
        let stored = stored.filter(|_| owner == ZoneOwner::Store);
        let serial = self.0.publisher.image().zone(origin).and_then(|zone| zone.serial());
        let mut origin = NameBuf::from(origin);
        origin.make_lowercase();
        ZoneInfo {
            origin,
            owner,
            revision: stored.map_or(Revision::NONE, |stored| stored.stamp.revision),
            serial,
            next_serial: stored.map(|stored| next.serial(stored.stamp.offset)),
            sets: stored.map(|stored| stored.sets),
        }
    }

    fn owner(&self, origin: Name<'_>, is_stored: bool) -> ZoneOwner {
        let otherwise = if is_stored { ZoneOwner::Store } else { ZoneOwner::BuiltIn };
        self.0.foreign_owner(origin).unwrap_or(otherwise)
    }

    /// The served zone if it is not the store's.
    fn foreign(&self, origin: Name<'_>) -> Result<Option<std::sync::Arc<Zone>>, Refused> {
        let is_stored = || self.read(|reader| Ok(reader.zone(origin)?.is_some()));
        let owner = match self.0.foreign_owner(origin) {
            Some(owner) => owner,
            None => self.owner(origin, is_stored()?),
        };
        match owner {
            ZoneOwner::Store => Ok(None),
            ZoneOwner::BuiltIn => Ok(self.0.built_in(origin)),
            ZoneOwner::File(_) | ZoneOwner::Source(_) => {
                match self.0.publisher.image().zone(origin) {
                    // Not empty: its content is unknown (invariant I10).
                    Some(zone) if zone.serial().is_none() => Err(Refused::Unloaded),
                    zone => Ok(zone.cloned()),
                }
            }
        }
    }

    /// One set; `None` if it does not exist.
    ///
    /// # Errors
    /// The zone does not exist, or the store cannot be read.
    pub fn set(&self, set: &SetKey) -> Result<Option<StoredSet>, Refused> {
        let zone = set.zone.as_name();
        if let Some(foreign) = self.foreign(zone)? {
            if set.view != View::DEFAULT {
                return Ok(None);
            }
            let found = foreign.set(set.name.as_name(), set.rtype);
            let (key, revision) = (set.clone(), Revision::NONE);
            return Ok(found.map(|found| StoredSet { key, value: found.into(), revision }));
        }
        let stored = self.read(|reader| reader.zone(zone))?.ok_or(Refused::NoSuchZone)?;
        let found = self.read(|reader| reader.set(set))?;
        Ok(found.map(|(revision, value)| {
            served(StoredSet { key: set.clone(), value, revision }, stored.stamp)
        }))
    }

    /// Sets of a zone that pass a filter, after a set or from the first: at most `limit`, fewer if
    /// many do not pass.
    pub fn page(
        &self,
        origin: Name<'_>,
        after: Option<&SetKey>,
        filter: &SetFilter,
        limit: usize,
    ) -> Result<SetPage, Refused> {
        let mut pager = PageFiller::new(origin, filter, limit);
        let start = pager.start(after);
        let after = start.as_ref();
        if let Some(foreign) = self.foreign(origin)? {
            pager.walk(&foreign, after);
            return Ok(pager.page);
        }
        let scanned = self.read(|reader| {
            reader.scan(origin, after, &mut |_, set| {
                let id = (set.view, set.rtype);
                pager.take(set.name, id, set.revision, || set.value.to_value())
            })
        });
        let zone = scanned?.ok_or(Refused::NoSuchZone)?;
        let SetPage { sets, next, .. } = pager.page;
        let sets = sets.into_iter().map(|set| served(set, zone.stamp));
        Ok(SetPage { sets: sets.collect(), next, revision: zone.stamp.revision })
    }

    /// Passes all sets of a zone at one moment to `each`: the SOA, then the ownership in canonical
    /// order, each with the zone's revision ([`Revision::NONE`] outside of the store). `each` may
    /// stop it. Meanwhile the store cannot reuse freed space, so `each` must end in bounded time.
    ///
    /// # Errors
    /// The zone does not exist or was never loaded, or the store cannot be read.
    pub fn export(
        &self,
        origin: Name<'_>,
        each: &mut dyn FnMut(Revision, StoredSet) -> ControlFlow<()>,
    ) -> Result<(), Refused> {
        let mut origin = NameBuf::from(origin);
        origin.make_lowercase();
        // Sets at the origin with types that sort before SOA.
        let mut early = Some(Vec::new());
        let mut take =
            |zone: Option<SerialStamp>, name: &[u8], (view, rtype), revision, value: SetValue| {
                let Ok(name) = NameBuf::joined(name, origin.as_name()) else {
                    return ControlFlow::Continue(());
                };
                let key = SetKey { zone: origin.clone(), name, rtype, view };
                let mut set = StoredSet { key, value, revision };
                if let Some(zone) = zone {
                    set = served(set, zone);
                }
                let zone = zone.map_or(Revision::NONE, |zone| zone.revision);
                let is_early = rtype < Rtype::SOA && set.key.name.as_name() == origin.as_name();
                if let Some(waiting) = early.as_mut().filter(|_| is_early) {
                    waiting.push(set);
                    return ControlFlow::Continue(());
                }
                each(zone, set)?;
                early.take().into_iter().flatten().try_for_each(|set| each(zone, set))
            };
        if let Some(foreign) = self.foreign(origin.as_name())? {
            let names = foreign.names();
            for node in (0..names.len()).filter_map(|rank| names.at(rank)) {
                for set in node.sets() {
                    let rtype = set.rtype();
                    let id = (View::DEFAULT, rtype);
                    if take(None, node.name(), id, Revision::NONE, set.into()).is_break() {
                        return Ok(());
                    }
                }
            }
            return Ok(());
        }
        let scanned = self.read(|reader| {
            reader.scan(origin.as_name(), None, &mut |zone, set| {
                let id = (set.view, set.rtype);
                take(Some(zone.stamp), set.name, id, set.revision, set.value.to_value())
            })
        });
        scanned?.map(drop).ok_or(Refused::NoSuchZone)
    }

    /// Writes to a zone after a revision, the oldest first: at most `limit`, fewer if they are
    /// large. Without a revision, from the first stored one. The journal of a deleted zone is kept
    /// for a while. Zones outside of the store have none.
    ///
    /// # Errors
    /// As above, or entries after the revision are no longer stored, or the store has not reached
    /// it.
    pub fn journal(
        &self,
        origin: Name<'_>,
        after: Option<Revision>,
        limit: usize,
    ) -> Result<JournalPage, Refused> {
        if self.foreign(origin)?.is_some() {
            return Err(Refused::NotTheOwner { owner: self.owner(origin, false) });
        }
        let limit = limit.min(JOURNAL_PAGE_MAX);
        let after_or_none = after.unwrap_or(Revision::NONE);
        let found = self.read(|reader| reader.journal(origin, after_or_none, limit));
        let JournalPart { entries, whole_after, newest } = found?.ok_or(Refused::NoSuchZone)?;
        if let Some(after) = after {
            if after < whole_after {
                return Err(Refused::JournalCut { whole_after });
            }
            // The revision may belong to another zone and be newer than all of this one.
            let newest = if after > newest { self.revision()? } else { newest };
            if after > newest {
                return Err(Refused::JournalAhead { newest });
            }
        }
        let more = entries.last().is_some_and(|last| last.revision < newest);
        Ok(JournalPage { entries, whole_after, more })
    }

    /// Writes a snapshot of all zones, while they are served and written.
    pub fn snapshot(&self, to: &mut dyn Write) -> Result<Revision, Refused> {
        self.read(|reader| reader.snapshot(to))
    }
}

/// How a name relates to the requested prefix, from the first match on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrefixMatch {
    /// It has the prefix.
    Passes,
    /// It is below a name with the prefix.
    Deeper,
    /// It sorts after all names with the prefix.
    Behind,
}

struct PageFiller<'f> {
    origin: NameBuf,
    filter: &'f SetFilter,
    limit: usize,
    looked_at: usize,
    bytes: usize,
    page: SetPage,
}

impl<'f> PageFiller<'f> {
    fn new(origin: Name<'_>, filter: &'f SetFilter, limit: usize) -> Self {
        let mut origin = NameBuf::from(origin);
        origin.make_lowercase();
        let limit = limit.clamp(1, PAGE_SETS_MAX);
        Self { origin, filter, limit, looked_at: 0, bytes: 0, page: SetPage::default() }
    }

    /// Adds a set if it passes; returns whether there is room for more.
    fn take(
        &mut self,
        name: &[u8],
        (view, rtype): (View, Rtype),
        revision: Revision,
        value: impl FnOnce() -> SetValue,
    ) -> ControlFlow<()> {
        let Ok(name) = NameBuf::joined(name, self.origin.as_name()) else {
            return ControlFlow::Continue(());
        };
        let key = SetKey { zone: self.origin.clone(), name, rtype, view };
        let found = self.compare(key.name.as_name());
        // Names are in canonical order from the first possible match on.
        if found == PrefixMatch::Behind {
            return ControlFlow::Break(());
        }
        self.looked_at += 1;
        let is_type = self.filter.rtype.is_none_or(|wanted| wanted == rtype);
        let is_type = is_type && view == self.filter.view;
        if found == PrefixMatch::Passes && is_type {
            let value = value();
            self.bytes += value.data.iter().map(|data| data.len()).sum::<usize>();
            self.page.sets.push(StoredSet { key: key.clone(), value, revision });
        }
        let is_full = self.page.sets.len() >= self.limit || self.bytes >= PAGE_BYTES_MAX;
        if is_full || self.looked_at >= PAGE_LOOKED_AT_MAX {
            self.page.next = Some(key);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// The key after which the page begins: `after`, or the key before the first name with the
    /// prefix, whichever is later.
    fn start(&self, after: Option<&SetKey>) -> Option<SetKey> {
        let Some(prefix) = &self.filter.prefix else { return after.cloned() };
        let is_later = |after: &&SetKey| {
            after.name.as_name().canonical_cmp(prefix.as_name()) != Ordering::Less
        };
        if let Some(after) = after.filter(is_later) {
            return Some(after.clone());
        }
        // No record has type 0 (RFC 6895 §3.1).
        let (zone, name) = (self.origin.clone(), prefix.clone());
        Some(SetKey { zone, name, rtype: Rtype(0), view: View::DEFAULT })
    }

    fn compare(&self, name: Name<'_>) -> PrefixMatch {
        let Some(prefix) = &self.filter.prefix else { return PrefixMatch::Passes };
        let prefix = prefix.as_name();
        if prefix == self.origin.as_name() {
            return if name == prefix { PrefixMatch::Passes } else { PrefixMatch::Behind };
        }
        let (depth, wanted) = (name.labels().count(), prefix.labels().count());
        let Some(below) = depth.checked_sub(wanted) else { return PrefixMatch::Behind };
        let Some(at) = successors(Some(name), |name| name.parent()).nth(below) else {
            return PrefixMatch::Behind;
        };
        let first = |name: Name<'_>| name.labels().next().unwrap_or_default().to_ascii_lowercase();
        match at.parent() == prefix.parent() && first(at).starts_with(&first(prefix)) {
            true if below == 0 => PrefixMatch::Passes,
            true => PrefixMatch::Deeper,
            false => PrefixMatch::Behind,
        }
    }

    /// Adds sets of a zone in the image.
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
                if self.take(name, (View::DEFAULT, rtype), Revision::NONE, value).is_break() {
                    return;
                }
            }
        }
    }
}

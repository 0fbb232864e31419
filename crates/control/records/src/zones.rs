//! The zones of the store with all taken writes. They share their content with the image, so there
//! is not a second copy.
use crate::digest::{self, ZoneDigest};
use crate::views::{KnownViews, ViewChanges, ZoneViews, parts_of};
use crate::{Reader, StoreError, StoredSet, StoredZone, View, WrittenSet};
use compile::{Names, ViewSets};
use compile::{OrderedLoader, SetChange, Zone, ZoneProblem};
use image::{HashKey, RecordSet};
use image::{Node, Tree};
use model::BrokenRule;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::serial::SerialStamp;
use wire::{Name, NameBuf, Rtype};

/// Bytes of the numbers after the names of an SOA; the serial is the first (RFC 1035 §3.3.13).
const SOA_NUMBERS_LEN: usize = 20;

/// A zone and its last revision.
#[derive(Clone)]
pub struct ZoneHead {
    /// As it is served: with the views that clients may have.
    pub zone: Zone,
    /// The sets of all views, also of those that no client has.
    pub views: ZoneViews,
    /// The views that are laid over the zone, with their numbers.
    laid: Vec<(View, compile::View)>,
    pub stamp: SerialStamp,
    /// The sum over its records.
    records: u64,
}

/// All zones, by lower-case origin.
pub type ZoneHeads = HashMap<Box<[u8]>, ZoneHead>;

/// The key of a zone.
pub fn key(origin: Name<'_>) -> Box<[u8]> {
    origin.as_bytes().to_ascii_lowercase().into()
}

/// The serial in the data of an SOA.
pub fn serial_of(data: &[u8]) -> Option<u32> {
    let numbers = data.last_chunk::<SOA_NUMBERS_LEN>()?;
    numbers.first_chunk().copied().map(u32::from_be_bytes)
}

/// Replaces the serial in the data of an SOA.
pub fn with_serial(data: &[u8], serial: u32) -> Box<[u8]> {
    let mut data: Box<[u8]> = data.into();
    if let Some(numbers) = data.last_chunk_mut::<SOA_NUMBERS_LEN>() {
        numbers[..4].copy_from_slice(&serial.to_be_bytes());
    }
    data
}

/// A set as served. The SOA of a zone has the zone's last revision, because every write changes its
/// serial.
pub fn served(mut set: StoredSet, zone: SerialStamp) -> StoredSet {
    if set.key.rtype == Rtype::SOA {
        set.revision = zone.revision;
        set.value.data.iter_mut().for_each(|data| *data = with_serial(data, zone.serial()));
    }
    set
}

impl ZoneHead {
    /// A zone that was just made.
    pub fn new(zone: Zone, stamp: SerialStamp) -> Self {
        let records = digest::of_zone(&zone);
        Self { zone, views: ZoneViews::default(), laid: Vec::new(), stamp, records }
    }

    /// Its digest; of none if it was never loaded.
    pub fn digest(&self, at: &[u8]) -> ZoneDigest {
        let records = self.zone.serial().map(|_| self.records);
        ZoneDigest::new(at, self.stamp, records)
    }

    /// A set.
    pub fn set(&self, view: View, name: Name<'_>, rtype: Rtype) -> Option<RecordSet<'_>> {
        match view {
            View::DEFAULT => self.zone.set(name, rtype),
            view => self.views.get(view)?.set(&self.zone.relative(name)?, rtype),
        }
    }

    /// How many sets it has, with those of views.
    pub fn count(&self) -> usize {
        let views = self.views.iter().map(|(_, sets)| sets.names());
        let names = [self.zone.names()].into_iter().chain(views);
        names.flat_map(all_nodes).map(|node| node.sets().count()).sum()
    }

    /// The sum over the records of the sets that changes concern.
    fn digest_of<R>(&self, ViewChanges { view, changes, .. }: &ViewChanges<'_, R>) -> u64 {
        match (*view, self.views.get(*view)) {
            (View::DEFAULT, _) => digest::of_changed(View::DEFAULT, self.zone.names(), changes),
            (view, Some(sets)) => digest::of_changed(view, sets.names(), changes),
            (_, None) => 0,
        }
    }

    /// Changes the zone and its views, all or nothing. `change` changes the zone itself.
    ///
    /// # Errors
    /// What is wrong. The place is the number of a change.
    pub fn change<R: AsRef<[u8]>>(
        &mut self,
        parts: &[ViewChanges<'_, R>],
        known: &KnownViews,
        change: impl Fn(&mut Zone, &[SetChange<'_, R>]) -> Result<(), ZoneProblem>,
    ) -> Result<(), ZoneProblem> {
        let before = self.clone();
        let changed = self.change_parts(parts, known, change);
        changed.inspect_err(|_| *self = before)
    }

    fn change_parts<R: AsRef<[u8]>>(
        &mut self,
        parts: &[ViewChanges<'_, R>],
        known: &KnownViews,
        change: impl Fn(&mut Zone, &[SetChange<'_, R>]) -> Result<(), ZoneProblem>,
    ) -> Result<(), ZoneProblem> {
        for part in parts {
            let before = self.digest_of(part);
            let changed = match part.view {
                View::DEFAULT => change(&mut self.zone, &part.changes),
                view => self.views.change(&self.zone, view, &part.changes),
            };
            changed.map_err(|problem| part.placed(problem))?;
            let after = self.digest_of(part);
            self.records = self.records.wrapping_sub(before).wrapping_add(after);
        }
        // What only a view has is named as that of the view.
        for part in parts.iter().rev() {
            let is_of = |view| part.view == View::DEFAULT || part.view == view;
            for (view, sets) in self.views.iter().filter(|(view, _)| is_of(*view)) {
                let checked = self.zone.check_view(sets, &part.names());
                checked.map_err(|problem| part.placed(of_view(*view, problem)))?;
            }
        }
        for part in parts.iter().filter(|part| part.view != View::DEFAULT) {
            self.lay(part.view, &part.names(), known).map_err(|what| {
                part.placed(ZoneProblem { place: None, rule: BrokenRule::LIMIT, what })
            })?;
        }
        Ok(())
    }

    /// Lays the sets of a view over the zone, which differ at these names.
    fn lay(&mut self, view: View, names: &[&[u8]], known: &KnownViews) -> Result<(), String> {
        let Some(number) = known.number(view) else { return Ok(()) };
        let none;
        let sets = match self.views.get(view) {
            Some(sets) => sets,
            None => {
                none = ViewSets::none(Arc::clone(self.zone.names().key()));
                &none
            }
        };
        self.zone.put_view(number, sets, names)?;
        if !self.laid.contains(&(view, number)) {
            self.laid.push((view, number));
        }
        Ok(())
    }

    /// Lays all views over the zone anew, if clients may have others than before.
    pub fn lay_known(&mut self, known: &KnownViews) {
        let number = |(view, _): &(View, _)| Some((*view, known.number(*view)?));
        let wanted: Vec<_> = self.views.iter().filter_map(number).collect();
        let laid = self.laid.iter().filter(|(view, _)| self.views.get(*view).is_some());
        if wanted.len() == laid.clone().count() && laid.clone().all(|one| wanted.contains(one)) {
            return;
        }
        let sets = |(view, number): &(View, _)| Some((*number, self.views.get(*view).cloned()));
        let views = wanted.iter().filter_map(sets).collect();
        match self.zone.clone().with_views(views) {
            Ok(zone) => (self.zone, self.laid) = (zone, wanted),
            Err(why) => {
                tracing::error!("the views of {} are not served: {why}", self.zone.origin())
            }
        }
    }

    /// Reads a zone of the store.
    ///
    /// # Errors
    /// The zone cannot be read, or is not valid.
    pub fn load(
        reader: &dyn Reader,
        stored: &StoredZone,
        key: &Arc<HashKey>,
        known: &KnownViews,
    ) -> Result<Self, StoreError> {
        let origin = stored.origin.as_name();
        let mut loader = OrderedLoader::new(Arc::clone(key), origin);
        let (mut wrong, mut of_views) = (None, Vec::new());
        reader.scan(origin, None, &mut |_, set| {
            if set.view != View::DEFAULT {
                let (name, rtype, view) = (set.name.into(), set.rtype, set.view);
                let after = Some(set.value.to_value());
                of_views.push(WrittenSet { name, rtype, view, before: None, after });
                return ControlFlow::Continue(());
            }
            let (ttl, rules) = (set.value.ttl, set.value.rules);
            match loader.add(set.name, set.rtype, ttl, set.value.records(), rules) {
                Ok(()) => ControlFlow::Continue(()),
                Err(why) => {
                    wrong = Some(why);
                    ControlFlow::Break(())
                }
            }
        })?;
        let failed = |why: ZoneProblem| StoreError::Failed(why.to_string());
        let zone = match wrong {
            Some(why) => return Err(failed(why)),
            None => loader.finish().map_err(failed)?,
        };
        let mut head = Self::new(zone, stored.stamp);
        head.change(&parts_of(&of_views), known, Zone::change_all).map_err(failed)?;
        head.set_serial();
        Ok(head)
    }

    /// Sets the serial of the SOA to the stamp's.
    pub fn set_serial(&mut self) {
        let serial = self.stamp.serial();
        if self.zone.serial() == Some(serial) {
            return;
        }
        let origin = NameBuf::from(self.zone.origin());
        let Some(soa) = self.zone.set(origin.as_name(), Rtype::SOA) else { return };
        let (ttl, rules) = (soa.ttl(), soa.rules().to_vec());
        let records: Vec<_> = soa.records().map(|data| with_serial(data, serial)).collect();
        let set = Some((ttl, &records[..]));
        self.zone
            .change_all(&[SetChange { name: &[], rtype: Rtype::SOA, set, rules }])
            .expect("another serial makes no other zone of it");
    }
}

/// A problem of a view with its name.
fn of_view(view: View, problem: ZoneProblem) -> ZoneProblem {
    ZoneProblem { what: format!("in the view {view}: {}", problem.what), ..problem }
}

/// All names, in canonical order.
pub fn all_nodes(names: &Names) -> impl Iterator<Item = Node<'_>> {
    (0..names.len()).filter_map(|rank| names.at(rank))
}

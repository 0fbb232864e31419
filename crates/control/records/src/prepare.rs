//! Validates batches and applies them to their zones, before anything is written.
use crate::views::{KnownViews, by_view, parts_of};
use crate::zones::{ZoneHead, all_nodes, serial_of, with_serial};
use crate::{
    Action, Batch, Deletion, Edit, EditKind, InvalidEdit, Policy, PreparedWrite, Refused, Revision,
    SetKey, SetValue, SetWarning, View, WrittenSet, views, wildcards,
};
use compile::{Loader, Zone, ZoneProblem};
use image::HashKey;
use model::BrokenRule;
use std::sync::Arc;
use std::time::SystemTime;
use store::limits::{EDITS_MAX, JOURNAL_DATA_MAX, JOURNAL_EDITS_MAX, JOURNAL_NAMES_MAX};
use store::serial::{SerialStamp, is_newer, offset_after};
use wire::{Name, NameBuf, Rtype, canonical_cmp};
use zone_manager::validate::{self, relative};

/// The SOA of a new zone without one, in seconds: TTL, refresh, retry, expire, negative answers
/// (RIPE-203, but shorter negative answers, as fleets change fast).
const SOA_TTL: u32 = 300;
const SOA_SECONDS: [u32; 4] = [7_200, 1_800, 1_209_600, 60];

/// When a set was last written.
pub type LastWriteLookup<'w> = &'w dyn Fn(&SetKey) -> Result<Revision, Refused>;

fn invalid(edit: usize, field: &'static str, rule: BrokenRule, what: impl Into<String>) -> Refused {
    Refused::Invalid(InvalidEdit { edit, field, rule, what: what.into() })
}

/// Earlier contents of sets, as far as the journal stores them.
struct PreviousSets {
    is_kept: bool,
    bytes: usize,
    of_sets: Vec<Option<SetValue>>,
}

impl PreviousSets {
    fn new(sets: usize) -> Self {
        Self { is_kept: sets <= JOURNAL_EDITS_MAX, bytes: 0, of_sets: Vec::new() }
    }

    /// Adds the content of the next set. Above the limit, keeps only whether the set existed.
    fn push(&mut self, held: Option<image::RecordSet<'_>>) {
        self.bytes += held.map_or(0, |set| set.data().len());
        if self.is_kept && self.bytes > JOURNAL_DATA_MAX {
            self.is_kept = false;
            self.of_sets.iter_mut().flatten().for_each(|value| *value = SetValue::UNKEPT);
        }
        let is_kept = self.is_kept;
        let keep = |set| if is_kept { SetValue::from(set) } else { SetValue::UNKEPT };
        self.of_sets.push(held.map(keep));
    }
}

/// Whether an edit changes nothing: the set has this content, or is already missing. `serial` is
/// the zone's: an SOA with a newer one is a change.
fn is_done(edit: &Edit, held: Option<&image::RecordSet<'_>>, serial: u32) -> bool {
    match (&edit.put, held) {
        (None, None) => true,
        (Some(value), Some(set)) => {
            set.rules() == value.policy.pack() && holds(set, value.ttl, &value.data, serial)
        }
        _ => false,
    }
}

/// Whether a set has this TTL and these records, in any order. SOA serials older than the zone's
/// are ignored.
fn holds<D: AsRef<[u8]>>(set: &image::RecordSet<'_>, ttl: u32, data: &[D], serial: u32) -> bool {
    if set.ttl() != ttl || set.count() != data.len() {
        return false;
    }
    if set.rtype() == Rtype::SOA {
        let plain = |data: &[u8]| with_serial(data, 0);
        // A serial of 0 has no meaning, as in `offset_after`.
        let raises = |data: &D| {
            serial_of(data.as_ref()).is_some_and(|given| given != 0 && is_newer(given, serial))
        };
        return set.records().map(plain).eq(data.iter().map(|data| plain(data.as_ref())))
            && !data.iter().any(raises);
    }
    validate::has(set, data)
}

/// Applies a batch to its zone; a refused batch does not modify it. Returns the changes in
/// canonical order, with earlier contents only where the journal stores them; and warnings.
pub fn change(
    head: &mut ZoneHead,
    batch: &mut Batch,
    last_written: LastWriteLookup<'_>,
    known: &KnownViews,
) -> Result<(Vec<WrittenSet>, Vec<SetWarning>), Refused> {
    if head.zone.serial().is_none() {
        return Err(Refused::Unloaded);
    }
    let (origin, serial) = (NameBuf::from(head.zone.origin()), head.stamp.serial());
    let order = check(&mut batch.edits, origin.as_name())?;
    let mut found = Vec::with_capacity(order.len());
    for index in order {
        let Edit { name, rtype, view, .. } = &batch.edits[index];
        let held = head.set(*view, name.as_name(), *rtype);
        expect(batch, index, held.as_ref(), last_written)?;
        resolve(&mut batch.edits[index], held, origin.as_name())
            .map_err(|why| Refused::Invalid(InvalidEdit { edit: index, ..why }))?;
        start_ramps(&mut batch.edits[index], held);
        let edit = &batch.edits[index];
        if !is_done(edit, held.as_ref(), serial) {
            if edit.put.is_some() {
                known.check(index, edit.view)?;
            }
            found.push((index, held));
        }
    }
    if found.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let warnings = wildcards::check(&head.zone, batch, found.iter().map(|(number, _)| *number))?;
    let mut before = PreviousSets::new(found.len());
    found.iter().for_each(|(_, held)| before.push(*held));
    let done: Vec<usize> = found.into_iter().map(|(index, _)| index).collect();
    let changes = done.iter().map(|index| {
        let edit = &batch.edits[*index];
        let name = relative(edit.name.as_name(), origin.as_name());
        let set = edit.put.as_ref().map(|value| (value.ttl, &value.data[..]));
        let rules = edit.put.as_ref().map(|value| value.policy.pack()).unwrap_or_default();
        (edit.view, compile::SetChange { name, rtype: edit.rtype, set, rules })
    });
    head.change(&by_view(changes), known, change_zone).map_err(
        |ZoneProblem { place, rule, what }| {
            let index = place.and_then(|place| done.get(place as usize));
            invalid(index.copied().unwrap_or_default(), "edits", rule, what)
        },
    )?;
    let changes = done.into_iter().zip(before.of_sets).map(|(index, before)| {
        let edit = &mut batch.edits[index];
        let name = relative(edit.name.as_name(), origin.as_name()).into();
        let (rtype, view, after) = (edit.rtype, edit.view, edit.put.take());
        WrittenSet { name, rtype, view, before, after }
    });
    Ok((changes.collect(), warnings))
}

/// Applies changes, all or none. Writes of earlier versions, which this does not see, may have put
/// records below a DNAME record.
fn change_zone<R: AsRef<[u8]>>(
    zone: &mut Zone,
    changes: &[compile::SetChange<'_, R>],
) -> Result<(), ZoneProblem> {
    let before = zone.may_hide(changes).then(|| zone.clone());
    zone.change_all(changes)?;
    let Some(before) = before else { return Ok(()) };
    zone.check_dnames(changes).inspect_err(|_| *zone = before)
}

/// Makes of an edit of members the whole set as it will be, so that clients need not read it.
fn resolve(
    edit: &mut Edit,
    held: Option<image::RecordSet<'_>>,
    origin: Name<'_>,
) -> Result<(), InvalidEdit> {
    if edit.kind == EditKind::Replace {
        return Ok(());
    }
    let given = edit.put.take().unwrap_or(SetValue::UNKEPT);
    let mut value = match (edit.kind, held.map(SetValue::from)) {
        (_, Some(held)) => held,
        (EditKind::Take, None) => SetValue::UNKEPT,
        (_, None) => SetValue::new(given.ttl, Vec::new()),
    };
    match edit.kind {
        EditKind::Take => value.take(&given.data),
        _ => value.add(given),
    }
    edit.kind = EditKind::Replace;
    edit.put = Some(value).filter(SetValue::is_kept);
    let is_change = edit.put.is_some() || held.is_some();
    if is_change { validate::edit(edit, origin) } else { Ok(()) }
}

/// Starts changes of weights over time.
fn start_ramps(edit: &mut Edit, held: Option<image::RecordSet<'_>>) {
    let has_ramps = |policy: &Policy| policy.rules().is_some_and(|rules| !rules.ramps.is_empty());
    if let Some(value) = edit.put.as_mut().filter(|value| has_ramps(&value.policy)) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs());
        value.start_ramps(held.map(SetValue::from).as_ref(), now);
    }
}

/// The deleted sets for the journal.
pub fn deletion(head: &ZoneHead) -> Deletion {
    let count = head.count();
    if count > JOURNAL_NAMES_MAX {
        return Deletion { count: count as u64, changes: Vec::new() };
    }
    let mut before = PreviousSets::new(count);
    let sets = || {
        let views = head.views.iter().map(|(view, sets)| (*view, sets.names()));
        let names = [(View::DEFAULT, head.zone.names())].into_iter().chain(views);
        let nodes = names.flat_map(|(view, names)| all_nodes(names).map(move |node| (view, node)));
        nodes.flat_map(|(view, node)| node.sets().map(move |set| (view, node.name(), set)))
    };
    sets().for_each(|(_, _, set)| before.push(Some(set)));
    let changes = sets().zip(before.of_sets).map(|((view, name, set), before)| WrittenSet {
        name: name.into(),
        rtype: set.rtype(),
        view,
        before,
        after: None,
    });
    Deletion { count: count as u64, changes: changes.collect() }
}

/// Checks an edit's precondition.
fn expect(
    batch: &Batch,
    index: usize,
    held: Option<&image::RecordSet<'_>>,
    last_written: LastWriteLookup<'_>,
) -> Result<(), Refused> {
    let edit = &batch.edits[index];
    let is = || {
        let Edit { name, rtype, view, .. } = edit;
        let (zone, name) = (batch.zone.clone(), name.clone());
        match held {
            Some(_) => last_written(&SetKey { zone, name, rtype: *rtype, view: *view }),
            None => Ok(Revision::NONE),
        }
    };
    let is_met = validate::is_met(&edit.expect, held, is)?;
    if is_met { Ok(()) } else { Err(Refused::Conflict { edit: index, is: is()? }) }
}

/// Validates edits by themselves. Returns their indexes in the canonical order of their sets.
fn check(edits: &mut [Edit], origin: Name<'_>) -> Result<Vec<usize>, Refused> {
    if edits.len() > EDITS_MAX {
        return Err(Refused::EDITS);
    }
    validate::edits(edits, origin).map_err(Refused::Invalid)
}

/// Whether a zone already has exactly what this batch creates.
///
/// # Errors
/// An edit is invalid.
pub fn is_made(head: &ZoneHead, batch: &mut Batch) -> Result<bool, Refused> {
    let soa = default_soa(batch);
    check(&mut batch.edits, batch.zone.as_name())?;
    let puts = || batch.edits.iter().chain(&soa).filter(|edit| edit.put.is_some());
    let serial = head.stamp.serial();
    let is_there = |edit: &Edit| {
        let held = head.set(edit.view, edit.name.as_name(), edit.rtype);
        is_done(edit, held.as_ref(), serial)
    };
    Ok(puts().all(is_there) && head.count() == puts().count())
}

/// Creates the zone from the edits of a batch, and removes them from it.
pub fn create(
    batch: &mut Batch,
    revision: Revision,
    key: &Arc<HashKey>,
    known: &KnownViews,
) -> Result<(ZoneHead, Vec<WrittenSet>), Refused> {
    let soa = default_soa(batch);
    let brings_soa = soa.is_none();
    let origin = batch.zone.as_name();
    check(&mut batch.edits, origin)?;
    for (index, edit) in batch.edits.iter_mut().enumerate() {
        known.check(index, edit.view)?;
        start_ramps(edit, None);
    }
    let (zone, changes) = build(origin, batch.edits.drain(..).chain(soa), key)?;
    if let Some(hidden) = zone.names_below_dnames(1).first() {
        let index = changes.iter().position(|change| *change.name == *hidden.name);
        let problem = hidden.problem(&zone, None);
        return Err(invalid(index.unwrap_or_default(), "edits", problem.rule, problem.what));
    }
    let given = if brings_soa { given_serial(&changes) } else { None };
    let offset = given.map_or(0, |given| offset_after(revision, 0, given, None));
    let mut head = ZoneHead::new(zone, SerialStamp { revision, offset });
    add_views(&mut head, &changes, known)?;
    head.set_serial();
    Ok((head, changes))
}

/// Builds a zone from edits. Returns them as changes, too.
fn build(
    origin: Name<'_>,
    edits: impl Iterator<Item = Edit>,
    key: &Arc<HashKey>,
) -> Result<(Zone, Vec<WrittenSet>), Refused> {
    let mut loader = Loader::new(Arc::clone(key), origin, None);
    let mut changes = Vec::with_capacity(edits.size_hint().0);
    for (index, mut edit) in edits.enumerate() {
        let Some(value) = edit.put.take() else { continue };
        let name = edit.name.as_name();
        let is_of_all = edit.view == View::DEFAULT;
        for data in value.data.iter().filter(|_| is_of_all) {
            loader
                .add(name, edit.rtype, value.ttl, data, index as u32)
                .map_err(|what| invalid(index, "name", BrokenRule::OUT_OF_ZONE, what))?;
        }
        let (name, rtype, view) = (relative(name, origin).into(), edit.rtype, edit.view);
        changes.push(WrittenSet { name, rtype, view, before: None, after: Some(value) });
    }
    let mut zone = loader.finish().map_err(|problems| match problems.into_iter().next() {
        Some(ZoneProblem { place, rule, what }) => {
            invalid(place.unwrap_or_default() as usize, "edits", rule, what)
        }
        None => Refused::NoSuchZone,
    })?;
    add_rules(&mut zone, &changes)?;
    Ok((zone, changes))
}

/// Applies a write that another writer has validated; `None`: the zone is gone.
pub fn follow(
    head: Option<ZoneHead>,
    write: PreparedWrite,
    key: &Arc<HashKey>,
    known: &KnownViews,
) -> Result<Option<ZoneHead>, Refused> {
    let invalid = |problem: ZoneProblem| invalid(0, "edits", problem.rule, problem.what);
    let revision = write.revision;
    let mut head = match (write.action, head) {
        (Action::Delete(_), _) => return Ok(None),
        (Action::Change(_), None) => return Err(Refused::NoSuchZone),
        // It stays so: the rest of its content is not known.
        (Action::Change(_), Some(head)) if head.zone.serial().is_none() => head,
        (Action::Change(changes), Some(mut head)) => {
            head.change(&parts_of(&changes), known, Zone::change_all).map_err(invalid)?;
            head
        }
        (Action::Create(changes), _) => {
            let edits = changes.into_iter().filter_map(|change| {
                let name = NameBuf::joined(&change.name, write.zone.as_name()).ok()?;
                let edit = Edit::put(name, change.rtype, change.after?);
                Some(Edit { view: change.view, ..edit })
            });
            let (zone, changes) = build(write.zone.as_name(), edits, key)?;
            let mut head = ZoneHead::new(zone, SerialStamp { revision, offset: 0 });
            add_views(&mut head, &changes, known)?;
            head
        }
    };
    head.stamp = SerialStamp { revision, offset: write.offset.unwrap_or(head.stamp.offset) };
    head.set_serial();
    Ok(Some(head))
}

/// Gives a new zone the sets of its views.
fn add_views(
    head: &mut ZoneHead,
    changes: &[WrittenSet],
    known: &KnownViews,
) -> Result<(), Refused> {
    let of_view = |change: &&WrittenSet| change.view != View::DEFAULT;
    let numbers: Vec<usize> =
        (0..changes.len()).filter(|number| of_view(&&changes[*number])).collect();
    let mut of_views: Vec<WrittenSet> = changes.iter().filter(of_view).cloned().collect();
    let name = |change: &WrittenSet| change.name.clone();
    of_views.sort_by(|a, b| canonical_cmp(&name(a), &name(b)));
    head.change(&parts_of(&of_views), known, Zone::change_all).map_err(|problem| {
        let at = problem.place.and_then(|place| numbers.get(place as usize));
        invalid(at.copied().unwrap_or_default(), "edits", problem.rule, problem.what)
    })
}

/// Gives the sets of a new zone their rules; it was loaded without.
fn add_rules(zone: &mut Zone, changes: &[WrittenSet]) -> Result<(), Refused> {
    for (index, change) in changes.iter().enumerate() {
        let is_plain = change.after.as_ref().is_none_or(|value| value.policy == Policy::All);
        if is_plain || change.view != View::DEFAULT {
            continue;
        }
        zone.change_all(&[views::compiled(change)])
            .map_err(|ZoneProblem { rule, what, .. }| invalid(index, "edits", rule, what))?;
    }
    Ok(())
}

/// The serial of the SOA among changes.
pub fn given_serial(changes: &[WrittenSet]) -> Option<u32> {
    let soa = changes.iter().find(|change| change.rtype == Rtype::SOA && change.name.is_empty())?;
    serial_of(soa.after.as_ref()?.data.first()?)
}

/// The SOA of a zone without one; the first name server is the primary.
fn default_soa(batch: &Batch) -> Option<Edit> {
    let origin = batch.zone.as_name();
    let at_apex = |rtype| {
        let mut edits = batch.edits.iter();
        let is_of_all = |edit: &&Edit| edit.view == View::DEFAULT && edit.rtype == rtype;
        edits.find(|edit| is_of_all(edit) && edit.name.as_name() == origin)
    };
    if at_apex(Rtype::SOA).is_some() {
        return None;
    }
    let server = at_apex(Rtype::NS)?.put.as_ref()?.data.first()?.clone();
    let mail = NameBuf::with_label(b"hostmaster", origin).unwrap_or_else(|_| origin.into());
    let numbers = [0].into_iter().chain(SOA_SECONDS).flat_map(u32::to_be_bytes);
    let names = server.iter().chain(mail.as_name().as_bytes()).copied();
    let data = vec![names.chain(numbers).collect()];
    Some(Edit::put(batch.zone.clone(), Rtype::SOA, SetValue::new(SOA_TTL, data)))
}

//! What a batch may do to its zone: everything is checked here, before anything is written.
use crate::codec;
use crate::limits::{EDITS_MAX, JOURNAL_EDITS_MAX};
use crate::zones::Head;
use crate::{Batch, Edit, Expect, Invalid, Policy, Refused, Revision, SetChange, SetKey, SetValue};
use compile::{Loader, Problem};
use image::HashKey;
use model::{RecordSet, Rule};
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};

/// Seconds of the SOA that a new zone gets unless it brings one: TTL, refresh, retry, expire,
/// negative answers (RIPE-203, with shorter negative answers, as fleets change fast).
const SOA_TTL: u32 = 300;
const SOA_SECONDS: [u32; 4] = [7_200, 1_800, 1_209_600, 60];

/// When a set was last written.
pub type LastWritten<'w> = &'w dyn Fn(&SetKey) -> Result<Revision, Refused>;

fn invalid(edit: usize, field: &'static str, rule: Rule, what: impl Into<String>) -> Refused {
    Refused::Invalid(Invalid { edit, field, rule, what: what.into() })
}

/// Does a batch to its zone, which is as it was where that is refused. Returns what became of each
/// set, in canonical order; what they held before only where the journal keeps it.
pub fn change(
    head: &mut Head,
    batch: &mut Batch,
    last_written: LastWritten<'_>,
) -> Result<Vec<SetChange>, Refused> {
    if head.zone.serial().is_none() {
        return Err(Refused::Unloaded);
    }
    let origin = NameBuf::from(head.zone.origin());
    let order = check(&mut batch.edits, origin.as_name())?;
    let keeps = batch.edits.len() <= JOURNAL_EDITS_MAX;
    let mut before = Vec::new();
    let mut done = Vec::with_capacity(order.len());
    for index in order {
        let edit = &batch.edits[index];
        let (name, rtype) = (edit.name.as_name(), edit.rtype);
        let is_asked = edit.put.is_none() || edit.expect != Expect::Anything;
        let held = (keeps || is_asked).then(|| head.zone.set(name, rtype)).flatten();
        expect(batch, index, held.is_some(), last_written)?;
        // What is not there need not go.
        if edit.put.is_some() || held.is_some() {
            done.push(index);
            before.push(held.filter(|_| keeps).map(SetValue::from));
        }
    }
    let changes = done.iter().map(|index| {
        let edit = &batch.edits[*index];
        let name = relative(edit.name.as_name(), origin.as_name());
        let set = edit.put.as_ref().map(|value| (value.ttl, &value.data[..]));
        compile::SetChange { name, rtype: edit.rtype, set }
    });
    let changes: Vec<_> = changes.collect();
    head.zone.change_all(&changes).map_err(|Problem { place, rule, what }| {
        let index = place.and_then(|place| done.get(place as usize));
        invalid(index.copied().unwrap_or_default(), "edits", rule, what)
    })?;
    let changes = done.into_iter().zip(before).map(|(index, before)| {
        let edit = &mut batch.edits[index];
        let name = relative(edit.name.as_name(), origin.as_name()).into();
        let (rtype, view, after) = (edit.rtype, edit.view, edit.put.take());
        SetChange { name, rtype, view, before, after }
    });
    Ok(changes.collect())
}

/// The labels of a name in front of its zone's.
fn relative<'n>(name: Name<'n>, origin: Name<'_>) -> &'n [u8] {
    &name.octets()[..name.len() - origin.len()]
}

/// Whether a set is as an edit expects it.
fn expect(
    batch: &Batch,
    index: usize,
    is_there: bool,
    last_written: LastWritten<'_>,
) -> Result<(), Refused> {
    let edit = &batch.edits[index];
    let is = || {
        let Edit { name, rtype, view, .. } = edit;
        let (zone, name) = (batch.zone.clone(), name.clone());
        match is_there {
            true => last_written(&SetKey { zone, name, rtype: *rtype, view: *view }),
            false => Ok(Revision::NONE),
        }
    };
    let is_met = match edit.expect {
        Expect::Anything => true,
        Expect::Absent => !is_there,
        Expect::Present => is_there,
        Expect::At(revision) => is_there && is()? == revision,
    };
    if is_met { Ok(()) } else { Err(Refused::Conflict { edit: index, is: is()? }) }
}

/// Checks edits by themselves. What each puts is in order then, each record there once, and the
/// names are in lower case. Returns their numbers in the canonical order of their sets.
fn check(edits: &mut [Edit], origin: Name<'_>) -> Result<Vec<usize>, Refused> {
    if edits.len() > EDITS_MAX {
        return Err(Refused::EDITS);
    }
    let mut keys = Vec::new();
    let mut ends = Vec::with_capacity(edits.len());
    for (index, edit) in edits.iter_mut().enumerate() {
        let wrong = |field, rule, what: String| invalid(index, field, rule, what);
        check_key(edit, origin).map_err(|(field, rule, what)| wrong(field, rule, what))?;
        edit.name.make_lowercase();
        codec::set_key(&mut keys, relative(edit.name.as_name(), origin), edit.view, edit.rtype);
        ends.push(keys.len());
        let Some(value) = &mut edit.put else { continue };
        let set = RecordSet::new(edit.rtype, value.ttl, std::mem::take(&mut value.data));
        let set = set.map_err(|why| {
            let what = why.to_string();
            match why {
                model::Invalid::MetaType(_) => wrong("type", Rule::META_TYPE, what),
                model::Invalid::Ttl(_) => wrong("ttl", Rule::TTL, what),
                model::Invalid::Count(_) => wrong("data", Rule::LIMIT, what),
                model::Invalid::Data(_) => wrong("data", Rule::DATA, what),
            }
        })?;
        value.data = set.into_records();
    }
    let key = |index: usize| {
        let start = index.checked_sub(1).map_or(0, |before| ends[before]);
        &keys[start..ends[index]]
    };
    let mut order: Vec<usize> = (0..edits.len()).collect();
    order.sort_by(|a, b| key(*a).cmp(key(*b)));
    let twice = order.windows(2).filter(|two| key(two[0]) == key(two[1])).map(|two| two[1]).min();
    if let Some(index) = twice {
        let (name, rtype) = (edits[index].name.as_name(), edits[index].rtype);
        let what = format!("{name} {rtype} is there twice");
        return Err(invalid(index, "name", Rule::TWICE, what));
    }
    Ok(order)
}

/// What is wrong with where a set is to stand.
fn check_key(edit: &Edit, origin: Name<'_>) -> Result<(), (&'static str, Rule, String)> {
    let (name, rtype) = (edit.name.as_name(), edit.rtype);
    if !name.is_within(origin) {
        let what = format!("{name} does not lie in the zone {origin}");
        return Err(("name", Rule::OUT_OF_ZONE, what));
    }
    if name.labels().skip(1).any(|label| label == b"*") {
        let what = format!("{name} has a wildcard that is not its first label");
        return Err(("name", Rule::WILDCARD, what));
    }
    let is_of_signing =
        matches!(rtype, Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3 | Rtype::NSEC3PARAM);
    if is_of_signing {
        let what = format!("zones of the store are not signed yet: no {rtype} records");
        return Err(("type", Rule::SIGNED, what));
    }
    let is_needed = matches!(rtype, Rtype::SOA | Rtype::NS) && name == origin;
    if is_needed && edit.put.is_none() {
        let rule = if rtype == Rtype::SOA { Rule::SOA } else { Rule::NS };
        let what = format!("a zone cannot be without the {rtype} records of its apex");
        return Err(("type", rule, what));
    }
    Ok(())
}

/// Makes the zone that the edits of a batch describe, and takes them out of it.
pub fn create(
    batch: &mut Batch,
    revision: Revision,
    key: &Arc<HashKey>,
) -> Result<(Head, Vec<SetChange>), Refused> {
    let soa = default_soa(batch);
    let origin = batch.zone.as_name();
    check(&mut batch.edits, origin)?;
    let edits = batch.edits.drain(..).chain(soa);
    let mut loader = Loader::new(Arc::clone(key), origin, None);
    let mut changes = Vec::with_capacity(edits.size_hint().0);
    for (index, mut edit) in edits.enumerate() {
        let Some(value) = edit.put.take() else { continue };
        let name = edit.name.as_name();
        for data in &value.data {
            loader
                .add(name, edit.rtype, value.ttl, data, index as u32)
                .map_err(|what| invalid(index, "name", Rule::OUT_OF_ZONE, what))?;
        }
        let (name, rtype, view) = (relative(name, origin).into(), edit.rtype, edit.view);
        changes.push(SetChange { name, rtype, view, before: None, after: Some(value) });
    }
    let zone = loader.finish().map_err(|problems| match problems.into_iter().next() {
        Some(Problem { place, rule, what }) => {
            invalid(place.unwrap_or_default() as usize, "edits", rule, what)
        }
        None => Refused::NoSuchZone,
    })?;
    let mut head = Head { zone, revision };
    head.set_serial();
    Ok((head, changes))
}

/// The SOA of a zone that brings none: its first name server is the primary one.
fn default_soa(batch: &Batch) -> Option<Edit> {
    let origin = batch.zone.as_name();
    let at_apex = |rtype| {
        let mut edits = batch.edits.iter();
        edits.find(|edit| edit.rtype == rtype && edit.name.as_name() == origin)
    };
    if at_apex(Rtype::SOA).is_some() {
        return None;
    }
    let server = at_apex(Rtype::NS)?.put.as_ref()?.data.first()?.clone();
    let mailbox = NameBuf::with_label(b"hostmaster", origin).unwrap_or_else(|_| origin.into());
    let numbers = [0].into_iter().chain(SOA_SECONDS).flat_map(u32::to_be_bytes);
    let names = server.iter().chain(mailbox.as_name().octets()).copied();
    let data = vec![names.chain(numbers).collect()];
    let value = SetValue { ttl: SOA_TTL, policy: Policy::All, data };
    Some(Edit::put(batch.zone.clone(), Rtype::SOA, value))
}

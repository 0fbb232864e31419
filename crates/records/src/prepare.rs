//! What a batch may do to its zone: everything is checked here, before anything is written.
use crate::limits::EDITS_MAX;
use crate::zones::Head;
use crate::{Batch, Edit, Expect, Invalid, Policy, Refused, Revision, SetChange, SetKey, SetValue};
use compile::{Loader, Problem};
use image::HashKey;
use model::{RecordSet, Rule};
use std::collections::HashSet;
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
/// set.
pub fn change(
    head: &mut Head,
    batch: &mut Batch,
    last_written: LastWritten<'_>,
) -> Result<Vec<SetChange>, Refused> {
    if head.zone.serial().is_none() {
        return Err(Refused::Unloaded);
    }
    check(&mut batch.edits, head.zone.origin())?;
    let mut changes = Vec::with_capacity(batch.edits.len());
    // An alias may take the place of other sets, and they its: what goes does so first.
    let (go, come): (Vec<_>, Vec<_>) =
        (0..batch.edits.len()).partition(|index| batch.edits[*index].put.is_none());
    for index in go.into_iter().chain(come) {
        let after = batch.edits[index].put.take();
        match change_set(head, batch, index, after, last_written) {
            Ok(change) => changes.extend(change),
            Err(why) => {
                undo(head, &changes);
                return Err(why);
            }
        }
    }
    Ok(changes)
}

/// Does one edit. Nothing: there was nothing to be done.
fn change_set(
    head: &mut Head,
    batch: &Batch,
    index: usize,
    after: Option<SetValue>,
    last_written: LastWritten<'_>,
) -> Result<Option<SetChange>, Refused> {
    let edit = &batch.edits[index];
    let name = edit.name.as_name();
    let before = head.value(name, edit.rtype);
    expect(batch, index, before.is_some(), last_written)?;
    if after.is_none() && before.is_none() {
        return Ok(None);
    }
    let put = head.put(name, edit.rtype, after.as_ref());
    put.map_err(|Problem { rule, what, .. }| invalid(index, "edits", rule, what))?;
    let relative = head.zone.relative(name).unwrap_or_default().into();
    Ok(Some(SetChange { name: relative, rtype: edit.rtype, view: edit.view, before, after }))
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

/// Takes back what was done, the last first.
fn undo(head: &mut Head, changes: &[SetChange]) {
    let origin = NameBuf::from(head.zone.origin());
    for SetChange { name, rtype, before, .. } in changes.iter().rev() {
        let name = NameBuf::joined(name, origin.as_name()).expect("it was a name before");
        head.put(name.as_name(), *rtype, before.as_ref()).expect("it was so before");
    }
}

/// Checks edits by themselves; what each puts is in order then, and each record there once.
fn check(edits: &mut [Edit], origin: Name<'_>) -> Result<(), Refused> {
    if edits.len() > EDITS_MAX {
        return Err(Refused::EDITS);
    }
    let mut seen = HashSet::with_capacity(edits.len());
    for (index, edit) in edits.iter_mut().enumerate() {
        let wrong = |field, rule, what: String| invalid(index, field, rule, what);
        check_key(edit, origin).map_err(|(field, rule, what)| wrong(field, rule, what))?;
        if !seen.insert((edit.name.as_name().octets().to_ascii_lowercase(), edit.rtype)) {
            let what = format!("{} {} is there twice", edit.name.as_name(), edit.rtype);
            return Err(wrong("name", Rule::TWICE, what));
        }
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
    Ok(())
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

/// Makes the zone that a batch describes.
pub fn create(
    batch: &Batch,
    revision: Revision,
    key: &Arc<HashKey>,
) -> Result<(Head, Vec<SetChange>), Refused> {
    let origin = batch.zone.as_name();
    let mut edits = batch.edits.clone();
    edits.extend(default_soa(batch));
    check(&mut edits, origin)?;
    let mut loader = Loader::new(Arc::clone(key), origin, None);
    let mut changes = Vec::with_capacity(edits.len());
    for (index, mut edit) in edits.into_iter().enumerate() {
        let Some(value) = edit.put.take() else { continue };
        let name = edit.name.as_name();
        for data in &value.data {
            loader
                .add(name, edit.rtype, value.ttl, data, index as u32)
                .map_err(|what| invalid(index, "name", Rule::OUT_OF_ZONE, what))?;
        }
        let relative = &name.octets()[..name.len() - origin.len()];
        changes.push(SetChange {
            name: relative.to_ascii_lowercase().into(),
            rtype: edit.rtype,
            view: edit.view,
            before: None,
            after: Some(value),
        });
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
    Some(Edit {
        name: batch.zone.clone(),
        rtype: Rtype::SOA,
        view: crate::View::Default,
        expect: Expect::Anything,
        put: Some(SetValue { ttl: SOA_TTL, policy: Policy::All, data }),
    })
}

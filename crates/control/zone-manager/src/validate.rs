//! The validation of edits: of each by itself, and of its precondition. The compiler validates the
//! zone as it will be.
use model::sort_key;
use model::{
    BrokenRule, Edit, InvalidEdit, InvalidRecordSet, Precondition, RecordSet, Revision, View,
};
use wire::{Name, NameBuf, Rtype};

/// Validates an edit by itself. Afterwards the set is valid without duplicates, and the name in
/// lower case.
///
/// # Errors
/// Why it is invalid; `edit` is 0.
pub fn edit(edit: &mut Edit, origin: Name<'_>) -> Result<(), InvalidEdit> {
    name(&mut edit.name, origin)?;
    let (at, rtype) = (edit.name.as_name(), edit.rtype);
    let is_of_signing =
        matches!(rtype, Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3 | Rtype::NSEC3PARAM);
    if is_of_signing {
        let what = format!("zones of the store are not signed yet: no {rtype} records");
        return Err(invalid("type", BrokenRule::SIGNED, what));
    }
    let is_of_all = edit.view == View::DEFAULT;
    let is_needed = matches!(rtype, Rtype::SOA | Rtype::NS) && at == origin && is_of_all;
    let Some(value) = &mut edit.put else {
        if is_needed {
            let rule = if rtype == Rtype::SOA { BrokenRule::SOA } else { BrokenRule::NS };
            let what = format!("a zone needs the {rtype} records at its apex");
            return Err(invalid("type", rule, what));
        }
        return Ok(());
    };
    if !value.sort() {
        let what = "a member is there twice, with different tiers".to_owned();
        return Err(invalid("members", BrokenRule::SET_RULES, what));
    }
    if let Some(rules) = value.policy.rules() {
        rules
            .check(rtype, value.data.len())
            .map_err(|(field, rule, what)| invalid(field, rule, what))?;
    }
    let set = RecordSet::new(rtype, value.ttl, std::mem::take(&mut value.data));
    let set = set.map_err(|why| {
        let (field, rule) = match why {
            InvalidRecordSet::MetaType(_) => ("type", BrokenRule::META_TYPE),
            InvalidRecordSet::Ttl(_) => ("ttl", BrokenRule::TTL),
            InvalidRecordSet::Count(_) => ("data", BrokenRule::LIMIT),
            InvalidRecordSet::Data(_) => ("data", BrokenRule::DATA),
        };
        invalid(field, rule, why.to_string())
    })?;
    value.data = set.into_records();
    if rtype == Rtype::ALIAS {
        alias(at, value.data.iter().map(|data| &**data))?;
    }
    Ok(())
}

/// Validates the targets of an ALIAS record.
fn alias<'d>(
    owner: Name<'_>,
    mut targets: impl Iterator<Item = &'d [u8]>,
) -> Result<(), InvalidEdit> {
    match targets.find(|target| Name::parse(target) == Ok(owner)) {
        Some(_) => {
            let what = format!("{owner} stands for itself: it would have no address");
            Err(invalid("data", BrokenRule::ALIAS_LOOP, what))
        }
        None => Ok(()),
    }
}

/// Validates the name of a set, and makes it lower case.
///
/// # Errors
/// As [`edit`].
pub fn name(name: &mut NameBuf, origin: Name<'_>) -> Result<(), InvalidEdit> {
    if !name.as_name().is_within(origin) {
        let what = format!("{name} is outside of the zone {origin}");
        return Err(invalid("name", BrokenRule::OUT_OF_ZONE, what));
    }
    if name.as_name().labels().skip(1).any(|label| label == b"*") {
        let what = format!("{name} has a wildcard that is not its first label");
        return Err(invalid("name", BrokenRule::WILDCARD, what));
    }
    name.make_lowercase();
    Ok(())
}

/// Validates a name that must be a wildcard, and makes it lower case.
///
/// # Errors
/// As [`edit`].
pub fn wildcard(wildcard: &mut NameBuf, origin: Name<'_>) -> Result<(), InvalidEdit> {
    if wildcard.as_name().labels().next() != Some(b"*".as_slice()) {
        let what = format!("{wildcard} is not a wildcard, so it cannot stand for addresses");
        return Err(invalid("name", BrokenRule::WILDCARD, what));
    }
    name(wildcard, origin)
}

/// Validates edits by themselves. Returns their indexes in the canonical order of their sets.
///
/// # Errors
/// The first that is invalid, or of a set that occurs twice.
pub fn edits(edits: &mut [Edit], origin: Name<'_>) -> Result<Vec<usize>, InvalidEdit> {
    let mut keys = Vec::new();
    let mut ends = Vec::with_capacity(edits.len());
    for (index, each) in edits.iter_mut().enumerate() {
        edit(each, origin).map_err(|why| InvalidEdit { edit: index, ..why })?;
        sort_key(&mut keys, relative(each.name.as_name(), origin));
        let view = each.view.as_bytes();
        keys.extend_from_slice(&[0, view.len() as u8]);
        keys.extend_from_slice(view);
        keys.extend_from_slice(&each.rtype.0.to_be_bytes());
        ends.push(keys.len());
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
        let what = match edits[index].view {
            View::DEFAULT => format!("{name} {rtype} occurs twice"),
            view => format!("{name} {rtype} occurs twice in the view {view}"),
        };
        return Err(InvalidEdit { edit: index, ..invalid("name", BrokenRule::TWICE, what) });
    }
    Ok(order)
}

/// Whether a set, as it is, meets a precondition. `written` is its last revision;
/// [`Revision::NONE`] outside of the store.
///
/// # Errors
/// The errors of `written`.
pub fn is_met<E>(
    expect: &Precondition,
    set: Option<&image::RecordSet<'_>>,
    written: impl FnOnce() -> Result<Revision, E>,
) -> Result<bool, E> {
    Ok(match expect {
        Precondition::Anything => true,
        Precondition::Absent => set.is_none(),
        Precondition::Present => set.is_some(),
        Precondition::At(revision) => set.is_some() && written()? == *revision,
        Precondition::Equal(value) => {
            set.is_some_and(|set| set.ttl() == value.ttl && has(set, &value.data))
        }
    })
}

/// Whether a set has exactly these records, in any order.
pub fn has<D: AsRef<[u8]>>(set: &image::RecordSet<'_>, data: &[D]) -> bool {
    if set.count() != data.len() {
        return false;
    }
    if set.records().eq(data.iter().map(AsRef::as_ref)) {
        return true;
    }
    let mut held: Vec<&[u8]> = set.records().collect();
    let mut wanted: Vec<&[u8]> = data.iter().map(AsRef::as_ref).collect();
    held.sort_unstable();
    wanted.sort_unstable();
    held == wanted
}

/// The labels of a name before its zone's.
pub fn relative<'n>(name: Name<'n>, origin: Name<'_>) -> &'n [u8] {
    &name.as_bytes()[..name.len() - origin.len()]
}

fn invalid(field: &'static str, rule: BrokenRule, what: String) -> InvalidEdit {
    InvalidEdit { edit: 0, field, rule, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wildcard_of_the_zone_stands_for_addresses() {
        let name = |text: &str| NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name");
        let origin = name("example.org.");
        let check = |text: &str| {
            let mut at = name(text);
            wildcard(&mut at, origin.as_name()).map(|()| at).map_err(|why| why.rule)
        };
        assert_eq!(check("*.A.example.org."), Ok(name("*.a.example.org.")));
        assert_eq!(check("a.example.org."), Err(BrokenRule::WILDCARD));
        assert!(check("*.example.net.").is_err());
    }
}

//! Prerequisites (RFC 2136 §3.2).
use crate::message::{Update, UpdateRecord};
use crate::working_set::{canonical, node};
use crate::{check_name, unmet};
use compile::Zone;
use records::Refused;
use std::collections::{BTreeMap, BTreeSet};
use wire::{Class, Rcode, Rtype};

/// Sets that must be exactly so: by name and type, the data of each.
type WantedSets<'u> = BTreeMap<(&'u [u8], u16), (&'u UpdateRecord, BTreeSet<Box<[u8]>>)>;

/// Checks all prerequisites of an update, in their order (RFC 2136 §3.2.5).
pub fn check(zone: &Zone, update: &Update) -> Result<(), Refused> {
    let mut wanted = WantedSets::new();
    for record in &update.prerequisites {
        let UpdateRecord { name, rtype, class, ttl, data } = record;
        if *ttl != 0 {
            return Err(unmet(Rcode::FormErr, format!("a prerequisite for {name} has a TTL")));
        }
        check_name(zone.origin(), name.as_name())?;
        match *class {
            Class::ANY | Class::NONE if !data.is_empty() => {
                let what = format!("a prerequisite for {name} has data, which its class forbids");
                return Err(unmet(Rcode::FormErr, what));
            }
            Class::ANY | Class::NONE => check_presence(zone, record)?,
            Class::IN if is_meta(*rtype) => {
                let what = format!("a prerequisite for {name} has the type {rtype}");
                return Err(unmet(Rcode::FormErr, what));
            }
            Class::IN => {
                let key = (name.as_name().as_bytes(), rtype.0);
                let of = wanted.entry(key).or_insert_with(|| (record, BTreeSet::new()));
                of.1.insert(canonical(*rtype, data));
            }
            _ => {
                let what = format!("a prerequisite for {name} has another class than its zone");
                return Err(unmet(Rcode::FormErr, what));
            }
        }
    }
    wanted.into_values().try_for_each(|(of, data)| check_equal(zone, of, &data))
}

/// Whether no record set has a type, so that only a question may.
pub fn is_meta(rtype: Rtype) -> bool {
    rtype.is_meta()
}

/// Checks that a name or a set exists (class ANY), or does not (class NONE).
fn check_presence(zone: &Zone, record: &UpdateRecord) -> Result<(), Refused> {
    let UpdateRecord { name, rtype, class, .. } = record;
    let is_wanted = *class == Class::ANY;
    if *rtype == Rtype::ANY {
        let is_there = node(zone, name.as_name()).is_some_and(|node| node.sets().next().is_some());
        return match (is_there, is_wanted) {
            (false, true) => Err(unmet(Rcode::NxDomain, format!("{name} is not in use"))),
            (true, false) => Err(unmet(Rcode::YxDomain, format!("{name} is in use"))),
            _ => Ok(()),
        };
    }
    if is_meta(*rtype) {
        return Err(unmet(Rcode::FormErr, format!("a prerequisite for {name} has type {rtype}")));
    }
    match (zone.set(name.as_name(), *rtype).is_some(), is_wanted) {
        (false, true) => Err(unmet(Rcode::NxRrset, format!("{name} {rtype} does not exist"))),
        (true, false) => Err(unmet(Rcode::YxRrset, format!("{name} {rtype} exists"))),
        _ => Ok(()),
    }
}

/// Checks that a set has exactly these records.
fn check_equal(
    zone: &Zone,
    of: &UpdateRecord,
    wanted: &BTreeSet<Box<[u8]>>,
) -> Result<(), Refused> {
    let UpdateRecord { name, rtype, .. } = of;
    let held = zone.set(name.as_name(), *rtype);
    let is_equal = held.is_some_and(|set| {
        set.count() == wanted.len()
            && set.records().all(|data| wanted.contains(&canonical(*rtype, data)))
    });
    let what = || format!("{name} {rtype} has not exactly these records");
    if is_equal { Ok(()) } else { Err(unmet(Rcode::NxRrset, what())) }
}

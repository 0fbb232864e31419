//! The records of an update: their form (RFC 2136 §3.4.1), and what each does (§3.4.2).
use crate::message::{Update, UpdateRecord};
use crate::prerequisite::is_meta;
use crate::working_set::WorkingZone;
use crate::{check_name, check_right, unmet};
use records::{Refused, WriteRights};
use store::serial::is_newer;
use wire::{Class, Name, Rcode, Rtype};

/// Checks the form of all records before any has an effect.
pub fn check(zone: Name<'_>, update: &Update) -> Result<(), Refused> {
    for UpdateRecord { name, rtype, class, ttl, data } in &update.changes {
        check_name(zone, name.as_name())?;
        let is_correct = match *class {
            Class::IN => !is_meta(*rtype),
            Class::ANY => {
                *ttl == 0 && data.is_empty() && (*rtype == Rtype::ANY || !is_meta(*rtype))
            }
            Class::NONE => *ttl == 0 && !is_meta(*rtype),
            _ => false,
        };
        if !is_correct {
            let what = format!("the record of {name} {rtype} is not of a form of RFC 2136 §2.5");
            return Err(unmet(Rcode::FormErr, what));
        }
    }
    Ok(())
}

/// Applies one record. What RFC 2136 §3.4.2 ignores has no effect, and is no error.
pub fn apply(
    working: &mut WorkingZone<'_>,
    record: &UpdateRecord,
    rights: &dyn WriteRights,
) -> Result<(), Refused> {
    let UpdateRecord { name, rtype, class, .. } = record;
    let zone = working.zone;
    let origin = zone.origin();
    let is_apex = name.as_name() == origin;
    // §3.4.2.3: a zone keeps its SOA and its NS set.
    let is_kept = |rtype: Rtype| is_apex && matches!(rtype, Rtype::SOA | Rtype::NS);
    let check = |rtype, is_put| check_right(rights, origin, (name.as_name(), rtype), is_put);
    match *class {
        Class::IN => {
            check(*rtype, true)?;
            add(working, record, is_apex);
        }
        Class::ANY if *rtype == Rtype::ANY => {
            for rtype in working.types(name.as_name()) {
                if !is_kept(rtype) {
                    check(rtype, false)?;
                    working.set(name, rtype).clear();
                }
            }
        }
        Class::ANY => {
            check(*rtype, false)?;
            if !is_kept(*rtype) {
                working.set(name, *rtype).clear();
            }
        }
        _ => {
            check(*rtype, false)?;
            remove(working, record, is_apex);
        }
    }
    Ok(())
}

/// Adds a record (RFC 2136 §3.4.2.2).
fn add(working: &mut WorkingZone<'_>, record: &UpdateRecord, is_apex: bool) {
    let UpdateRecord { name, rtype, ttl, data, .. } = record;
    let types = working.types(name.as_name());
    match *rtype {
        Rtype::CNAME if types.iter().any(|rtype| *rtype != Rtype::CNAME) => {}
        Rtype::CNAME => {
            let set = working.set(name, *rtype);
            set.clear();
            set.add(*ttl, data);
        }
        _ if types.contains(&Rtype::CNAME) => {}
        Rtype::SOA => {
            let set = working.set(name, *rtype);
            // An older one is ignored, and so is one that is not the zone's.
            if is_apex && !is_older(data, set.first()) {
                set.clear();
                set.add(*ttl, data);
            }
        }
        _ => working.set(name, *rtype).add(*ttl, data),
    }
}

/// Removes a record (RFC 2136 §3.4.2.4).
fn remove(working: &mut WorkingZone<'_>, record: &UpdateRecord, is_apex: bool) {
    let UpdateRecord { name, rtype, data, .. } = record;
    let set = working.set(name, *rtype);
    let is_last_server = *rtype == Rtype::NS && is_apex && set.count() == 1 && set.has(data);
    if *rtype != Rtype::SOA && !is_last_server {
        set.remove(data);
    }
}

/// Whether an SOA has an older serial than another one.
fn is_older(data: &[u8], held: Option<&[u8]>) -> bool {
    let serial = |data: &[u8]| {
        let numbers = data.last_chunk::<20>()?;
        Some(u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]]))
    };
    match (serial(data), held.and_then(serial)) {
        (Some(given), Some(held)) => is_newer(held, given),
        _ => false,
    }
}

//! Makes edits of the store of UPDATE messages (RFC 2136).
//!
//! An [`Update`] is read from a message. [`Update::planned`] makes of it a write for the record
//! service, which evaluates its prerequisites and applies its records to the zone as it is when its
//! turn comes.
#![forbid(unsafe_code)]

mod change;
mod message;
mod prerequisite;
mod working_set;

pub use message::{NotAnUpdate, Update};

use compile::Zone;
use model::Edit;
use records::{PlannedWrite, Refused, SetKey, View, WriteRights};
use std::sync::Arc;
use wire::{Name, Rcode, Rtype};
use working_set::WorkingZone;

/// An update as a write, with the rights of its principal.
#[derive(Debug)]
struct PlannedUpdate {
    update: Update,
    rights: Arc<dyn WriteRights>,
}

impl Update {
    /// A write of it by a principal with these rights.
    pub fn planned(self, rights: Arc<dyn WriteRights>) -> Arc<dyn PlannedWrite> {
        Arc::new(PlannedUpdate { update: self, rights })
    }
}

impl PlannedWrite for PlannedUpdate {
    /// In the order of RFC 2136 §3: prerequisites, then the form of the records, then each record.
    fn edits(&self, zone: &Zone) -> Result<Vec<Edit>, Refused> {
        let Self { update, rights } = self;
        prerequisite::check(zone, update)?;
        change::check(zone.origin(), update)?;
        let mut working = WorkingZone::new(zone);
        for record in &update.changes {
            change::apply(&mut working, record, &**rights)?;
        }
        Ok(working.into_edits())
    }

    fn weight(&self) -> usize {
        self.update.weight()
    }
}

fn unmet(rcode: Rcode, what: impl Into<Arc<str>>) -> Refused {
    Refused::Unmet { rcode, what: what.into() }
}

/// Refuses a record outside of the zone.
fn check_name(zone: Name<'_>, name: Name<'_>) -> Result<(), Refused> {
    match name.is_within(zone) {
        true => Ok(()),
        false => Err(unmet(Rcode::NotZone, format!("{name} is outside of the zone {zone}"))),
    }
}

/// Refuses unless the principal may write a set. NS and DNAME hide all names below theirs, so those
/// names need the right too (RFC 1034 §4.2.1, RFC 6672 §2.3).
fn check_right(
    rights: &dyn WriteRights,
    zone: Name<'_>,
    (name, rtype): (Name<'_>, Rtype),
    is_put: bool,
) -> Result<(), Refused> {
    let hides = is_put && (rtype == Rtype::DNAME || rtype == Rtype::NS && name != zone);
    // An UPDATE is about the sets of all clients.
    let set = SetKey { zone: zone.into(), name: name.into(), rtype, view: View::DEFAULT };
    let may = rights.may_write(&set) && (!hides || rights.covers(&set));
    let what = || format!("no grant of the key allows to write {name} {rtype} in the zone {zone}");
    if may { Ok(()) } else { Err(unmet(Rcode::Refused, what())) }
}

#[cfg(test)]
extern crate self as dynamic_update;
#[cfg(test)]
mod tests;

//! The JSON of `PowerDNS`' API (version 4.7): changes of zones in, zones out. No I/O.
//!
//! Unknown fields are ignored. What Dunlin cannot serve is refused with the reason.
#![forbid(unsafe_code)]

mod content;
mod fields;
mod merge;
mod patch;
mod reply;
mod zone;

pub use merge::merge;
pub use patch::{PatchKind, SetPatch, read_patch};
pub use reply::{VERSION, set_body, zone_head, zones_head};
pub use reply::{server_body, versions_body};
pub use zone::{NewZone, check_kind, read_new_zone, read_zone_filter, read_zone_id};

#[cfg(test)]
extern crate self as powerdns;
#[cfg(test)]
mod tests;

//! Record sets of what `SkyDNS`, `ContainerDNS` and KDNS keep in etcd.
//!
//! The sets of `SkyDNS`' layout are what the plugin `etcd` of `CoreDNS` answers: a name has the
//! records of all keys below it. What DNS cannot express is reported with its key and the reason.
#![forbid(unsafe_code)]

mod fetch;
mod group;
mod key;
mod lists;
mod path;
mod service;
mod sets;

pub use fetch::{FollowedKeys, Source, fetch};
pub use key::Entry;
pub use sets::RecordSet;

use crate::key::Keys;
use std::fmt;
use wire::Name;

/// How names and records are laid out in keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `/skydns/org/example/www/x1`: a name has the records of all keys below it.
    SkyDns,
    /// `/containerdns/org/example/www/HASH/`: the last part names one of the records of a name.
    ContainerDns,
    /// `/kdns/org/example/www/HASH/`: the same, with views and weights.
    Kdns,
}

impl Layout {
    /// The prefix of its keys, unless another one is configured.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::SkyDns => "skydns",
            Self::ContainerDns => "containerdns",
            Self::Kdns => "kdns",
        }
    }
}

/// Something of a key that the record sets do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReport {
    /// The key.
    pub key: String,
    /// What is lost, and why.
    pub what: String,
    /// Whether a record is lost. Otherwise it is there, and something of it differs.
    pub is_lost: bool,
}

impl fmt::Display for KeyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_lost { "lost" } else { "note" };
        write!(f, "{}: {word}: {}", self.key, self.what)
    }
}

/// The record sets of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// In canonical order of the keys.
    pub sets: Vec<RecordSet>,
    /// What is lost or differs.
    pub notes: Vec<KeyReport>,
    /// Keys of other zones.
    pub elsewhere: usize,
}

/// Converts keys and values to the record sets of a zone.
pub fn import<'e>(
    entries: impl IntoIterator<Item = &'e Entry>,
    layout: Layout,
    prefix: &str,
    zone: Name<'_>,
) -> Imported {
    let mut imported = Imported::default();
    let keys = Keys::read(entries, prefix.trim_matches('/'), zone, &mut imported);
    match layout {
        Layout::SkyDns => path::import(&keys, zone, &mut imported),
        Layout::ContainerDns | Layout::Kdns => lists::import(&keys, zone, &mut imported),
    }
    imported
}

#[cfg(test)]
mod tests;

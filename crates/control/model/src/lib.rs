//! Records, edits of them, and their validation.
#![forbid(unsafe_code)]

mod edit;
mod json;
mod order;
mod ramp;
mod rules;
mod verdict;
mod view;

pub use edit::{Change, Edit, EditKind, InvalidEdit, Precondition, Revision, SetKey, SetValue};
pub use json::stored::{read_stored, write_stored};
pub use json::{
    FailWord, InvalidField, MemberBody, MinUpBody, RampBody, ValueBody, WeightBody, default_policy,
    default_view, read_data, read_value, read_view, write_value,
};
pub use order::sort_key;
pub use ramp::{RAMP_SECONDS_MAX, WeightRamp};
pub use rules::{
    CHECK_NAME_MAX, CHECK_OFF, COMMENT_MAX, Choice, MemberRules, MinUp, ORDERS, Policy, SetRules,
    TIER_MAX, WEIGHT_DEFAULT, is_check_name, is_control,
};
pub use verdict::{JudgedMember, JudgedSet, LeftOut, MemberClass};
pub use view::{VIEW_NAME_LEN_MAX, View};
pub use zonefile::BrokenRule;

use std::fmt;
use std::net::IpAddr;
use wire::{Name, Rtype};

/// The longest TTL in seconds (RFC 2181 §8).
pub const TTL_MAX: u32 = i32::MAX as u32;
/// The largest record set. Messages carry even fewer.
pub const RECORDS_MAX: usize = 5_000;

/// All records of one name and type, validated on their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSet {
    rtype: Rtype,
    ttl: u32,
    records: Vec<Box<[u8]>>,
}

/// Why records are not a valid set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidRecordSet {
    /// The type is a query type or meta-type.
    MetaType(Rtype),
    /// A TTL of more than [`TTL_MAX`] seconds.
    Ttl(u32),
    /// No records, or more than [`RECORDS_MAX`].
    Count(usize),
    /// The data is not valid for the type.
    Data(Rtype),
}

impl fmt::Display for InvalidRecordSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MetaType(rtype) => write!(f, "{rtype} is a query type, not a record type"),
            Self::Ttl(ttl) => write!(f, "the TTL is {ttl} s, but at most {TTL_MAX} s"),
            Self::Count(count) => {
                write!(f, "the set has {count} records, but 1 to {RECORDS_MAX} are allowed")
            }
            Self::Data(rtype) => {
                write!(f, "the data is not valid for a record of type {rtype}")
            }
        }
    }
}

impl std::error::Error for InvalidRecordSet {}

impl RecordSet {
    /// Creates a set from data in wire form with uncompressed names. Removes duplicates.
    ///
    /// # Errors
    /// The set is not valid in any zone.
    pub fn new(
        rtype: Rtype,
        ttl: u32,
        records: impl IntoIterator<Item = Box<[u8]>>,
    ) -> Result<Self, InvalidRecordSet> {
        let mut records: Vec<Box<[u8]>> = records.into_iter().collect();
        records.sort_unstable();
        records.dedup();
        if rtype.is_meta() {
            return Err(InvalidRecordSet::MetaType(rtype));
        }
        if ttl > TTL_MAX {
            return Err(InvalidRecordSet::Ttl(ttl));
        }
        if records.is_empty() || records.len() > RECORDS_MAX {
            return Err(InvalidRecordSet::Count(records.len()));
        }
        if !records.iter().all(|data| is_valid(rtype, data)) {
            return Err(InvalidRecordSet::Data(rtype));
        }
        Ok(Self { rtype, ttl, records })
    }

    /// Their type.
    pub fn rtype(&self) -> Rtype {
        self.rtype
    }

    /// Their TTL in seconds.
    pub fn ttl(&self) -> u32 {
        self.ttl
    }

    /// The data of each record.
    pub fn into_records(self) -> Vec<Box<[u8]>> {
        self.records
    }

    /// The data of each record, in wire form.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.records.iter().map(|data| &**data)
    }
}

/// The address in the data of an A or AAAA record; `None`: it has another length.
pub fn address_of(data: &[u8]) -> Option<IpAddr> {
    match <[u8; 4]>::try_from(data) {
        Ok(v4) => Some(v4.into()),
        Err(_) => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
    }
}

/// Checks the lengths and names that other crates rely on.
fn is_valid(rtype: Rtype, data: &[u8]) -> bool {
    let exactly_name_at = |at: usize| {
        let rest = data.get(at..).unwrap_or_default();
        Name::parse(rest).is_ok_and(|name| name.len() == rest.len())
    };
    match rtype {
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME | Rtype::ALIAS => exactly_name_at(0),
        Rtype::MX => exactly_name_at(2),
        Rtype::SRV => exactly_name_at(6),
        Rtype::SVCB | Rtype::HTTPS => data.len() > 2 && Name::parse(&data[2..]).is_ok(),
        Rtype::SOA => Name::parse(data).is_ok_and(|mname| {
            let rest = &data[mname.len()..];
            Name::parse(rest).is_ok_and(|rname| rest.len() - rname.len() == 20)
        }),
        _ => {
            rtype.fixed_rdata_len().is_none_or(|len| data.len() == len)
                && data.len() <= u16::MAX.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(rtype: Rtype, ttl: u32, records: &[&[u8]]) -> Result<RecordSet, InvalidRecordSet> {
        RecordSet::new(rtype, ttl, records.iter().map(|data| (*data).into()))
    }

    #[test]
    fn a_set_has_each_record_once() {
        let set = set(Rtype::A, 5, &[&[10, 0, 0, 2], &[10, 0, 0, 1], &[10, 0, 0, 2]]).unwrap();
        assert_eq!(set.records().collect::<Vec<_>>(), [[10, 0, 0, 1], [10, 0, 0, 2]]);
    }

    #[test]
    fn invalid_sets_are_refused() {
        assert_eq!(set(Rtype::ANY, 5, &[b"x"]), Err(InvalidRecordSet::MetaType(Rtype::ANY)));
        assert_eq!(set(Rtype::A, TTL_MAX + 1, &[&[0; 4]]), Err(InvalidRecordSet::Ttl(TTL_MAX + 1)));
        assert_eq!(set(Rtype::A, 5, &[]), Err(InvalidRecordSet::Count(0)));
        for (rtype, data) in [
            (Rtype::A, &[10, 0, 0][..]),
            (Rtype::AAAA, &[0; 4]),
            (Rtype::NS, b"\x01a"),
            (Rtype::NS, b"\x01a\0\0"),
            (Rtype::CNAME, b"\xc0\x0c"),
            (Rtype::MX, b"\0"),
            (Rtype::SRV, b"\0\0\0\0\0\0"),
            (Rtype::SOA, b"\0\0\0\0"),
        ] {
            assert_eq!(set(rtype, 5, &[data]), Err(InvalidRecordSet::Data(rtype)));
        }
    }
}

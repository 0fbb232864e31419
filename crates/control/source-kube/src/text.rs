//! Records as text, for tests.
use crate::records::{Place, RecordChange, Records};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::{Name, Rtype};

fn name(bytes: &[u8]) -> String {
    Name::parse(bytes).expect("a name").to_string()
}

fn data(rtype: Rtype, data: &[u8]) -> String {
    let number = |at: usize| u16::from_be_bytes([data[at], data[at + 1]]);
    match rtype {
        Rtype::A => Ipv4Addr::from(<[u8; 4]>::try_from(data).expect("4 bytes")).to_string(),
        Rtype::AAAA => Ipv6Addr::from(<[u8; 16]>::try_from(data).expect("16 bytes")).to_string(),
        Rtype::SRV => format!("{} {} {} {}", number(0), number(2), number(4), name(&data[6..])),
        Rtype::TXT => format!("{:?}", String::from_utf8_lossy(&data[1..])),
        _ => name(data),
    }
}

/// Each record as `name TTL type data`, and each name that exists as `name exists`.
pub fn all(records: &Records) -> Vec<String> {
    let mut lines: Vec<String> = records
        .sets()
        .flat_map(|((_, owner, rtype), (ttl, set))| {
            set.iter()
                .map(move |one| format!("{} {ttl} {rtype} {}", name(owner), data(*rtype, one)))
        })
        .collect();
    lines.extend(records.clone().all().into_iter().filter_map(|change| match change {
        RecordChange::AddName(_, owner) => Some(format!("{} exists", name(&owner))),
        RecordChange::AddAddresses(_, owner) => Some(format!("{} addresses", name(&owner))),
        _ => None,
    }));
    lines
}

/// Each change: `+` and `-` for records of reverse names, `=` for a whole set.
pub fn changes(changes: &[RecordChange]) -> Vec<String> {
    let set = |sign: &str, key: &(Place, Box<[u8]>, Rtype), records: &[Box<[u8]>]| {
        let records: Vec<String> = records.iter().map(|one| data(key.2, one)).collect();
        format!("{sign} {} {} {}", name(&key.1), key.2, records.join(", ")).trim_end().to_owned()
    };
    changes
        .iter()
        .map(|change| match change {
            RecordChange::Set(key, of) => set("=", key, of.as_ref().map_or(&[], |(_, all)| all)),
            RecordChange::Ruled(key, (_, all), rules) => {
                let by = match &*rules.check {
                    "" => String::new(),
                    check => format!(" by {check}"),
                };
                let at = match rules.locations.is_empty() {
                    true => String::new(),
                    false => format!(" at {}", rules.locations.join(", ")),
                };
                format!("{}{by}{at}", set("=", key, all))
            }
            RecordChange::Add(key, (_, all)) => set("+", key, all),
            RecordChange::Take(key, (_, all)) => set("-", key, all),
            RecordChange::AddName(_, owner) => format!("+ {}", name(owner)),
            RecordChange::AddAddresses(_, owner) => format!("+ {} addresses", name(owner)),
            RecordChange::RemoveName(_, owner) => format!("- {}", name(owner)),
        })
        .collect()
}

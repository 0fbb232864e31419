//! Counters of replies.
use wire::{Rcode, Rtype};

/// The types by which replies are counted, in the order of [`AnswerCounts::types`]. All DNSSEC
/// types count as one.
pub const TYPE_NAMES: [&str; 14] = [
    "A", "AAAA", "CNAME", "HTTPS", "MX", "NS", "PTR", "SOA", "SRV", "SVCB", "TXT", "ANY", "DNSSEC",
    "other",
];

/// What became of NOTIFY messages, in the order of [`AnswerCounts::notifies`].
pub const NOTIFY_NAMES: [&str; 3] = ["accepted", "refused", "unknown_zone"];

/// The index of all other types.
pub(crate) const TYPE_OTHER: usize = TYPE_NAMES.len() - 1;

pub(crate) fn type_index(rtype: Rtype) -> usize {
    match rtype {
        Rtype::A => 0,
        Rtype::AAAA => 1,
        Rtype::CNAME => 2,
        Rtype::HTTPS => 3,
        Rtype::MX => 4,
        Rtype::NS => 5,
        Rtype::PTR => 6,
        Rtype::SOA => 7,
        Rtype::SRV => 8,
        Rtype::SVCB => 9,
        Rtype::TXT => 10,
        Rtype::ANY => 11,
        Rtype::DS
        | Rtype::DNSKEY
        | Rtype::RRSIG
        | Rtype::NSEC
        | Rtype::NSEC3
        | Rtype::NSEC3PARAM
        | Rtype::CDS
        | Rtype::CDNSKEY => 12,
        _ => TYPE_OTHER,
    }
}

/// Counters of replies to one or more bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerCounts {
    /// Replies by [`Rcode::index`].
    pub rcodes: [u32; Rcode::ALL.len()],
    /// Replies with TC set.
    pub truncated: u32,
    /// Replies by query type, in the order of [`TYPE_NAMES`]. A message that cannot be parsed
    /// counts as `other`.
    pub types: [u32; TYPE_NAMES.len()],
    /// NOTIFY messages by what became of them, in the order of [`NOTIFY_NAMES`].
    pub notifies: [u32; NOTIFY_NAMES.len()],
    /// Messages for a handler outside the data plane: their replies are counted later.
    pub passed_on: u32,
}

impl AnswerCounts {
    #[inline(always)]
    pub(crate) fn count(&mut self, rcode: Rcode, type_index: impl Into<usize>) {
        self.rcodes[rcode.index()] += 1;
        self.types[type_index.into()] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_counted_under_their_names() {
        for number in 0..=u16::MAX {
            let rtype = Rtype(number);
            match TYPE_NAMES[type_index(rtype)] {
                "DNSSEC" => assert!(matches!(number, 43 | 46..=48 | 50 | 51 | 59 | 60)),
                "other" => assert!(rtype.mnemonic().is_none_or(|name| !TYPE_NAMES.contains(&name))),
                name => assert_eq!(rtype.mnemonic(), Some(name)),
            }
        }
    }
}

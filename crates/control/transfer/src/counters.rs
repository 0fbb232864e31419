//! What has become of the queries for transfers, and of the notifications.
use server_status::TransferStatus;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How a transfer was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// With the whole zone, as asked.
    Whole,
    /// With what has changed.
    Incremental,
    /// With the whole zone, because what has changed is not known.
    WholeInstead,
    /// With the SOA record: the client has the newest version, or what has changed does not fit
    /// into a datagram.
    Current,
}

/// Why a query for a transfer was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedFor {
    /// Neither its key nor its address may have the zone.
    NotAllowed,
    /// The zone is not served here.
    NoZone,
    /// The zone was never loaded.
    Unloaded,
    /// As many transfers are in progress as may be, in all or of the client.
    Full,
    /// Its signature is not accepted.
    Signature,
    /// It is malformed.
    Malformed,
}

/// Why a transfer was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutFor {
    /// The client read too slowly.
    SlowReader,
    /// The connection broke.
    Broken,
    /// A record is longer than a message.
    TooLong,
}

const SERVED: [(Served, &str); 4] = [
    (Served::Whole, "whole"),
    (Served::Incremental, "incremental"),
    (Served::WholeInstead, "whole_instead"),
    (Served::Current, "current"),
];
const REFUSED: [(RefusedFor, &str); 6] = [
    (RefusedFor::NotAllowed, "not_allowed"),
    (RefusedFor::NoZone, "no_zone"),
    (RefusedFor::Unloaded, "unloaded"),
    (RefusedFor::Full, "full"),
    (RefusedFor::Signature, "signature"),
    (RefusedFor::Malformed, "malformed"),
];
const CUT: [(CutFor, &str); 3] = [
    (CutFor::SlowReader, "slow_reader"),
    (CutFor::Broken, "broken"),
    (CutFor::TooLong, "too_long"),
];

/// Counters of all transfers.
#[derive(Debug, Default)]
pub struct Counters {
    served: [AtomicU64; SERVED.len()],
    refused: [AtomicU64; REFUSED.len()],
    cut: [AtomicU64; CUT.len()],
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn served(&self, how: Served, records: u64, bytes: u64) {
        self.served[how as usize].fetch_add(1, Relaxed);
        self.records.fetch_add(records, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn refused(&self, why: RefusedFor) {
        self.refused[why as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn cut(&self, why: CutFor) {
        self.cut[why as usize].fetch_add(1, Relaxed);
    }

    /// The counters by their names.
    pub(crate) fn status(&self) -> TransferStatus {
        TransferStatus {
            served: named(&self.served, SERVED.map(|(_, name)| name)),
            refused: named(&self.refused, REFUSED.map(|(_, name)| name)),
            cut: named(&self.cut, CUT.map(|(_, name)| name)),
            records: self.records.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            ..TransferStatus::default()
        }
    }
}

fn named<const N: usize>(counters: &[AtomicU64; N], names: [&str; N]) -> BTreeMap<String, u64> {
    let counts = counters.iter().map(|counter| counter.load(Relaxed));
    names.into_iter().map(str::to_owned).zip(counts).collect()
}

impl RefusedFor {
    /// A clause for the log.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::NotAllowed => {
                "neither its key (`read` for the whole zone) nor its address ([transfer] allow) \
                 may have it"
            }
            Self::NoZone => "the zone is not served here",
            Self::Unloaded => "the zone was never loaded",
            Self::Full => "too many transfers are in progress",
            Self::Signature => "its signature is not accepted",
            Self::Malformed => "it is malformed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_their_counters() {
        assert!(SERVED.iter().enumerate().all(|(at, (how, _))| *how as usize == at));
        assert!(REFUSED.iter().enumerate().all(|(at, (why, _))| *why as usize == at));
        assert!(CUT.iter().enumerate().all(|(at, (why, _))| *why as usize == at));
    }
}

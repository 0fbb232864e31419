//! The records of a transfer, in their order.
use compile::{RecordWalk, WalkedRecord, Zone};
use std::sync::Arc;
use wire::Rtype;

/// Records that are taken a message at a time.
pub trait RecordSource: Send {
    /// Passes records to `take` until it returns false for one that has no room; that one comes
    /// first the next time. Returns whether any record is left.
    fn advance(&mut self, take: &mut dyn FnMut(WalkedRecord<'_>) -> bool) -> bool;
}

/// A record of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// The owner's labels below the origin, in lower case.
    pub name: Box<[u8]>,
    /// Its type.
    pub rtype: Rtype,
    /// Its TTL in seconds.
    pub ttl: u32,
    /// Its data, with uncompressed names.
    pub data: Box<[u8]>,
}

impl OwnedRecord {
    /// The SOA record of a zone; `None` if it was never loaded.
    pub fn soa(zone: &Zone) -> Option<Self> {
        let soa = zone.set(zone.origin(), Rtype::SOA)?;
        let data = soa.records().next()?.into();
        Some(Self { name: Box::default(), rtype: Rtype::SOA, ttl: soa.ttl(), data })
    }

    /// The record as it is walked.
    pub fn as_walked(&self) -> WalkedRecord<'_> {
        let Self { name, rtype, ttl, data } = self;
        WalkedRecord { name, rtype: *rtype, ttl: *ttl, data }
    }
}

impl From<WalkedRecord<'_>> for OwnedRecord {
    fn from(walked: WalkedRecord<'_>) -> Self {
        let WalkedRecord { name, rtype, ttl, data } = walked;
        Self { name: name.into(), rtype, ttl, data: data.into() }
    }
}

/// A whole zone at one moment: its SOA record, all others, and the SOA record again (RFC 5936
/// §2.2). It copies nothing of the zone but that record.
pub struct ZoneRecords {
    walk: RecordWalk,
    is_walked: bool,
    last: Option<OwnedRecord>,
}

impl ZoneRecords {
    /// The zone; `None` if it was never loaded.
    pub fn new(zone: Arc<Zone>) -> Option<Self> {
        let last = Some(OwnedRecord::soa(&zone)?);
        Some(Self { walk: RecordWalk::new(zone), is_walked: false, last })
    }
}

impl RecordSource for ZoneRecords {
    fn advance(&mut self, take: &mut dyn FnMut(WalkedRecord<'_>) -> bool) -> bool {
        self.is_walked = self.is_walked || !self.walk.advance(&mut *take);
        if self.is_walked {
            self.last.take_if(|last| take(last.as_walked()));
        }
        self.last.is_some()
    }
}

/// A few records.
pub struct Listed {
    records: Vec<OwnedRecord>,
    taken: usize,
}

impl Listed {
    /// These records.
    pub fn new(records: Vec<OwnedRecord>) -> Self {
        Self { records, taken: 0 }
    }
}

impl RecordSource for Listed {
    fn advance(&mut self, take: &mut dyn FnMut(WalkedRecord<'_>) -> bool) -> bool {
        let rest = self.records[self.taken..].iter();
        self.taken += rest.take_while(|record| take(record.as_walked())).count();
        self.taken < self.records.len()
    }
}

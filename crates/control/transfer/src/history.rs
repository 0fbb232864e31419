//! What has changed in each zone from serial to serial (RFC 1995): the differences between the
//! versions that were served. All sources have it alike: files, the store, clusters.
use crate::limits::{DIFFERENCES_MAX, DIFFERENCES_OF_ZONE_MAX};
use crate::source::{Listed, OwnedRecord};
use compile::{RecordChange, Zone};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use store::serial::is_newer;

/// Bytes of a record beside its name and its data.
const RECORD_LEN: usize = size_of::<OwnedRecord>();

/// The differences of all zones, within bounds.
#[derive(Default)]
pub struct History(Mutex<Zones>);

#[derive(Default)]
struct Zones {
    by_origin: HashMap<Box<[u8]>, ZoneHistory>,
    /// Bytes of all differences.
    bytes: usize,
}

/// What is known of a zone.
struct ZoneHistory {
    newest: Arc<Zone>,
    serial: u32,
    /// Whether versions with other records had this serial, too: nothing can follow from it.
    is_ambiguous: bool,
    /// The oldest first; each begins at the serial at which the one before ends.
    differences: VecDeque<Arc<Difference>>,
}

/// The records that a serial removed and added.
struct Difference {
    from: u32,
    /// The SOA record before, what is removed, the SOA record after, what is added (RFC 1995 §4).
    records: Vec<OwnedRecord>,
    bytes: usize,
}

impl Difference {
    /// `None`: it is too long to be kept, or a zone was never loaded.
    fn new(old: &Zone, new: &Zone) -> Option<Self> {
        let (before, after) = (OwnedRecord::soa(old)?, OwnedRecord::soa(new)?);
        let (mut removed, mut added, mut bytes) = (vec![before], vec![after], 0);
        let is_whole = old.compare(new, |change, record| {
            bytes += RECORD_LEN + record.name.len() + record.data.len();
            let to = if change == RecordChange::Removed { &mut removed } else { &mut added };
            to.push(record.into());
            bytes <= DIFFERENCES_OF_ZONE_MAX
        });
        removed.append(&mut added);
        is_whole.then(|| Some(Self { from: old.serial()?, records: removed, bytes }))?
    }
}

impl Zones {
    fn record(&mut self, zone: &Arc<Zone>) {
        let (Some(serial), key) = (zone.serial(), zone.origin().as_bytes()) else { return };
        let Some(known) = self.by_origin.get_mut(key) else {
            let (newest, differences) = (Arc::clone(zone), VecDeque::new());
            let history = ZoneHistory { newest, serial, is_ambiguous: false, differences };
            self.by_origin.insert(key.into(), history);
            return;
        };
        if Arc::ptr_eq(&known.newest, zone) {
            return;
        }
        let before = std::mem::replace(&mut known.newest, Arc::clone(zone));
        let is_next = is_newer(serial, known.serial);
        if serial == known.serial {
            if before.has_same_records(zone) {
                return;
            }
            known.is_ambiguous = true;
        }
        let difference = match is_next && !known.is_ambiguous {
            true => Difference::new(&before, zone),
            false => None,
        };
        (known.serial, known.is_ambiguous) = (serial, known.is_ambiguous && !is_next);
        match difference {
            Some(difference) => {
                self.bytes += difference.bytes;
                known.differences.push_back(Arc::new(difference));
            }
            // There is a gap, so nothing older can be used.
            None => self.bytes -= known.forget(0),
        }
        self.bytes -= known.forget(DIFFERENCES_OF_ZONE_MAX);
        self.make_room();
    }

    /// Forgets the differences of the zone with the most bytes, until all have room.
    fn make_room(&mut self) {
        while self.bytes > DIFFERENCES_MAX {
            let largest = self.by_origin.values_mut().max_by_key(|zone| zone.bytes());
            let Some(largest) = largest else { return };
            self.bytes -= largest.forget(0);
        }
    }
}

impl ZoneHistory {
    fn bytes(&self) -> usize {
        self.differences.iter().map(|difference| difference.bytes).sum()
    }

    /// Forgets the oldest differences until at most so many bytes are left. Returns how many are
    /// forgotten.
    fn forget(&mut self, left: usize) -> usize {
        let (mut bytes, before) = (self.bytes(), self.bytes());
        while bytes > left || left == 0 && !self.differences.is_empty() {
            bytes -= self.differences.pop_front().map_or(0, |oldest| oldest.bytes);
        }
        before - bytes
    }
}

impl History {
    /// Notes the newest version of a zone.
    pub fn record(&self, zone: &Arc<Zone>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).record(zone);
    }

    /// Forgets zones that are not served any more.
    pub fn retain(&self, is_served: impl Fn(&[u8]) -> bool) {
        let mut zones = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        zones.by_origin.retain(|origin, _| is_served(origin));
        zones.bytes = zones.by_origin.values().map(ZoneHistory::bytes).sum();
    }

    /// The records that make this version, the newest that was recorded, of that with a serial.
    /// `None`: that is not known.
    pub fn since(&self, zone: &Zone, serial: u32) -> Option<Listed> {
        let zones = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = zones.by_origin.get(zone.origin().as_bytes())?;
        if zone.serial() != Some(known.serial) || known.is_ambiguous {
            return None;
        }
        let start = known.differences.iter().position(|difference| difference.from == serial)?;
        let soa = OwnedRecord::soa(zone)?;
        let differences = known.differences.range(start..);
        let between = differences.flat_map(|difference| difference.records.iter().cloned());
        Some(Listed::new([soa.clone()].into_iter().chain(between).chain([soa]).collect()))
    }

    /// Bytes of all differences.
    pub fn bytes(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }
}

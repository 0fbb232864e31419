//! The zones of the store with all taken writes. They share their content with the image, so there
//! is not a second copy.
use crate::digest::{self, ZoneDigest};
use crate::{Reader, StoreError, StoredSet, StoredZone};
use compile::{OrderedLoader, SetChange, Zone, ZoneProblem};
use image::HashKey;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::serial::SerialStamp;
use wire::{Name, NameBuf, Rtype};

/// Bytes of the numbers after the names of an SOA; the serial is the first (RFC 1035 §3.3.13).
const SOA_NUMBERS_LEN: usize = 20;

/// A zone and its last revision.
#[derive(Clone)]
pub struct ZoneHead {
    pub zone: Zone,
    pub stamp: SerialStamp,
    /// The sum over its records.
    records: u64,
}

/// All zones, by lower-case origin.
pub type ZoneHeads = HashMap<Box<[u8]>, ZoneHead>;

/// The key of a zone.
pub fn key(origin: Name<'_>) -> Box<[u8]> {
    origin.as_bytes().to_ascii_lowercase().into()
}

/// The serial in the data of an SOA.
pub fn serial_of(data: &[u8]) -> Option<u32> {
    let numbers = data.last_chunk::<SOA_NUMBERS_LEN>()?;
    numbers.first_chunk().copied().map(u32::from_be_bytes)
}

/// Replaces the serial in the data of an SOA.
pub fn with_serial(data: &[u8], serial: u32) -> Box<[u8]> {
    let mut data: Box<[u8]> = data.into();
    if let Some(numbers) = data.last_chunk_mut::<SOA_NUMBERS_LEN>() {
        numbers[..4].copy_from_slice(&serial.to_be_bytes());
    }
    data
}

/// A set as served. The SOA of a zone has the zone's last revision, because every write changes its
/// serial.
pub fn served(mut set: StoredSet, zone: SerialStamp) -> StoredSet {
    if set.key.rtype == Rtype::SOA {
        set.revision = zone.revision;
        set.value.data.iter_mut().for_each(|data| *data = with_serial(data, zone.serial()));
    }
    set
}

impl ZoneHead {
    /// A zone that was just made.
    pub fn new(zone: Zone, stamp: SerialStamp) -> Self {
        let records = digest::of_zone(&zone);
        Self { zone, stamp, records }
    }

    /// Its digest; of none if it was never loaded.
    pub fn digest(&self, at: &[u8]) -> ZoneDigest {
        let records = self.zone.serial().map(|_| self.records);
        ZoneDigest::new(at, self.stamp, records)
    }

    /// Changes the zone, all or nothing.
    ///
    /// # Errors
    /// What `change` returns.
    pub fn change<R, E>(
        &mut self,
        changes: &[SetChange<'_, R>],
        change: impl FnOnce(&mut Zone, &[SetChange<'_, R>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = digest::of_changed(&self.zone, changes);
        change(&mut self.zone, changes)?;
        let after = digest::of_changed(&self.zone, changes);
        self.records = self.records.wrapping_sub(before).wrapping_add(after);
        Ok(())
    }

    /// Reads a zone of the store.
    ///
    /// # Errors
    /// The zone cannot be read, or is not valid.
    pub fn load(
        reader: &dyn Reader,
        stored: &StoredZone,
        key: &Arc<HashKey>,
    ) -> Result<Self, StoreError> {
        let origin = stored.origin.as_name();
        let mut loader = OrderedLoader::new(Arc::clone(key), origin);
        let mut wrong = None;
        reader.scan(origin, None, &mut |_, set| match loader.add(
            set.name,
            set.rtype,
            set.value.ttl,
            set.value.records(),
            set.value.rules,
        ) {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => {
                wrong = Some(why);
                ControlFlow::Break(())
            }
        })?;
        let failed = |why: ZoneProblem| StoreError::Failed(why.to_string());
        let zone = match wrong {
            Some(why) => return Err(failed(why)),
            None => loader.finish().map_err(failed)?,
        };
        let mut head = Self::new(zone, stored.stamp);
        head.set_serial();
        Ok(head)
    }

    /// Sets the serial of the SOA to the stamp's.
    pub fn set_serial(&mut self) {
        let serial = self.stamp.serial();
        if self.zone.serial() == Some(serial) {
            return;
        }
        let origin = NameBuf::from(self.zone.origin());
        let Some(soa) = self.zone.set(origin.as_name(), Rtype::SOA) else { return };
        let (ttl, rules) = (soa.ttl(), soa.rules().to_vec());
        let records: Vec<_> = soa.records().map(|data| with_serial(data, serial)).collect();
        let set = Some((ttl, &records[..]));
        self.zone
            .change_all(&[SetChange { name: &[], rtype: Rtype::SOA, set, rules }])
            .expect("another serial makes no other zone of it");
    }
}

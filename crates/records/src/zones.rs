//! The zones of the store as they will be once all that was taken is written. They share what they
//! hold with the image: there is no second copy.
use crate::{Reader, Revision, StoreError, StoredSet, StoredZone};
use compile::{Ordered, Problem, Zone};
use image::HashKey;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};

/// Octets of the numbers behind the names of an SOA; the serial is the first (RFC 1035 §3.3.13).
const SOA_NUMBERS_LEN: usize = 20;

/// A zone, and when it was last written.
#[derive(Clone)]
pub struct Head {
    pub zone: Zone,
    pub revision: Revision,
}

/// All of them, by their origins in lower case.
pub type Heads = HashMap<Box<[u8]>, Head>;

/// How a zone is found.
pub fn key(origin: Name<'_>) -> Box<[u8]> {
    origin.octets().to_ascii_lowercase().into()
}

/// The data of an SOA with the serial of a revision.
pub fn with_serial(data: &[u8], revision: Revision) -> Box<[u8]> {
    let mut data: Box<[u8]> = data.into();
    if let Some(numbers) = data.last_chunk_mut::<SOA_NUMBERS_LEN>() {
        numbers[..4].copy_from_slice(&revision.serial().to_be_bytes());
    }
    data
}

/// A set as it is answered. Every write to a zone changes the serial of its SOA: that was last
/// written with the zone.
pub fn served(mut set: StoredSet, zone: Revision) -> StoredSet {
    if set.key.rtype == Rtype::SOA {
        set.revision = zone;
        set.value.data.iter_mut().for_each(|data| *data = with_serial(data, zone));
    }
    set
}

impl Head {
    /// Reads a zone of the store.
    ///
    /// # Errors
    /// When it cannot be read, or is none that could be served.
    pub fn load(
        reader: &dyn Reader,
        stored: &StoredZone,
        key: &Arc<HashKey>,
    ) -> Result<Self, StoreError> {
        let origin = stored.origin.as_name();
        let mut loader = Ordered::new(Arc::clone(key), origin);
        let mut wrong = None;
        reader.scan(origin, None, &mut |set| match loader.add(
            set.name,
            set.rtype,
            set.value.ttl,
            set.value.records(),
        ) {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => {
                wrong = Some(why);
                ControlFlow::Break(())
            }
        })?;
        let failed = |why: Problem| StoreError::Failed(why.to_string());
        let zone = match wrong {
            Some(why) => return Err(failed(why)),
            None => loader.finish().map_err(failed)?,
        };
        let mut head = Self { zone, revision: stored.revision };
        head.set_serial();
        Ok(head)
    }

    /// Has the SOA tell the serial of the revision.
    pub fn set_serial(&mut self) {
        if self.zone.serial() == Some(self.revision.serial()) {
            return;
        }
        let origin = NameBuf::from(self.zone.origin());
        let Some(soa) = self.zone.set(origin.as_name(), Rtype::SOA) else { return };
        let ttl = soa.ttl();
        let records: Vec<_> = soa.records().map(|data| with_serial(data, self.revision)).collect();
        let records: Vec<&[u8]> = records.iter().map(|data| &**data).collect();
        self.zone
            .change(origin.as_name(), Rtype::SOA, Some((ttl, &records)))
            .expect("another serial makes no other zone of it");
    }
}

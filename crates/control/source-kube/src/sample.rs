//! Record sets that no message can carry are served in part: a sample that fits.
use crate::limits::{SET_LEN_MAX, SET_RECORDS_MAX};
use crate::records::{Set, SetKey};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

/// Bytes of a record in a message without its data: owner pointer, type, class, TTL, length.
const RECORD_HEAD_LEN: usize = 12;

/// Chooses the records of sets that are too large, and counts these sets.
///
/// A keyed hash decides, so each record is as likely as any other, replicas choose different ones,
/// and a change of one record changes at most two of the sample.
#[derive(Debug, Default)]
pub struct Sampler {
    key: RandomState,
    sampled: BTreeSet<SetKey>,
}

impl Sampler {
    /// How many sets are served in part now.
    pub fn count(&self) -> usize {
        self.sampled.len()
    }

    /// All sets are put again.
    pub fn clear(&mut self) {
        self.sampled.clear();
    }

    /// A set is gone.
    pub fn remove(&mut self, key: &SetKey) {
        self.sampled.remove(key);
    }

    /// The set, or a sample of it that fits one message.
    pub fn fit(&mut self, key: &SetKey, (ttl, mut data): Set) -> Set {
        if fits(&data) {
            self.sampled.remove(key);
            return (ttl, data);
        }
        self.sampled.insert(key.clone());
        data.sort_by_cached_key(|record| self.key.hash_one(record));
        let mut room = SET_LEN_MAX;
        let fits = data.iter().take(SET_RECORDS_MAX).take_while(|record| {
            let rest = room.checked_sub(size(record));
            room = rest.unwrap_or_default();
            rest.is_some()
        });
        let count = fits.count();
        data.truncate(count);
        data.sort_unstable();
        (ttl, data)
    }
}

/// Bytes of a record in a message.
fn size(record: &[u8]) -> usize {
    RECORD_HEAD_LEN + record.len()
}

/// Whether one message can carry these records.
pub fn fits(data: &[Box<[u8]>]) -> bool {
    let len: usize = data.iter().map(|record| size(record)).sum();
    len <= SET_LEN_MAX && data.len() <= SET_RECORDS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Place;
    use wire::Rtype;

    fn key() -> SetKey {
        (Place::Zone(0), b"\x03web\0"[..].into(), Rtype::A)
    }

    fn addresses(count: u32) -> Vec<Box<[u8]>> {
        (0..count).map(|number| Box::from(number.to_be_bytes())).collect()
    }

    #[test]
    fn a_set_that_fits_is_whole() {
        let mut sampler = Sampler::default();
        let most = (SET_LEN_MAX / 16) as u32;
        assert_eq!(sampler.fit(&key(), (5, addresses(most))).1.len(), most as usize);
        assert_eq!(sampler.count(), 0);
    }

    #[test]
    fn a_sample_fits_is_counted_and_hardly_changes() {
        let mut sampler = Sampler::default();
        let all = addresses(20_000);
        let (_, sample) = sampler.fit(&key(), (5, all.clone()));
        assert_eq!((sample.len(), sampler.count()), (SET_LEN_MAX / 16, 1));
        assert!(sample.is_sorted() && sample.iter().all(|one| all.contains(one)));
        let gone = sample[17].clone();
        let left = all.into_iter().filter(|one| *one != gone).collect();
        let (_, after) = sampler.fit(&key(), (5, left));
        assert_eq!(after.iter().filter(|one| !sample.contains(one)).count(), 1);
        sampler.fit(&key(), (5, addresses(3)));
        assert_eq!(sampler.count(), 0, "it is whole again");
    }

    /// Each record is in a sample as often as any other: of 400 samplers, a record that half of the
    /// samples have is in 200, and in fewer than 120 or more than 280 with a probability below
    /// 10^-15.
    #[test]
    fn a_sample_is_fair() {
        let half = addresses(2 * (SET_LEN_MAX / 16) as u32);
        let watched = [0, 1, 4_000, half.len() - 1];
        let mut times = [0; 4];
        for _ in 0..400 {
            let (_, sample) = Sampler::default().fit(&key(), (5, half.clone()));
            for (count, at) in times.iter_mut().zip(watched) {
                *count += u32::from(sample.binary_search(&half[at]).is_ok());
            }
        }
        assert!(times.iter().all(|count| (120..=280).contains(count)), "{times:?}");
    }
}

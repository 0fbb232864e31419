//! Chooses the records of a set that one client gets: those that are nearest to it, in an order, up
//! to a number. The client, its location and one random number decide; nothing else does, so all
//! threads and servers choose alike.
//!
//! Records by hash are chosen as in rendezvous hashing: each record and the client's network make a
//! number, and the highest wins. If a record goes, only its clients get others. With weights the
//! number is an exponential variable of that rate (Efraimidis and Spirakis, 2006).
use core::cmp::Ordering;
use core::net::IpAddr;
use core::ops::Range;
use image::{Location, ORDERED_MAX, Order, RecordSet, Selection};

/// What of a query chooses.
#[derive(Clone, Copy, Debug)]
pub struct Chooser {
    /// The client.
    pub client: IpAddr,
    /// Where it is.
    pub location: Location,
    /// A random number, new for each set of a reply.
    pub draw: u64,
}

/// Bits that the IPv6 addresses of a site have in common (RFC 6177).
const SITE_LEN: u8 = 56;
/// Bits behind the point of a logarithm.
const LOG_BITS: u32 = 31;
/// Intervals of the table of logarithms, as a power of two.
const STEP_BITS: u32 = 8;
/// The logarithms to base 2 of 1 to 2.
const LOGS: [u32; (1 << STEP_BITS) + 1] = {
    let (mut logs, mut at) = ([0; (1 << STEP_BITS) + 1], 0);
    while at < logs.len() {
        logs[at] = log_of(at as u128);
        at += 1;
    }
    logs
};
/// A multiplier without structure (the golden ratio, as SplitMix64 has it).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The records of a set that may be chosen besides those that each answer has.
struct Candidates<'s, 'i> {
    set: &'s RecordSet<'i>,
    selection: &'s Selection<'i>,
    numbers: Range<usize>,
    /// The data of all records.
    data: &'i [u8],
    /// The sum of their weights; 0: all are equal.
    total: u64,
}

/// A record's place in the order: those with a smaller quotient of both come first.
#[derive(Clone, Copy)]
struct Rank {
    exponent: u64,
    weight: u16,
    number: u16,
}

impl Chooser {
    /// Passes on each record of the answer, in its order. Returns how many there are.
    ///
    /// # Errors
    /// The first of `each`; no further records are passed on.
    pub fn choose<'i, E>(
        &self,
        set: &RecordSet<'i>,
        selection: &Selection<'i>,
        each: &mut dyn FnMut(&'i [u8]) -> Result<(), E>,
    ) -> Result<u16, E> {
        let numbers = nearest(selection, self.location, set.count());
        let start = (numbers.start + usize::from(selection.first)).min(numbers.end);
        let (mut count, data) = (0, set.data());
        let mut put = |number: usize| {
            count += 1;
            each(record(set, data, number))
        };
        (numbers.start..start).try_for_each(&mut put)?;
        let candidates = Candidates::new(set, selection, start..numbers.end);
        match (selection.order, selection.others) {
            (_, 0) => {}
            (_, 1) => self.first_of(&candidates).map_or(Ok(()), put)?,
            (Order::Random, others) => {
                let all = || candidates.numbers().clone();
                let start = self.below(all().count());
                all().skip(start).chain(all().take(start)).take(others.into()).try_for_each(put)?;
            }
            (_, others) => self.ordered(&candidates, others.into(), &mut put)?,
        }
        Ok(count)
    }

    /// The record of an answer that has one; `None`: it may have others, too.
    #[inline]
    pub(crate) fn choose_one<'i>(
        &self,
        set: &RecordSet<'i>,
        selection: &Selection<'i>,
    ) -> Option<&'i [u8]> {
        let numbers = nearest(selection, self.location, set.count());
        let candidates = Candidates::new(set, selection, numbers);
        Some(record(set, candidates.data, self.first_of(&candidates)?))
    }

    /// A number below `sides`, which the random number decides.
    fn below(&self, sides: usize) -> usize {
        ((self.draw >> 32) as usize * sides) >> 32
    }

    /// The candidate that comes first.
    #[inline]
    fn first_of(&self, candidates: &Candidates<'_, '_>) -> Option<usize> {
        match candidates.selection.order {
            Order::Weighted if candidates.total > 0 => {
                let mut left = (u128::from(self.draw) * u128::from(candidates.total)) >> 64;
                candidates.numbers.clone().find(|number| {
                    let weight = u128::from(candidates.selection.weight(*number));
                    let is_it = left < weight;
                    left = left.wrapping_sub(weight);
                    is_it
                })
            }
            Order::Hash => {
                let seed = self.seed(candidates);
                let ranks = candidates.numbers().map(|number| candidates.rank(seed, number));
                ranks.min_by(Rank::cmp).map(|rank| rank.number.into())
            }
            _ if candidates.total == 0 => {
                Some(candidates.numbers.start + self.below(candidates.numbers.len()))
                    .filter(|number| *number < candidates.numbers.end)
            }
            _ => {
                let all = candidates.numbers();
                all.clone().nth(self.below(all.count()))
            }
        }
    }

    /// Passes on the first candidates in their order.
    #[inline(never)]
    fn ordered<E>(
        &self,
        candidates: &Candidates<'_, '_>,
        others: usize,
        put: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let seed = self.seed(candidates);
        let mut ranks = [Rank { exponent: 0, weight: 1, number: 0 }; ORDERED_MAX];
        let mut len = 0;
        for (rank, number) in ranks.iter_mut().zip(candidates.numbers()) {
            *rank = candidates.rank(seed, number);
            len += 1;
        }
        ranks[..len].sort_unstable_by(Rank::cmp);
        ranks[..len].iter().take(others).try_for_each(|rank| put(rank.number.into()))
    }

    /// What decides the ranks besides the records: the random number, or the client's network.
    fn seed(&self, candidates: &Candidates<'_, '_>) -> u64 {
        let network = match (candidates.selection.order, self.client.to_canonical()) {
            (Order::Weighted | Order::Random, _) => return self.draw,
            (Order::Hash, IpAddr::V4(client)) => client.to_bits().into(),
            (Order::Hash, IpAddr::V6(client)) => {
                1 << 63 | (client.to_bits() >> (128 - SITE_LEN)) as u64
            }
        };
        mix(candidates.selection.key ^ network)
    }
}

impl<'s, 'i> Candidates<'s, 'i> {
    #[inline]
    fn new(set: &'s RecordSet<'i>, selection: &'s Selection<'i>, numbers: Range<usize>) -> Self {
        let total = match selection.has_weights() {
            true => numbers.clone().map(|number| u64::from(selection.weight(number))).sum(),
            false => 0,
        };
        Self { set, selection, numbers, data: set.data(), total }
    }

    /// The numbers of the records, without those of weight 0 if there are others.
    #[inline]
    fn numbers(&self) -> impl Iterator<Item = usize> + Clone + use<'_, 's, 'i> {
        let numbers = self.numbers.clone();
        numbers.filter(|number| self.total == 0 || self.selection.weight(*number) > 0)
    }

    #[inline]
    fn rank(&self, seed: u64, number: usize) -> Rank {
        let hash = mix(seed ^ fold(record(self.set, self.data, number)));
        let (exponent, weight) = match self.total {
            0 => (!hash, 1),
            _ => (exponent(hash), self.selection.weight(number)),
        };
        Rank { exponent, weight, number: number as u16 }
    }
}

impl Rank {
    /// The order; equal ones come in that of the records.
    fn cmp(&self, other: &Self) -> Ordering {
        let own = self.exponent.wrapping_mul(other.weight.into());
        let theirs = other.exponent.wrapping_mul(self.weight.into());
        own.cmp(&theirs).then(self.number.cmp(&other.number))
    }
}

/// How many leading bits of a client's address the order by hash takes in.
pub(crate) fn hashed_len(client: IpAddr) -> u8 {
    match (client, client.to_canonical()) {
        (IpAddr::V4(_), _) => 32,
        (_, IpAddr::V4(_)) => 128,
        _ => SITE_LEN,
    }
}

/// The numbers of the records that have the longest path in common with a location, if any has one.
#[inline]
pub fn nearest(selection: &Selection<'_>, location: Location, records: usize) -> Range<usize> {
    let common = selection.groups().map(|group| group.location.common_levels(location)).max();
    let common = common.unwrap_or_default();
    if common == 0 {
        return 0..records;
    }
    let mut near = selection
        .groups()
        .filter(|group| group.location.common_levels(location) == common)
        .map(|group| usize::from(group.start)..usize::from(group.end));
    let first = near.next().unwrap_or_default();
    let end = near.last().map_or(first.end, |last| last.end);
    first.start.min(records)..end.min(records)
}

/// A record of a set with this data by its number; empty: there is none.
#[inline]
fn record<'i>(set: &RecordSet<'i>, data: &'i [u8], number: usize) -> &'i [u8] {
    match set.rtype().fixed_rdata_len() {
        Some(len) => data.get(number * len..(number + 1) * len).unwrap_or_default(),
        None => set.records().nth(number).unwrap_or_default(),
    }
}

/// A number from the bytes of a record.
#[inline]
fn fold(record: &[u8]) -> u64 {
    let (words, rest) = record.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let add = |sum: u64, word: &[u8; 8]| {
        (sum.rotate_left(29) ^ u64::from_le_bytes(*word)).wrapping_mul(MULTIPLIER)
    };
    add(words.iter().fold(record.len() as u64, add), &last)
}

/// Spreads each bit over all (MurmurHash3's finalizer with the constants of David Stafford).
#[inline]
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// -log2 of a number as a part of 2^64, with [`LOG_BITS`] behind the point: for uniform numbers an
/// exponential variable.
#[inline]
fn exponent(number: u64) -> u64 {
    let whole = 63 - (number | 1).leading_zeros();
    // 31 bits behind the leading one.
    let part = ((number | 1) << (63 - whole)) << 1 >> 33;
    let (step, within) = (part >> (31 - STEP_BITS), part & ((1 << (31 - STEP_BITS)) - 1));
    let [low, high] = [LOGS[step as usize], LOGS[step as usize + 1]].map(u64::from);
    let log = low + (((high - low) * within) >> (31 - STEP_BITS));
    (64 << LOG_BITS) - (u64::from(whole) << LOG_BITS) - log
}

/// The logarithm to base 2 of 1 and a number of steps, bit by bit: the square of a number has twice
/// its logarithm.
const fn log_of(step: u128) -> u32 {
    let (mut square, mut log, mut bit) = ((1 << 62) + (step << (62 - STEP_BITS)), 0u32, 0);
    if step == 1 << STEP_BITS {
        return 1 << LOG_BITS;
    }
    while bit < LOG_BITS {
        square = (square * square) >> 62;
        log <<= 1;
        if square >= 2 << 62 {
            square >>= 1;
            log |= 1;
        }
        bit += 1;
    }
    log
}

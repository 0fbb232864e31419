//! Chooses the records of a set that one client gets: those that are nearest to it, in an order, up
//! to a number. The client, its location and one random number decide; nothing else does, so all
//! threads and servers choose alike.
//!
//! Records by hash are chosen as in rendezvous hashing: the hash of each record, which the image
//! has, and the client's network make a number, and the lowest wins. If a record goes, only its
//! clients get others. With weights the number is an exponential variable of that rate
//! (Efraimidis and Spirakis, 2006).
use core::net::IpAddr;
use core::ops::Range;
use image::{Group, Location, ORDERED_MAX, Order, RecordSet, Selection, inverse_of, mix};

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
/// The natural logarithm of 2, with 27 bits behind the point, rounded up.
const LN_2: u64 = 93_032_640;
/// How many times larger a number is than its score, if the logarithm is as small as it can be.
const SCORE_BITS: u32 = 6;

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
        let others = start..numbers.end;
        let one = if selection.others == 1 { self.one(selection, &others) } else { None };
        match one {
            Some(number) => put(number)?,
            None => self.ordered(selection, others, &mut put)?,
        }
        Ok(count)
    }

    /// Which of these records an answer has that has one; `None`: [`Self::choose`] says it.
    #[inline(always)]
    pub(crate) fn one(&self, selection: &Selection<'_>, numbers: &Range<usize>) -> Option<usize> {
        let total = if selection.has_weights() { selection.weight_of(numbers) } else { 0 };
        let number = match selection.order {
            Order::Hash if total == 0 => numbers.start + self.first_by_hash(selection, numbers),
            Order::Hash => numbers.start + self.first_by_score(selection, numbers),
            // Each comes as often as any other.
            _ if total == 0 => numbers.start + below(self.draw, numbers.len()),
            Order::Weighted => {
                let part = (u128::from(self.draw) * u128::from(total)) >> 64;
                selection.record_at(selection.weight_before(numbers.start) + part as u32)?
            }
            Order::Random => return None,
        };
        (number < numbers.end).then_some(number)
    }

    /// How many of these records come after the others, if they come as they stand.
    #[inline(always)]
    pub(crate) fn rotation(
        &self,
        selection: &Selection<'_>,
        numbers: &Range<usize>,
    ) -> Option<usize> {
        let is_plain = selection.order == Order::Random && !selection.has_weights();
        is_plain.then(|| below(self.draw, numbers.len()))
    }

    /// Which of these records has the lowest number.
    #[inline(always)]
    fn first_by_hash(&self, selection: &Selection<'_>, numbers: &Range<usize>) -> usize {
        let (seed, mut first, mut least) = (self.seed(selection), 0, u64::MAX);
        for (at, hash) in selection.hashes(numbers).enumerate() {
            let number = spread(seed ^ hash);
            if number < least {
                (first, least) = (at, number);
            }
        }
        first
    }

    /// Which of these records has the lowest score.
    #[inline(always)]
    fn first_by_score(&self, selection: &Selection<'_>, numbers: &Range<usize>) -> usize {
        let (seed, mut first, mut least) = (self.seed(selection), 0, u64::MAX);
        // No record whose number is above this bound has a lower score.
        let mut bound = u64::MAX;
        for (at, (hash, inverse)) in selection.weighed_hashes(numbers).enumerate() {
            let number = spread(seed ^ hash);
            if high_half(number, inverse) >= bound {
                continue;
            }
            let score = score(number, inverse);
            if score < least {
                (first, least) = (at, score);
                bound = least.saturating_mul(1 << SCORE_BITS);
            }
        }
        first
    }

    /// Passes on the first of these records in their order, without those of weight 0 if there are
    /// others.
    #[inline(never)]
    fn ordered<E>(
        &self,
        selection: &Selection<'_>,
        numbers: Range<usize>,
        put: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let (total, others) = (selection.weight_of(&numbers), usize::from(selection.others));
        let candidates = numbers.filter(|number| total == 0 || selection.weight(*number) > 0);
        if selection.order == Order::Random {
            let start = below(self.draw, candidates.clone().count());
            let rest = candidates.clone().skip(start);
            return rest.chain(candidates.take(start)).take(others).try_for_each(put);
        }
        let seed = self.seed(selection);
        let (mut ranks, mut len) = ([(0, 0); ORDERED_MAX], 0);
        for (rank, number) in ranks.iter_mut().zip(candidates) {
            // By weight, chance alone decides.
            let hash = selection.hashes(&(number..number + 1)).next();
            let hash = spread(seed ^ hash.unwrap_or_else(|| mix(number as u64 + 1)));
            let inverse = inverse_of(selection.weight(number));
            *rank = (if total == 0 { hash } else { score(hash, inverse) }, number);
            len += 1;
        }
        ranks[..len].sort_unstable();
        ranks[..len].iter().take(others).try_for_each(|(_, number)| put(*number))
    }

    /// What decides the order besides the records: the random number, or the client's network.
    #[inline(always)]
    fn seed(&self, selection: &Selection<'_>) -> u64 {
        let network = match (selection.order, self.client.to_canonical()) {
            (Order::Weighted | Order::Random, _) => return self.draw,
            (Order::Hash, IpAddr::V4(client)) => client.to_bits().into(),
            (Order::Hash, IpAddr::V6(client)) => {
                1 << 63 | (client.to_bits() >> (128 - SITE_LEN)) as u64
            }
        };
        mix(selection.key ^ network)
    }
}

/// A number below `sides`, which a random number decides.
#[inline(always)]
pub(crate) fn below(draw: u64, sides: usize) -> usize {
    ((draw >> 32) as usize * sides) >> 32
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
    let (mut near, mut most) = (0..records, 0);
    if location == Location::UNKNOWN {
        return near;
    }
    for Group { location: place, start, end } in selection.groups() {
        let common = location.common_levels(place);
        if common > most {
            (near, most) = (start.into()..end.into(), common);
        } else if common == most && most > 0 {
            // Those of a common path are neighbors.
            near.end = end.into();
        }
    }
    // Empty if the image is wrong.
    near.start..near.end.min(records)
}

/// A record of a set with this data by its number; empty: there is none.
#[inline]
fn record<'i>(set: &RecordSet<'i>, data: &'i [u8], number: usize) -> &'i [u8] {
    match set.rtype().fixed_rdata_len() {
        Some(len) => data.get(number * len..(number + 1) * len).unwrap_or_default(),
        None => set.records().nth(number).unwrap_or_default(),
    }
}

/// Both halves of a product with a multiplier without structure (the golden ratio).
#[inline(always)]
fn spread(number: u64) -> u64 {
    let product = u128::from(number) * 0x9e37_79b9_7f4a_7c15;
    product as u64 ^ (product >> 64) as u64
}

/// The product of two fractions of 2^64.
#[inline(always)]
fn high_half(one: u64, other: u64) -> u64 {
    ((u128::from(one) * u128::from(other)) >> 64) as u64
}

/// An exponential variable of a rate, the weight, from a uniform number: -ln(1 - number) / weight.
/// At least `high_half(number, inverse) >> SCORE_BITS`, as -ln(1 - x) is at least x and all is
/// rounded up until the last step.
#[inline]
fn score(number: u64, inverse: u64) -> u64 {
    if inverse == u64::MAX { inverse } else { high_half(exponent(!number) * LN_2, inverse) }
}

/// -log2 of a number as a part of 2^64, with [`LOG_BITS`] behind the point, rounded up.
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

//! The tap on one thread of the plane: picks queries, and writes them with their replies into the
//! thread's ring. It allocates nothing and waits for nothing.
use crate::limits::{RING_OCTETS, STAGED_OCTETS};
use crate::sample::{QueryOutcome, Sample};
use packet::{BURST_MAX, Packet, Verdict};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use sync::{EventReader, EventWriter, events};

/// How often a query is picked, for all threads. Read by each once a burst, written when the
/// settings change, and so alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SharedRate(AtomicU32);

impl SharedRate {
    /// Has one query in so many be picked; 0: none.
    pub fn set(&self, one_in: u32) {
        self.0.store(one_in, Ordering::Relaxed);
    }

    /// One query in so many is picked; 0: none.
    #[inline]
    pub fn one_in(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sebastiano Vigna's splitmix64: quick, and good enough to pick samples by.
#[derive(Clone, Debug)]
pub struct SampleRng(pub u64);

impl SampleRng {
    /// A number below `bound`.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let high = (z ^ (z >> 31)) >> 32;
        ((high * u64::from(bound)) >> 32) as u32
    }
}

/// Picks queries of one thread and tells what became of them. Once a burst: [`begin`](Self::begin)
/// before it is answered, [`end`](Self::end) behind it.
pub struct QueryTap {
    rate: Arc<SharedRate>,
    events: EventWriter,
    /// The rate that `pass` was dealt for.
    one_in: u32,
    /// Queries to pass over until the next is picked.
    pass: u32,
    rng: SampleRng,
    /// What was picked of the burst that is answered now.
    picked: [SampledQuery; BURST_MAX],
    picked_len: usize,
    /// Their messages, one behind the other, since replies are written over them.
    queries: Box<[u8]>,
    /// When the burst was read: by the wall clock since 1970, and by the monotonic clock.
    read: [Duration; 2],
}

/// A query that was picked: its place in the burst, and where its copy ends.
#[derive(Clone, Copy, Default)]
struct SampledQuery {
    index: u8,
    end: u32,
}

impl QueryTap {
    /// A tap, and where what it writes is read.
    pub fn new(rate: Arc<SharedRate>, seed: u64) -> (Self, EventReader) {
        let (events, reader) = events(RING_OCTETS);
        let tap = Self {
            rate,
            events,
            one_in: 0,
            pass: 0,
            rng: SampleRng(seed),
            picked: [SampledQuery::default(); BURST_MAX],
            picked_len: 0,
            queries: vec![0; STAGED_OCTETS].into(),
            read: [Duration::ZERO; 2],
        };
        (tap, reader)
    }

    /// Picks of a burst that has not been answered yet. `unix` and `monotonic` are when it was
    /// read: the time since 1970, and that of CLOCK_MONOTONIC. One load and one branch while the
    /// tap is off.
    #[inline]
    pub fn begin(&mut self, packets: &[Packet<'_>], unix: Duration, monotonic: Duration) {
        let one_in = self.rate.one_in();
        if one_in != 0 {
            self.read = [unix, monotonic];
            self.pick(packets, one_in);
        }
    }

    /// Writes what was picked, with what became of it.
    #[inline]
    pub fn end(&mut self, packets: &[Packet<'_>]) {
        if self.picked_len != 0 {
            self.write(packets);
        }
    }

    /// Forgets what was picked of a burst that is not answered.
    #[cold]
    pub fn discard(&mut self) {
        self.picked_len = 0;
    }

    /// Copies the queries that are picked.
    fn pick(&mut self, packets: &[Packet<'_>], one_in: u32) {
        if one_in != self.one_in {
            self.one_in = one_in;
            self.pass = self.rng.below(one_in);
        }
        let (mut end, mut at) = (0, self.pass as usize);
        while let Some(packet) = packets.get(at) {
            let query = packet.message();
            match self.queries.get_mut(end..end + query.len()) {
                Some(room) if self.picked_len < BURST_MAX => {
                    room.copy_from_slice(query);
                    end += query.len();
                    let picked = SampledQuery { index: at as u8, end: end as u32 };
                    self.picked[self.picked_len] = picked;
                    self.picked_len += 1;
                }
                _ => self.events.lose(),
            }
            // From none to all but two of 2 n: n - 1 on average. Every n-th would be always the
            // same one of clients that ask for A and AAAA in turns.
            at += 1 + self.rng.below(2 * one_in - 1) as usize;
        }
        self.pass = (at - packets.len()) as u32;
    }

    fn write(&mut self, packets: &[Packet<'_>]) {
        let now = clock_gettime(ClockId::Monotonic);
        let [unix, monotonic] = self.read;
        let took = Duration::new(now.tv_sec as u64, now.tv_nsec as u32).saturating_sub(monotonic);
        let mut start = 0;
        for SampledQuery { index, end } in self.picked[..self.picked_len].iter().copied() {
            let query = &self.queries[start..end as usize];
            start = end as usize;
            let packet = &packets[usize::from(index)];
            let (outcome, reply) = match packet.verdict {
                Verdict::Reply => (QueryOutcome::Reply(packet.message()), packet.message()),
                Verdict::Drop(reason) => (QueryOutcome::Dropped(reason), &[][..]),
                // It may be picked when it is answered.
                Verdict::Deferred | Verdict::Control | Verdict::Stream => continue,
            };
            let (one_in, transport) = (self.one_in, packet.context.transport);
            let (client, peer) = (packet.context.client, packet.peer);
            let sample = Sample { one_in, unix, took, client, peer, transport, query, outcome };
            self.events.write([&sample.head(), query, reply]);
        }
        self.picked_len = 0;
    }
}

#[cfg(test)]
mod tests;

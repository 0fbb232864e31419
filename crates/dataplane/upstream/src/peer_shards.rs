//! The rings between the shards of a process, and their messages.
//!
//! Between each two shards are two rings, each with one writer and one reader. No thread waits, and
//! no cache line has two writers. A shard that has read everything may sleep. Its epoll watches an
//! eventfd, which is written once for all messages until it reads.
use crate::limits::{PEER_SHARDS_MAX, RING_BYTES_MAX, RING_BYTES_MIN, RING_SHARE, RINGS_BYTES_MAX};
use cache::{CacheKey, QueryKind};
use forward::QueryId;
use forward::limits::QUERIES_MAX;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use sync::{EventReader, EventWriter, events};
use wire::Name;

/// The ends of the rings of one shard.
pub struct PeerShards {
    pub(crate) own: usize,
    /// The number of owner shards, which come first.
    owner_shards: usize,
    /// By the number of the shard; its own is `None`.
    receivers: Vec<Option<EventReader>>,
    senders: Vec<Option<Sender>>,
    pub(crate) waker: Arc<OwnedFd>,
    /// A bit for each shard to which something was written since the last wake-up.
    written_to: u64,
    /// The end of each query in its ring, by the slot of its ID; 0: it has been read.
    marks: Box<[u64]>,
    /// Bytes of the longest message.
    len_max: usize,
    /// The serials of the last flush that started, and that was done.
    pub(crate) begun: u64,
    pub(crate) done: u64,
}

/// The end of a ring to another shard.
struct Sender {
    ring: EventWriter,
    waker: Arc<OwnedFd>,
}

/// Rings for `owner_shards` shards that own names, and `others` behind them that only delegate;
/// each is for [`UpstreamClient::join_peers`](crate::UpstreamClient::join_peers). Empty for a
/// single shard, or if the rings would be too short.
///
/// # Errors
/// No file descriptor is left.
pub fn peer_shards(owner_shards: usize, others: usize) -> io::Result<Vec<PeerShards>> {
    let count = owner_shards + others;
    let pairs = owner_shards * owner_shards.saturating_sub(1) + 2 * owner_shards * others;
    let bytes = RINGS_BYTES_MAX.checked_div(pairs).unwrap_or_default().min(RING_BYTES_MAX);
    if count > PEER_SHARDS_MAX || bytes < RING_BYTES_MIN {
        return Ok(Vec::new());
    }
    // Rings are rounded up.
    let bytes = 1 << bytes.ilog2();
    let mut all = Vec::with_capacity(count);
    for own in 0..count {
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        all.push(PeerShards {
            own,
            owner_shards,
            receivers: (0..count).map(|_| None).collect(),
            senders: (0..count).map(|_| None).collect(),
            waker: Arc::new(waker),
            written_to: 0,
            marks: vec![0; QUERIES_MAX].into(),
            len_max: bytes / RING_SHARE,
            begun: 0,
            done: 0,
        });
    }
    for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
        if from != to && (from < owner_shards || to < owner_shards) {
            let (ring, receiver) = events(bytes);
            let waker = Arc::clone(&all[to].waker);
            all[from].senders[to] = Some(Sender { ring, waker });
            all[to].receivers[from] = Some(receiver);
        }
    }
    Ok(all)
}

/// A query for an owner shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardRequest {
    /// The ID for the answer.
    pub(crate) query_id: QueryId,
    pub(crate) group: u16,
    /// The last flush that the sender has started: older answers are not accepted.
    pub(crate) flush: u64,
    /// Whether the sender has an answer that expires soon.
    pub(crate) is_renewal: bool,
}

impl ShardRequest {
    /// No request: a message about a key.
    const NONE: Self =
        Self { query_id: QueryId::from_bits(0), group: 0, flush: 0, is_renewal: false };
}

/// The time of an answer and its lifetime, in monotonic seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnswerLifetime {
    pub(crate) made: u32,
    pub(crate) ttl: u32,
}

/// A message between shards.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ShardMessage<'m> {
    /// A query.
    Want(ShardRequest, CacheKey<'m>),
    /// The answer: its cache value.
    Answer(QueryId, AnswerLifetime, &'m [u8]),
    /// No server answered; this stale entry exists.
    Stale(QueryId, AnswerLifetime, &'m [u8]),
    /// No server answered, and the lifetime if the failure is cached.
    Failure(QueryId, Option<AnswerLifetime>),
    /// The sender of the query must send it to a server itself.
    Refusal(QueryId),
    /// An answer of this time, in monotonic seconds, displaces older ones, and is not cached.
    Displaced(u32, CacheKey<'m>),
}

const WANT: u8 = 0;
const RENEW: u8 = 1;
const ANSWER: u8 = 2;
const FAILURE: u8 = 3;
const KNOWN_FAILURE: u8 = 4;
const REFUSAL: u8 = 5;
const STALE: u8 = 6;
const DISPLACED: u8 = 7;
/// Bytes of a message without its variable part.
const HEAD: usize = 16;

impl<'m> ShardMessage<'m> {
    /// Writes the message; returns whether there was room.
    fn write(&self, ring: &mut EventWriter) -> bool {
        let head = |what: u8, query_id: QueryId, low: u32, high: u16| {
            let [h0, h1] = high.to_ne_bytes();
            let [l0, l1, l2, l3] = low.to_ne_bytes();
            [query_id.to_bits().to_ne_bytes(), [what, 0, h0, h1, l0, l1, l2, l3]]
        };
        let life = |life: AnswerLifetime| {
            let (made, ttl) = (u64::from(life.made), u64::from(life.ttl));
            (made << 32 | ttl).to_ne_bytes()
        };
        let mut write_key = |what, wanted: ShardRequest, key: CacheKey<'_>| {
            let kind = u32::from(key.kind.rtype()) << 16 | u32::from(key.kind.class());
            let mut head = head(what, wanted.query_id, kind, wanted.group);
            let flags = [key.kind.dnssec_ok(), key.kind.checking_disabled()].map(u8::from);
            head[1][1] = flags[0] | flags[1] << 1;
            let numbers = [key.hash, wanted.flush, key.kind.view().into()].map(u64::to_ne_bytes);
            ring.write([head.as_flattened(), numbers.as_flattened(), key.name])
        };
        match *self {
            Self::Want(wanted, key) => {
                write_key(if wanted.is_renewal { RENEW } else { WANT }, wanted, key)
            }
            Self::Displaced(made, key) => {
                write_key(DISPLACED, ShardRequest { flush: made.into(), ..ShardRequest::NONE }, key)
            }
            Self::Answer(query_id, lived, value) | Self::Stale(query_id, lived, value) => {
                let what = if matches!(self, Self::Stale(..)) { STALE } else { ANSWER };
                let head = head(what, query_id, value.len() as u32, 0);
                ring.write([head.as_flattened(), &life(lived), value])
            }
            Self::Failure(query_id, None) => {
                ring.write([head(FAILURE, query_id, 0, 0).as_flattened()])
            }
            Self::Failure(query_id, Some(lived)) => {
                let head = head(KNOWN_FAILURE, query_id, 0, 0);
                ring.write([head.as_flattened(), &life(lived)])
            }
            Self::Refusal(query_id) => ring.write([head(REFUSAL, query_id, 0, 0).as_flattened()]),
        }
    }

    /// Reads a message; `None` if it is malformed.
    pub(crate) fn read(bytes: &'m [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let (query_id, [what, flags, h0, h1, low @ ..]) = head.split_first_chunk::<8>()? else {
            return None;
        };
        let query_id = QueryId::from_bits(u64::from_ne_bytes(*query_id));
        let low = u32::from_ne_bytes(*low.first_chunk()?);
        let life = || {
            let (word, rest) = rest.split_first_chunk()?;
            let word = u64::from_ne_bytes(*word);
            Some((AnswerLifetime { made: (word >> 32) as u32, ttl: word as u32 }, rest))
        };
        Some(match *what {
            WANT | RENEW | DISPLACED => {
                let (hash, rest) = rest.split_first_chunk()?;
                let (flush, rest) = rest.split_first_chunk()?;
                let (view, name) = rest.split_first_chunk()?;
                let kind =
                    QueryKind::new((low >> 16) as u16, low as u16, flags & 1 != 0, flags & 2 != 0)
                        .in_view(u64::from_ne_bytes(*view) as u16);
                let name = Name::parse(name).ok()?.as_bytes();
                let wanted = ShardRequest {
                    query_id,
                    group: u16::from_ne_bytes([*h0, *h1]),
                    flush: u64::from_ne_bytes(*flush),
                    is_renewal: *what == RENEW,
                };
                let key = CacheKey { hash: u64::from_ne_bytes(*hash), kind, name };
                match *what {
                    DISPLACED => Self::Displaced(wanted.flush as u32, key),
                    _ => Self::Want(wanted, key),
                }
            }
            ANSWER | STALE => {
                let (life, value) = life()?;
                let value = value.get(..low as usize)?;
                let tells = if *what == STALE { Self::Stale } else { Self::Answer };
                tells(query_id, life, value)
            }
            FAILURE => Self::Failure(query_id, None),
            KNOWN_FAILURE => Self::Failure(query_id, Some(life()?.0)),
            REFUSAL => Self::Refusal(query_id),
            _ => return None,
        })
    }
}

impl PeerShards {
    /// The number of the owner shard for a hash.
    pub(crate) fn owner_shard(&self, hash: u64) -> usize {
        // The upper bits; the lower ones choose among lists.
        (((hash >> 32) * self.owner_shards as u64) >> 32) as usize
    }

    /// Sends a message; returns whether there was room. [`wake`](Self::wake) wakes the receiver.
    pub(crate) fn send(&mut self, to: usize, message: &ShardMessage<'_>) -> bool {
        if let ShardMessage::Answer(.., value) | ShardMessage::Stale(.., value) = message
            && value.len() > self.len_max
        {
            return false;
        }
        let Some(Some(sender)) = self.senders.get_mut(to) else { return false };
        let is_reported = message.write(&mut sender.ring);
        if is_reported {
            self.written_to |= 1 << to;
            if let ShardMessage::Want(wanted, _) = message {
                self.marks[wanted.query_id.room()] = sender.ring.mark();
            }
        }
        is_reported
    }

    /// Sends a message to all shards that have a ring from here. One without room does not get it.
    pub(crate) fn send_all(&mut self, message: &ShardMessage<'_>) {
        (0..self.senders.len()).for_each(|to| _ = self.send(to, message));
    }

    /// Whether an owner shard has read a query; true only once.
    pub(crate) fn has_begun(&mut self, owner_shard: usize, query_id: QueryId) -> bool {
        let Some(Some(sender)) = self.senders.get(owner_shard) else { return false };
        let mark = &mut self.marks[query_id.room()];
        let is_read = *mark > 0 && sender.ring.is_read(*mark);
        if is_read {
            *mark = 0;
        }
        is_read
    }

    /// Wakes the shards that may sleep.
    pub(crate) fn wake(&mut self) {
        let mut left = std::mem::take(&mut self.written_to);
        while left != 0 {
            let to = left.trailing_zeros() as usize;
            left &= left - 1;
            if let Some(Some(sender)) = self.senders.get_mut(to)
                && sender.ring.must_wake()
            {
                strike(&sender.waker);
            }
        }
    }

    /// The receiving ends, to be [restored](Self::restore_receivers).
    pub(crate) fn take_receivers(&mut self) -> Vec<Option<EventReader>> {
        std::mem::take(&mut self.receivers)
    }

    /// Restores the receiving ends. If something arrived meanwhile, the shard wakes itself.
    pub(crate) fn restore_receivers(&mut self, receivers: Vec<Option<EventReader>>) {
        self.receivers = receivers;
        if !self.receivers.iter().flatten().all(EventReader::is_empty) {
            strike(&self.waker);
        }
    }
}

fn strike(waker: &OwnedFd) {
    // The counter is never read and overflows after centuries: each write is reported.
    let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let query_id = QueryId::from_bits(0x1234_5678_9abc);
        let life = AnswerLifetime { made: u32::MAX, ttl: 86_400 };
        let kind = QueryKind::new(0xfffe, 0xfffd, true, false).in_view(0xfffc);
        let name = b"\x03www\x07example\0";
        let wanted =
            ShardRequest { query_id, group: 0xabcd, flush: u64::MAX - 1, is_renewal: true };
        let plain = ShardRequest { group: 0, flush: 0, is_renewal: false, ..wanted };
        let other = QueryKind::new(1, 1, false, true);
        let messages = [
            ShardMessage::Want(wanted, CacheKey { hash: u64::MAX - 7, kind, name }),
            ShardMessage::Want(plain, CacheKey { hash: 0, kind: other, name: b"\0" }),
            ShardMessage::Answer(query_id, life, b"what is kept"),
            ShardMessage::Stale(query_id, life, b"what was kept"),
            ShardMessage::Failure(query_id, None),
            ShardMessage::Failure(query_id, Some(life)),
            ShardMessage::Refusal(query_id),
            ShardMessage::Displaced(u32::MAX, CacheKey { hash: 1, kind, name }),
        ];
        let (mut writer, mut reader) = events(1 << 12);
        assert!(messages.iter().all(|message| message.write(&mut writer)));
        let mut read = Vec::new();
        reader.drain(|bytes| read.push(format!("{:?}", ShardMessage::read(bytes))));
        let written: Vec<_> = messages.map(|message| format!("{:?}", Some(message))).into();
        assert_eq!(read, written);
        for garbage in [&[][..], &[0; 16], &[9; 64], &[0xff; 24], &[2; 24]] {
            assert!(ShardMessage::read(garbage).is_none(), "{garbage:?}");
        }
    }

    #[test]
    fn homes_have_equal_shares_of_all_names() {
        let all = peer_shards(3, 2).unwrap();
        let mut shares = [0; 3];
        for nth in 0..30_000_u64 {
            shares[all[4].owner_shard(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15))] += 1;
        }
        assert!(shares.iter().all(|share| (9_000..11_000).contains(share)), "{shares:?}");
        assert_eq!(all[0].owner_shard(u64::MAX), 2);
    }

    #[test]
    fn oversized_message_is_dropped() {
        let mut all = peer_shards(2, 0).unwrap();
        let (query_id, life) = (QueryId::from_bits(1), AnswerLifetime { made: 1, ttl: 1 });
        let long = vec![0; all[0].len_max + 1];
        assert!(!all[0].send(1, &ShardMessage::Answer(query_id, life, &long)));
        assert!(all[0].send(1, &ShardMessage::Answer(query_id, life, &long[1..])));
        assert!(!all[0].send(0, &ShardMessage::Refusal(query_id)), "there is no way to itself");
    }
}

//! The rings between the askers of a process, and what goes through them.
//!
//! From each to each other leads a ring with one writer and one reader: nobody waits for anybody,
//! and no line of memory is written by two. Who reads all there is may sleep; a bell that its epoll
//! watches wakes it, and is rung once for all that is written until it looks.
use crate::limits::{
    NEIGHBOURS_MAX, RING_OCTETS_MAX, RING_OCTETS_MIN, RING_SHARE, RINGS_OCTETS_MAX,
};
use cache::{Key, Kind};
use door::{EventReader, EventWriter, events};
use forward::Ticket;
use forward::limits::ASKS_MAX;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wire::Name;

/// What one asker has of the rings to the others and from them.
pub struct Neighbours {
    pub(crate) own: usize,
    /// How many are homes, the first ones.
    homes: usize,
    /// By number; its own is none.
    ears: Vec<Option<EventReader>>,
    mouths: Vec<Option<Mouth>>,
    pub(crate) bell: Arc<OwnedFd>,
    /// A bit for each to whom something was written since the bells were rung.
    spoken_to: u64,
    /// Where in its ring the end of each question is, by the room of its ticket; 0: it was seen to
    /// be read.
    marks: Box<[u64]>,
    /// The octets of the longest message.
    len_max: usize,
    /// The flush that was begun last, and that was done last.
    pub(crate) begun: u64,
    pub(crate) done: u64,
}

/// The way to one.
struct Mouth {
    ring: EventWriter,
    bell: Arc<OwnedFd>,
}

/// So many askers that are homes, and so many others behind them, which only leave names to those;
/// each to be given to [`Asker::meet`](crate::Asker::meet). None where there is but one, or so many
/// that rings would be too short.
///
/// # Errors
/// The process has no file descriptor left.
pub fn neighbours(homes: usize, others: usize) -> io::Result<Vec<Neighbours>> {
    let count = homes + others;
    let pairs = homes * homes.saturating_sub(1) + 2 * homes * others;
    let octets = RINGS_OCTETS_MAX.checked_div(pairs).unwrap_or_default().min(RING_OCTETS_MAX);
    if count > NEIGHBOURS_MAX || octets < RING_OCTETS_MIN {
        return Ok(Vec::new());
    }
    // Rings are rounded up.
    let octets = 1 << octets.ilog2();
    let mut all = Vec::with_capacity(count);
    for own in 0..count {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        all.push(Neighbours {
            own,
            homes,
            ears: (0..count).map(|_| None).collect(),
            mouths: (0..count).map(|_| None).collect(),
            bell: Arc::new(bell),
            spoken_to: 0,
            marks: vec![0; ASKS_MAX].into(),
            len_max: octets / RING_SHARE,
            begun: 0,
            done: 0,
        });
    }
    for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
        if from != to && (from < homes || to < homes) {
            let (ring, ear) = events(octets);
            let bell = Arc::clone(&all[to].bell);
            all[from].mouths[to] = Some(Mouth { ring, bell });
            all[to].ears[from] = Some(ear);
        }
    }
    Ok(all)
}

/// What is asked of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// What the answer is to be told with.
    pub(crate) ticket: Ticket,
    pub(crate) group: u16,
    /// The flush that who asks has begun last: nothing older is wanted.
    pub(crate) flush: u64,
    /// Whether an answer is known, and will soon be too old.
    pub(crate) is_renewal: bool,
}

/// Since when something is known, and how long it is good: monotonic seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) made: u32,
    pub(crate) ttl: u32,
}

/// What one asker tells another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message<'m> {
    /// To answer this.
    Want(Wanted, Key<'m>),
    /// This answers it: what is kept of it, behind header and name.
    Answer(Ticket, Life, &'m [u8]),
    /// Nobody could answer it. This did, and is too old by now.
    Stale(Ticket, Life, &'m [u8]),
    /// Nobody could answer it; where that is remembered, for how long.
    Failure(Ticket, Option<Life>),
    /// Who wanted it is to ask himself.
    Refusal(Ticket),
}

const WANT: u8 = 0;
const RENEW: u8 = 1;
const ANSWER: u8 = 2;
const FAILURE: u8 = 3;
const KNOWN_FAILURE: u8 = 4;
const REFUSAL: u8 = 5;
const STALE: u8 = 6;
/// Octets of a message but for what has no fixed length.
const HEAD: usize = 16;

impl<'m> Message<'m> {
    /// As it stands in a ring; whether there was room.
    fn write(&self, ring: &mut EventWriter) -> bool {
        let head = |what: u8, ticket: Ticket, low: u32, high: u16| {
            let [h0, h1] = high.to_ne_bytes();
            let [l0, l1, l2, l3] = low.to_ne_bytes();
            [ticket.to_bits().to_ne_bytes(), [what, 0, h0, h1, l0, l1, l2, l3]]
        };
        let life = |life: Life| {
            let (made, ttl) = (u64::from(life.made), u64::from(life.ttl));
            (made << 32 | ttl).to_ne_bytes()
        };
        match *self {
            Self::Want(wanted, key) => {
                let Wanted { ticket, group, flush, is_renewal } = wanted;
                let what = if is_renewal { RENEW } else { WANT };
                let kind = u32::from(key.kind.rtype()) << 16 | u32::from(key.kind.class());
                let mut head = head(what, ticket, kind, group);
                let flags = [key.kind.dnssec_ok(), key.kind.checking_disabled()].map(u8::from);
                head[1][1] = flags[0] | flags[1] << 1;
                let numbers = [key.hash, flush].map(u64::to_ne_bytes);
                ring.write([head.as_flattened(), numbers.as_flattened(), key.name])
            }
            Self::Answer(ticket, lived, value) | Self::Stale(ticket, lived, value) => {
                let what = if matches!(self, Self::Stale(..)) { STALE } else { ANSWER };
                let head = head(what, ticket, value.len() as u32, 0);
                ring.write([head.as_flattened(), &life(lived), value])
            }
            Self::Failure(ticket, None) => ring.write([head(FAILURE, ticket, 0, 0).as_flattened()]),
            Self::Failure(ticket, Some(lived)) => {
                let head = head(KNOWN_FAILURE, ticket, 0, 0);
                ring.write([head.as_flattened(), &life(lived)])
            }
            Self::Refusal(ticket) => ring.write([head(REFUSAL, ticket, 0, 0).as_flattened()]),
        }
    }

    /// What was written; nothing where that is none.
    pub(crate) fn read(octets: &'m [u8]) -> Option<Self> {
        let (head, rest) = octets.split_first_chunk::<HEAD>()?;
        let (ticket, [what, flags, h0, h1, low @ ..]) = head.split_first_chunk::<8>()? else {
            return None;
        };
        let ticket = Ticket::from_bits(u64::from_ne_bytes(*ticket));
        let low = u32::from_ne_bytes(*low.first_chunk()?);
        let life = || {
            let (word, rest) = rest.split_first_chunk()?;
            let word = u64::from_ne_bytes(*word);
            Some((Life { made: (word >> 32) as u32, ttl: word as u32 }, rest))
        };
        Some(match *what {
            WANT | RENEW => {
                let (hash, rest) = rest.split_first_chunk()?;
                let (flush, name) = rest.split_first_chunk()?;
                let kind =
                    Kind::new((low >> 16) as u16, low as u16, flags & 1 != 0, flags & 2 != 0);
                let name = Name::parse(name).ok()?.octets();
                let wanted = Wanted {
                    ticket,
                    group: u16::from_ne_bytes([*h0, *h1]),
                    flush: u64::from_ne_bytes(*flush),
                    is_renewal: *what == RENEW,
                };
                Self::Want(wanted, Key { hash: u64::from_ne_bytes(*hash), kind, name })
            }
            ANSWER | STALE => {
                let (life, value) = life()?;
                let value = value.get(..low as usize)?;
                let tells = if *what == STALE { Self::Stale } else { Self::Answer };
                tells(ticket, life, value)
            }
            FAILURE => Self::Failure(ticket, None),
            KNOWN_FAILURE => Self::Failure(ticket, Some(life()?.0)),
            REFUSAL => Self::Refusal(ticket),
            _ => return None,
        })
    }
}

impl Neighbours {
    /// The number of the home of the names with such a hash.
    pub(crate) fn home(&self, hash: u64) -> usize {
        // The upper bits; the lower ones choose among lists.
        (((hash >> 32) * self.homes as u64) >> 32) as usize
    }

    /// Tells one something; whether there was room. What it wakes for leaves with
    /// [`ring`](Self::ring).
    pub(crate) fn tell(&mut self, to: usize, message: &Message<'_>) -> bool {
        if let Message::Answer(.., value) | Message::Stale(.., value) = message
            && value.len() > self.len_max
        {
            return false;
        }
        let Some(Some(mouth)) = self.mouths.get_mut(to) else { return false };
        let is_told = message.write(&mut mouth.ring);
        if is_told {
            self.spoken_to |= 1 << to;
            if let Message::Want(wanted, _) = message {
                self.marks[wanted.ticket.room()] = mouth.ring.mark();
            }
        }
        is_told
    }

    /// Whether a home has read a question, and this is the first time that it is found to.
    pub(crate) fn has_begun(&mut self, home: usize, ticket: Ticket) -> bool {
        let Some(Some(mouth)) = self.mouths.get(home) else { return false };
        let mark = &mut self.marks[ticket.room()];
        let is_read = *mark > 0 && mouth.ring.is_read(*mark);
        if is_read {
            *mark = 0;
        }
        is_read
    }

    /// Wakes those who may sleep on what they were told.
    pub(crate) fn ring(&mut self) {
        let mut left = std::mem::take(&mut self.spoken_to);
        while left != 0 {
            let to = left.trailing_zeros() as usize;
            left &= left - 1;
            if let Some(Some(mouth)) = self.mouths.get_mut(to)
                && mouth.ring.has_to_wake()
            {
                strike(&mouth.bell);
            }
        }
    }

    /// Those who may have told something, to be [put back](Self::listen_on).
    pub(crate) fn take_ears(&mut self) -> Vec<Option<EventReader>> {
        std::mem::take(&mut self.ears)
    }

    /// Goes on listening; what came meanwhile has it ring for itself.
    pub(crate) fn listen_on(&mut self, ears: Vec<Option<EventReader>>) {
        self.ears = ears;
        if !self.ears.iter().flatten().all(EventReader::is_empty) {
            strike(&self.bell);
        }
    }
}

fn strike(bell: &OwnedFd) {
    // Its counter would be full after centuries, and nobody reads it: each write is heard.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let ticket = Ticket::from_bits(0x1234_5678_9abc);
        let life = Life { made: u32::MAX, ttl: 86_400 };
        let kind = Kind::new(0xfffe, 0xfffd, true, false);
        let name = b"\x03www\x07example\0";
        let wanted = Wanted { ticket, group: 0xabcd, flush: u64::MAX - 1, is_renewal: true };
        let plain = Wanted { group: 0, flush: 0, is_renewal: false, ..wanted };
        let other = Kind::new(1, 1, false, true);
        let messages = [
            Message::Want(wanted, Key { hash: u64::MAX - 7, kind, name }),
            Message::Want(plain, Key { hash: 0, kind: other, name: b"\0" }),
            Message::Answer(ticket, life, b"what is kept"),
            Message::Stale(ticket, life, b"what was kept"),
            Message::Failure(ticket, None),
            Message::Failure(ticket, Some(life)),
            Message::Refusal(ticket),
        ];
        let (mut writer, mut reader) = events(1 << 12);
        assert!(messages.iter().all(|message| message.write(&mut writer)));
        let mut read = Vec::new();
        reader.drain(|octets| read.push(format!("{:?}", Message::read(octets))));
        let written: Vec<_> = messages.map(|message| format!("{:?}", Some(message))).into();
        assert_eq!(read, written);
        for garbage in [&[][..], &[0; 16], &[9; 64], &[0xff; 24], &[2; 24]] {
            assert!(Message::read(garbage).is_none(), "{garbage:?}");
        }
    }

    #[test]
    fn homes_have_equal_shares_of_all_names() {
        let all = neighbours(3, 2).unwrap();
        let mut shares = [0; 3];
        for nth in 0..30_000_u64 {
            shares[all[4].home(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15))] += 1;
        }
        assert!(shares.iter().all(|share| (9_000..11_000).contains(share)), "{shares:?}");
        assert_eq!(all[0].home(u64::MAX), 2);
    }

    #[test]
    fn what_is_too_long_for_a_ring_is_not_told() {
        let mut all = neighbours(2, 0).unwrap();
        let (ticket, life) = (Ticket::from_bits(1), Life { made: 1, ttl: 1 });
        let long = vec![0; all[0].len_max + 1];
        assert!(!all[0].tell(1, &Message::Answer(ticket, life, &long)));
        assert!(all[0].tell(1, &Message::Answer(ticket, life, &long[1..])));
        assert!(!all[0].tell(0, &Message::Refusal(ticket)), "there is no way to itself");
    }
}

//! Queries under way: a fixed table by socket and ID, in the order they were sent.
//!
//! The number of places of a socket is a power of two. The socket has a queue of free places, so
//! that a place is reused as late as possible: an answer after its timeout still finds its query.
//! The ID consists of the place and some random bits, permuted by the load's seed, so that the next
//! ID cannot be predicted from earlier ones.

use crate::random::Random;

/// No place, where a place could be.
const NONE: u32 = u32::MAX;

/// A query under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryEntry {
    /// When it was due, and when it was sent; nanoseconds from the beginning.
    pub due: u64,
    pub sent: u64,
    /// Identifies its question.
    pub identity: u64,
    pub question_len: u16,
    id: u16,
    state: EntryState,
    /// The lookup it is part of, or whatever its owner keeps.
    pub tag: u32,
    earlier: u32,
    later: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryState {
    Never,
    Open,
    Answered,
    TimedOut,
}

/// The query that a received ID belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchResult {
    /// A query under way, at this place.
    Open(u32),
    /// One that has timed out, at this place.
    TimedOut(u32),
    /// An empty slot, or a query that was answered before.
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Table {
    places: Vec<QueryEntry>,
    /// Of each socket its free places, in a ring each.
    free: Vec<u16>,
    rings: Vec<Ring>,
    bits: u32,
    keys: Vec<u16>,
    random: Random,
    oldest: u32,
    newest: u32,
    open: usize,
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    head: u32,
    len: u32,
}

impl Table {
    /// For `sockets`, each with `each` queries under way at most, rounded up to a power of two and
    /// up to 65,536.
    pub fn new(sockets: usize, each: usize, seed: u64) -> Self {
        let bits = each.clamp(1, 1 << 16).next_power_of_two().ilog2();
        let each = 1usize << bits;
        let mut random = Random::new(seed, 0x7461_626c);
        let empty = QueryEntry {
            due: 0,
            sent: 0,
            identity: 0,
            question_len: 0,
            id: 0,
            state: EntryState::Never,
            tag: 0,
            earlier: NONE,
            later: NONE,
        };
        let mut free = Vec::with_capacity(sockets * each);
        for _ in 0..sockets {
            let begin = free.len();
            free.extend((0..each).map(|place| place as u16));
            let own = &mut free[begin..];
            (1..each).rev().for_each(|i| own.swap(i, random.below(i as u64 + 1) as usize));
        }
        Self {
            places: vec![empty; sockets * each],
            free,
            rings: vec![Ring { head: 0, len: each as u32 }; sockets],
            bits,
            keys: (0..sockets).map(|_| random.bits() as u16).collect(),
            random,
            oldest: NONE,
            newest: NONE,
            open: 0,
        }
    }

    /// How many more queries may be under way on a socket.
    #[inline]
    pub fn room_of(&self, socket: usize) -> usize {
        self.rings[socket].len as usize
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        self.places.len() * (size_of::<QueryEntry>() + size_of::<u16>())
    }

    /// Queries under way.
    #[inline]
    pub fn len(&self) -> usize {
        self.open
    }

    /// Queries under way on a socket.
    #[inline]
    pub fn len_of(&self, socket: usize) -> usize {
        (1 << self.bits) - self.rings[socket].len as usize
    }

    /// Takes a place on a socket for a query that is about to be sent: where it is, and its ID.
    /// Nothing: the socket is full.
    #[inline]
    pub fn open(&mut self, socket: usize, new: NewQuery) -> Option<(u32, u16)> {
        let ring = &mut self.rings[socket];
        if ring.len == 0 {
            return None;
        }
        let (each, base) = (1u32 << self.bits, (socket as u32) << self.bits);
        let local = self.free[(base + ring.head) as usize];
        ring.head = (ring.head + 1) & (each - 1);
        ring.len -= 1;
        let chance = if self.bits < 16 { (self.random.bits() as u32) << self.bits } else { 0 };
        let id = permute((u32::from(local) | chance) as u16, self.keys[socket]);
        let at = base + u32::from(local);
        self.places[at as usize] = QueryEntry {
            due: new.due,
            sent: new.sent,
            identity: new.identity,
            question_len: new.question_len,
            id,
            state: EntryState::Open,
            tag: new.tag,
            earlier: self.newest,
            later: NONE,
        };
        match self.newest {
            NONE => self.oldest = at,
            newest => self.places[newest as usize].later = at,
        }
        self.newest = at;
        self.open += 1;
        Some((at, id))
    }

    /// The query at a place.
    #[inline]
    pub fn get(&mut self, at: u32) -> &mut QueryEntry {
        &mut self.places[at as usize]
    }

    /// The query of an ID on a socket.
    #[inline]
    pub fn find(&self, socket: usize, id: u16) -> MatchResult {
        let local = u32::from(restore(id, self.keys[socket])) & ((1 << self.bits) - 1);
        let at = (socket as u32) << self.bits | local;
        let place = &self.places[at as usize];
        match place.state {
            EntryState::Open if place.id == id => MatchResult::Open(at),
            EntryState::TimedOut if place.id == id => MatchResult::TimedOut(at),
            _ => MatchResult::Nothing,
        }
    }

    /// The slot of the oldest outstanding query.
    #[inline]
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Ends a query under way that was answered, or was not sent at all.
    #[inline]
    pub fn close(&mut self, at: u32) {
        self.end(at, EntryState::Answered);
    }

    /// Ends a query under way that was not answered in time. An answer may still come.
    pub fn time_out(&mut self, at: u32) {
        self.end(at, EntryState::TimedOut);
    }

    /// The answer to a query that had timed out arrived; a second one is unexpected.
    pub fn forget(&mut self, at: u32) {
        self.places[at as usize].state = EntryState::Answered;
    }

    /// A socket was replaced: no answer to its queries can arrive.
    pub fn renew(&mut self, socket: usize) {
        let base = socket << self.bits;
        for place in &mut self.places[base..base + (1 << self.bits)] {
            if place.state == EntryState::TimedOut {
                place.state = EntryState::Answered;
            }
        }
    }

    fn end(&mut self, at: u32, state: EntryState) {
        let place = &mut self.places[at as usize];
        debug_assert_eq!(place.state, EntryState::Open);
        place.state = state;
        let (earlier, later) = (place.earlier, place.later);
        match earlier {
            NONE => self.oldest = later,
            earlier => self.places[earlier as usize].later = later,
        }
        match later {
            NONE => self.newest = earlier,
            later => self.places[later as usize].earlier = earlier,
        }
        let (each, socket) = (1u32 << self.bits, at >> self.bits);
        let ring = &mut self.rings[socket as usize];
        let tail = (ring.head + ring.len) & (each - 1);
        self.free[((socket << self.bits) + tail) as usize] = (at & (each - 1)) as u16;
        ring.len += 1;
        self.open -= 1;
    }
}

/// A query to enter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewQuery {
    pub due: u64,
    pub sent: u64,
    pub identity: u64,
    pub question_len: u16,
    pub tag: u32,
}

/// Odd, so that multiplying by it loses nothing of 16 bits; and what undoes it.
const FACTOR: u16 = 0xa6d5;
const INVERSE: u16 = inverse(FACTOR);

/// The inverse modulo 2¹⁶, by Newton: each step doubles the bits that are right, from 3 on.
const fn inverse(odd: u16) -> u16 {
    let mut x = odd;
    let mut step = 0;
    while step < 3 {
        x = x.wrapping_mul(2u16.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

#[inline]
fn permute(word: u16, key: u16) -> u16 {
    let word = (word ^ key).wrapping_mul(FACTOR);
    let word = (word ^ word >> 8).wrapping_mul(FACTOR);
    word ^ word >> 8
}

#[inline]
fn restore(word: u16, key: u16) -> u16 {
    // A shift by half the width undoes itself.
    let word = (word ^ word >> 8).wrapping_mul(INVERSE);
    (word ^ word >> 8).wrapping_mul(INVERSE) ^ key
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn new(due: u64) -> NewQuery {
        NewQuery { due, sent: due, identity: due, question_len: 0, tag: 0 }
    }

    #[test]
    fn ids_are_permuted_and_restored() {
        for key in [0, 1, 0x8000, 0xffff] {
            let all: std::collections::HashSet<u16> =
                (0..=u16::MAX).map(|w| permute(w, key)).collect();
            assert_eq!(all.len(), 65_536);
            assert!((0..=u16::MAX).all(|word| restore(permute(word, key), key) == word));
        }
    }

    #[test]
    fn a_full_socket_takes_no_more_and_all_ids_are_used() {
        let mut table = Table::new(2, 65_536, 1);
        let ids: std::collections::HashSet<u16> =
            (0..65_536).map(|due| table.open(1, new(due)).unwrap().1).collect();
        assert_eq!(ids.len(), 65_536);
        assert!(table.open(1, new(0)).is_none());
        assert!(table.open(0, new(0)).is_some());
        assert_eq!((table.len(), table.len_of(1)), (65_537, 65_536));
        assert_eq!((table.room_of(0), table.room_of(1)), (65_535, 0));
    }

    #[test]
    fn another_seed_gives_other_ids() {
        let ids = |seed| {
            let mut table = Table::new(1, 16, seed);
            (0..16).map(|due| table.open(0, new(due)).unwrap().1).collect::<Vec<_>>()
        };
        assert_eq!(ids(1), ids(1));
        assert_ne!(ids(1), ids(2));
        let steps: std::collections::HashSet<u16> =
            ids(1).windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        assert!(steps.len() > 12, "they do not go up evenly");
    }

    #[test]
    fn an_answer_is_late_once() {
        let mut table = Table::new(1, 4, 1);
        let (at, id) = table.open(0, new(1)).unwrap();
        table.time_out(at);
        assert_eq!(table.find(0, id), MatchResult::TimedOut(at));
        table.forget(at);
        assert_eq!(table.find(0, id), MatchResult::Nothing);
        let (at, id) = table.open(0, new(2)).unwrap();
        table.time_out(at);
        table.renew(0);
        assert_eq!(table.find(0, id), MatchResult::Nothing);
    }

    proptest! {
        /// Beside a list that is searched from its beginning.
        #[test]
        fn table_behaves_like_a_list(
            steps in prop::collection::vec((0u8..4, 0usize..3, any::<u16>()), 0..400)
        ) {
            let mut table = Table::new(3, 8, 7);
            let mut list: Vec<(u32, usize, u16, u64)> = Vec::new();
            for (number, (step, socket, pick)) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 => {
                        let taken = table.open(socket, new(number as u64));
                        let used = list.iter().filter(|open| open.1 == socket).count();
                        prop_assert_eq!(taken.is_some(), used < 8);
                        if let Some((at, id)) = taken {
                            prop_assert!(!list.iter().any(|open| (open.1, open.2) == (socket, id)));
                            list.push((at, socket, id, number as u64));
                        }
                    }
                    _ if list.is_empty() => prop_assert_eq!(table.oldest(), None),
                    2 => {
                        let (at, socket, id, due) = list.remove(usize::from(pick) % list.len());
                        prop_assert_eq!(table.find(socket, id), MatchResult::Open(at));
                        prop_assert_eq!(table.get(at).due, due);
                        table.close(at);
                        prop_assert_eq!(table.find(socket, id), MatchResult::Nothing);
                    }
                    _ => {
                        let (at, socket, id, _) = list.remove(0);
                        prop_assert_eq!(table.oldest(), Some(at));
                        table.time_out(at);
                        prop_assert_eq!(table.find(socket, id), MatchResult::TimedOut(at));
                    }
                }
                prop_assert_eq!(table.len(), list.len());
            }
        }
    }
}

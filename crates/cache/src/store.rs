//! Finding, putting, and what makes room.
use crate::entry::{Entry, Ident, Life, set_map, set_retry, set_uses, units_of, write};
use crate::index::{Line, choose};
use crate::limits::{ENTRY_SHARE, MOVES_MAX, UNIT, USES_KEPT, USES_MAX};
use crate::shape::State;

/// What is asked of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub(crate) u64);

impl Kind {
    const DNSSEC_OK: u64 = 1 << 32;
    const CHECKING_DISABLED: u64 = 1 << 33;
    const ALL_TYPES: u64 = 1 << 34;
    /// QTYPE *, in the place of a type.
    const ANY: u64 = 255;
    /// What a parent says of a child: others may be asked for it than for all else of the name.
    const DS: u16 = 43;

    /// A type and a class, with the flags DO and CD, on which answers depend too.
    pub const fn new(rtype: u16, class: u16, dnssec_ok: bool, checking_disabled: bool) -> Self {
        let dnssec_ok = if dnssec_ok { Self::DNSSEC_OK } else { 0 };
        let checking_disabled = if checking_disabled { Self::CHECKING_DISABLED } else { 0 };
        Self(rtype as u64 | (class as u64) << 16 | dnssec_ok | checking_disabled)
    }

    /// What is true whatever type is asked for: that there is no such name (RFC 2308 §5).
    pub const fn for_all_types(self) -> Self {
        Self(self.0 & !(u16::MAX as u64) | Self::ANY | Self::ALL_TYPES)
    }

    /// Whether what is said of it may be true of other types, too: of DS it is not, as that is the
    /// parent's to say, and all others are the child's (RFC 4035 §3.1.4.1).
    pub const fn is_as_others(self) -> bool {
        self.rtype() != Self::DS
    }

    /// The type.
    pub const fn rtype(self) -> u16 {
        self.0 as u16
    }

    /// The class.
    pub const fn class(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Whether DNSSEC records are wanted (RFC 3225).
    pub const fn dnssec_ok(self) -> bool {
        self.0 & Self::DNSSEC_OK != 0
    }

    /// Whether the client checks signatures itself (RFC 4035 §3.2.2).
    pub const fn checking_disabled(self) -> bool {
        self.0 & Self::CHECKING_DISABLED != 0
    }
}

/// Whose value it is.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// A keyed hash of the name.
    pub hash: u64,
    /// What else tells values apart.
    pub kind: Kind,
    /// At most 255 octets.
    pub name: &'k [u8],
}

impl<'k> Key<'k> {
    /// The same name's, whatever type is asked for.
    pub const fn for_all_types(&self) -> Self {
        Self { hash: self.hash, kind: self.kind.for_all_types(), name: self.name }
    }

    /// With a hash that is of the kind as well.
    #[inline]
    fn ident(&self) -> Ident<'k> {
        let Key { hash, kind, name } = *self;
        let kind = kind.0;
        let mixed = u128::from(hash ^ kind.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            * 0xd6e8_feb8_6659_fd93_u128;
        Ident { hash: mixed as u64 ^ (mixed >> 64) as u64, kind, name }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'m> {
    /// Octets that mean nothing, as many as the header of a message has; the name; and what was
    /// put. So a value may point into its name as a message does.
    pub message: &'m [u8],
    /// Seconds since it was.
    pub age: u32,
    /// Seconds it was good for.
    pub ttl: u32,
    /// How often it was found since it came or last went round, [`USES_MAX`] at most, this time
    /// among them.
    pub uses: u8,
    /// Whether it is worth renewing now: see [`hold`](Cache::hold).
    pub may_renew: bool,
    /// The map by which the name was last [confirmed](Cache::confirm) to be where it was asked for;
    /// 0: it never was.
    pub map: u32,
}

impl Found<'_> {
    /// Whether it is still good.
    pub const fn is_fresh(&self) -> bool {
        self.age < self.ttl
    }
}

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is there.
    Done,
    /// It is too large for a cache of this size, and not there.
    TooLarge,
}

/// The part of an index that [`Cache::find`] will look at first, to be fetched ahead.
#[inline]
pub fn memory<'l>(lines: &'l [Line], key: &Key<'_>) -> &'l [Line] {
    lines.get(choose(key.ident().hash, lines.len())..).unwrap_or_default()
}

/// A cache in memory of somebody else's, all of it made by the same [`Shape`](crate::Shape).
#[derive(Debug)]
pub struct Cache<'m> {
    /// What is in use.
    pub state: &'m mut State,
    /// The index.
    pub lines: &'m mut [Line],
    /// What fell out of the queue of new entries.
    pub ghosts: &'m mut [u32],
    /// The entries.
    pub octets: &'m mut [u8],
}

impl<'m> Cache<'m> {
    /// The same as [`find`](Self::find), for as long as the memory is there. Where that is not
    /// fresh, but what is kept for [all types](Kind::for_all_types) is, it is the latter.
    #[inline]
    pub fn into_found(self, key: &Key<'_>, now: u32) -> Option<Found<'m>> {
        let own = self.place(&key.ident());
        let place = match own {
            Some(place) if self.is_fresh(place, now) => place,
            _ => self.whole(key, now).or(own)?,
        };
        self.into_found_at(place, now)
    }

    /// What is kept for all types, if it is fresh.
    #[inline(never)]
    fn whole(&self, key: &Key<'_>, now: u32) -> Option<usize> {
        let all = key.kind.is_as_others().then(|| key.for_all_types().ident());
        let place = all.and_then(|all| self.place(&all));
        place.filter(|place| self.is_fresh(*place, now))
    }

    #[inline]
    fn is_fresh(&self, place: usize, now: u32) -> bool {
        let entry = Entry::at(self.octets, place * UNIT);
        now.saturating_sub(entry.made()) < entry.ttl()
    }

    #[inline]
    fn into_found_at(self, place: usize, now: u32) -> Option<Found<'m>> {
        let octets = self.octets.get_mut(place * UNIT..)?;
        let uses = (Entry::at(octets, 0).uses() + 1).min(USES_MAX);
        set_uses(octets, 0, uses);
        let entry = Entry::at(octets, 0);
        let (age, ttl) = (now.saturating_sub(entry.made()), entry.ttl());
        let may_renew = now >= entry.retry();
        let (message, map) = (entry.message(), entry.map());
        Some(Found { message, age, ttl, uses, may_renew, map })
    }

    /// What was put last for a key, fresh or not, and counts as used.
    ///
    /// `now` is monotonic seconds, as everywhere here.
    #[inline]
    pub fn find(&mut self, key: &Key<'_>, now: u32) -> Option<Found<'_>> {
        let place = self.place(&key.ident())?;
        let Self { state, lines, ghosts, octets } = self;
        Cache { state, lines, ghosts, octets }.into_found_at(place, now)
    }

    /// Keeps a value in place of what the key had: fresh for `ttl` seconds from now, and to be
    /// found for as long as nothing else needs the room.
    pub fn put(&mut self, key: &Key<'_>, now: u32, ttl: u32, value: &[u8]) -> Put {
        let ident = key.ident();
        let life = Life { made: now, ttl };
        let units = units_of(key.name.len(), value.len());
        let old = self.place(&ident);
        if key.name.len() > 255 || units > self.state.fresh.len() / ENTRY_SHARE {
            // The old value is no longer true.
            if let Some(old) = old {
                self.forget(old, ident.hash);
            }
            return Put::TooLarge;
        }
        let mut uses = 0;
        let mut is_kept = self.recall(ident.hash);
        if let Some(old) = old {
            let entry = Entry::at(self.octets, old * UNIT);
            uses = entry.uses();
            if entry.units() == units {
                write(self.octets, old * UNIT, &ident, life, value);
                set_uses(self.octets, old * UNIT, uses);
                return Put::Done;
            }
            is_kept |= self.state.kept.holds(old);
            self.forget(old, ident.hash);
        }
        let place = if is_kept { self.room_kept(units) } else { self.room_fresh(units) };
        write(self.octets, place * UNIT, &ident, life, value);
        set_uses(self.octets, place * UNIT, uses);
        self.note(ident.hash, place);
        Put::Done
    }

    /// Notes that a value is not worth renewing before `retry`: because somebody is about to, or
    /// tried in vain. False if there is none.
    pub fn hold(&mut self, key: &Key<'_>, retry: u32) -> bool {
        let place = self.place(&key.ident());
        place.inspect(|place| set_retry(self.octets, place * UNIT, retry));
        place.is_some()
    }

    /// Notes that by this map, which is not 0, the name is where it was asked for.
    pub fn confirm(&mut self, key: &Key<'_>, map: u32) {
        let all = key.kind.is_as_others().then(|| key.for_all_types());
        for key in [Some(*key), all].into_iter().flatten() {
            if let Some(place) = self.place(&key.ident()) {
                set_map(self.octets, place * UNIT, map);
            }
        }
    }

    /// Where a key's entry lies.
    #[inline]
    fn place(&self, ident: &Ident<'_>) -> Option<usize> {
        let line = self.lines.get(choose(ident.hash, self.lines.len()))?;
        line.places(ident.hash).find(|place| Entry::at(self.octets, place * UNIT).is(ident))
    }

    /// The hash of what left a queue, if it is an entry that can be found.
    fn live(&self, place: usize) -> Option<u64> {
        let entry = Entry::at(self.octets, place * UNIT);
        if entry.is_filler() {
            return None;
        }
        let hash = entry.hash();
        let line = &self.lines[choose(hash, self.lines.len())];
        line.all().any(|own| own == place).then_some(hash)
    }

    /// Moves an entry to room that was made for it.
    fn relocate(&mut self, hash: u64, from: usize, to: usize, uses: u8) {
        let len = Entry::at(self.octets, from * UNIT).units() * UNIT;
        self.octets.copy_within(from * UNIT..from * UNIT + len, to * UNIT);
        set_uses(self.octets, to * UNIT, uses);
        let line = choose(hash, self.lines.len());
        self.lines[line].change(from, Some(to));
    }

    /// Whether this hash fell out of the queue of new entries not long ago; only once.
    fn recall(&mut self, hash: u64) -> bool {
        let ghost = &mut self.ghosts[choose(hash, self.ghosts.len())];
        let was_there = *ghost == hash as u32;
        if was_there {
            *ghost = 0;
        }
        was_there
    }

    /// Takes an entry out of the index. Its octets come free when it is the oldest of its queue.
    pub(crate) fn forget(&mut self, place: usize, hash: u64) {
        let line = choose(hash, self.lines.len());
        self.state.entries -= usize::from(self.lines[line].change(place, None));
    }

    /// Puts an entry into the index, in place of another if its line is full: of one that was used
    /// least.
    fn note(&mut self, hash: u64, place: usize) {
        let line = choose(hash, self.lines.len());
        self.state.entries += 1;
        if self.lines[line].insert(hash, place) {
            return;
        }
        let uses = |place: &usize| Entry::at(self.octets, place * UNIT).uses();
        if let Some(least) = self.lines[line].all().min_by_key(uses) {
            self.forget(least, hash);
        }
        self.lines[line].insert(hash, place);
    }

    /// Room in the queue of new entries. What stands in the way goes on to the other queue if it
    /// was used, or while there is room for everybody.
    fn room_fresh(&mut self, units: usize) -> usize {
        loop {
            if let Some(place) = self.state.fresh.take(self.octets, units) {
                return place;
            }
            let Some(old) = self.state.fresh.pop(self.octets) else {
                unreachable!("an empty queue has room for {ENTRY_SHARE} of the largest entries")
            };
            let Some(hash) = self.live(old) else { continue };
            let entry = Entry::at(self.octets, old * UNIT);
            let (units, uses) = (entry.units(), entry.uses());
            let is_roomy = self.state.kept.used() + units < self.state.kept.len() / 2;
            if uses >= USES_KEPT || is_roomy {
                let place = self.room_kept(units);
                self.relocate(hash, old, place, 0);
            } else {
                self.forget(old, hash);
                let ghost = choose(hash, self.ghosts.len());
                self.ghosts[ghost] = hash as u32;
            }
        }
    }

    /// Room in the queue of entries that are kept. What stands in the way goes round once more for
    /// each time it was used.
    fn room_kept(&mut self, units: usize) -> usize {
        let mut moves = 0;
        loop {
            if let Some(place) = self.state.kept.take(self.octets, units) {
                return place;
            }
            let Some(old) = self.state.kept.pop(self.octets) else {
                unreachable!("this queue is the longer one")
            };
            let Some(hash) = self.live(old) else { continue };
            let entry = Entry::at(self.octets, old * UNIT);
            let (own, uses) = (entry.units(), entry.uses());
            let place = (uses > 0 && moves < MOVES_MAX)
                .then(|| self.state.kept.take(self.octets, own))
                .flatten();
            match place {
                Some(place) => {
                    self.relocate(hash, old, place, uses - 1);
                    moves += 1;
                }
                None => self.forget(old, hash),
            }
        }
    }
}

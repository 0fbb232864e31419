//! Lookup, insertion and displacement.
use crate::entry::{Entry, EntryIdent, Freshness, set_map, set_retry, set_uses, units_of, write};
use crate::index::{Bucket, choose};
use crate::limits::{ENTRY_SHARE, MOVES_MAX, UNIT, USES_MAX, USES_MOVED};
use crate::shape::CacheState;

/// The query of an entry: type, class, flags and view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryKind(pub(crate) u64);

impl QueryKind {
    const DNSSEC_OK: u64 = 1 << 32;
    const CHECKING_DISABLED: u64 = 1 << 33;
    const ALL_TYPES: u64 = 1 << 34;
    const VIEW_SHIFT: u32 = 48;
    /// QTYPE *, instead of a type.
    const ANY: u64 = 255;
    /// DS belongs to the parent, so that its server may differ from that of the name's other types.
    const DS: u16 = 43;

    /// A query type and class, with the flags DO and CD, on which answers depend too.
    pub const fn new(rtype: u16, class: u16, dnssec_ok: bool, checking_disabled: bool) -> Self {
        let dnssec_ok = if dnssec_ok { Self::DNSSEC_OK } else { 0 };
        let checking_disabled = if checking_disabled { Self::CHECKING_DISABLED } else { 0 };
        Self(rtype as u64 | (class as u64) << 16 | dnssec_ok | checking_disabled)
    }

    /// The same query in the view of this number; a new kind is in view 0.
    pub const fn in_view(self, view: u16) -> Self {
        Self(self.0 | (view as u64) << Self::VIEW_SHIFT)
    }

    /// The number of the view.
    pub const fn view(self) -> u16 {
        (self.0 >> Self::VIEW_SHIFT) as u16
    }

    /// The kind for answers that hold for all types: the name does not exist (RFC 2308 §5).
    pub const fn for_all_types(self) -> Self {
        Self(self.0 & !(u16::MAX as u64) | Self::ANY | Self::ALL_TYPES)
    }

    /// Whether the nonexistence of the name holds for other types too. For DS it does not: DS
    /// belongs to the parent, all other types to the child (RFC 4035 §3.1.4.1).
    pub const fn applies_to_other_types(self) -> bool {
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

    /// Whether DNSSEC records are requested (RFC 3225).
    pub const fn dnssec_ok(self) -> bool {
        self.0 & Self::DNSSEC_OK != 0
    }

    /// Whether the client checks signatures itself (RFC 4035 §3.2.2).
    pub const fn checking_disabled(self) -> bool {
        self.0 & Self::CHECKING_DISABLED != 0
    }
}

/// The key of an entry.
#[derive(Clone, Copy, Debug)]
pub struct CacheKey<'k> {
    /// A keyed hash of the name.
    pub hash: u64,
    /// Type, class, flags and view.
    pub kind: QueryKind,
    /// At most 255 bytes.
    pub name: &'k [u8],
}

impl<'k> CacheKey<'k> {
    /// The key of the same name for answers that hold for all types.
    pub const fn for_all_types(&self) -> Self {
        Self { hash: self.hash, kind: self.kind.for_all_types(), name: self.name }
    }

    /// Adds the kind to the hash.
    #[inline]
    fn ident(&self) -> EntryIdent<'k> {
        let CacheKey { hash, kind, name } = *self;
        let kind = kind.0;
        let mixed = u128::from(hash ^ kind.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            * 0xd6e8_feb8_6659_fd93_u128;
        EntryIdent { hash: mixed as u64 ^ (mixed >> 64) as u64, kind, name }
    }
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug)]
pub struct CacheHit<'m> {
    /// Unused bytes of the length of a message header, the name, and the value. So the value's
    /// compression pointers into the name are valid.
    pub message: &'m [u8],
    /// Seconds since insertion.
    pub age: u32,
    /// Lifetime in seconds.
    pub ttl: u32,
    /// Uses since insertion or since the entry last went around, this one included, at most
    /// [`USES_MAX`].
    pub uses: u8,
    /// Whether it may be renewed now: see [`hold`](Cache::hold).
    pub may_renew: bool,
    /// The number of the name map by which the entry was last [confirmed](Cache::confirm); 0:
    /// never.
    pub map: u32,
}

impl CacheHit<'_> {
    /// Whether the lifetime has not ended.
    pub const fn is_fresh(&self) -> bool {
        self.age < self.ttl
    }
}

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// The value was inserted.
    Done,
    /// The value is too large for a cache of this size, and was not inserted.
    TooLarge,
}

/// The part of the index that [`Cache::find`] reads first, to be prefetched.
#[inline]
pub fn memory<'l>(lines: &'l [Bucket], key: &CacheKey<'_>) -> &'l [Bucket] {
    lines.get(choose(key.ident().hash, lines.len())..).unwrap_or_default()
}

/// A cache in borrowed memory, divided by [`CacheShape`](crate::CacheShape).
#[derive(Debug)]
pub struct Cache<'m> {
    /// Which part is in use.
    pub state: &'m mut CacheState,
    /// The index.
    pub lines: &'m mut [Bucket],
    /// Hashes of entries that fell out of the queue of new entries.
    pub ghosts: &'m mut [u32],
    /// The entries.
    pub bytes: &'m mut [u8],
}

impl<'m> Cache<'m> {
    /// As [`find`](Self::find), but the hit lives as long as the memory. If the entry is stale, one
    /// for [all types](QueryKind::for_all_types) that is fresh or newer takes precedence.
    #[inline]
    pub fn into_found(self, key: &CacheKey<'_>, now: u32) -> Option<CacheHit<'m>> {
        let own = self.slot(&key.ident());
        let slot = match own {
            Some(slot) if self.is_fresh(slot, now) => slot,
            _ => self.find_for_all_types(key, own, now).or(own)?,
        };
        self.into_found_at(slot, now)
    }

    /// An entry for all types that is fresh, or newer than the own one.
    #[inline(never)]
    fn find_for_all_types(
        &self,
        key: &CacheKey<'_>,
        own: Option<usize>,
        now: u32,
    ) -> Option<usize> {
        let all = key.kind.applies_to_other_types().then(|| key.for_all_types().ident());
        let slot = all.and_then(|all| self.slot(&all))?;
        let made = self.entry(slot).made();
        let is_newer = own.is_some_and(|own| self.entry(own).made() < made);
        (is_newer || self.is_fresh(slot, now)).then_some(slot)
    }

    fn entry(&self, slot: usize) -> Entry<'_> {
        Entry::at(self.bytes, slot * UNIT)
    }

    #[inline]
    fn is_fresh(&self, slot: usize, now: u32) -> bool {
        let entry = Entry::at(self.bytes, slot * UNIT);
        now.saturating_sub(entry.made()) < entry.ttl()
    }

    #[inline]
    fn into_found_at(self, slot: usize, now: u32) -> Option<CacheHit<'m>> {
        let bytes = self.bytes.get_mut(slot * UNIT..)?;
        let uses = (Entry::at(bytes, 0).uses() + 1).min(USES_MAX);
        set_uses(bytes, 0, uses);
        let entry = Entry::at(bytes, 0);
        let (age, ttl) = (now.saturating_sub(entry.made()), entry.ttl());
        let may_renew = now >= entry.retry();
        let (message, map) = (entry.message(), entry.map());
        Some(CacheHit { message, age, ttl, uses, may_renew, map })
    }

    /// Returns the entry of a key, fresh or stale, and counts a use.
    ///
    /// `now` is monotonic seconds, as everywhere in this crate.
    #[inline]
    pub fn find(&mut self, key: &CacheKey<'_>, now: u32) -> Option<CacheHit<'_>> {
        let slot = self.slot(&key.ident())?;
        let Self { state, lines, ghosts, bytes } = self;
        Cache { state, lines, ghosts, bytes }.into_found_at(slot, now)
    }

    /// Inserts a value, or replaces that of the key. It is fresh for `ttl` seconds from `now`, and
    /// stays until its room is needed.
    pub fn put(&mut self, key: &CacheKey<'_>, now: u32, ttl: u32, value: &[u8]) -> Insertion {
        let ident = key.ident();
        let freshness = Freshness { made: now, ttl };
        let units = units_of(key.name.len(), value.len());
        let old = self.slot(&ident);
        if key.name.len() > 255 || units > self.state.fresh.len() / ENTRY_SHARE {
            // The old value is no longer valid.
            if let Some(old) = old {
                self.remove(old, ident.hash);
            }
            return Insertion::TooLarge;
        }
        let mut uses = 0;
        let mut is_main = self.take_ghost(ident.hash);
        if let Some(old) = old {
            let entry = Entry::at(self.bytes, old * UNIT);
            uses = entry.uses();
            if entry.units() == units {
                write(self.bytes, old * UNIT, &ident, freshness, value);
                set_uses(self.bytes, old * UNIT, uses);
                return Insertion::Done;
            }
            is_main |= self.state.main.holds(old);
            self.remove(old, ident.hash);
        }
        let slot = if is_main { self.make_room_main(units) } else { self.make_room_fresh(units) };
        write(self.bytes, slot * UNIT, &ident, freshness, value);
        set_uses(self.bytes, slot * UNIT, uses);
        self.add_to_index(ident.hash, slot);
        Insertion::Done
    }

    /// Postpones renewal until `retry`: a query is under way, or failed. False if there is no such
    /// entry.
    pub fn hold(&mut self, key: &CacheKey<'_>, retry: u32) -> bool {
        let slot = self.slot(&key.ident());
        slot.inspect(|slot| set_retry(self.bytes, slot * UNIT, retry));
        slot.is_some()
    }

    /// Removes the entry of a key, unless it was made after `made`; returns whether there was one.
    pub fn forget(&mut self, key: &CacheKey<'_>, made: u32) -> bool {
        let ident = key.ident();
        let slot = self.slot(&ident).filter(|slot| self.entry(*slot).made() <= made);
        slot.inspect(|slot| self.remove(*slot, ident.hash));
        slot.is_some()
    }

    /// Confirms that the name is forwarded by this name map, whose number is not 0.
    pub fn confirm(&mut self, key: &CacheKey<'_>, map: u32) {
        let all = key.kind.applies_to_other_types().then(|| key.for_all_types());
        for key in [Some(*key), all].into_iter().flatten() {
            if let Some(slot) = self.slot(&key.ident()) {
                set_map(self.bytes, slot * UNIT, map);
            }
        }
    }

    /// The position of a key's entry.
    #[inline]
    fn slot(&self, ident: &EntryIdent<'_>) -> Option<usize> {
        let line = self.lines.get(choose(ident.hash, self.lines.len()))?;
        line.slots(ident.hash).find(|slot| Entry::at(self.bytes, slot * UNIT).is(ident))
    }

    /// The hash of an entry that left a queue, if the index still has it.
    fn live_hash(&self, slot: usize) -> Option<u64> {
        let entry = Entry::at(self.bytes, slot * UNIT);
        if entry.is_filler() {
            return None;
        }
        let hash = entry.hash();
        let line = &self.lines[choose(hash, self.lines.len())];
        line.all().any(|own| own == slot).then_some(hash)
    }

    /// Moves an entry to room that was made for it.
    fn relocate(&mut self, hash: u64, from: usize, to: usize, uses: u8) {
        let len = Entry::at(self.bytes, from * UNIT).units() * UNIT;
        self.bytes.copy_within(from * UNIT..from * UNIT + len, to * UNIT);
        set_uses(self.bytes, to * UNIT, uses);
        let line = choose(hash, self.lines.len());
        self.lines[line].change(from, Some(to));
    }

    /// Whether this hash recently fell out of the queue of new entries; true only once.
    fn take_ghost(&mut self, hash: u64) -> bool {
        let ghost = &mut self.ghosts[choose(hash, self.ghosts.len())];
        let was_there = *ghost == hash as u32;
        if was_there {
            *ghost = 0;
        }
        was_there
    }

    /// Removes an entry from the index. Its bytes become free when it is the oldest of its queue.
    pub(crate) fn remove(&mut self, slot: usize, hash: u64) {
        let line = choose(hash, self.lines.len());
        self.state.entries -= usize::from(self.lines[line].change(slot, None));
    }

    /// Adds an entry to the index. If the bucket is full, it replaces the entry with the fewest
    /// uses.
    fn add_to_index(&mut self, hash: u64, slot: usize) {
        let line = choose(hash, self.lines.len());
        self.state.entries += 1;
        if self.lines[line].insert(hash, slot) {
            return;
        }
        let uses = |slot: &usize| Entry::at(self.bytes, slot * UNIT).uses();
        if let Some(least) = self.lines[line].all().min_by_key(uses) {
            self.remove(least, hash);
        }
        self.lines[line].insert(hash, slot);
    }

    /// Makes room in the queue of new entries. A displaced entry moves to the main queue if it was
    /// used, or while that is less than half full.
    fn make_room_fresh(&mut self, units: usize) -> usize {
        loop {
            if let Some(slot) = self.state.fresh.take(self.bytes, units) {
                return slot;
            }
            let Some(old) = self.state.fresh.pop(self.bytes) else {
                unreachable!("an empty queue has room for {ENTRY_SHARE} of the largest entries")
            };
            let Some(hash) = self.live_hash(old) else { continue };
            let entry = Entry::at(self.bytes, old * UNIT);
            let (units, uses) = (entry.units(), entry.uses());
            let is_roomy = self.state.main.used() + units < self.state.main.len() / 2;
            if uses >= USES_MOVED || is_roomy {
                let slot = self.make_room_main(units);
                self.relocate(hash, old, slot, 0);
            } else {
                self.remove(old, hash);
                let ghost = choose(hash, self.ghosts.len());
                self.ghosts[ghost] = hash as u32;
            }
        }
    }

    /// Makes room in the main queue. A displaced entry goes around once more for each use.
    fn make_room_main(&mut self, units: usize) -> usize {
        let mut moves = 0;
        loop {
            if let Some(slot) = self.state.main.take(self.bytes, units) {
                return slot;
            }
            let Some(old) = self.state.main.pop(self.bytes) else {
                unreachable!("this queue is the longer one")
            };
            let Some(hash) = self.live_hash(old) else { continue };
            let entry = Entry::at(self.bytes, old * UNIT);
            let (own, uses) = (entry.units(), entry.uses());
            let slot = (uses > 0 && moves < MOVES_MAX)
                .then(|| self.state.main.take(self.bytes, own))
                .flatten();
            match slot {
                Some(slot) => {
                    self.relocate(hash, old, slot, uses - 1);
                    moves += 1;
                }
                None => self.remove(old, hash),
            }
        }
    }
}

//! Who owes what: a table of fixed size, shared by all workers of a server.
//!
//! Each client is at home in one set, a cache line of eight debts, that a keyed hash chooses. A
//! debt is the time at which it will be paid back, so that nothing has to be swept: what lies in
//! the past is free room. Where there is none, who owes least makes room. So a flood of sources
//! that are seen but once drives out only each other, heavy debtors stay known, and there is
//! always room for who is new.
use crate::limits::{ATTEMPTS_MAX, SET_LEN};
use crate::rate::{DEBT_MAX, LOW_MASK, Rate, TIME_SHIFT, ticks};
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// An entry: when the debt will be paid (40 bits of ticks, some 19 hours), how many were refused
/// since the last that slipped through (4 bits), and whose debt it is (20 bits of the hash). Time
/// is at the top, so that it goes round by itself.
const SLIP_SHIFT: u32 = 20;
const SLIP_MASK: u64 = 0xf;
const TAG_MASK: u64 = (1 << SLIP_SHIFT) - 1;

/// Eight debts in a cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct DebtSet([AtomicU64; SET_LEN]);

impl DebtSet {
    /// Nobody owes anything.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; SET_LEN])
    }
}

impl Default for DebtSet {
    fn default() -> Self {
        Self::new()
    }
}

/// The secret that decides whose debts share a set: who does not know it can aim at nobody.
#[derive(Clone, Copy)]
pub struct TableKey([u64; 4]);

impl TableKey {
    /// A key of these words, which must come from a good source of randomness.
    pub const fn new(words: [u64; 4]) -> Self {
        Self(words)
    }
}

impl fmt::Debug for TableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableKey(secret)")
    }
}

/// What a table says of a question or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// It was put on the account.
    Within,
    /// It is too much, but slips through: in short, so that a client that is not to blame can come
    /// back over a stream.
    Slip,
    /// It is too much.
    Over,
}

/// A table, in memory of somebody else's.
#[derive(Clone, Copy, Debug)]
pub struct RateTable<'m> {
    sets: &'m [DebtSet],
    key: TableKey,
}

impl<'m> RateTable<'m> {
    /// A table of these sets; with none of them nobody is ever over.
    pub const fn new(sets: &'m [DebtSet], key: TableKey) -> Self {
        Self { sets, key }
    }

    /// Where the debts of `who` for `what` are kept: two numbers, of any kind.
    #[inline]
    pub fn account(&self, who: u64, what: u64) -> Account<'m> {
        let [k0, k1, k2, k3] = self.key.0;
        let sum = u128::from(who.wrapping_add(k0)) * u128::from(what.wrapping_add(k1));
        let folded = u128::from(sum as u64 ^ k2) * u128::from((sum >> 64) as u64 ^ k3);
        let hash = folded as u64 ^ (folded >> 64) as u64;
        // The upper bits choose the set, the lower ones are the tag.
        let index = (u128::from(hash) * self.sets.len() as u128) >> 64;
        Account { set: self.sets.get(index as usize), tag: hash & TAG_MASK }
    }
}

/// The account of one client. The default is nobody's: it is never over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account<'m> {
    set: Option<&'m DebtSet>,
    /// In the lower bits, as in an entry.
    tag: u64,
}

impl<'m> Account<'m> {
    /// The memory it is kept in, to be fetched ahead.
    #[inline]
    pub fn memory(&self) -> &'m [DebtSet] {
        self.set.map_or(&[], core::slice::from_ref)
    }

    /// Charges one, at a monotonic time that is the same for all who share the table.
    ///
    /// Never waits: where others write the same entry again and again, it is let pass, or stays
    /// refused.
    #[inline(always)]
    pub fn charge(&self, now_micros: u64, rate: &Rate) -> Charge {
        let Some(DebtSet(entries)) = self.set else { return Charge::Within };
        let now = ticks(now_micros) << TIME_SHIFT;
        // Nearly everybody is at home, and within the rate.
        let home = &entries[self.home()];
        let own = home.load(Ordering::Relaxed);
        if self.owns(own)
            && let Some(next) = add(own, now, rate)
            && home.compare_exchange(own, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            return Charge::Within;
        }
        self.charge_anywhere(entries, now, rate)
    }

    #[inline(never)]
    fn charge_anywhere(&self, entries: &'m [AtomicU64; SET_LEN], now: u64, rate: &Rate) -> Charge {
        let mut verdict = Charge::Within;
        for _ in 0..ATTEMPTS_MAX {
            let (entry, seen, next);
            (entry, seen) = match self.find(entries) {
                Some((entry, own)) => {
                    let Some(charged) = charge(own, now, rate) else { return Charge::Over };
                    (verdict, next) = charged;
                    (entry, own)
                }
                None => {
                    // A burst is never less than one.
                    let paid = now.wrapping_add(rate.interval);
                    (verdict, next) = (Charge::Within, paid | self.tag);
                    self.least(entries, now)
                }
            };
            // Nothing but the entry itself is told by it.
            if entry.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                break;
            }
        }
        verdict
    }

    /// Where it is kept if there is room.
    #[inline(always)]
    fn home(&self) -> usize {
        self.tag as usize % SET_LEN
    }

    /// Whether an entry is this account's.
    #[inline(always)]
    fn owns(&self, entry: u64) -> bool {
        (entry ^ self.tag) & TAG_MASK == 0
    }

    /// The entry of this account, and what stands there.
    fn find(&self, entries: &'m [AtomicU64; SET_LEN]) -> Option<(&'m AtomicU64, u64)> {
        entries.iter().find_map(|entry| {
            let own = entry.load(Ordering::Relaxed);
            self.owns(own).then_some((entry, own))
        })
    }

    /// The entry with the least debt, and what stands there; of several, the one at home.
    fn least(&self, entries: &'m [AtomicU64; SET_LEN], now: u64) -> (&'m AtomicU64, u64) {
        let home = &entries[self.home()];
        let mut best = (home, home.load(Ordering::Relaxed));
        for entry in entries {
            let other = entry.load(Ordering::Relaxed);
            if debt(other, now) < debt(best.1, now) {
                best = (entry, other);
            }
        }
        best
    }
}

/// Charges one to who owns an entry; nothing where it stays as it is, and refused.
fn charge(own: u64, now: u64, rate: &Rate) -> Option<(Charge, u64)> {
    if let Some(next) = add(own, now, rate) {
        return Some((Charge::Within, next));
    }
    let refused = (own >> SLIP_SHIFT & SLIP_MASK) + 1;
    match rate.slip {
        0 => None,
        slip if refused >= slip.into() => Some((Charge::Slip, own & !(SLIP_MASK << SLIP_SHIFT))),
        _ => Some((Charge::Over, own + (1 << SLIP_SHIFT))),
    }
}

/// The entry with one more put on it; nothing where that is too much.
#[inline(always)]
fn add(own: u64, now: u64, rate: &Rate) -> Option<u64> {
    let since = if is_paid(own, now) { now | own & LOW_MASK } else { own };
    let next = since.wrapping_add(rate.interval);
    (next.wrapping_sub(now) <= rate.burst).then_some(next)
}

/// Whether nothing is owed. A time that is further ahead than any debt lies in the past: the clock
/// goes round once in 19 hours.
#[inline(always)]
fn is_paid(entry: u64, now: u64) -> bool {
    entry.wrapping_sub(now) >> TIME_SHIFT > DEBT_MAX
}

/// What is owed, in ticks.
fn debt(entry: u64, now: u64) -> u64 {
    if is_paid(entry, now) { 0 } else { entry.wrapping_sub(now) >> TIME_SHIFT }
}

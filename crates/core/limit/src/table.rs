//! The debts of all clients: a table of fixed size, shared by all workers of a server.
//!
//! A keyed hash assigns each client to one set, a cache line of eight debts. A debt is stored as
//! the time at which it will be paid back, so that no sweep is needed: a time in the past is a free
//! entry. If a set is full, the smallest debt is replaced. So a flood of sources that appear once
//! displaces only itself, large debts stay, and a new client always finds room.
use crate::limits::{ATTEMPTS_MAX, SET_LEN};
use crate::rate::{DEBT_MAX, LOW_MASK, Rate, TIME_SHIFT, ticks};
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// An entry: the time at which the debt is paid (40 bits of ticks, some 19 hours), the refusals
/// since the last slip (4 bits), and a part of the account's hash (20 bits). Time is in the upper
/// bits, so that it wraps around.
const SLIP_SHIFT: u32 = 20;
const SLIP_MASK: u64 = 0xf;
const TAG_MASK: u64 = (1 << SLIP_SHIFT) - 1;

/// Eight debts in a cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct DebtSet([AtomicU64; SET_LEN]);

impl DebtSet {
    /// A set without debts.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; SET_LEN])
    }
}

impl Default for DebtSet {
    fn default() -> Self {
        Self::new()
    }
}

/// The secret key of the table. Without it, no client can choose to share a set with another.
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

/// The verdict for a query or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// It is charged and admitted.
    Within,
    /// It exceeds the rate, but gets a truncated reply, so that a client behind a spoofed address
    /// can retry over a stream.
    Slip,
    /// It exceeds the rate.
    Over,
}

/// A table in borrowed memory.
#[derive(Clone, Copy, Debug)]
pub struct RateTable<'m> {
    sets: &'m [DebtSet],
    key: TableKey,
}

impl<'m> RateTable<'m> {
    /// A table of these sets. Without sets it admits everything.
    pub const fn new(sets: &'m [DebtSet], key: TableKey) -> Self {
        Self { sets, key }
    }

    /// The account of a client for one limit.
    #[inline]
    pub fn account(&self, client: u64, limit: u64) -> ClientAccount<'m> {
        let [k0, k1, k2, k3] = self.key.0;
        let sum = u128::from(client.wrapping_add(k0)) * u128::from(limit.wrapping_add(k1));
        let folded = u128::from(sum as u64 ^ k2) * u128::from((sum >> 64) as u64 ^ k3);
        let hash = folded as u64 ^ (folded >> 64) as u64;
        // The upper bits choose the set, the lower ones are the tag.
        let index = (u128::from(hash) * self.sets.len() as u128) >> 64;
        ClientAccount { set: self.sets.get(index as usize), tag: hash & TAG_MASK }
    }
}

/// The account of one client. The default account admits everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientAccount<'m> {
    set: Option<&'m DebtSet>,
    /// At the same bits as in an entry.
    tag: u64,
}

impl<'m> ClientAccount<'m> {
    /// The memory of the account, to be prefetched.
    #[inline]
    pub fn memory(&self) -> &'m [DebtSet] {
        self.set.map_or(&[], core::slice::from_ref)
    }

    /// Charges one query, at a monotonic time in microseconds that is the same for all users of the
    /// table.
    ///
    /// Never waits: if other threads keep changing the entry, the query is admitted, or stays
    /// refused.
    #[inline(always)]
    pub fn charge(&self, now_micros: u64, rate: &Rate) -> Charge {
        let Some(DebtSet(entries)) = self.set else { return Charge::Within };
        let now = ticks(now_micros) << TIME_SHIFT;
        // Almost all clients have their preferred entry and are within the rate.
        let home_index = &entries[self.home_index()];
        let own = home_index.load(Ordering::Relaxed);
        if self.is_entry_of(own)
            && let Some(next) = add(own, now, rate)
            && home_index.compare_exchange(own, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
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
                    // A burst is at least one query.
                    let paid = now.wrapping_add(rate.interval);
                    (verdict, next) = (Charge::Within, paid | self.tag);
                    self.least_debt(entries, now)
                }
            };
            // The entry guards no other memory.
            if entry.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                break;
            }
        }
        verdict
    }

    /// The preferred entry in the set.
    #[inline(always)]
    fn home_index(&self) -> usize {
        self.tag as usize % SET_LEN
    }

    /// Whether an entry belongs to this account.
    #[inline(always)]
    fn is_entry_of(&self, entry: u64) -> bool {
        (entry ^ self.tag) & TAG_MASK == 0
    }

    /// The entry of this account, and its value.
    fn find(&self, entries: &'m [AtomicU64; SET_LEN]) -> Option<(&'m AtomicU64, u64)> {
        entries.iter().find_map(|entry| {
            let own = entry.load(Ordering::Relaxed);
            self.is_entry_of(own).then_some((entry, own))
        })
    }

    /// The entry with the least debt, and its value; the preferred one wins a tie.
    fn least_debt(&self, entries: &'m [AtomicU64; SET_LEN], now: u64) -> (&'m AtomicU64, u64) {
        let home_index = &entries[self.home_index()];
        let mut best = (home_index, home_index.load(Ordering::Relaxed));
        for entry in entries {
            let other = entry.load(Ordering::Relaxed);
            if debt(other, now) < debt(best.1, now) {
                best = (entry, other);
            }
        }
        best
    }
}

/// Charges an entry of this account; `None` if the query is refused and the entry unchanged.
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

/// The entry after one more query; `None` if it exceeds the burst.
#[inline(always)]
fn add(own: u64, now: u64, rate: &Rate) -> Option<u64> {
    let since = if is_paid(own, now) { now | own & LOW_MASK } else { own };
    let next = since.wrapping_add(rate.interval);
    (next.wrapping_sub(now) <= rate.burst).then_some(next)
}

/// Whether the debt is zero. A time further ahead than any debt is in the past: the clock wraps
/// once in 19 hours.
#[inline(always)]
fn is_paid(entry: u64, now: u64) -> bool {
    entry.wrapping_sub(now) >> TIME_SHIFT > DEBT_MAX
}

/// The debt in ticks.
fn debt(entry: u64, now: u64) -> u64 {
    if is_paid(entry, now) { 0 } else { entry.wrapping_sub(now) >> TIME_SHIFT }
}

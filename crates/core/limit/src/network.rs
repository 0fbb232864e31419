//! The network of a client: of all configured prefixes, the longest that has its address.
//!
//! The prefixes are flattened into the addresses at which the network changes. A lookup finds the
//! last of these up to the client's address: an index by the leading bits leaves a few of them, and
//! a binary search the one.
use crate::Prefix;
use crate::flatten::flatten;
use crate::limits::INDEX_SLOTS_MAX;
use crate::prefix::mapped;
use core::convert::Infallible;
use core::net::IpAddr;

/// An address of one family, as a number.
pub trait Bound: Copy + Ord {
    /// The leading bits, up to 64.
    fn head(self) -> u64;

    /// The address before it; `None`: it is the first.
    fn before(self) -> Option<Self>;

    /// The length of the shortest prefix of this address without another one.
    fn apart(self, other: Self) -> u8;
}

impl Bound for u32 {
    #[inline(always)]
    fn head(self) -> u64 {
        self.into()
    }

    fn before(self) -> Option<Self> {
        self.checked_sub(1)
    }

    fn apart(self, other: Self) -> u8 {
        (self ^ other).leading_zeros() as u8 + 1
    }
}

impl Bound for u128 {
    #[inline(always)]
    fn head(self) -> u64 {
        (self >> 64) as u64
    }

    fn before(self) -> Option<Self> {
        self.checked_sub(1)
    }

    fn apart(self, other: Self) -> u8 {
        (self ^ other).leading_zeros() as u8 + 1
    }
}

/// How the leading bits of an address lead to the bounds near it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeIndex {
    /// Trailing bits of a head that do not count.
    shift: u32,
    /// The number of the first slot.
    first: u64,
}

impl RangeIndex {
    /// An index for these ascending bounds, and the entries that it needs: one for each slot, and
    /// one behind the last. Without bounds it needs none.
    pub fn of<B: Bound>(bounds: &[B]) -> (Self, usize) {
        let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else {
            return (Self::default(), 0);
        };
        let slots_max = (4 * bounds.len()).next_power_of_two().min(INDEX_SLOTS_MAX) as u64;
        let (first, last) = (first.head(), last.head());
        let mut shift = 0;
        while (last >> shift) - (first >> shift) >= slots_max {
            shift += 1;
        }
        let slots = (last >> shift) - (first >> shift) + 1;
        (Self { shift, first: first >> shift }, slots as usize + 1)
    }

    /// Fills the entries: how many bounds lie before each slot.
    pub fn fill<B: Bound>(&self, bounds: &[B], entries: &mut [u32]) {
        let mut before = 0;
        for (slot, entry) in entries.iter_mut().enumerate() {
            let is_before = |bound: &&B| self.slot(**bound) < slot;
            before += bounds[before..].iter().take_while(is_before).count();
            *entry = before as u32;
        }
    }

    #[inline(always)]
    fn slot<B: Bound>(&self, address: B) -> usize {
        (address.head() >> self.shift).wrapping_sub(self.first) as usize
    }
}

/// How many bounds are at or below an address. Most slots have none or one.
#[inline(always)]
fn passed<B: Bound>(near: &[B], address: B) -> usize {
    match near {
        [] => 0,
        [bound] => usize::from(*bound <= address),
        _ => near.partition_point(|bound| *bound <= address),
    }
}

/// The ranges of one family, in borrowed memory.
#[derive(Clone, Copy, Debug)]
pub struct NetworkBounds<'m, B> {
    /// Where the network changes, ascending.
    pub bounds: &'m [B],
    /// The network before the first bound, and from each bound on.
    pub numbers: &'m [u16],
    /// How to find the bounds near an address.
    pub index: RangeIndex,
    /// As [`RangeIndex::fill`] left them.
    pub entries: &'m [u32],
}

impl<B> Default for NetworkBounds<'_, B> {
    fn default() -> Self {
        Self { bounds: &[], numbers: &[], index: RangeIndex::default(), entries: &[] }
    }
}

impl<B: Bound> NetworkBounds<'_, B> {
    /// The length of the shortest prefix around an address in which no other network begins or
    /// ends.
    fn scope(&self, address: B) -> u8 {
        let passed = self.bounds.partition_point(|bound| *bound <= address);
        let before = passed.checked_sub(1).and_then(|at| self.bounds.get(at));
        // The first address of a prefix must not be below the bound, the last one not reach the
        // next bound.
        let below = before.and_then(|bound| bound.before()).map_or(0, |at| address.apart(at));
        let above = self.bounds.get(passed).map_or(0, |bound| address.apart(*bound));
        below.max(above)
    }

    #[inline(always)]
    fn number(&self, address: B) -> u16 {
        let entries = self.entries.get(self.index.slot(address)..);
        let Some([start, end]) = entries.and_then(|rest| rest.first_chunk::<2>()) else {
            return self.number_outside(address);
        };
        let (start, end) = (*start as usize, *end as usize);
        let near = self.bounds.get(start..end).unwrap_or_default();
        let passed = start + passed(near, address);
        self.numbers.get(passed).copied().unwrap_or_default()
    }

    /// The number of an address before the first slot or behind the last.
    fn number_outside(&self, address: B) -> u16 {
        let is_behind = self.bounds.last().is_some_and(|last| *last <= address);
        let number = if is_behind { self.numbers.last() } else { self.numbers.first() };
        number.copied().unwrap_or_default()
    }
}

/// The numbers of networks by the address of a client. 0: it is in no network.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkTable<'m> {
    /// The ranges of IPv4.
    pub v4: NetworkBounds<'m, u32>,
    /// The ranges of IPv6.
    pub v6: NetworkBounds<'m, u128>,
}

impl NetworkTable<'_> {
    /// The length of the shortest prefix around an address whose addresses are all in its network,
    /// or all in none.
    pub fn scope(&self, address: IpAddr) -> u8 {
        match address {
            IpAddr::V4(v4) => self.v4.scope(v4.to_bits()),
            IpAddr::V6(v6) => match mapped(v6) {
                Some(v4) => 96 + self.v4.scope(v4),
                None => self.v6.scope(v6.to_bits()),
            },
        }
    }

    /// Sorts prefixes with the numbers of their networks, and passes each address at which the
    /// network changes, ascending, with the number from there on. Of two numbers for one prefix
    /// the greater one decides.
    pub fn flatten(
        prefixes: &mut [(Prefix, u16)],
        mut put_v4: impl FnMut(u32, u16),
        mut put_v6: impl FnMut(u128, u16),
    ) {
        prefixes.sort_unstable();
        let is_v4 = |(prefix, _): &(Prefix, u16)| prefix.address().is_ipv4();
        let (v4, v6) = prefixes.split_at(prefixes.partition_point(is_v4));
        let Ok(()) = flatten::<_, Infallible>(v4.iter().copied(), 0, &mut |at, number| {
            // A range up to the last address needs no bound behind it.
            if let Ok(at) = u32::try_from(at) {
                put_v4(at, number);
            }
            Ok(())
        });
        let Ok(()) = flatten::<_, Infallible>(v6.iter().copied(), 0, &mut |at, number| {
            put_v6(at, number);
            Ok(())
        });
    }

    /// The number of the network of an address. An IPv4-mapped address counts as the IPv4 address.
    #[inline(always)]
    pub fn number(&self, address: IpAddr) -> u16 {
        match address {
            IpAddr::V4(v4) => self.v4.number(v4.to_bits()),
            IpAddr::V6(v6) => match mapped(v6) {
                Some(v4) => self.v4.number(v4),
                None => self.v6.number(v6.to_bits()),
            },
        }
    }
}

#[cfg(test)]
mod tests;

//! Turns nested prefixes into the addresses at which the value of the longest one changes.
use crate::Prefix;
use core::net::IpAddr;

/// How deeply prefixes can nest: one of each length.
const DEPTH_MAX: usize = 129;

/// Passes each address at which the value changes to `put`, ascending, with the value from there
/// on. The prefixes are of one family, sorted, containing ones first. Of two for one prefix the
/// later one decides.
pub(crate) fn flatten<V: Copy + Eq, E>(
    prefixes: impl Iterator<Item = (Prefix, V)>,
    otherwise: V,
    put: &mut impl FnMut(u128, V) -> Result<(), E>,
) -> Result<(), E> {
    let mut sweep = Sweep { reported: otherwise, at: 0, value: otherwise, put };
    // The prefixes around the current address: their last addresses and values.
    let mut open = [(0, otherwise); DEPTH_MAX];
    let mut depth = 0;
    let mut before = None;
    for (prefix, value) in prefixes {
        let (first, last) = range(&prefix);
        // The later of two values of one prefix replaces the earlier.
        depth -= usize::from(before == Some(prefix));
        before = Some(prefix);
        while depth > 0 && open[depth - 1].0 < first {
            depth -= 1;
            sweep.leave(open[depth].0, &open[..depth], otherwise)?;
        }
        sweep.turn(first, value)?;
        open[depth] = (last, value);
        depth += 1;
    }
    while depth > 0 {
        depth -= 1;
        sweep.leave(open[depth].0, &open[..depth], otherwise)?;
    }
    sweep.flush()
}

/// A walk from the lowest address to the highest.
struct Sweep<'p, V, P> {
    /// The last value passed to `put`.
    reported: V,
    /// The current address and its value.
    at: u128,
    value: V,
    put: &'p mut P,
}

impl<V: Copy + Eq, E, P: FnMut(u128, V) -> Result<(), E>> Sweep<'_, V, P> {
    /// Sets the value from this address on.
    fn turn(&mut self, at: u128, value: V) -> Result<(), E> {
        if at != self.at {
            self.flush()?;
        }
        (self.at, self.value) = (at, value);
        Ok(())
    }

    /// Leaves a prefix that ends with this address.
    fn leave(&mut self, last: u128, open: &[(u128, V)], otherwise: V) -> Result<(), E> {
        match last.checked_add(1) {
            Some(next) => self.turn(next, open.last().map_or(otherwise, |(_, value)| *value)),
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), E> {
        if self.value != self.reported {
            self.reported = self.value;
            (self.put)(self.at, self.value)?;
        }
        Ok(())
    }
}

/// The first and the last address of a prefix, as numbers.
pub(crate) fn range(prefix: &Prefix) -> (u128, u128) {
    let (first, bits) = match prefix.address() {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let free = bits - u32::from(prefix.len());
    (first, first | u128::MAX.checked_shr(128 - free).unwrap_or(0))
}

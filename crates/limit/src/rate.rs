//! How much is too much.
use crate::limits::{BURST_SECONDS_MAX, PER_SECOND_MAX, SLIP_MAX};
use core::fmt;

/// Ticks of a table's clock in a microsecond.
const TICKS_PER_MICRO: u64 = 16;
const TICKS_PER_SECOND: u64 = TICKS_PER_MICRO * 1_000_000;
/// Bits below the time in an entry of a table.
pub(crate) const TIME_SHIFT: u32 = 24;
/// All that is no time there.
pub(crate) const LOW_MASK: u64 = (1 << TIME_SHIFT) - 1;
/// The largest debt, in ticks: less than 2^36.
pub(crate) const DEBT_MAX: u64 = BURST_SECONDS_MAX * TICKS_PER_SECOND;

/// A rate, as the generic cell rate algorithm has it (ITU-T I.371): each question costs an interval
/// of debt, time pays it back, and nobody may owe more than a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// What one costs, where an entry of a table has its time.
    pub(crate) interval: u64,
    /// What may be owed, in the same place; all bits below it are set.
    pub(crate) burst: u64,
    /// Every so many that are over, one is let through in short; 0: none.
    pub(crate) slip: u8,
}

/// A rate that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateError {
    /// Not 1 to [`PER_SECOND_MAX`] a second.
    PerSecond,
    /// A burst of none, or one that takes longer than [`BURST_SECONDS_MAX`] to be paid back.
    Burst,
    /// A slip over [`SLIP_MAX`].
    Slip,
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerSecond => write!(f, "a rate must be 1 to {PER_SECOND_MAX} a second"),
            Self::Burst => {
                write!(
                    f,
                    "a burst must be at least 1, and at most {BURST_SECONDS_MAX} s of the rate"
                )
            }
            Self::Slip => write!(f, "slip must be 0 (never) to {SLIP_MAX}"),
        }
    }
}

impl core::error::Error for RateError {}

impl Rate {
    /// `per_second` in the long run, `burst` at once; every `slip`-th that is over is let through
    /// in short, with 0 none.
    ///
    /// # Errors
    /// When a number is out of its range.
    pub const fn new(per_second: u32, burst: u32, slip: u8) -> Result<Self, RateError> {
        if per_second == 0 || per_second > PER_SECOND_MAX {
            return Err(RateError::PerSecond);
        }
        let per_second = per_second as u64;
        let interval = (TICKS_PER_SECOND + per_second / 2) / per_second;
        let burst = interval * burst as u64;
        if burst == 0 || burst > DEBT_MAX {
            return Err(RateError::Burst);
        }
        if slip > SLIP_MAX {
            return Err(RateError::Slip);
        }
        let (interval, burst) = (interval << TIME_SHIFT, burst << TIME_SHIFT | LOW_MASK);
        Ok(Self { interval, burst, slip })
    }
}

/// Ticks of a monotonic clock in microseconds.
#[inline]
pub(crate) const fn ticks(micros: u64) -> u64 {
    micros.wrapping_mul(TICKS_PER_MICRO)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn rates_that_cannot_be_are_explained() {
        assert!(Rate::new(1, 3600, 15).is_ok() && Rate::new(PER_SECOND_MAX, 1, 0).is_ok());
        for (bad, why) in [
            (Rate::new(0, 1, 0), "1 to 1000000"),
            (Rate::new(PER_SECOND_MAX + 1, 1, 0), "1 to 1000000"),
            (Rate::new(1, 0, 0), "at least 1"),
            (Rate::new(1, 3601, 0), "3600 s"),
            (Rate::new(1, 1, 16), "0 (never) to 15"),
        ] {
            assert!(bad.unwrap_err().to_string().contains(why), "{bad:?}");
        }
    }
}

//! Rates.
use crate::limits::{BURST_SECONDS_MAX, PER_SECOND_MAX, SLIP_MAX};
use core::fmt;

/// Clock ticks in a microsecond.
const TICKS_PER_MICRO: u64 = 16;
const TICKS_PER_SECOND: u64 = TICKS_PER_MICRO * 1_000_000;
/// Bits below the time in a table entry.
pub(crate) const TIME_SHIFT: u32 = 24;
/// The bits that are not time.
pub(crate) const LOW_MASK: u64 = (1 << TIME_SHIFT) - 1;
/// The largest debt, in ticks: less than 2^36.
pub(crate) const DEBT_MAX: u64 = BURST_SECONDS_MAX * TICKS_PER_SECOND;

/// A rate by the generic cell rate algorithm (ITU-T I.371). Each query costs an interval of debt,
/// time pays it back, and the debt is at most a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The cost of one query, at the position of an entry's time.
    pub(crate) interval: u64,
    /// The largest debt, at the same position; all bits below are set.
    pub(crate) burst: u64,
    /// One in this many queries above the rate slips through; 0: none.
    pub(crate) slip: u8,
}

/// An invalid rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateError {
    /// Not 1 to [`PER_SECOND_MAX`] a second.
    PerSecond,
    /// Not a burst of at least 1 that is paid back within [`BURST_SECONDS_MAX`].
    Burst,
    /// A slip above [`SLIP_MAX`].
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
    /// `per_second` in the long run, `burst` at once. Every `slip`-th query above the rate slips
    /// through; 0: none.
    ///
    /// # Errors
    /// A number is out of its range.
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

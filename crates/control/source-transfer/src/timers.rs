//! When to ask the primaries again, and how long a copy counts (RFC 1035 §3.3.13, RFC 1996).
use crate::limits::{BACKOFF_MAX, INTERVAL_MAX, INTERVAL_MIN, RETRY_FIRST};
use crate::message::Soa;
use std::time::Duration;

fn bounded(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into()).clamp(INTERVAL_MIN, INTERVAL_MAX)
}

/// The pause after a contact.
pub fn refresh(soa: &Soa) -> Duration {
    bounded(soa.refresh)
}

/// The pause after so many failures in a row, 1 or more; `None`: the zone was never transferred. It
/// doubles, so that a primary whose transfers fail is not asked for them all the time.
pub fn retry(soa: Option<&Soa>, failures: u32) -> Duration {
    let first = soa.map_or(RETRY_FIRST, |soa| bounded(soa.retry));
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(BACKOFF_MAX.max(first))
}

/// How long a copy is served without contact. A refresh and a retry fit in.
pub fn expire(soa: &Soa) -> Duration {
    let both = refresh(soa) + retry(Some(soa), 1);
    Duration::from_secs(soa.expire.into()).max(both)
}

/// A part of a pause, so that many zones, or many servers, do not ask at the same time. `share`: a
/// random number from 0 to 1.
pub fn jittered(pause: Duration, share: f64) -> Duration {
    pause.mul_f64(0.75 + share.clamp(0.0, 1.0) / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soa(refresh: u32, retry: u32, expire: u32) -> Soa {
        Soa { serial: 1, refresh, retry, expire }
    }

    #[test]
    fn timers_are_those_of_the_soa_within_bounds() {
        let seconds = Duration::from_secs;
        let usual = soa(7_200, 3_600, 1_209_600);
        assert_eq!(refresh(&usual), seconds(7_200));
        assert_eq!(retry(Some(&usual), 1), seconds(3_600));
        assert_eq!(expire(&usual), seconds(1_209_600));
        let none = soa(0, 0, 0);
        assert_eq!(refresh(&none), INTERVAL_MIN);
        assert_eq!(expire(&none), INTERVAL_MIN * 2);
        let all = soa(u32::MAX, u32::MAX, u32::MAX);
        assert_eq!((refresh(&all), retry(Some(&all), 1)), (INTERVAL_MAX, INTERVAL_MAX));
        assert_eq!(expire(&all), seconds(u32::MAX.into()));
        for (failures, pause) in [(1, 2), (2, 4), (3, 8), (12, 3_600), (u32::MAX, 3_600)] {
            assert_eq!(retry(None, failures), seconds(pause), "{failures} failures");
        }
    }

    #[test]
    fn pause_is_three_quarters_to_all_of_what_is_due() {
        let pause = Duration::from_secs(100);
        for (share, seconds) in [(0.0, 75), (0.5, 87), (1.0, 100), (7.0, 100)] {
            assert_eq!(jittered(pause, share).as_secs(), seconds);
        }
    }
}

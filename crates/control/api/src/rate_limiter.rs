//! Limits the requests a second of each principal.
use crate::limits::CREDENTIALS_MAX;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A principal may save up requests for this time.
const BURST: Duration = Duration::from_secs(1);

/// A bucket for each principal that sent a request within the last second. It holds the time at
/// which all its requests would be done if they were spread evenly (ITU-T I.371, the virtual
/// scheduling algorithm).
pub struct RateLimiter {
    /// The interval between requests.
    interval: Duration,
    until: Mutex<HashMap<String, Instant>>,
}

impl RateLimiter {
    /// At most so many requests a second for each principal, at least one.
    pub fn new(per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { interval, until: Mutex::default() }
    }

    /// Whether a principal may send a request now. A refused one is not counted.
    pub fn take(&self, principal: &str, now: Instant) -> bool {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        // Not more principals than credentials; old ones are removed.
        if until.len() > CREDENTIALS_MAX {
            until.retain(|_, until| *until > now);
        }
        let Some(until) = until.get_mut(principal) else {
            until.insert(principal.to_owned(), now + self.interval);
            return true;
        };
        let begins = now.max(*until);
        let may = begins.duration_since(now) < BURST;
        if may {
            *until = begins + self.interval;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(rate_limiter: &RateLimiter, principal: &str, now: Instant) -> usize {
        (0..1_000).take_while(|_| rate_limiter.take(principal, now)).count()
    }

    #[test]
    fn each_has_its_requests_a_second_and_no_more() {
        let (rate_limiter, now) = (RateLimiter::new(100), Instant::now());
        assert_eq!(count(&rate_limiter, "a", now), 100, "a second's worth at once");
        assert_eq!(count(&rate_limiter, "a", now), 0);
        assert_eq!(count(&rate_limiter, "b", now), 100, "other principals are not delayed");
        assert_eq!(count(&rate_limiter, "a", now + BURST / 2), 50);
        assert_eq!(
            count(&rate_limiter, "a", now + BURST * 10),
            100,
            "a pause is worth a second at most"
        );
    }

    #[test]
    fn idle_principal_is_removed() {
        let (rate_limiter, now) = (RateLimiter::new(100), Instant::now());
        for number in 0..=CREDENTIALS_MAX {
            assert!(rate_limiter.take(&format!("p{number}"), now));
        }
        assert!(rate_limiter.take("more", now + BURST));
        assert_eq!(rate_limiter.until.lock().expect("unpoisoned").len(), 1);
    }
}

//! Counts failed authentications of each client; a client above the limit gets 429.
use crate::limits::{FAILING_MAX, FAILURES_PER_SECOND};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const SPAN: Duration = Duration::from_secs(1);

/// The clients that failed within the last second.
#[derive(Default)]
pub struct FailedLogins(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl FailedLogins {
    /// Counts a failure of a client, which is an IPv4 address or the /64 of an IPv6 address.
    pub fn count(&self, client: IpAddr, now: Instant) {
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failing.len() >= FAILING_MAX && !failing.contains_key(&client) {
            failing.retain(|_, (since, _)| now.duration_since(*since) < SPAN);
        }
        if failing.len() < FAILING_MAX || failing.contains_key(&client) {
            let (since, count) = failing.entry(client).or_insert((now, 0));
            if now.duration_since(*since) >= SPAN {
                (*since, *count) = (now, 0);
            }
            *count += 1;
        }
    }

    /// Whether a client is above the limit.
    pub fn is_stopped(&self, client: IpAddr, now: Instant) -> bool {
        let failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failing.get(&client).is_some_and(|(since, count)| {
            *count >= FAILURES_PER_SECOND && now.duration_since(*since) < SPAN
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: usize) -> IpAddr {
        IpAddr::from((number as u32).to_be_bytes())
    }

    #[test]
    fn client_with_failed_logins_waits_a_second() {
        let (failed_logins, now) = (FailedLogins::default(), Instant::now());
        for _ in 0..FAILURES_PER_SECOND {
            assert!(!failed_logins.is_stopped(client(1), now));
            failed_logins.count(client(1), now);
        }
        assert!(failed_logins.is_stopped(client(1), now));
        assert!(!failed_logins.is_stopped(client(2), now), "other clients are not affected");
        assert!(!failed_logins.is_stopped(client(1), now + SPAN));
        failed_logins.count(client(1), now + SPAN);
        assert!(!failed_logins.is_stopped(client(1), now + SPAN), "it counts anew");
    }

    #[test]
    fn the_table_has_an_end_and_forgets() {
        let (failed_logins, now) = (FailedLogins::default(), Instant::now());
        for number in 0..=FAILING_MAX {
            failed_logins.count(client(number), now);
        }
        assert_eq!(failed_logins.0.lock().expect("unpoisoned").len(), FAILING_MAX);
        failed_logins.count(client(FAILING_MAX + 1), now + SPAN);
        assert_eq!(failed_logins.0.lock().expect("unpoisoned").len(), 1);
    }
}

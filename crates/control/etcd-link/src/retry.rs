//! Handles an error: a pause, and a line of the log unless it has that already.
use crate::limits::{CAUSES_MAX, CONNECT_MAX, REQUEST_MAX};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The causes of an outage that the log has already.
#[derive(Default)]
pub struct LoggedCauses(Vec<String>);

impl LoggedCauses {
    /// Whether this is a cause that was not logged since the last success, whichever member of etcd
    /// it is of.
    pub fn is_new(&mut self, why: &str) -> bool {
        let cause = why.strip_prefix("etcd at ").and_then(|rest| rest.split_once(": "));
        let cause = cause.map_or(why, |(_, cause)| cause);
        // Further ones are left out: texts that always differ must not fill the log.
        if self.0.len() >= CAUSES_MAX || self.0.iter().any(|logged| logged == cause) {
            return false;
        }
        self.0.push(cause.to_owned());
        true
    }

    /// The failed part works again.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// An attempt that lasts longer has worked for a while: it has connected and got an answer.
const FAILED_MAX: Duration = CONNECT_MAX.saturating_add(REQUEST_MAX);

/// The pauses before something is tried again.
pub struct Retry {
    pause: Duration,
    max: Duration,
}

impl Retry {
    /// Pauses up to this one; the first is a tenth.
    pub fn new(max: Duration) -> Self {
        Self { pause: max / 10, max }
    }

    /// Whether an attempt that began then failed after others: the next member of etcd does not
    /// serve either.
    pub fn is_lasting(&self, began: Instant) -> bool {
        self.pause >= self.max && began.elapsed() <= FAILED_MAX
    }

    /// Waits. Servers that lost the same member do not return all at once.
    pub async fn pause(&mut self, began: Instant) {
        if began.elapsed() > FAILED_MAX {
            self.pause = self.max / 10;
        }
        sleep(self.pause.mul_f64(0.5 + fastrand::f64())).await;
        self.pause = (self.pause * 2).min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_is_logged_once_for_all_members_until_it_works_again() {
        let mut logged = LoggedCauses::default();
        assert!(logged.is_new("etcd at http://a:1: refused"));
        assert!(!logged.is_new("etcd at http://b:1: refused"));
        assert!(logged.is_new("etcd at http://b:1: no TLS"));
        assert!(!logged.is_new("etcd at http://a:1: refused"));
        logged.clear();
        assert!(logged.is_new("etcd at http://a:1: refused"));
        let new = (0..100).filter(|number| logged.is_new(&format!("cause {number}"))).count();
        assert_eq!(new, CAUSES_MAX - 1, "texts that always differ do not fill the log");
    }
}

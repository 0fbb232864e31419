//! Why a request or a stream failed, how long to wait then, and what is logged of it.
use crate::limits::{Bounds, LOG_INTERVAL, LOGGED_CAUSES_MAX, RETRY_AFTER_MAX};
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

/// The cause of a failure. Failures of one cause are logged once a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The kubeconfig, or a file that it names, cannot be used.
    Config,
    /// There is no connection.
    Connection,
    /// The response did not begin in time.
    Late,
    /// The response has this code of HTTP.
    Status(u16),
    /// The stream ended with an error of this code.
    ErrorLine(u16),
    /// A response broke off.
    Broken,
    /// The server ended the stream.
    Ended,
    /// The stream was silent.
    Silent,
    /// A response is not what an API server sends.
    Malformed,
    /// A list exceeds a bound.
    Endless,
    /// The server has an older state, or that of another cluster.
    OtherState,
    /// The cluster does not have this kind of object.
    Absent,
    /// The servers of the fleet cannot be followed.
    Fleet,
}

impl Cause {
    /// Whether it is the same for objects of all kinds.
    const fn is_of_server(self) -> bool {
        matches!(self, Self::Config | Self::Connection | Self::Late | Self::Fleet)
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The failed action, the reason, and what to do.
    pub what: String,
    /// The cause.
    pub cause: Cause,
    /// The revision is too old for the server, or unknown to it.
    pub is_expired: bool,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
    /// The objects that the refused request was for, if others than those of the stream.
    pub resource: Option<Box<str>>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Failure {
    /// A failure that is not an error of the API server.
    pub fn new(cause: Cause, what: impl Into<String>) -> Self {
        let is_expired = cause == Cause::OtherState;
        Self { what: what.into(), cause, is_expired, retry_after: None, resource: None }
    }

    /// An error of the API server: a response, or the line of a stream.
    pub fn with_code(cause: Cause, message: &str, retry_after: Option<u64>) -> Self {
        let (Cause::Status(code) | Cause::ErrorLine(code)) = cause else {
            return Self::new(cause, message);
        };
        // 504: a server that was restored from an older state does not know a newer revision.
        let is_unknown = message.contains("oo large resource version");
        let what = match cause {
            Cause::Status(_) => format!("HTTP {code}: {message}"),
            _ => format!("the stream ended with the error {code}: {message}"),
        };
        let retry_after = retry_after.map(Duration::from_secs);
        let is_expired = code == 410 || is_unknown;
        Self { what, cause, is_expired, retry_after, resource: None }
    }

    /// The code of HTTP, if there was a response with one.
    pub const fn status(&self) -> Option<u16> {
        match self.cause {
            Cause::Status(code) => Some(code),
            _ => None,
        }
    }
}

/// How long to wait before the next try: twice as long after each failure. Only a stream that
/// works starts again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    /// The last wait after a failure of a server that was there.
    failed: Option<Duration>,
    /// The last wait without a connection. That costs a server nothing, so it stays short: a server
    /// that is back is found soon.
    away: Option<Duration>,
}

impl Backoff {
    /// The wait after a failure. `jitter`, from 0 to 1, keeps servers that lost the same peer from
    /// returning together.
    pub fn wait(&mut self, failure: &Failure, bounds: &Bounds, jitter: f64) -> Duration {
        let (last, max) = match failure.cause {
            Cause::Connection | Cause::Config => (&mut self.away, bounds.connect_retry_max),
            _ => (&mut self.failed, bounds.retry.1),
        };
        let next = last.map_or(bounds.retry.0, |last| last * 2).min(max);
        *last = Some(next);
        let wait = self.failed.map_or(next, |failed| failed.max(next));
        let requested = failure.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        wait.mul_f64(0.5 + 0.5 * jitter) + requested
    }

    /// A stream works.
    pub const fn reset(&mut self) {
        (self.failed, self.away) = (None, None);
    }
}

/// Which failures are logged: each cause once in [`LOG_INTERVAL`].
#[derive(Debug, Default)]
pub struct FailureLog {
    /// When each was logged, and how often it occurred since.
    logged: HashMap<(Cause, Box<str>), (Instant, u64)>,
}

impl FailureLog {
    /// Whether a failure of objects of this kind is to be logged now: how often its cause occurred
    /// since it was logged last.
    pub fn take(&mut self, failure: &Failure, kind: &str, now: Instant) -> Option<u64> {
        let cause = failure.cause;
        let of = failure.resource.as_deref().unwrap_or(kind);
        let key = (cause, if cause.is_of_server() { "".into() } else { of.into() });
        let is_new = |at: Instant| now.saturating_duration_since(at) < LOG_INTERVAL;
        if let Some((at, count)) = self.logged.get_mut(&key) {
            if is_new(*at) {
                *count += 1;
                return None;
            }
            *at = now;
            return Some(std::mem::take(count));
        }
        if self.logged.len() >= LOGGED_CAUSES_MAX {
            self.logged.retain(|_, (at, _)| is_new(*at));
        }
        if self.logged.len() >= LOGGED_CAUSES_MAX {
            return None;
        }
        self.logged.insert(key, (now, 0));
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(cause: Cause) -> Failure {
        Failure::new(cause, "x")
    }

    fn waits(backoff: &mut Backoff, causes: &[Cause]) -> Vec<u128> {
        let bounds = Bounds::default();
        let wait = |cause: &Cause| backoff.wait(&failure(*cause), &bounds, 1.0).as_millis();
        causes.iter().map(wait).collect()
    }

    #[test]
    fn a_wait_doubles_up_to_its_maximum_and_no_failure_shortens_it() {
        let mut backoff = Backoff::default();
        let causes = [Cause::Ended, Cause::ErrorLine(500), Cause::Broken, Cause::OtherState];
        assert_eq!(waits(&mut backoff, &causes), [100, 200, 400, 800]);
        let more = waits(&mut backoff, &[Cause::Status(429); 5]);
        assert_eq!(more, [1_600, 3_200, 6_400, 10_000, 10_000]);
        assert_eq!(waits(&mut backoff, &[Cause::Connection]), [10_000]);
        backoff.reset();
        // A server that is away costs nothing, and is found soon once it is back.
        let away = waits(&mut backoff, &[Cause::Connection; 6]);
        assert_eq!(away, [100, 200, 400, 800, 1_000, 1_000]);
        // While it starts it refuses at first.
        assert_eq!(waits(&mut backoff, &[Cause::Status(503); 3]), [100, 200, 400]);
        assert_eq!(waits(&mut backoff, &[Cause::Connection, Cause::Broken]), [1_000, 800]);
    }

    #[test]
    fn jitter_takes_up_to_half_and_a_requested_wait_comes_first_but_is_bounded() {
        let bounds = Bounds::default();
        let mut backoff = Backoff::default();
        let wait = backoff.wait(&failure(Cause::Broken), &bounds, 0.0);
        assert_eq!(wait, Duration::from_millis(50));
        for (requested, expected) in [(7, 7), (60, 60), (86_400, 60), (u64::MAX, 60)] {
            let busy = Failure::with_code(Cause::Status(429), "busy", Some(requested));
            let wait = Backoff::default().wait(&busy, &bounds, 0.0);
            assert_eq!(wait, Duration::from_secs(expected) + bounds.retry.0 / 2, "{requested}");
        }
    }

    #[test]
    fn each_cause_is_logged_once_a_minute_with_how_often_it_occurred() {
        let (mut log, start) = (FailureLog::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(log.take(&failure(Cause::Connection), "services", at(0)), Some(0));
        assert_eq!(
            log.take(&failure(Cause::Connection), "namespaces", at(1)),
            None,
            "of the server"
        );
        assert_eq!(
            log.take(&failure(Cause::Status(403)), "services", at(1)),
            Some(0),
            "another cause"
        );
        assert_eq!(log.take(&failure(Cause::Status(403)), "pods", at(1)), Some(0), "another right");
        for _ in 0..500 {
            assert_eq!(log.take(&failure(Cause::Connection), "pods", at(59)), None);
        }
        assert_eq!(log.take(&failure(Cause::Connection), "pods", at(60)), Some(501));
        // A request that each stream makes fails for all of them.
        let shared = Failure { resource: Some("namespaces".into()), ..failure(Cause::Status(404)) };
        assert_eq!(log.take(&shared, "pods", at(60)), Some(0));
        assert_eq!(log.take(&shared, "services", at(60)), None);
        let lines =
            (0..1_000).filter_map(|code| log.take(&failure(Cause::Status(code)), "pods", at(61)));
        assert!(lines.count() < LOGGED_CAUSES_MAX, "all causes together are bounded");
        assert_eq!(
            log.take(&failure(Cause::Broken), "pods", at(200)),
            Some(0),
            "old ones make room"
        );
    }

    #[test]
    fn a_revision_is_expired_by_410_and_if_the_server_does_not_know_it() {
        let of = |cause, message| Failure::with_code(cause, message, None).is_expired;
        assert!(of(Cause::Status(410), "Gone") && of(Cause::ErrorLine(410), "too old"));
        assert!(of(Cause::Status(504), "Too large resource version: 9, current: 3"));
        assert!(!of(Cause::Status(404), "not found") && !of(Cause::ErrorLine(500), "etcd"));
    }
}

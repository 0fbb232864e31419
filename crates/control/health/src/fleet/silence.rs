//! How long servers that probe have been silent.
//!
//! Each writes a sign of life while it probes. What cannot be seen is not silence: time passes only
//! as far as etcd is known to have been read.
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// When servers were heard of.
#[derive(Debug, Default)]
pub(super) struct Silence {
    heard: HashMap<Arc<str>, Instant>,
    /// Since when etcd is followed.
    since: Option<Instant>,
    /// All that was written before is known; `None`: etcd was never followed.
    known: Option<Instant>,
}

impl Silence {
    /// etcd is followed from now on: what came before says nothing.
    pub fn begin(&mut self, now: Instant) {
        self.heard.values_mut().for_each(|heard| *heard = now);
        (self.since, self.known) = (Some(now), Some(now));
    }

    /// A server has shown that it lives.
    pub fn hear(&mut self, server: &str, now: Instant) {
        match self.heard.get_mut(server) {
            Some(heard) => *heard = now,
            None => drop(self.heard.insert(server.into(), now)),
        }
    }

    /// All that was written before this time is known.
    pub fn reach(&mut self, at: Instant) {
        self.known = self.known.max(Some(at));
    }

    /// Forgets servers.
    pub fn retain(&mut self, is_wanted: impl Fn(&Arc<str>) -> bool) {
        self.heard.retain(|server, _| is_wanted(server));
    }

    /// For how long a server has shown no sign of life.
    pub fn of(&self, server: &str) -> Duration {
        self.of_any([server])
    }

    /// For how long none of these servers has shown one.
    pub fn of_any<'s>(&self, servers: impl IntoIterator<Item = &'s str>) -> Duration {
        let heard = servers.into_iter().filter_map(|server| self.heard.get(server).copied()).max();
        let silent = self.known.zip(heard.or(self.since));
        silent.map_or(Duration::ZERO, |(known, heard)| known.saturating_duration_since(heard))
    }

    /// Whether a server is late at this time, which etcd may not show yet.
    pub fn is_late(&self, server: &str, now: Instant, limit: Duration) -> bool {
        self.heard.get(server).is_some_and(|heard| now.saturating_duration_since(*heard) >= limit)
    }

    /// When a server passes the first of these limits after this time.
    pub fn late_after(&self, server: &str, time: Instant, limits: &[Duration]) -> Option<Instant> {
        let heard = *self.heard.get(server)?;
        limits.iter().filter_map(|limit| heard.checked_add(*limit)).find(|at| *at > time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_time_that_etcd_was_read_for_is_silence() {
        let begin = Instant::now();
        let mut silence = Silence::default();
        assert_eq!(silence.of("a"), Duration::ZERO, "etcd was never read");
        silence.begin(begin);
        silence.hear("a", begin);
        assert!(silence.is_late("a", begin + 5 * SECOND, SECOND));
        assert_eq!(silence.of("a"), Duration::ZERO, "it may have written meanwhile");
        silence.reach(begin + 5 * SECOND);
        assert_eq!(silence.of("a"), 5 * SECOND);
        silence.hear("a", begin + 6 * SECOND);
        assert_eq!(silence.of("a"), Duration::ZERO);
        assert!(!silence.is_late("a", begin + 6 * SECOND, SECOND));
    }

    #[test]
    fn server_is_late_at_each_limit_and_not_between() {
        let begin = Instant::now();
        let mut silence = Silence::default();
        let limits = [3 * SECOND, 7 * SECOND];
        assert_eq!(silence.late_after("a", begin, &limits), None, "nothing was heard of it");
        silence.hear("a", begin);
        let late = |after: u32| silence.late_after("a", begin + after * SECOND, &limits);
        assert_eq!(late(0), Some(begin + 3 * SECOND));
        assert_eq!(late(3), Some(begin + 7 * SECOND));
        assert_eq!(late(7), None);
    }

    #[test]
    fn a_new_connection_begins_anew_and_the_last_of_many_counts() {
        let begin = Instant::now();
        let mut silence = Silence::default();
        silence.begin(begin);
        silence.hear("a", begin);
        silence.hear("b", begin + SECOND);
        silence.reach(begin + 3 * SECOND);
        assert_eq!(silence.of_any(["a", "b"]), 2 * SECOND);
        assert_eq!(silence.of_any([]), 3 * SECOND, "no server has ever known it");
        silence.begin(begin + 9 * SECOND);
        assert_eq!(silence.of("a"), Duration::ZERO);
    }
}

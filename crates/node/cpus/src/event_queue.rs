//! Decides which Events of Pods are written, and when, without I/O and without a clock.
//!
//! The same Event of a Pod is one entry. It is written at once; repeats are counted, and written
//! together later. All entries share one rate.
use crate::limits::{EVENT_KEYS_MAX, EVENTS_A_MINUTE_MAX, EVENTS_AT_ONCE_MAX};
use jiff::Timestamp;
use kube_api::Subject;
use std::collections::BTreeMap;
use std::time::Duration;

/// What tells Events apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) subject: Subject,
    pub(crate) is_warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) text: String,
}

/// What happened once or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) number: u32,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    /// When the first of them came, by the clock of the queue.
    since: Duration,
}

/// Times between tries of the same Event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// After it was written.
    pub(crate) repeat: Duration,
    /// After it could not be written.
    pub(crate) retry: Duration,
    /// How long it is tried.
    pub(crate) patience: Duration,
}

struct Entry {
    /// What is not written yet.
    count: Option<Count>,
    /// It is not written before.
    due: Duration,
}

/// Events that wait, and those that were written not long ago.
pub(crate) struct EventQueue {
    pace: Pace,
    entries: BTreeMap<Key, Entry>,
    /// How many may be written at once, and when that was worked out.
    budget: (f64, Duration),
}

impl EventQueue {
    pub(crate) fn new(pace: Pace) -> Self {
        let budget = (EVENTS_AT_ONCE_MAX, Duration::ZERO);
        Self { pace, entries: BTreeMap::new(), budget }
    }

    /// Notes that something has happened. `false`: there is no room for it.
    pub(crate) fn add(&mut self, now: Duration, time: Timestamp, key: Key) -> bool {
        let is_known = self.entries.contains_key(&key);
        if !is_known && self.entries.len() >= EVENT_KEYS_MAX {
            self.entries.retain(|_, entry| entry.count.is_some() || entry.due > now);
            let written = self.entries.iter().filter(|(_, entry)| entry.count.is_none());
            let oldest = written.min_by_key(|(_, entry)| entry.due).map(|(key, _)| key.clone());
            let is_full = self.entries.len() >= EVENT_KEYS_MAX;
            match oldest.filter(|_| is_full) {
                Some(oldest) => drop(self.entries.remove(&oldest)),
                None if is_full => return false,
                None => {}
            }
        }
        let entry = self.entries.entry(key).or_insert(Entry { count: None, due: now });
        let fresh = Count { number: 0, first: time, last: time, since: now };
        let count = entry.count.get_or_insert(fresh);
        (count.number, count.last) = (count.number.saturating_add(1), time);
        true
    }

    /// The next one to be written now, if there is one. It counts as written.
    pub(crate) fn next(&mut self, now: Duration) -> Option<(Key, Count)> {
        self.refill(now);
        if self.budget.0 < 1.0 {
            return None;
        }
        let due = self.entries.iter_mut().filter(|(_, e)| e.count.is_some() && e.due <= now);
        let (key, entry) = due.min_by_key(|(_, entry)| entry.due)?;
        let count = entry.count.take()?;
        entry.due = now + self.pace.repeat;
        self.budget.0 -= 1.0;
        Some((key.clone(), count))
    }

    /// Has one that could not be written tried again. `false`: it was tried long enough.
    pub(crate) fn put_back(&mut self, now: Duration, key: Key, mut count: Count) -> bool {
        if now.saturating_sub(count.since) >= self.pace.patience {
            return false;
        }
        let entry = self.entries.entry(key).or_insert(Entry { count: None, due: now });
        entry.due = now + self.pace.retry;
        if let Some(more) = &entry.count {
            (count.number, count.last) = (count.number.saturating_add(more.number), more.last);
        }
        entry.count = Some(count);
        true
    }

    /// How long there is nothing to write; `None`: nothing waits.
    pub(crate) fn wait(&mut self, now: Duration) -> Option<Duration> {
        self.refill(now);
        let waiting = self.entries.values().filter(|entry| entry.count.is_some());
        let due = waiting.map(|entry| entry.due).min()?;
        let lacking = (1.0 - self.budget.0).max(0.0) * 60.0 / EVENTS_A_MINUTE_MAX;
        Some(due.saturating_sub(now).max(Duration::from_secs_f64(lacking)))
    }

    fn refill(&mut self, now: Duration) {
        let (left, since) = self.budget;
        let more = now.saturating_sub(since).as_secs_f64() * EVENTS_A_MINUTE_MAX / 60.0;
        self.budget = ((left + more).min(EVENTS_AT_ONCE_MAX), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { repeat: s(600), retry: s(10), patience: s(600) };

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::from_second(second as i64).expect("a time")
    }

    fn key(name: &str, text: &str) -> Key {
        let (namespace, name, uid) = ("shop".into(), name.into(), "u".into());
        let subject = Subject { version: "v1", kind: "Pod", namespace, name, uid };
        Key { subject, is_warning: true, reason: "Reason", text: text.into() }
    }

    #[test]
    fn an_event_is_written_at_once_and_its_repeats_together() {
        let mut queue = EventQueue::new(PACE);
        assert_eq!(queue.wait(s(1)), None);
        assert!(queue.add(s(1), at(1), key("a", "x")));
        assert_eq!(queue.wait(s(1)), Some(Duration::ZERO));
        assert_eq!(queue.next(s(1)).map(|(_, count)| count.number), Some(1));
        // Twice a second, for nine minutes.
        for half in 4..1_084 {
            assert!(queue.add(s(half / 2), at(half / 2), key("a", "x")));
            assert_eq!(queue.next(s(half / 2)), None, "{half}");
        }
        // Another text, or another Pod, is another Event.
        queue.add(s(542), at(542), key("a", "y"));
        queue.add(s(542), at(542), key("b", "x"));
        assert!(queue.next(s(542)).is_some() && queue.next(s(542)).is_some());
        assert_eq!(queue.wait(s(542)), Some(s(59)));
        let (_, count) = queue.next(s(601)).expect("repeats");
        assert_eq!((count.number, count.first, count.last), (1_080, at(2), at(541)));
        assert_eq!(queue.next(s(2_000)), None);
    }

    #[test]
    fn all_together_are_at_most_so_many_a_minute_and_none_is_forgotten() {
        let mut queue = EventQueue::new(PACE);
        for number in 0..EVENT_KEYS_MAX {
            assert!(queue.add(s(0), at(0), key(&number.to_string(), "x")));
        }
        assert!(!queue.add(s(0), at(0), key("more", "x")), "there is no room");
        assert!(queue.add(s(0), at(0), key("0", "x")), "what is known is counted");
        let (mut written, mut most) = (Vec::new(), 0);
        for second in 0..800 {
            let before = written.len();
            while let Some((key, count)) = queue.next(s(second)) {
                written.push((second, key.subject.name, count.number));
            }
            assert!(second == 0 || written.len() - before <= 1, "{second}");
            let minute = written.iter().filter(|(time, ..)| second - time < 60).count();
            most = most.max(minute);
        }
        assert_eq!(written.len(), EVENT_KEYS_MAX);
        assert_eq!(written.iter().find(|(_, name, _)| name == "0").map(|one| one.2), Some(2));
        assert!(most <= (EVENTS_AT_ONCE_MAX + EVENTS_A_MINUTE_MAX) as usize, "{most}");
        // What was written long ago makes room.
        assert!(queue.add(s(2_000), at(2_000), key("more", "x")));
    }

    #[test]
    fn what_could_not_be_written_is_tried_again_for_a_while() {
        let mut queue = EventQueue::new(PACE);
        queue.add(s(0), at(0), key("a", "x"));
        let mut tries = 0;
        for second in 0..1_000 {
            let Some((key, count)) = queue.next(s(second)) else { continue };
            tries += 1;
            queue.add(s(second), at(second), key.clone());
            if !queue.put_back(s(second), key, count) {
                // What came meanwhile is a new one, and waits for its time.
                assert_eq!(second, 600);
                break;
            }
        }
        assert_eq!(tries, 61);
    }
}

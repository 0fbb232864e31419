//! Whether every worker and stream thread answers. The control plane sends each thread a query of
//! its own at each interval; the thread answers it in the loop in which it answers clients.
use crate::limits::{HUNG_AFTER, SELF_QUERY_INTERVAL, SILENT_AFTER};
use crate::threads::ThreadCounters;
use handler::SELF_ANSWERS;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the threads have answered of the server's own queries.
#[derive(Default)]
pub struct Pulses(Mutex<Vec<Pulse>>);

/// One thread.
struct Pulse {
    thread: String,
    /// Its answers at the last interval.
    answers: u64,
    /// Intervals since the last answer. They are counted, and not their time, so that a late
    /// control plane names no thread.
    silent: u32,
}

impl Pulses {
    fn all(&self) -> MutexGuard<'_, Vec<Pulse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the answers since the last interval. To be called once an interval, before the next
    /// queries are sent.
    pub fn note(&self, threads: &[ThreadCounters]) {
        let answers = threads.iter().map(|thread| thread.answers.read()[SELF_ANSWERS]);
        self.note_answers(threads.iter().map(|thread| thread.name.as_str()).zip(answers));
    }

    fn note_answers<'t>(&self, threads: impl Iterator<Item = (&'t str, u64)>) {
        let mut all = self.all();
        for (nth, (thread, answers)) in threads.enumerate() {
            match all.get_mut(nth) {
                Some(pulse) if pulse.answers == answers => {
                    pulse.silent = pulse.silent.saturating_add(1);
                }
                Some(pulse) => (pulse.answers, pulse.silent) = (answers, 0),
                None => all.push(Pulse { thread: thread.to_owned(), answers, silent: 0 }),
            }
        }
    }

    /// The thread that has answered none of the server's own queries for a while, so that clients
    /// wait in vain.
    pub fn silent(&self) -> Option<String> {
        self.silent_for(SILENT_AFTER)
    }

    /// The thread that has answered none for so long that a restart is better.
    pub fn hung(&self) -> Option<String> {
        self.silent_for(HUNG_AFTER)
    }

    fn silent_for(&self, time: Duration) -> Option<String> {
        let all = self.all();
        let silence = |pulse: &Pulse| SELF_QUERY_INTERVAL * pulse.silent;
        let pulse = all.iter().find(|pulse| silence(pulse) >= time)?;
        let (thread, seconds) = (&pulse.thread, silence(pulse).as_secs());
        Some(format!("{thread} has answered no query for {seconds} s, not even the server's own"))
    }

    /// Forgets the threads, which have ended.
    pub fn clear(&self) {
        self.all().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_that_answers_nothing_is_silent_then_hung_and_recovers_at_once() {
        let pulses = Pulses::default();
        let note = |answers: [u64; 2]| {
            pulses.note_answers(["worker-0", "worker-1"].into_iter().zip(answers));
            (pulses.silent().is_some(), pulses.hung().is_some())
        };
        let intervals = |time: Duration| time.div_duration_f64(SELF_QUERY_INTERVAL) as u64;
        let (silent, hung) = (intervals(SILENT_AFTER), intervals(HUNG_AFTER));
        for interval in 0..=hung {
            let expected = (interval >= silent, interval >= hung);
            assert_eq!(note([interval, 7]), expected, "after {interval} intervals");
        }
        let text = pulses.hung().expect("it hangs");
        assert!(text.starts_with("worker-1 has answered no query for 10 s"), "{text}");
        assert_eq!(note([hung, 8]), (false, false), "worker-0 had one interval without an answer");
    }
}

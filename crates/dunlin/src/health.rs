//! Whether every thread that answers gets on, and those are there that change what is answered.
use crate::limits::STUCK_AFTER;
use crate::threads::Counted;
use plane::Pulse;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What it means that these threads ended by themselves; nothing: there are none.
pub fn tell(failed: &[String]) -> Option<String> {
    let names = failed.join(" and ");
    let told = format!("{names} ended: what is served no longer changes; restart the server");
    (!failed.is_empty()).then_some(told)
}

/// What was seen of the threads, look by look.
#[derive(Default)]
pub struct Health {
    /// Of each thread its heartbeat, and since when it is that one.
    seen: Mutex<Vec<(Pulse, Instant)>>,
}

impl Health {
    /// Looks at every thread.
    ///
    /// # Errors
    /// The thread that has done nothing for too long, though it does not wait for anything.
    pub fn look(&self, threads: &[Counted], now: Instant) -> Result<(), String> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let pulses = threads.iter().map(|thread| Pulse::of(&thread.plane));
        if seen.len() != threads.len() {
            *seen = pulses.map(|pulse| (pulse, now)).collect();
            return Ok(());
        }
        let mut stuck = Ok(());
        for ((thread, pulse), (before, since)) in threads.iter().zip(pulses).zip(&mut *seen) {
            if !pulse.is_stuck_since(*before) {
                (*before, *since) = (pulse, now);
            } else if now - *since >= STUCK_AFTER && stuck.is_ok() {
                let seconds = (now - *since).as_secs();
                stuck = Err(format!("{} has done nothing for {seconds} s", thread.name));
            }
        }
        stuck
    }
}

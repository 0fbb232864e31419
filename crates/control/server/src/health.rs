//! Whether every thread that answers gets on, and those are there that change what is answered.
use crate::limits::STUCK_AFTER;
use crate::threads::Counted;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use worker::ThreadPulse;

/// What was seen of the threads, look by look.
#[derive(Default)]
pub struct Health {
    /// Of each thread its heartbeat, and since when it is that one.
    seen: Mutex<Vec<(ThreadPulse, Instant)>>,
}

impl Health {
    /// Looks at every thread.
    ///
    /// # Errors
    /// The thread that has done nothing for too long, though it does not wait for anything.
    pub fn look(&self, threads: &[Counted], now: Instant) -> Result<(), String> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let pulses = threads.iter().map(|thread| ThreadPulse::of(&thread.plane));
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

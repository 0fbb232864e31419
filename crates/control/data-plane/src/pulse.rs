//! Whether every worker and stream thread makes progress.
use crate::limits::STUCK_AFTER;
use crate::threads::ThreadCounters;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use worker::ThreadPulse;

/// The last heartbeats of the threads.
#[derive(Default)]
pub struct Pulses {
    /// Per thread: its heartbeat, and when it changed to that.
    seen: Mutex<Vec<(ThreadPulse, Instant)>>,
}

impl Pulses {
    /// Compares every thread's heartbeat with the last one.
    ///
    /// # Errors
    /// A thread has made no progress for too long, although it has work.
    pub fn look(&self, threads: &[ThreadCounters], now: Instant) -> Result<(), String> {
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

//! Panics that cost one query: each is counted, and one a minute is logged.
use crate::limits::{PANIC_LOG_PAUSE, PANIC_TEXT_MAX};
use handler::{OnPanic, QueryPanic};
use server_status::PanicStatus;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Instant, SystemTime};

/// The last panic of all threads that answer.
#[derive(Clone, Debug, Default)]
pub struct PanicLog(Arc<Mutex<PanicState>>);

#[derive(Debug, Default)]
struct PanicState {
    /// When it was, and what is known about it.
    last: Option<(SystemTime, String)>,
    logged: Option<Instant>,
    /// Panics since the last one that was logged.
    unlogged: u64,
}

impl PanicLog {
    /// Reports the panics of a thread here.
    pub fn reporter(&self) -> OnPanic {
        let log = self.clone();
        OnPanic::new(move |panic| log.record(panic, Instant::now()))
    }

    /// Keeps the description; returns it if it is to be logged, with the number of those that were
    /// not. A thread that would have to wait keeps nothing: the panic is counted elsewhere.
    fn keep(&self, panic: &QueryPanic<'_>, now: Instant) -> Option<(String, u64)> {
        let mut state = match self.0.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let query = panic.query.as_ref().map(|query| format!(", query {query}"));
        let text = panic.panic.chars().chain(query.iter().flat_map(|query| query.chars()));
        // The message of a panic may have several lines.
        let plain = |each: char| if each.is_control() { ' ' } else { each };
        let description: String = text.map(plain).take(PANIC_TEXT_MAX).collect();
        state.last = Some((SystemTime::now(), description.clone()));
        if state.logged.is_some_and(|logged| now < logged + PANIC_LOG_PAUSE) {
            state.unlogged += 1;
            return None;
        }
        state.logged = Some(now);
        Some((description, std::mem::take(&mut state.unlogged)))
    }

    fn record(&self, panic: &QueryPanic<'_>, now: Instant) {
        let Some((description, unlogged)) = self.keep(panic, now) else { return };
        let thread = thread::current();
        tracing::error!(
            thread = thread.name(),
            panic = description,
            unlogged,
            "a query was answered SERVFAIL because its handling panicked, which is a defect: \
             report this line"
        );
    }

    /// The number of panics, which the threads count, and the last one.
    pub fn status(&self, count: u64) -> PanicStatus {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (when, last) = state.last.clone().unzip();
        PanicStatus { count, last_seconds: when.map(server_status::seconds), last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_panic_a_minute_is_logged_and_the_last_is_known() {
        let (log, begin) = (PanicLog::default(), Instant::now());
        assert_eq!(log.status(0), PanicStatus::default());
        let panic = |query: &str, seconds| {
            let panic = QueryPanic { panic: "a.rs:1:2: a\ndefect", query: Some(query.to_owned()) };
            log.keep(&panic, begin + Duration::from_secs(seconds))
        };
        let described = |query: &str| format!("a.rs:1:2: a defect, query {query}");
        assert_eq!(panic("a. A", 0), Some((described("a. A"), 0)));
        assert_eq!(panic("b. A", 1), None);
        assert_eq!(panic("c. A", 59), None);
        assert_eq!(log.status(3).last, Some(described("c. A")));
        assert_eq!(panic("d. A", 60), Some((described("d. A"), 2)));
        assert!(log.status(4).last_seconds.is_some());
    }
}

//! The signals of a server.
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// SIGTERM: to end, after a drain.
    Terminate,
    /// SIGINT: to end at once.
    Interrupt,
    /// SIGUSR1: to log the counters.
    Report,
}

/// The signals that the process handles.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    report: Signal,
}

impl Signals {
    /// Handles them from now on. Within a runtime.
    ///
    /// # Errors
    /// The runtime cannot watch them.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            report: signal(SignalKind::user_defined1())?,
        })
    }

    /// Waits for a signal.
    pub async fn next(&mut self) -> Action {
        tokio::select! {
            _ = self.terminate.recv() => Action::Terminate,
            _ = self.interrupt.recv() => Action::Interrupt,
            _ = self.report.recv() => Action::Report,
        }
    }

    /// Waits for a signal to end.
    pub async fn end(&mut self) {
        while !matches!(self.next().await, Action::Terminate | Action::Interrupt) {}
    }
}

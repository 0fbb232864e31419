//! Changes of a worker's ports while it runs.

use crate::StopHook;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

/// Changes that wait for a worker; it applies them at its next turn.
const WAITING_MAX: usize = 4;

/// Ports that replace those lent before.
pub struct PortChange<P> {
    pub ports: Vec<P>,
    /// Dropped when the change is applied.
    _done: Sender<()>,
}

/// The worker's end.
pub type PortChanges<P> = Receiver<PortChange<P>>;

/// The sender's end.
#[derive(Debug)]
pub struct PortChangeSender<P> {
    port_changes: SyncSender<PortChange<P>>,
    waker: StopHook,
}

impl<P> PortChangeSender<P> {
    /// A pair for the worker that `waker` wakes.
    pub fn new(waker: StopHook) -> (Self, PortChanges<P>) {
        let (port_changes, taken) = sync_channel(WAITING_MAX);
        (Self { port_changes, waker }, taken)
    }

    /// Sends a change; pass the result to [`wait`].
    ///
    /// # Errors
    /// The worker has ended, or its queue is full.
    pub fn send(&self, ports: Vec<P>) -> io::Result<Receiver<()>> {
        let (done, carried_out) = channel();
        self.port_changes
            .try_send(PortChange { ports, _done: done })
            .map_err(|_| io::Error::other("a worker does not accept commands"))?;
        self.waker.wake();
        Ok(carried_out)
    }

    /// Stops the worker.
    pub fn stop(&self) {
        self.waker.stop();
    }
}

/// Waits until a change is applied, or its worker has ended.
///
/// # Errors
/// It takes too long.
pub fn wait(carried_out: &Receiver<()>, time: Duration) -> io::Result<()> {
    match carried_out.recv_timeout(time) {
        Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

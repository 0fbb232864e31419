//! Messages of all threads, from their rings to the handlers and back.
use crate::{Decision, Handlers, ReceivedMessage};
use handler::{ControlId, ControlMessage, ControlReceiver};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// The messages of all threads.
pub struct ControlMessages {
    /// Threads write to it when they have passed a message on, or have room for answers.
    waker: Arc<OwnedFd>,
    wakes: UnixStream,
    receivers: Vec<ControlReceiver>,
    /// Decisions under way, each with its thread: at most as many as the threads keep messages.
    deciding: JoinSet<(usize, ControlId, Decision)>,
}

impl ControlMessages {
    /// Without threads yet. Within a runtime.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        // The system call filter of the systemd unit refuses pipes.
        let (waker, wakes) = UnixStream::pair()?;
        let waker = Arc::new(OwnedFd::from(waker.into_std()?));
        Ok(Self { waker, wakes, receivers: Vec::new(), deciding: JoinSet::new() })
    }

    /// The descriptor by which the threads wake it.
    pub fn waker(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.waker)
    }

    /// Receives from these threads.
    pub fn receive_from(&mut self, receivers: Vec<ControlReceiver>) {
        self.receivers.extend(receivers);
    }

    /// Handles messages until the runtime ends. At each `self_query_interval` it calls `each`, and
    /// has each thread answer a query of the server itself.
    ///
    /// # Errors
    /// The runtime cannot watch a descriptor.
    pub async fn run(
        mut self,
        handlers: Handlers,
        self_query_interval: Duration,
        mut each: impl FnMut(),
    ) -> io::Result<()> {
        let mut ticks = interval(self_query_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    each();
                    self.receivers.iter_mut().for_each(ControlReceiver::query_self);
                }
                ready = self.wakes.readable() => {
                    ready?;
                    // Cleared before the rings are read: remaining wake-ups make it readable again.
                    let _ = self.wakes.try_read(&mut [0; 512]);
                    self.receive(&handlers);
                }
                Some(Ok((thread, id, decision))) = self.deciding.join_next() => {
                    self.receivers[thread].answer(id, decision);
                }
            }
        }
    }

    /// Gives what has arrived to the handlers, and sends the answers that waited for room.
    fn receive(&mut self, handlers: &Handlers) {
        for (thread, receiver) in self.receivers.iter_mut().enumerate() {
            receiver.send_waiting();
            receiver.drain(|ControlMessage { id, client, transport, bytes }| {
                let (bytes, signature) = (bytes.into(), None);
                let message = ReceivedMessage { client, transport, bytes, signature };
                let deciding = handlers.decide(message);
                self.deciding.spawn(async move { (thread, id, deciding.await) });
            });
        }
    }
}

#[cfg(test)]
mod tests;

//! Messages that the data plane leaves to the control plane, each with its body: a handler for each
//! opcode decides the response. A message without a handler never comes here.
mod notify;
mod query;
mod signed;
mod update;

use crate::limits::CONTROL_TIME_MAX;
use crate::server::Server;
use config::UpdateWait;
use data_plane::limits::SELF_QUERY_INTERVAL;
use handler::{ControlAnswer, ControlId, ControlMessage, ControlReceiver};
use packet::Transport;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use wire::Rcode;

/// Each opcode (RFC 6895 §2.2) that has a handler, and what creates it. Of queries only signed ones
/// come here.
const HANDLERS: [(u8, CreateHandler); 3] = [
    (query::OPCODE, query::create),
    (notify::OPCODE, query::create_for_notify),
    (update::OPCODE, update::create),
];

type CreateHandler = fn(&Arc<Server>) -> Arc<dyn MessageHandler>;

/// Bit n: messages of opcode n have a handler, besides signed queries.
pub fn handled_opcodes(update: UpdateWait) -> u16 {
    1 << notify::OPCODE | u16::from(update != UpdateWait::Off) << update::OPCODE
}

/// The handlers of a server.
pub fn handlers(server: &Arc<Server>) -> Handlers {
    HANDLERS.iter().map(|(opcode, create)| (*opcode, create(server))).collect()
}

/// Handlers with their opcodes.
pub type Handlers = Vec<(u8, Arc<dyn MessageHandler>)>;

/// Decides messages of one opcode.
pub trait MessageHandler: Send + Sync {
    /// Decides a message. If that takes longer than [`CONTROL_TIME_MAX`], it is dropped where it
    /// waits, and the client gets SERVFAIL.
    fn handle(self: Arc<Self>, message: ReceivedMessage) -> Deciding;
}

/// A decision that is awaited.
pub type Deciding = Pin<Box<dyn Future<Output = Decision> + Send>>;

/// The response.
pub type Decision = ControlAnswer<Box<[u8]>>;

/// A message of a client.
pub struct ReceivedMessage {
    /// The client, which a proxy may have named.
    pub client: SocketAddr,
    /// How it came.
    pub transport: Transport,
    /// The message as it was received, with a whole header.
    pub bytes: Box<[u8]>,
}

/// The messages of all threads.
pub struct ControlMessages {
    /// How long a handler may take.
    limit: Duration,
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
        let (limit, receivers) = (CONTROL_TIME_MAX, Vec::new());
        Ok(Self { limit, waker, wakes, receivers, deciding: JoinSet::new() })
    }

    /// The descriptor by which the threads wake it.
    pub fn waker(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.waker)
    }

    /// Receives from these threads.
    pub fn receive_from(&mut self, receivers: Vec<ControlReceiver>) {
        self.receivers.extend(receivers);
    }

    /// Handles messages until the runtime ends, and has each thread answer a query of the server
    /// itself at each [`SELF_QUERY_INTERVAL`]. Calls `each` before that.
    ///
    /// # Errors
    /// The runtime cannot watch a descriptor.
    pub async fn run(mut self, handlers: Handlers, mut each: impl FnMut()) -> io::Result<()> {
        let mut ticks = interval(SELF_QUERY_INTERVAL);
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
                let message = ReceivedMessage { client, transport, bytes: bytes.into() };
                let deciding = decide(handlers, message, self.limit);
                self.deciding.spawn(async move { (thread, id, deciding.await) });
            });
        }
    }
}

/// Gives a message to its handler. The message always gets an answer, or a thread would keep it.
fn decide(
    handlers: &Handlers,
    message: ReceivedMessage,
    limit: Duration,
) -> impl Future<Output = Decision> + use<> {
    let (client, transport) = (message.client, message.transport);
    let opcode = message.bytes.get(2).map_or(0, |byte| byte >> 3 & 0xf);
    let handler = handlers.iter().find(|(known, _)| *known == opcode);
    let handling = handler.map(|(_, handler)| Arc::clone(handler).handle(message));
    async move {
        let Some(handling) = handling else { return Decision::Code(Rcode::NotImp) };
        // A task of its own, so that a panic costs one message.
        let task = tokio::spawn(handling);
        let end = task.abort_handle();
        match timeout(limit, task).await {
            Ok(Ok(decision)) => return decision,
            Ok(Err(error)) => {
                let what = "a message is answered SERVFAIL, because its handler panicked, a defect";
                tracing::error!(%client, ?transport, opcode, "{what}: {error}");
            }
            Err(_) => {
                end.abort();
                let what = "a message is answered SERVFAIL: its handler took too long";
                tracing::warn!(%client, ?transport, opcode, ?limit, "{what}");
            }
        }
        Decision::Code(Rcode::ServFail)
    }
}

#[cfg(test)]
mod tests;

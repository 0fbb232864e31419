//! Messages for a handler outside the data plane ([`Verdict::Control`]), such as NOTIFY.
//!
//! A ring leads from each thread to the handler and another one back; a descriptor wakes each. The
//! thread keeps the message and where it came from; the handler decides the response code. So a
//! slow handler delays no query, and one that never answers costs a bounded number of messages.
use crate::limits::{CONTROL_LEN_MAX, CONTROL_PENDING_MAX, CONTROL_REPLY_ROOM};
use packet::{DropReason, Ingress, Packet, QueryContext, Verdict};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use sync::{EventReader, EventWriter, events};
use wire::Rcode;

/// Bytes of a message in the ring: its length, the number and the length of the query, the query.
const REQUEST_LEN_MAX: usize = 3 * size_of::<u64>() + CONTROL_LEN_MAX;
/// Bytes of an answer in the ring: its length, the number of the query, the response code.
const ANSWER_LEN: usize = 3 * size_of::<u64>();

/// Identifies a message of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlId(u64);

/// The handler's end of the rings of one thread.
pub struct ControlReceiver {
    requests: EventReader,
    answers: EventWriter,
    waker: Arc<OwnedFd>,
}

impl ControlReceiver {
    /// Passes the messages that have arrived to `show`, oldest first. Each needs one
    /// [`answer`](Self::answer).
    pub fn drain(&mut self, mut show: impl FnMut(ControlId, &[u8])) {
        self.requests.drain(|bytes| {
            if let Some((number, len, rest)) = read_two(bytes)
                && let Some(message) = rest.get(..len as usize)
            {
                show(ControlId(number), message);
            }
        });
    }

    /// Has the thread send the response with this code.
    pub fn answer(&mut self, id: ControlId, rcode: Rcode) {
        // There is room for all messages that the thread waits for.
        self.answers.write([&id.0.to_ne_bytes(), &(rcode.index() as u64).to_ne_bytes()]);
        wake(&self.waker);
    }
}

/// A thread's end, with the messages that it waits for.
pub(crate) struct ControlQueue {
    requests: EventWriter,
    answers: EventReader,
    /// Wakes the handler.
    handler: Arc<OwnedFd>,
    /// Readable when there are answers.
    waker: Arc<OwnedFd>,
    pending: Vec<PendingMessage>,
    sent: u64,
}

/// A message as received, and its time.
struct PendingMessage {
    id: u64,
    peer: SocketAddr,
    context: QueryContext,
    origin: Ingress,
    message: Box<[u8]>,
    since: Duration,
}

impl ControlQueue {
    /// A connected pair. The thread writes to `handler`, a socket or an eventfd that never blocks,
    /// when it has passed a message on.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub(crate) fn new(handler: Arc<OwnedFd>) -> io::Result<(Self, ControlReceiver)> {
        let waker = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (requests, requested) = events(CONTROL_PENDING_MAX * REQUEST_LEN_MAX);
        let (answers, answered) = events(CONTROL_PENDING_MAX * ANSWER_LEN);
        let receiver = ControlReceiver { requests: requested, answers, waker: waker.clone() };
        let (pending, sent) = (Vec::new(), 0);
        Ok((Self { requests, answers: answered, handler, waker, pending, sent }, receiver))
    }

    fn send(&mut self, packet: &Packet<'_>, since: Duration) -> bool {
        let message = packet.message();
        if self.pending.len() == CONTROL_PENDING_MAX || message.len() > CONTROL_LEN_MAX {
            return false;
        }
        let Packet { peer, context, origin, .. } = *packet;
        self.sent += 1;
        let (id, len) = (self.sent, message.len() as u64);
        let is_sent = self.requests.write([&id.to_ne_bytes(), &len.to_ne_bytes(), message]);
        if is_sent {
            let message = message.into();
            self.pending.push(PendingMessage { id, peer, context, origin, message, since });
            wake(&self.handler);
        }
        is_sent
    }

    /// Passes each message that the handler has decided to `answer`, as it was received, with the
    /// response code and its time.
    pub(crate) fn take_answers(
        &mut self,
        mut answer: impl FnMut(&mut Packet<'_>, Rcode, Duration),
    ) {
        // Not readable any more, before the ring is read.
        let _ = rustix::io::read(&self.waker, &mut [0; 8]);
        let Self { answers, pending, .. } = self;
        answers.drain(|bytes| {
            let Some((id, index, _)) = read_two(bytes) else { return };
            let Some(at) = pending.iter().position(|message| message.id == id) else { return };
            let PendingMessage { peer, context, origin, message, since, .. } =
                pending.swap_remove(at);
            let mut buf = vec![0; message.len() + CONTROL_REPLY_ROOM];
            buf[..message.len()].copy_from_slice(&message);
            let mut packet = Packet::new(&mut buf, message.len(), peer, context.transport);
            (packet.context, packet.origin) = (context, origin);
            let rcode = Rcode::ALL.get(index as usize).copied().unwrap_or(Rcode::ServFail);
            answer(&mut packet, rcode, since);
        });
    }

    /// Whether any message is not answered yet.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

/// Passes on the messages of a burst that are for the handler. Those without room, or without a
/// handler, are dropped.
#[cold]
pub(crate) fn pass_on(
    mut queue: Option<&mut ControlQueue>,
    packets: &mut [Packet<'_>],
    now: Duration,
) {
    let is_for_it = |packet: &&mut Packet<'_>| packet.verdict == Verdict::Control;
    for packet in packets.iter_mut().filter(is_for_it) {
        if !queue.as_mut().is_some_and(|queue| queue.send(packet, now)) {
            packet.verdict = Verdict::Drop(DropReason::ControlFull);
        }
    }
}

impl AsFd for ControlQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

/// The first two numbers of an event, and the rest.
fn read_two(bytes: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (first, rest) = bytes.split_first_chunk()?;
    let (second, rest) = rest.split_first_chunk()?;
    Some((u64::from_ne_bytes(*first), u64::from_ne_bytes(*second), rest))
}

fn wake(waker: impl AsFd) {
    // Only a full one refuses a write, and then its reader is about to be woken already.
    let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Transport;

    fn pair() -> (ControlQueue, ControlReceiver) {
        let handler = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an fd");
        ControlQueue::new(Arc::new(handler)).expect("an fd")
    }

    /// Passes a message on from this port; returns the verdict.
    fn pass(queue: Option<&mut ControlQueue>, message: &[u8], port: u16) -> Verdict {
        let mut buf = message.to_vec();
        let peer = SocketAddr::from(([192, 0, 2, 1], port));
        let mut packet = Packet::new(&mut buf, message.len(), peer, Transport::Stream);
        (packet.verdict, packet.origin.place) = (Verdict::Control, port.into());
        pass_on(queue, std::slice::from_mut(&mut packet), Duration::from_secs(7));
        packet.verdict
    }

    /// The ports, messages and codes of the answers.
    fn answers(queue: &mut ControlQueue) -> Vec<(u16, Vec<u8>, Rcode)> {
        let mut answers = Vec::new();
        queue.take_answers(|packet, rcode, since| {
            assert_eq!(
                (packet.context.transport, since),
                (Transport::Stream, Duration::from_secs(7))
            );
            assert_eq!(packet.origin.place, u64::from(packet.peer.port()));
            answers.push((packet.peer.port(), packet.message().to_vec(), rcode));
        });
        answers
    }

    #[test]
    fn answer_goes_to_the_message_it_is_about_once() {
        let (mut queue, mut receiver) = pair();
        for (port, text) in [(1, "first"), (2, "second"), (3, "third")] {
            assert_eq!(pass(Some(&mut queue), text.as_bytes(), port), Verdict::Control);
        }
        let mut seen = Vec::new();
        receiver.drain(|id, message| seen.push((id, message.to_vec())));
        assert_eq!(seen[1].1, b"second");
        receiver.answer(seen[1].0, Rcode::Refused);
        receiver.answer(seen[1].0, Rcode::NoError);
        receiver.answer(ControlId(99), Rcode::NoError);
        assert_eq!(answers(&mut queue), [(2, b"second".to_vec(), Rcode::Refused)]);
        assert!(queue.has_pending());
        for (id, _) in [&seen[2], &seen[0]] {
            receiver.answer(*id, Rcode::NotAuth);
        }
        let ports = answers(&mut queue).into_iter().map(|(port, ..)| port);
        assert_eq!(ports.collect::<Vec<_>>(), [3, 1]);
        assert!(!queue.has_pending());
    }

    #[test]
    fn message_without_room_or_handler_is_dropped() {
        let (mut queue, mut receiver) = pair();
        let full = Verdict::Drop(DropReason::ControlFull);
        assert_eq!(pass(None, b"a message", 1), full);
        let longest = [7; CONTROL_LEN_MAX];
        assert_eq!(pass(Some(&mut queue), &[7; CONTROL_LEN_MAX + 1], 1), full);
        for _ in 0..3 {
            for port in 0..CONTROL_PENDING_MAX as u16 {
                assert_eq!(pass(Some(&mut queue), &longest, port), Verdict::Control);
            }
            assert_eq!(pass(Some(&mut queue), b"a message", 1), full);
            let mut ids = Vec::new();
            receiver.drain(|id, message| {
                assert_eq!(message, longest);
                ids.push(id);
            });
            // A message that the handler has, but has not answered, counts.
            assert_eq!(pass(Some(&mut queue), b"a message", 1), full);
            ids.into_iter().for_each(|id| receiver.answer(id, Rcode::NoError));
            assert_eq!(answers(&mut queue).len(), CONTROL_PENDING_MAX);
        }
    }
}

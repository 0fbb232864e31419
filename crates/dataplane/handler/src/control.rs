//! Messages for a handler outside the data plane ([`Verdict::Control`]), such as NOTIFY.
//!
//! A ring leads from each thread to the handler and another one back; a descriptor wakes each. The
//! thread keeps the message and where it came from; the handler decides the response. So a slow
//! handler delays no query, and one that never answers costs a bounded number of bytes, of which
//! each client has a share.
use crate::limits::{
    CONTROL_ANSWERS_LEN_MAX, CONTROL_BYTES_MAX, CONTROL_BYTES_MIN, CONTROL_BYTES_PER_CLIENT_MAX,
    CONTROL_BYTES_PER_KEY_MAX, CONTROL_HEAD_LEN, CONTROL_REPLY_ROOM,
};
use answer::ControlAnswer;
use packet::{DropReason, Ingress, Packet, QueryContext, Transport, Verdict};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use sync::{EventReader, EventWriter, events};
use wire::{Rcode, Records, signature_at};
use worker::{ClientIdentity, Shares};

/// Identifies a message of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlId(u64);

/// A message that the handler decides.
#[derive(Clone, Copy, Debug)]
pub struct ControlMessage<'m> {
    /// What the answer refers to.
    pub id: ControlId,
    /// The client, which a proxy may have named.
    pub client: SocketAddr,
    /// How it came.
    pub transport: Transport,
    /// The message as it was received.
    pub bytes: &'m [u8],
}

/// The handler's end of the rings of one thread.
pub struct ControlReceiver {
    requests: EventReader,
    answers: EventWriter,
    /// Answers for which the ring has no room yet: one for each message at most.
    waiting: VecDeque<(ControlId, ControlAnswer<Box<[u8]>>)>,
    waker: Arc<OwnedFd>,
}

impl ControlReceiver {
    /// Passes the messages that have arrived to `show`, oldest first. Each needs one
    /// [`answer`](Self::answer).
    pub fn drain(&mut self, mut show: impl FnMut(ControlMessage<'_>)) {
        self.requests.drain(|event| {
            if let Some(message) = read_message(event) {
                show(message);
            }
        });
    }

    /// Has the thread answer a query of the server itself in its own loop. One that takes no more
    /// messages has not read the last ones, so it need not get another.
    pub fn query_self(&mut self) {
        self.answers.write([&SELF_QUERY.to_ne_bytes(), &0u64.to_ne_bytes(), &[]]);
        wake(&self.waker);
    }

    /// Has the thread send the response: SERVFAIL instead of one above 65,535 bytes.
    pub fn answer(&mut self, id: ControlId, answer: ControlAnswer<Box<[u8]>>) {
        let answer = match answer {
            ControlAnswer::Message(bytes) if bytes.len() > usize::from(u16::MAX) => {
                ControlAnswer::Code(Rcode::ServFail)
            }
            answer => answer,
        };
        self.waiting.push_back((id, answer));
        self.send_waiting();
    }

    /// Passes on the answers that wait for room. To be called when the thread wakes the handler.
    pub fn send_waiting(&mut self) {
        let Self { answers, waiting, waker, .. } = self;
        if waiting.is_empty() {
            return;
        }
        while let Some((id, answer)) = waiting.front() {
            let (code, message) = match answer {
                ControlAnswer::Code(rcode) => (rcode.index() as u64, &[][..]),
                ControlAnswer::Message(bytes) => (MESSAGE | bytes.len() as u64, &bytes[..]),
            };
            if !answers.write([&id.0.to_ne_bytes(), &code.to_ne_bytes(), message]) {
                break;
            }
            waiting.pop_front();
        }
        // Also if there was no room: the thread makes some, and wakes the handler.
        wake(waker);
    }
}

/// In place of the number of a message: the thread is to answer a query of the server itself.
const SELF_QUERY: u64 = 0;

/// In the second word of an answer: it is a message, of the length in the other bits.
const MESSAGE: u64 = 1 << 32;

/// A thread's end, with the messages that it waits for.
pub(crate) struct ControlQueue {
    requests: EventWriter,
    answers: EventReader,
    /// Answers that had found no room when the handler was woken for that.
    crowded: u64,
    /// Wakes the handler.
    handler: Arc<OwnedFd>,
    /// Readable when there are answers.
    waker: Arc<OwnedFd>,
    pending: Vec<PendingMessage>,
    /// The bytes of each client.
    shares: Shares,
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
    /// The name of the key that it names, in lower case.
    key: Option<Box<[u8]>>,
}

impl PendingMessage {
    fn weight(&self) -> usize {
        weight(&self.message)
    }
}

impl ControlQueue {
    /// A connected pair. The thread writes to `handler`, a socket or an eventfd that never blocks,
    /// when it has passed a message on, or has made room for answers.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub(crate) fn new(handler: Arc<OwnedFd>) -> io::Result<(Self, ControlReceiver)> {
        let waker = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (requests, requested) = events(CONTROL_BYTES_MAX);
        let (answers, answered) = events(CONTROL_ANSWERS_LEN_MAX);
        let waiting = VecDeque::new();
        let receiver =
            ControlReceiver { requests: requested, answers, waiting, waker: waker.clone() };
        let (pending, shares, answers) = (Vec::new(), Shares::default(), answered);
        let (crowded, sent) = (0, 0);
        Ok((Self { requests, answers, crowded, handler, waker, pending, shares, sent }, receiver))
    }

    fn send(&mut self, packet: &Packet<'_>, since: Duration) -> bool {
        let Packet { peer, context, origin, .. } = *packet;
        let message = packet.message();
        let (weight, key) = (weight(message), key(message));
        let client = ClientIdentity::at(context.client.ip());
        if self.shares.weight() + weight > CONTROL_BYTES_MAX
            || self.shares.weight_of(client) + weight > CONTROL_BYTES_PER_CLIENT_MAX
            || key.is_some() && self.weight_of(&key) + weight > CONTROL_BYTES_PER_KEY_MAX
        {
            return false;
        }
        self.sent += 1;
        let id = self.sent;
        let (address, place) = message_head(&context, message.len());
        // There is room for all messages that the thread waits for.
        let is_sent = self.requests.write([&id.to_ne_bytes(), &place, &address, message]);
        if is_sent {
            let message = message.into();
            self.shares.put(id, client, weight, since);
            self.pending.push(PendingMessage { id, peer, context, origin, message, since, key });
            wake(&self.handler);
        }
        is_sent
    }

    /// The bytes of the messages that name a key. There are few: each counts for
    /// [`CONTROL_BYTES_MIN`] at least.
    fn weight_of(&self, key: &Option<Box<[u8]>>) -> usize {
        self.pending.iter().filter(|one| one.key == *key).map(PendingMessage::weight).sum()
    }

    /// Passes each message that the handler has decided to `answer`, as it was received, with the
    /// decision and its time. Returns whether the thread is to answer a query of the server itself.
    pub(crate) fn take_answers(
        &mut self,
        mut answer: impl FnMut(&mut Packet<'_>, ControlAnswer<&[u8]>, Duration),
    ) -> bool {
        // Not readable any more, before the ring is read.
        let _ = rustix::io::read(&self.waker, &mut [0; 8]);
        let Self { answers, pending, shares, .. } = self;
        let mut is_queried = false;
        answers.drain(|event| {
            let Some((id, decision)) = read_answer(event) else { return };
            is_queried |= id == SELF_QUERY;
            let Some(at) = pending.iter().position(|message| message.id == id) else { return };
            let PendingMessage { peer, context, origin, message, since, .. } =
                pending.swap_remove(at);
            shares.take(id);
            let answer_len = match decision {
                ControlAnswer::Code(_) => 0,
                ControlAnswer::Message(bytes) => bytes.len(),
            };
            let mut buf = vec![0; answer_len.max(message.len() + CONTROL_REPLY_ROOM)];
            buf[..message.len()].copy_from_slice(&message);
            let mut packet = Packet::new(&mut buf, message.len(), peer, context.transport);
            (packet.context, packet.origin) = (context, origin);
            answer(&mut packet, decision, since);
        });
        let crowded = self.answers.lost();
        if std::mem::replace(&mut self.crowded, crowded) != crowded {
            wake(&self.handler);
        }
        is_queried
    }

    /// Whether any message is not answered yet.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

/// The bytes that a message counts for.
fn weight(message: &[u8]) -> usize {
    (CONTROL_HEAD_LEN + message.len()).max(CONTROL_BYTES_MIN)
}

/// The name of the key that a message names.
fn key(message: &[u8]) -> Option<Box<[u8]>> {
    let record = Records::new(message, signature_at(message)?, 1).next()?.ok()?;
    Some(record.owner().ok()?.as_name().as_bytes().into())
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

/// The address of the client; the length of the message, its port and the transport.
fn message_head(context: &QueryContext, len: usize) -> ([u8; 16], [u8; 8]) {
    let address = match context.client.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let is_stream = u64::from(context.transport == Transport::Stream);
    let place = len as u64 | u64::from(context.client.port()) << 32 | is_stream << 48;
    (address.octets(), place.to_ne_bytes())
}

/// A message in its event.
fn read_message(event: &[u8]) -> Option<ControlMessage<'_>> {
    let (id, place, rest) = read_two(event)?;
    let (address, rest) = rest.split_first_chunk::<16>()?;
    let client = (Ipv6Addr::from(*address).to_canonical(), (place >> 32) as u16).into();
    let transport = if place >> 48 == 1 { Transport::Stream } else { Transport::Datagram };
    let bytes = rest.get(..place as u32 as usize)?;
    Some(ControlMessage { id: ControlId(id), client, transport, bytes })
}

/// The number of a message, and the decision in an event.
fn read_answer(event: &[u8]) -> Option<(u64, ControlAnswer<&[u8]>)> {
    let (id, code, rest) = read_two(event)?;
    let decision = if code & MESSAGE == 0 {
        ControlAnswer::Code(Rcode::ALL.get(code as usize).copied().unwrap_or(Rcode::ServFail))
    } else {
        ControlAnswer::Message(rest.get(..code as u32 as usize)?)
    };
    Some((id, decision))
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
mod tests;

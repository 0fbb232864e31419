//! Answers the messages of a thread's connections.

use crate::counters::{COUNTERS, count, count_done};
use crate::limits::{DEFERRED_PER_CONNECTION_MAX, MESSAGE_MAX, OUTBOX_FULL, PREFIX, READ_MAX};
use crate::{App, clock};
use packet::{Packet, Transport, Verdict};
use port::Burst;
use std::net::SocketAddr;
use std::slice;
use std::time::Duration;
use sync::Counters;

/// Buffers of a thread, shared by its connections: an idle connection has none.
pub struct StreamBuffers<A> {
    /// Buffer for reads.
    pub read: Box<[u8]>,
    pub responder: StreamResponder<A>,
}

impl<A: App> StreamBuffers<A> {
    /// Buffers in which `app` answers.
    pub fn new(app: A, counters: Counters<COUNTERS>) -> Self {
        let message = vec![0; MESSAGE_MAX].into();
        let responder = StreamResponder { app, message, replies: Vec::new(), counters };
        Self { read: vec![0; READ_MAX].into(), responder }
    }
}

/// The application with its buffers.
pub struct StreamResponder<A> {
    pub app: A,
    /// Buffer of one message.
    message: Box<[u8]>,
    /// The last burst's replies, behind their lengths (RFC 7766 §8).
    pub replies: Vec<u8>,
    pub counters: Counters<COUNTERS>,
}

impl<A: App> StreamResponder<A> {
    /// Answers the whole messages at the start of `bytes`, until the replies fill a burst or too
    /// many are deferred. Returns how many bytes were used.
    pub fn answer(
        &mut self,
        bytes: &[u8],
        from: &MessageSource,
        now: Duration,
    ) -> (usize, MessageCounts) {
        let (mut done, mut used) = (MessageCounts::default(), 0);
        let burst = &mut done.burst;
        self.replies.clear();
        while self.replies.len() < OUTBOX_FULL
            && from.deferred + done.deferred < DEFERRED_PER_CONNECTION_MAX
            && let Some(query) = first_message(&bytes[used..])
        {
            let len = query.len();
            self.message[..len].copy_from_slice(query);
            let mut packet = Packet::new(&mut self.message, len, from.peer, Transport::Stream);
            packet.context.client = from.client;
            packet.origin.place = from.id;
            self.app.burst(slice::from_mut(&mut packet), now);
            if packet.verdict == Verdict::Stream {
                // It stays in the inbox, with which the connection is passed on.
                done.is_passed_on = true;
                break;
            }
            used += PREFIX + len;
            burst.received += 1;
            match packet.verdict {
                Verdict::Drop(reason) => burst.drop(reason),
                Verdict::Deferred | Verdict::Control | Verdict::Stream => done.deferred += 1,
                Verdict::Reply => {
                    burst.replied += 1;
                    append(&mut self.replies, packet.message());
                }
            }
        }
        (used, done)
    }

    /// Counts a burst that was read at `read` and is done now.
    pub fn count(&mut self, burst: &Burst, read: Duration) {
        count(&mut self.counters, burst, clock::now().saturating_sub(read));
    }

    /// Counts deferred replies to queries received `took` ago.
    pub fn count_late(&mut self, burst: &Burst, took: Duration) {
        count_done(&mut self.counters, burst, took);
    }
}

/// The connection of a message.
pub struct MessageSource {
    /// The connection's number.
    pub id: u64,
    pub peer: SocketAddr,
    pub client: SocketAddr,
    /// Its deferred replies.
    pub deferred: usize,
}

/// The results of messages.
#[derive(Default)]
pub struct MessageCounts {
    pub burst: Burst,
    /// Deferred replies.
    pub deferred: usize,
    /// Whether the next message is for the control plane, with the connection.
    pub is_passed_on: bool,
}

/// Appends a reply behind its length: one buffer, so that both are sent in one segment.
pub fn append(replies: &mut Vec<u8>, message: &[u8]) {
    replies.extend_from_slice(&(message.len() as u16).to_be_bytes());
    replies.extend_from_slice(message);
}

/// The first message of `bytes` without its length, if it is complete.
pub fn first_message(bytes: &[u8]) -> Option<&[u8]> {
    let (length, pause_accepting) = bytes.split_first_chunk::<PREFIX>()?;
    pause_accepting.get(..u16::from_be_bytes(*length).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::OUTBOX_MAX;

    /// Answers every query with the longest reply.
    struct LongApp;

    impl App for LongApp {
        fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
            for packet in packets {
                packet.len = packet.buf.len();
                packet.verdict = Verdict::Reply;
            }
        }

        fn park(&mut self) {}
    }

    #[test]
    fn replies_are_sent_before_they_are_too_many() {
        let mut buffers = StreamBuffers::new(LongApp, Counters::new());
        let anyone = "192.0.2.1:4660".parse().unwrap();
        let queries = [0, 3, b'a', b's', b'k'].repeat(100);
        let from = MessageSource { id: 0, peer: anyone, client: anyone, deferred: 0 };
        let (used, done) = buffers.responder.answer(&queries, &from, Duration::ZERO);
        assert_eq!((used, done.burst.received), (5, 1), "one such reply is enough");
        assert!(buffers.responder.replies.len() <= OUTBOX_MAX);
    }

    #[test]
    fn messages_end_where_their_lengths_say() {
        let cases: [(&[u8], Option<&[u8]>); 5] = [
            (&[], None),
            (&[0], None),
            (&[0, 0], Some(&[])),
            (&[0, 2, 1], None),
            (&[0, 2, 1, 2, 3], Some(&[1, 2])),
        ];
        for (bytes, message) in cases {
            assert_eq!(first_message(bytes), message);
        }
    }
}

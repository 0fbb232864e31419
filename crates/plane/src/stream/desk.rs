//! Where the connections of a thread have their queries answered.

use crate::counters::{COUNTERS, count, count_done};
use crate::limits::{MESSAGE_MAX, OUTBOX_FULL, OWED_PER_CONNECTION_MAX, PREFIX, READ_MAX};
use crate::{App, clock};
use door::Counters;
use packet::{Packet, Transport, Verdict};
use port::Burst;
use std::net::SocketAddr;
use std::slice;
use std::time::Duration;

/// What a thread works in. It is there once, not once a connection: an idle connection has no
/// buffer at all.
pub struct Desk<A> {
    /// What a socket is read into.
    pub read: Box<[u8]>,
    pub clerk: Clerk<A>,
}

impl<A: App> Desk<A> {
    /// A desk where `app` answers.
    pub fn new(app: A, counters: Counters<COUNTERS>) -> Self {
        let message = vec![0; MESSAGE_MAX].into();
        let clerk = Clerk { app, message, replies: Vec::new(), counters };
        Self { read: vec![0; READ_MAX].into(), clerk }
    }
}

/// Who answers.
pub struct Clerk<A> {
    pub app: A,
    /// What a query is answered in.
    message: Box<[u8]>,
    /// The last burst's replies, behind their lengths (RFC 7766 §8).
    pub replies: Vec<u8>,
    pub counters: Counters<COUNTERS>,
}

impl<A: App> Clerk<A> {
    /// Answers the whole messages that `octets` begin with until none is left, the replies are
    /// enough to be sent, or too many are owed. Returns how many octets were used.
    pub fn answer(&mut self, octets: &[u8], from: &From, now: Duration) -> (usize, Done) {
        let (mut done, mut used) = (Done::default(), 0);
        let burst = &mut done.burst;
        self.replies.clear();
        while self.replies.len() < OUTBOX_FULL
            && from.owed + done.owed < OWED_PER_CONNECTION_MAX
            && let Some(query) = first_message(&octets[used..])
        {
            used += PREFIX + query.len();
            burst.received += 1;
            self.message[..query.len()].copy_from_slice(query);
            let mut packet =
                Packet::new(&mut self.message, query.len(), from.peer, Transport::Stream);
            packet.client = from.client;
            packet.origin.place = from.id;
            self.app.burst(slice::from_mut(&mut packet), now);
            match packet.verdict {
                Verdict::Drop(reason) => burst.drop(reason),
                Verdict::Later => done.owed += 1,
                Verdict::Reply => {
                    burst.replied += 1;
                    append(&mut self.replies, packet.message());
                }
            }
        }
        (used, done)
    }

    /// Counts a burst that was read at `read`, and is done with now.
    pub fn count(&mut self, burst: &Burst, read: Duration) {
        count(&mut self.counters, burst, clock::now().saturating_sub(read));
    }

    /// Counts what became of replies that were put off, of queries that came so long ago.
    pub fn count_late(&mut self, burst: &Burst, took: Duration) {
        count_done(&mut self.counters, burst, took);
    }
}

/// Whom messages come from.
pub struct From {
    /// The connection's number.
    pub id: u64,
    pub peer: SocketAddr,
    pub client: SocketAddr,
    /// Replies that are owed to it already.
    pub owed: usize,
}

/// What became of messages.
#[derive(Default)]
pub struct Done {
    pub burst: Burst,
    /// Replies that were put off.
    pub owed: usize,
}

/// Appends a reply behind its length: one buffer, so that they leave in one segment.
pub fn append(replies: &mut Vec<u8>, message: &[u8]) {
    replies.extend_from_slice(&(message.len() as u16).to_be_bytes());
    replies.extend_from_slice(message);
}

/// The first message of `octets`, without its length, if all of it is there.
pub fn first_message(octets: &[u8]) -> Option<&[u8]> {
    let (length, rest) = octets.split_first_chunk::<PREFIX>()?;
    rest.get(..u16::from_be_bytes(*length).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::OUTBOX_MAX;

    /// Answers every query with the longest reply.
    struct Long;

    impl App for Long {
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
        let mut desk = Desk::new(Long, Counters::new());
        let anyone = "192.0.2.1:4660".parse().unwrap();
        let queries = [0, 3, b'a', b's', b'k'].repeat(100);
        let from = From { id: 0, peer: anyone, client: anyone, owed: 0 };
        let (used, done) = desk.clerk.answer(&queries, &from, Duration::ZERO);
        assert_eq!((used, done.burst.received), (5, 1), "one such reply is enough");
        assert!(desk.clerk.replies.len() <= OUTBOX_MAX);
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
        for (octets, message) in cases {
            assert_eq!(first_message(octets), message);
        }
    }
}

//! Where the connections of a thread have their queries answered.

use crate::counters::{COUNTERS, count};
use crate::limits::{MESSAGE_MAX, OUTBOX_FULL, PREFIX, READ_MAX};
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
    /// Answers the whole messages that `octets` begin with until none is left, or the replies are
    /// enough to be sent. Returns how many octets were used.
    pub fn answer(
        &mut self,
        octets: &[u8],
        (peer, client): (SocketAddr, SocketAddr),
        now: Duration,
    ) -> (usize, Burst) {
        let (mut burst, mut used) = (Burst::default(), 0);
        self.replies.clear();
        while self.replies.len() < OUTBOX_FULL
            && let Some(query) = first_message(&octets[used..])
        {
            used += PREFIX + query.len();
            burst.received += 1;
            self.message[..query.len()].copy_from_slice(query);
            let mut packet = Packet::new(&mut self.message, query.len(), peer, Transport::Stream);
            packet.client = client;
            self.app.burst(slice::from_mut(&mut packet), now);
            match packet.verdict {
                Verdict::Drop(reason) => burst.drop(reason),
                Verdict::Later => {}
                Verdict::Reply => {
                    burst.replied += 1;
                    // One buffer for length and message, so that they leave in one segment.
                    self.replies.extend_from_slice(&(packet.len as u16).to_be_bytes());
                    self.replies.extend_from_slice(packet.message());
                }
            }
        }
        (used, burst)
    }

    /// Counts a burst that was read at `read`, and is done with now.
    pub fn count(&mut self, burst: &Burst, read: Duration) {
        count(&mut self.counters, burst, clock::now().saturating_sub(read));
    }
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
        let (used, burst) = desk.clerk.answer(&queries, (anyone, anyone), Duration::ZERO);
        assert_eq!((used, burst.received), (5, 1), "one such reply is enough");
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

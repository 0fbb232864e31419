//! Queries that are sent together: those of a burst, by one system call.
use crate::limits::SEND_BATCH_MAX;
use forward::Transmission;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use std::array;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Queries to send: hardly more than [`SEND_BATCH_MAX`].
#[derive(Debug, Default)]
pub(crate) struct PendingSends {
    /// Each with its end among the bytes.
    transmissions: Vec<(Transmission, usize)>,
    bytes: Vec<u8>,
}

impl PendingSends {
    /// Adds a query.
    pub(crate) fn push(&mut self, transmission: Transmission, question: &[u8]) {
        self.bytes.extend_from_slice(question);
        self.transmissions.push((transmission, self.bytes.len()));
    }

    /// Whether they should be sent.
    pub(crate) fn is_full(&self) -> bool {
        self.transmissions.len() >= SEND_BATCH_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.transmissions.is_empty()
    }

    /// Removes all, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.transmissions.clear();
        self.bytes.clear();
    }

    pub(crate) fn transmission(&self, number: usize) -> &Transmission {
        &self.transmissions[number].0
    }

    /// The next queries to one server from a number on, at most [`SEND_BATCH_MAX`]; `None` behind
    /// the last.
    pub(crate) fn next(&self, from: usize) -> Option<Range<usize>> {
        let upstream = self.transmissions.get(from)?.0.upstream;
        let same = self.transmissions[from..]
            .iter()
            .take_while(|(transmission, _)| transmission.upstream == upstream);
        Some(from..from + same.take(SEND_BATCH_MAX).count())
    }

    /// Sends queries by a connected socket without waiting; returns a bit for each that the system
    /// refused.
    pub(crate) fn send(&self, fd: BorrowedFd<'_>, range: Range<usize>) -> u32 {
        let questions: [_; SEND_BATCH_MAX] =
            array::from_fn(|nth| [IoSlice::new(self.question(range.start + nth))]);
        let mut controls: [SendAncillaryBuffer<'_, '_, '_>; SEND_BATCH_MAX] =
            array::from_fn(|_| SendAncillaryBuffer::default());
        let mut messages = questions
            .iter()
            .zip(&mut controls)
            .map(|(question, control)| MMsgHdr::new(question, control));
        let mut messages: [_; SEND_BATCH_MAX] =
            array::from_fn(|_| messages.next().expect("as many questions as controls"));
        let (mut done, mut refused) = (0, 0);
        while done < range.len() {
            match sendmmsg(fd, &mut messages[done..range.len()], SendFlags::DONTWAIT) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(sent) if sent > 0 => done += sent,
                // The error is that of the first one.
                _ => {
                    refused |= 1 << done;
                    done += 1;
                }
            }
        }
        refused
    }

    /// Empty behind the last one.
    fn question(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).and_then(|before| self.transmissions.get(before));
        let start = start.map_or(0, |(_, end)| *end);
        self.transmissions.get(number).map_or(&[], |(_, end)| &self.bytes[start..*end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::{CacheKey, QueryKind};
    use forward::{Forwarder, ForwarderState, PendingQuery, UpstreamGroup};
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// With a query to each of these servers.
    fn pending_sends<'q>(questions: impl IntoIterator<Item = (u16, &'q [u8])>) -> PendingSends {
        let mut queries = vec![PendingQuery::FREE; 64];
        let mut state = ForwarderState::new(&mut queries);
        let mut forwarder = Forwarder { state: &mut state, queries: &mut queries };
        let mut pending_sends = PendingSends::default();
        for (hash, (server, question)) in (1..).zip(questions) {
            let key =
                CacheKey { hash, kind: QueryKind::new(1, 1, false, false), name: b"\x01a\x00" };
            let group = UpstreamGroup { first: server, len: 1, mixes_case: false };
            forwarder.query(&key, group, None, 0, &mut || hash);
            pending_sends.push(forwarder.transmission().expect("a query to send"), question);
        }
        pending_sends
    }

    #[test]
    fn those_to_the_same_server_leave_together_but_not_too_many() {
        let servers = [0, 0, 1].into_iter().chain([2; SEND_BATCH_MAX + 1]);
        let pending_sends = pending_sends(servers.map(|server| (server, &b"?"[..])));
        let ranges = [0..2, 2..3, 3..3 + SEND_BATCH_MAX, 3 + SEND_BATCH_MAX..4 + SEND_BATCH_MAX];
        for range in ranges {
            assert_eq!(pending_sends.next(range.start), Some(range));
        }
        assert_eq!(pending_sends.next(4 + SEND_BATCH_MAX), None);
    }

    #[test]
    fn refused_datagram_is_reported_and_others_are_sent() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.local_addr().unwrap()).unwrap();
        let long = vec![0; 1 << 16];
        let questions: [&[u8]; 5] = [b"first", b"one", &long, b"two", &long];
        let pending_sends = pending_sends(questions.map(|question| (0, question)));
        assert_eq!(pending_sends.send(socket.as_fd(), 1..5), 0b1010);
        let mut buf = [0; 8];
        for question in [b"one", b"two"] {
            let len = server.recv(&mut buf).unwrap();
            assert_eq!(&buf[..len], question);
        }
    }
}

//! Questions that leave together: those of a burst, by one system call.
use crate::limits::TOGETHER_MAX;
use forward::Order;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use std::array;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Questions that were ordered and have not left yet: hardly more than [`TOGETHER_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Each with where it ends among the octets.
    orders: Vec<(Order, usize)>,
    octets: Vec<u8>,
}

impl Outbox {
    /// Takes a question.
    pub(crate) fn push(&mut self, order: Order, question: &[u8]) {
        self.octets.extend_from_slice(question);
        self.orders.push((order, self.octets.len()));
    }

    /// Whether it is time to send them.
    pub(crate) fn is_full(&self) -> bool {
        self.orders.len() >= TOGETHER_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// Empties it. It keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.orders.clear();
        self.octets.clear();
    }

    pub(crate) fn order(&self, number: usize) -> &Order {
        &self.orders[number].0
    }

    /// The next ones, from a number on, that go to the same server, at most [`TOGETHER_MAX`];
    /// nothing when all are through.
    pub(crate) fn next(&self, from: usize) -> Option<Range<usize>> {
        let upstream = self.orders.get(from)?.0.upstream;
        let same = self.orders[from..].iter().take_while(|(order, _)| order.upstream == upstream);
        Some(from..from + same.take(TOGETHER_MAX).count())
    }

    /// Sends some out of a connected socket, without waiting; tells each that the system refuses,
    /// a bit each.
    pub(crate) fn send(&self, fd: BorrowedFd<'_>, range: Range<usize>) -> u32 {
        let questions: [_; TOGETHER_MAX] =
            array::from_fn(|nth| [IoSlice::new(self.question(range.start + nth))]);
        let mut controls: [SendAncillaryBuffer<'_, '_, '_>; TOGETHER_MAX] =
            array::from_fn(|_| SendAncillaryBuffer::default());
        let mut messages = questions
            .iter()
            .zip(&mut controls)
            .map(|(question, control)| MMsgHdr::new(question, control));
        let mut messages: [_; TOGETHER_MAX] =
            array::from_fn(|_| messages.next().expect("as many questions as controls"));
        let (mut done, mut refused) = (0, 0);
        while done < range.len() {
            match sendmmsg(fd, &mut messages[done..range.len()], SendFlags::DONTWAIT) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(sent) if sent > 0 => done += sent,
                // It is about the first one.
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
        let start = number.checked_sub(1).and_then(|before| self.orders.get(before));
        let start = start.map_or(0, |(_, end)| *end);
        self.orders.get(number).map_or(&[], |(_, end)| &self.octets[start..*end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::{Key, Kind};
    use forward::{Ask, Forwarder, Group, State};
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// With a question to each of these servers.
    fn outbox<'q>(questions: impl IntoIterator<Item = (u16, &'q [u8])>) -> Outbox {
        let mut asks = vec![Ask::FREE; 64];
        let mut state = State::new(&mut asks);
        let mut forwarder = Forwarder { state: &mut state, asks: &mut asks };
        let mut outbox = Outbox::default();
        for (hash, (server, question)) in (1..).zip(questions) {
            let key = Key { hash, kind: Kind::new(1, 1, false, false), name: b"\x01a\x00" };
            let group = Group { first: server, len: 1, mixes_case: false };
            forwarder.ask(&key, group, None, 0, &mut || hash);
            outbox.push(forwarder.order().expect("somebody is asked"), question);
        }
        outbox
    }

    #[test]
    fn those_to_the_same_server_leave_together_but_not_too_many() {
        let servers = [0, 0, 1].into_iter().chain([2; TOGETHER_MAX + 1]);
        let outbox = outbox(servers.map(|server| (server, &b"?"[..])));
        let ranges = [0..2, 2..3, 3..3 + TOGETHER_MAX, 3 + TOGETHER_MAX..4 + TOGETHER_MAX];
        for range in ranges {
            assert_eq!(outbox.next(range.start), Some(range));
        }
        assert_eq!(outbox.next(4 + TOGETHER_MAX), None);
    }

    #[test]
    fn what_is_refused_is_told_and_the_others_leave() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server.local_addr().unwrap()).unwrap();
        let long = vec![0; 1 << 16];
        let questions: [&[u8]; 5] = [b"first", b"one", &long, b"two", &long];
        let outbox = outbox(questions.map(|question| (0, question)));
        assert_eq!(outbox.send(socket.as_fd(), 1..5), 0b1010);
        let mut buf = [0; 8];
        for question in [b"one", b"two"] {
            let len = server.recv(&mut buf).unwrap();
            assert_eq!(&buf[..len], question);
        }
    }
}

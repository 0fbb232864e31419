//! What every port does, as tests. A device crate calls [`contract!`] with its
//! way of making a [`TestLink`], and passes.

mod loopback;

pub use loopback::{Loopback, PeerDatagram};

use packet::{DropReason, Ingress, Packet, Transport, Verdict};
use port::{Burst, Port};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a device may take to deliver what was sent.
const PATIENCE: Duration = Duration::from_secs(5);

/// A port and two clients at its other end.
pub trait TestLink {
    /// The port's type.
    type Port: Port;

    /// The port under test.
    fn port(&mut self) -> &mut Self::Port;

    /// The address that `client`, 0 or 1, sends from.
    fn address(&self, client: usize) -> SocketAddr;

    /// Sends a datagram from `client` to the port.
    fn send(&mut self, client: usize, payload: &[u8]);

    /// What `client` received next; `None` if nothing arrives within a tenth of a second.
    fn receive(&mut self, client: usize) -> Option<Vec<u8>>;
}

/// Makes a test of every clause of the contract: `contract!(name, expression)`, where the
/// expression makes a new [`TestLink`].
#[macro_export]
macro_rules! contract {
    ($name:ident, $link:expr) => {
        $crate::contract!($name, $link, [
            replies_go_to_whom_they_belong,
            an_empty_burst_does_not_call_the_application,
            dropped_packet_is_not_answered,
            deferred_packets_are_answered_later,
            every_packet_is_counted_once,
            a_burst_is_no_longer_than_it_may_be,
            a_zero_length_datagram_is_a_packet,
            a_reply_may_fill_the_room,
            oversized_datagram_is_dropped,
            waiting_packets_make_the_port_readable
        ]);
    };
    ($name:ident, $link:expr, [$($clause:ident),*]) => {
        mod $name {
            use super::*;
            $(#[test] fn $clause() { $crate::$clause($link); })*
        }
    };
}

/// Bursts until `count` packets were received; returns the sums.
fn burst_until<L: TestLink>(
    link: &mut L,
    count: usize,
    mut app: impl FnMut(&mut [Packet<'_>]),
) -> Burst {
    let mut total = Burst::default();
    let deadline = Instant::now() + PATIENCE;
    while total.received < count {
        assert!(Instant::now() < deadline, "{} of {count} packets came", total.received);
        let burst = link.port().burst(&mut app).unwrap();
        total.received += burst.received;
        total.replied += burst.replied;
        for (sum, n) in total.dropped.iter_mut().zip(burst.dropped) {
            *sum += n;
        }
        let accounted = burst.replied + burst.dropped.iter().sum::<usize>();
        assert_eq!(burst.received, accounted, "each packet counts once: {burst:?}");
    }
    total
}

fn reply_to_all(packets: &mut [Packet<'_>]) {
    for packet in packets {
        packet.verdict = Verdict::Reply;
    }
}

/// Each client gets the replies to its own queries, byte for byte.
pub fn replies_go_to_whom_they_belong(mut link: impl TestLink) {
    let addresses = [link.address(0), link.address(1)];
    for (client, text) in [(0, "a"), (1, "b"), (1, "cc"), (0, "ddd")] {
        link.send(client, text.as_bytes());
    }
    burst_until(&mut link, 4, |packets| {
        for packet in packets {
            let client = addresses.iter().position(|address| *address == packet.peer);
            let mark = client.expect("the peer is who sent it") as u8;
            packet.buf[packet.len] = b'0' + mark;
            packet.len += 1;
            packet.verdict = Verdict::Reply;
        }
    });
    let mut got =
        [0, 1].map(|client| [link.receive(client), link.receive(client)].map(Option::unwrap));
    got.iter_mut().for_each(|replies| replies.sort());
    assert_eq!(got, [[b"a0".to_vec(), b"ddd0".to_vec()], [b"b1".to_vec(), b"cc1".to_vec()]]);
}

/// Nothing to receive: nothing is counted, and the application is not called.
pub fn an_empty_burst_does_not_call_the_application(mut link: impl TestLink) {
    let burst = link.port().burst(|_| panic!("called for nothing")).unwrap();
    assert_eq!(burst, Burst::default());
}

/// A dropped packet's client receives nothing; the others are answered.
pub fn dropped_packet_is_not_answered(mut link: impl TestLink) {
    for text in ["keep 1", "drop", "keep 2"] {
        link.send(0, text.as_bytes());
    }
    let total = burst_until(&mut link, 3, |packets| {
        for packet in packets {
            packet.verdict = match packet.message() {
                b"drop" => Verdict::Drop(DropReason::Response),
                _ => Verdict::Reply,
            };
        }
    });
    assert_eq!((total.replied, total.dropped[DropReason::Response as usize]), (2, 1));
    let mut got = [link.receive(0).unwrap(), link.receive(0).unwrap()];
    got.sort();
    assert_eq!(got, [b"keep 1", b"keep 2"]);
    assert_eq!(link.receive(0), None);
}

/// A deferred reply goes to its client, after others, and is counted only then.
pub fn deferred_packets_are_answered_later(mut link: impl TestLink) {
    link.send(0, b"later");
    let mut deferred = None;
    let deadline = Instant::now() + PATIENCE;
    while deferred.is_none() {
        assert!(Instant::now() < deadline, "nothing came");
        let burst = link.port().burst(|packets| {
            let packet = &mut packets[0];
            packet.verdict = Verdict::Deferred;
            deferred = Some((packet.peer, packet.origin));
        });
        let burst = burst.unwrap();
        assert_eq!((burst.replied, burst.dropped), (0, [0; DropReason::COUNT]));
    }
    for client in [1, 0] {
        link.send(client, b"at once");
    }
    burst_until(&mut link, 2, reply_to_all);
    let (peer, origin) = deferred.expect("it came");
    let mut buffer = *b"at last";
    let len = buffer.len();
    let mut reply = Packet::new(&mut buffer, len, peer, Transport::Datagram);
    (reply.origin, reply.verdict) = (origin, Verdict::Reply);
    assert!(link.port().queue(&reply));
    assert_eq!(link.receive(1).unwrap(), b"at once");
    assert_eq!(link.receive(0).unwrap(), b"at once");
    assert_eq!(link.receive(0), None, "it leaves with the flush");
    let mut reported = Vec::new();
    link.port().flush(|taken| reported.push(taken));
    assert_eq!((reported, link.receive(0).unwrap()), (vec![true], b"at last".to_vec()));
    replies_fill_one_batch(link, (peer, origin));
}

fn replies_fill_one_batch(mut link: impl TestLink, (peer, origin): (SocketAddr, Ingress)) {
    let mut queued: u16 = 0;
    for number in 0..=u16::MAX {
        let mut buffer = number.to_be_bytes();
        let mut reply = Packet::new(&mut buffer, 2, peer, Transport::Datagram);
        (reply.origin, reply.verdict) = (origin, Verdict::Reply);
        if !link.port().queue(&reply) {
            queued = number;
            break;
        }
    }
    assert!(queued > 1, "there is room for several, and not for all");
    let mut reported = 0;
    link.port().flush(|taken| reported += u16::from(taken));
    assert_eq!(reported, queued);
    for number in 0..queued {
        assert_eq!(link.receive(0).unwrap(), number.to_be_bytes());
    }
    link.port().flush(|_| panic!("nothing is left"));
}

/// For all verdicts, received = replied + dropped by reason; no verdict is `Undecided`.
pub fn every_packet_is_counted_once(mut link: impl TestLink) {
    for number in 0..90u8 {
        link.send(usize::from(number % 2), &[number]);
    }
    let total = burst_until(&mut link, 90, |packets| {
        for packet in packets {
            match packet.buf[0] % 3 {
                0 => packet.verdict = Verdict::Reply,
                1 => packet.verdict = Verdict::Drop(DropReason::Short),
                _ => {}
            }
        }
    });
    assert_eq!(total.replied, 30);
    assert_eq!(total.dropped[DropReason::Short as usize], 30);
    assert_eq!(total.dropped[DropReason::Undecided as usize], 30);
    let replies = (0..2).map(|client| std::iter::from_fn(|| link.receive(client)).count());
    assert_eq!(replies.sum::<usize>(), 30);
}

/// The application sees at most `burst_max` packets at once, and all of them in the end.
pub fn a_burst_is_no_longer_than_it_may_be(mut link: impl TestLink) {
    let most = link.port().caps().burst_max;
    assert!((1..=packet::BURST_MAX).contains(&most));
    for _ in 0..2 * most + 1 {
        link.send(0, b"q");
    }
    burst_until(&mut link, 2 * most + 1, |packets| {
        assert!((1..=most).contains(&packets.len()));
        reply_to_all(packets);
    });
    assert_eq!(std::iter::from_fn(|| link.receive(0)).count(), 2 * most + 1);
}

/// A datagram without bytes is received, shown and counted like any other.
pub fn a_zero_length_datagram_is_a_packet(mut link: impl TestLink) {
    link.send(0, b"");
    let total = burst_until(&mut link, 1, |packets| {
        assert_eq!((packets.len(), packets[0].len), (1, 0));
        packets[0].verdict = Verdict::Drop(DropReason::Short);
    });
    assert_eq!(total.dropped[DropReason::Short as usize], 1);
}

/// There is as much room as the port states, and all of it can be sent, by every slot of a burst.
pub fn a_reply_may_fill_the_room(mut link: impl TestLink) {
    let room = link.port().caps().room;
    for fill in [b'x', b'y'] {
        link.send(0, b"as much as there is");
        burst_until(&mut link, 1, |packets| {
            assert_eq!(packets[0].message(), b"as much as there is");
            assert_eq!(packets[0].buf.len(), room);
            packets[0].buf.fill(fill);
            packets[0].len = room;
            reply_to_all(packets);
        });
        assert_eq!(link.receive(0).unwrap(), vec![fill; room]);
    }
    // The next query has the whole room again, and contains what was sent.
    link.send(0, &vec![b'z'; room]);
    burst_until(&mut link, 1, |packets| {
        assert_eq!(packets[0].message(), vec![b'z'; room]);
        reply_to_all(packets);
    });
    assert_eq!(link.receive(0).unwrap(), vec![b'z'; room]);
}

/// A datagram that does not fit is dropped for that reason, and not truncated.
pub fn oversized_datagram_is_dropped(mut link: impl TestLink) {
    let room = link.port().caps().room;
    link.send(0, &vec![b'l'; room + 1]);
    link.send(0, b"short");
    let total = burst_until(&mut link, 2, |packets| {
        assert!(packets.iter().all(|packet| packet.message() == b"short"));
        reply_to_all(packets);
    });
    assert_eq!((total.replied, total.dropped[DropReason::Oversize as usize]), (1, 1));
    assert_eq!(link.receive(0).unwrap(), b"short");
    assert_eq!(link.receive(0), None);
}

/// The descriptor is readable if and only if a datagram waits. A port without one is polled.
pub fn waiting_packets_make_the_port_readable(mut link: impl TestLink) {
    if link.port().as_fd().is_none() {
        return;
    }
    assert!(!readable(link.port(), Duration::ZERO));
    link.send(0, b"q");
    assert!(readable(link.port(), PATIENCE));
    burst_until(&mut link, 1, reply_to_all);
    assert!(!readable(link.port(), Duration::ZERO));
}

fn readable(port: &impl Port, wait: Duration) -> bool {
    let fd = port.as_fd().expect("the port has a descriptor");
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let wait = Timespec::try_from(wait).expect("it is short");
    poll(&mut fds, Some(&wait)).expect("it can be watched") == 1
}

//! Interfaces of several queues, with tags, and whose driver runs no program.

use super::wire::{Wire, is_root};
use super::{FakeKernel, reply_to_all, serve};
use packet::frame::{LinkHeader, ReplyPath, compose, headers_len, read};
use port::{Frames, Port, Udp};
use port_contract::TestLink as _;
use port_xdp::{AttachMode, FilterCounts, FilterRules, Interface, XdpQueue, XdpSocket};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Clients that ask once each. A queue of two gets none of so many by chance once in 2^63 times.
const CLIENTS: usize = 64;

/// Two queues at each end, of which these are served: what each answered, and what others heard.
fn ask_by_two_queues(queues: &[u32]) -> (Vec<usize>, usize, FilterCounts) {
    let wire = Wire::with_queues(2, 2);
    let server: SocketAddr = "192.0.2.1:53".parse().unwrap();
    let rules = FilterRules { listen: vec![server], route_check: true, priority: None };
    let (program, queues) = wire.in_server(|| {
        assert_eq!(Interface::find("s0").unwrap().queues, 2);
        serve("s0", &rules, queues)
    });
    assert_eq!(program.mode(), AttachMode::Native);
    let beside = wire.in_server(|| UdpSocket::bind(server).unwrap());
    beside.set_nonblocking(true).unwrap();
    let mut ports: Vec<_> = queues.into_iter().map(Udp::new).collect();
    let (mut answered, mut heard, mut replies) = (vec![0; ports.len()], 0, 0);
    let clients: Vec<_> = (0..CLIENTS).map(|_| wire.client(server)).collect();
    for client in &clients {
        client.set_nonblocking(true).unwrap();
        client.send(b"question").unwrap();
    }
    let end = Instant::now() + Duration::from_secs(5);
    while heard + replies < CLIENTS {
        let passed = program.passed();
        assert!(Instant::now() < end, "{answered:?} {heard} {replies} {passed:?}");
        for (port, answered) in ports.iter_mut().zip(&mut answered) {
            *answered += port.burst(reply_to_all).unwrap().replied;
        }
        heard += usize::from(beside.recv(&mut [0; 16]).is_ok());
        replies += clients.iter().filter(|client| client.recv(&mut [0; 16]).is_ok()).count();
    }
    assert_eq!(replies, answered.iter().sum::<usize>());
    (answered, heard, program.passed().unwrap())
}

#[test]
fn every_queue_of_an_interface_is_served() {
    if !is_root() {
        return;
    }
    let (answered, heard, passed) = ask_by_two_queues(&[0, 1]);
    assert!(answered.iter().all(|count| *count > 0), "{answered:?}");
    assert_eq!(
        (heard, passed),
        (0, FilterCounts { taken: CLIENTS as u64, ..FilterCounts::default() })
    );
}

#[test]
fn packet_on_an_unlisted_queue_passes_to_the_kernel() {
    if !is_root() {
        return;
    }
    let (answered, heard, passed) = ask_by_two_queues(&[1]);
    assert!(answered[0] > 0 && heard > 0, "{answered:?} {heard}");
    let (taken, socket) = (answered[0] as u64, heard as u64);
    assert_eq!(passed, FilterCounts { taken, socket, ..FilterCounts::default() });
}

#[test]
fn the_kernel_runs_the_program_where_the_driver_does_not() {
    if !is_root() {
        return;
    }
    // veth runs none that would get packets from more queues than it has.
    let (wire, server) = (Wire::with_queues(1, 2), "192.0.2.1:53".parse().unwrap());
    let (program, port) = super::attach(&wire, &[server]);
    let clients = [wire.client(server), wire.client(server)];
    let mut link = FakeKernel { clients, port, program, wire };
    assert_eq!(link.program.mode(), AttachMode::Generic);
    for nth in 0..300 {
        link.send(nth % 2, b"question");
        link.echo(1);
        assert_eq!(link.receive(nth % 2).unwrap(), b"question");
    }
    link.wire.ping("192.0.2.1");
    assert_eq!(link.passed(), FilterCounts { taken: 300, ..FilterCounts::default() });
}

/// The client's end as raw frames: what is sent, and what comes to its address and port.
struct Raw {
    queue: XdpQueue<XdpSocket>,
    way: ReplyPath,
}

impl Raw {
    /// Sends a datagram by its way.
    fn send(&mut self, server: SocketAddr, payload: &[u8]) {
        let (way, len) = (self.way, headers_len(&self.way));
        let is_queued = self.queue.queue(|room| {
            let (head, rest) = room.split_at_mut(len);
            rest[..payload.len()].copy_from_slice(payload);
            compose(head, payload, &way, server).then_some(len + payload.len())
        });
        assert!(is_queued);
        self.queue.flush(|is_sent| assert!(is_sent));
    }

    /// The way of a frame that comes, turned round, and its payload.
    fn receive(&mut self) -> Option<(ReplyPath, Vec<u8>)> {
        let (mut got, end) = (None, Instant::now() + Duration::from_millis(500));
        while got.is_none() && Instant::now() < end {
            let take = |frames: &mut [port::Frame<'_>]| {
                let frame = &frames[0].buf[..frames[0].len];
                let datagram = read(frame).expect("what is sent can be read");
                let payload = &frame[datagram.at..datagram.at + datagram.len];
                got = Some((datagram.way, payload.to_vec()));
            };
            self.queue.burst(take).unwrap();
        }
        got
    }
}

#[test]
fn tags_in_a_frame_are_answered_as_they_came() {
    if !is_root() {
        return;
    }
    let (wire, server) = (Wire::new(), "192.0.2.1:53".parse().unwrap());
    let client: SocketAddr = "192.0.2.2:4000".parse().unwrap();
    let rules = FilterRules { listen: vec![client], route_check: false, priority: None };
    let (_program, mut queues) = wire.in_client(|| serve("c0", &rules, &[0]));
    let untagged = LinkHeader::new([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], client.port());
    let links = [untagged, untagged.behind(7), untagged.behind(0x6007).behind(9)];
    let mut raw =
        Raw { queue: queues.pop().unwrap(), way: ReplyPath { link: untagged, local: client.ip() } };
    // Where the route is not asked for, all are answered; else those whose network this host has.
    for (route_check, answered) in [(false, 3), (true, 1)] {
        let (program, mut port) = super::attach_by(&wire, &[server], route_check);
        for (nth, link) in links.into_iter().enumerate() {
            raw.way.link = link;
            raw.send(server, &[nth as u8; 20]);
            let (mut replied, end) = (0, Instant::now() + Duration::from_secs(5));
            while replied == 0
                && program.passed().unwrap().route <= nth.saturating_sub(answered) as u64
            {
                assert!(Instant::now() < end, "{nth}: {:?}", program.passed());
                replied += port.burst(reply_to_all).unwrap().replied;
            }
            let reply = (nth < answered).then(|| (raw.way, vec![nth as u8; 20]));
            assert_eq!(raw.receive(), reply);
        }
        let (taken, route) = (answered as u64, 3 - answered as u64);
        assert_eq!(
            program.passed().unwrap(),
            FilterCounts { taken, route, ..FilterCounts::default() }
        );
    }
}

#[test]
#[ignore = "kernel: it needs tagged networks (CONFIG_VLAN_8021Q)"]
fn tagged_networks_of_the_kernels_are_answered() {
    if !is_root() {
        return;
    }
    let wire = Wire::new();
    if !wire.tag() {
        return;
    }
    for server in ["198.51.100.1:53", "198.51.100.17:53"] {
        let server: SocketAddr = server.parse().unwrap();
        let beside = wire.in_server(|| UdpSocket::bind(server).unwrap());
        beside.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let client = wire.client(server);
        // The two get to know each other.
        wire.ping(&server.ip().to_string());
        let (program, mut port) = super::attach(&wire, &[server]);
        // A tag that is not in the frame cannot be in its reply: the outer one here.
        wire.set_other_tags(true);
        client.send(b"beside").unwrap();
        assert_eq!(beside.recv(&mut [0; 16]).unwrap(), 6);
        assert_eq!(program.passed().unwrap(), FilterCounts { route: 1, ..FilterCounts::default() });
        wire.set_other_tags(false);
        client.send(b"inside").unwrap();
        let (mut replied, end) = (0, Instant::now() + Duration::from_secs(5));
        while replied == 0 {
            assert!(Instant::now() < end, "{server}: {:?}", program.passed());
            replied += port.burst(reply_to_all).unwrap().replied;
        }
        let mut reply = [0; 16];
        assert_eq!(client.recv(&mut reply).unwrap(), 6);
        assert_eq!(&reply[..6], b"inside");
        assert_eq!(
            program.passed().unwrap(),
            FilterCounts { taken: 1, route: 1, ..FilterCounts::default() }
        );
    }
}

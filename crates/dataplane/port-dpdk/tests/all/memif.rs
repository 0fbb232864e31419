//! The contract, and what is counted, over a pair of memif devices without huge pages.

use crate::end::{ClientEnd, alone, environment, frame, open, options};
use packet::{Packet, Verdict};
use port::{Port, Udp};
use port_contract::TestLink;
use port_dpdk::{DeviceView, DpdkError, DpdkQueue, Environment, Selection};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use test_support::folder::Folder;
use test_support::wait;

/// A port, and a device at its other end with two clients. Fields are dropped in this order.
struct MemifLink {
    port: Udp<DpdkQueue>,
    view: DeviceView,
    server: SocketAddr,
    clients: [SocketAddr; 2],
    end: ClientEnd,
    got: [VecDeque<Vec<u8>>; 2],
    _folder: Folder,
}

impl MemifLink {
    fn new(server: &str, clients: [&str; 2]) -> Self {
        let (folder, alone) = (Folder::new("memif"), alone());
        let (server, clients) = (server.parse().unwrap(), clients.map(|at| at.parse().unwrap()));
        let socket = folder.join("socket");
        let arguments = format!("role=server,socket={},socket-abstract=no", socket.display());
        let (mut queues, view) = open(&arguments, 1, &[server]).expect("opened");
        let port = Udp::new(queues.pop().expect("one"));
        // DPDK has one role for each path of a socket, so this one is written in two ways.
        let mut end = ClientEnd::open(alone, &folder.join("./socket"), 1, &clients);
        end.wait();
        wait::until_true("the port is up", || view.counts().is_up);
        Self { port, view, server, clients, end, got: Default::default(), _folder: folder }
    }

    fn v4() -> Self {
        Self::new("192.0.2.53:53", ["198.51.100.1:4001", "198.51.100.2:4002"])
    }

    fn v6() -> Self {
        Self::new("[2001:db8::53]:53", ["[2001:db8:1::1]:4001", "[2001:db8:1::2]:4002"])
    }

    /// A frame of the first client to an address, and to this Ethernet address.
    fn frame(&self, to: &str, mac: [u8; 6], payload: &[u8]) -> Vec<u8> {
        let way = (self.clients[0], to.parse().unwrap());
        frame(way, (self.end.view.info.mac, mac), payload)
    }

    /// Bursts until so many replies were sent.
    fn echo(&mut self, count: usize) {
        let mut done = 0;
        wait::until_true("the queries come", || {
            let reply = |packets: &mut [Packet<'_>]| {
                packets.iter_mut().for_each(|packet| packet.verdict = Verdict::Reply);
            };
            done += self.port.burst(reply).expect("usable").replied;
            done >= count
        });
    }
}

impl TestLink for MemifLink {
    type Port = Udp<DpdkQueue>;

    fn port(&mut self) -> &mut Self::Port {
        &mut self.port
    }

    fn address(&self, client: usize) -> SocketAddr {
        self.clients[client]
    }

    fn send(&mut self, client: usize, payload: &[u8]) {
        let way = (self.clients[client], self.server);
        let frame = frame(way, (self.end.view.info.mac, self.view.info.mac), payload);
        self.end.send(0, &frame);
    }

    fn receive(&mut self, client: usize) -> Option<Vec<u8>> {
        let end = Instant::now() + Duration::from_millis(100);
        while self.got[client].is_empty() && Instant::now() < end {
            for (to, from, payload) in self.end.receive(0) {
                assert_eq!(from, self.server);
                let nth = self.clients.iter().position(|client| *client == to).expect("a client");
                self.got[nth].push_back(payload);
            }
        }
        self.got[client].pop_front()
    }
}

/// The contract, where DPDK is.
macro_rules! memif_contract {
    ($name:ident, [$($clause:ident),*]) => {
        mod $name {
            use super::*;
            $(#[test] fn $clause() {
                if environment().is_some() {
                    port_contract::$clause(MemifLink::$name());
                }
            })*
        }
    };
    ($name:ident) => {
        memif_contract!($name, [
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
}

memif_contract!(v4);
memif_contract!(v6);

#[test]
fn frames_for_others_are_dropped_and_counted() {
    if environment().is_none() {
        return;
    }
    let mut link = MemifLink::v4();
    let other_port = link.frame("192.0.2.53:54", link.view.info.mac, b"another port");
    let foreign = link.frame("192.0.2.53:53", [2, 0, 0, 0, 0, 9], b"another host");
    for frame in [&other_port, &foreign, &foreign] {
        link.end.send(0, frame);
    }
    link.send(0, b"ours");
    link.echo(1);
    let counts = link.view.queues()[0].clone();
    assert_eq!((counts.other(), counts.foreign(), counts.refused()), (1, 2, 0));
    let (polls, empty) = counts.polls();
    assert!(polls > empty, "{polls} {empty}");
    assert_eq!(link.receive(0).as_deref(), Some(&b"ours"[..]));
    let counts = link.view.counts();
    assert_eq!((counts.received, counts.sent), (4, 1));
}

#[test]
fn replies_without_room_are_refused_and_no_buffer_is_lost() {
    if environment().is_none() {
        return;
    }
    let mut link = MemifLink::v4();
    let before = link.view.counts().buffers_free;
    // The client takes no reply, so that its ring is full at some time.
    let mut sent = 0;
    while link.view.queues()[0].refused() == 0 {
        link.send(0, b"query");
        let burst = link.port.burst(|packets| {
            packets.iter_mut().for_each(|packet| packet.verdict = Verdict::Reply);
        });
        let burst = burst.expect("usable");
        let unsent = burst.dropped[packet::DropReason::Unsent as usize];
        assert_eq!(burst.received, burst.replied + unsent);
        sent += 1;
        assert!(sent < 100_000, "the ring has an end");
    }
    while link.receive(0).is_some() {}
    link.send(0, b"again");
    link.echo(1);
    assert_eq!(link.receive(0).as_deref(), Some(&b"again"[..]));
    assert_eq!(link.view.counts().buffers_free, before);
}

#[test]
fn device_that_cannot_be_used_says_why_and_others_go_on() {
    let Some(environment) = environment() else { return };
    let mut link = MemifLink::v4();
    let error = |address: &str, queues| {
        let address = address.parse().expect("an address");
        let opened = environment.open(&address, queues, &Selection::new(&[]), None);
        opened.expect_err("it cannot be opened").to_string()
    };
    let why = error("net_af_packet7,iface=no-such-one", 1);
    assert!(why.starts_with("net_af_packet7: it cannot be made") && why.contains("No such device"));
    let why = error("net_nonesuch0", 1);
    assert!(why.starts_with("net_nonesuch0: it cannot be made"), "{why}");
    let why = error("0000:ff:1f.7", 1);
    assert!(why.contains("finds no such network device"), "{why}");
    let why = error("net_null7", 2000);
    assert!(why.contains("there are 2000 workers, and it has 1024 queues"), "{why}");
    assert!(why.contains("set [server] workers = 1024"), "{why}");
    let again = Environment::start(environment.library(), &options());
    assert!(matches!(again, Err(DpdkError::Started)));
    link.send(0, b"query");
    link.echo(1);
}

//! The port in memory keeps the contract.

use packet::{DropReason, Verdict};
use port::Port;
use port_contract::{Loopback, TestLink, contract};
use std::collections::VecDeque;
use std::net::SocketAddr;

struct Memory {
    port: Loopback,
    clients: [SocketAddr; 2],
    got: [VecDeque<Vec<u8>>; 2],
}

impl Memory {
    fn new(port: Loopback) -> Self {
        let clients = ["192.0.2.1:1053", "[2001:db8::1]:1053"].map(|text| text.parse().unwrap());
        Self { port, clients, got: Default::default() }
    }
}

impl TestLink for Memory {
    type Port = Loopback;

    fn port(&mut self) -> &mut Loopback {
        &mut self.port
    }

    fn address(&self, client: usize) -> SocketAddr {
        self.clients[client]
    }

    fn send(&mut self, client: usize, payload: &[u8]) {
        self.port.push(self.clients[client], payload);
    }

    fn receive(&mut self, client: usize) -> Option<Vec<u8>> {
        while let Some(datagram) = self.port.pop() {
            let to = self.clients.iter().position(|address| *address == datagram.peer);
            self.got[to.unwrap()].push_back(datagram.payload);
        }
        self.got[client].pop_front()
    }
}

contract!(memory, Memory::new(Loopback::new(600).unwrap()));
contract!(polled, Memory::new(Loopback::polled(600)));

#[test]
fn datagrams_from_ports_of_services_are_dropped_and_counted() {
    let mut port = Loopback::new(600).unwrap();
    let sources = [0, 7, 19, 53, 123].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
    for source in sources {
        port.push(source, b"query");
    }
    let mut shown = Vec::new();
    let burst = port.burst(|packets| {
        for packet in packets {
            shown.push(packet.peer);
            packet.verdict = Verdict::Reply;
        }
    });
    let burst = burst.unwrap();
    assert_eq!(shown, [sources[3]]);
    let dropped =
        [DropReason::NoPeer, DropReason::SourcePort].map(|reason| burst.dropped[reason as usize]);
    assert_eq!((burst.received, burst.replied, dropped), (5, 1, [1, 3]));
}

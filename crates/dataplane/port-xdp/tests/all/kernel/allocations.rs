//! After it was made, the port never allocates.

use test_support::counting;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

use super::wire::{Wire, is_root};
use counting::calls;
use packet::{Packet, Verdict};
use port::{Port, Udp};
use port_xdp::{FilterProgram, FilterRules, Interface, open};

#[test]
fn burst_allocates_nothing() {
    if !is_root() {
        return;
    }
    let wire = Wire::new();
    let server = "192.0.2.1:53".parse().unwrap();
    wire.in_server(|| {
        let interface = Interface::find("s0").unwrap();
        let rules = FilterRules { listen: vec![server], route_check: true, priority: None };
        let mut program = FilterProgram::attach(&interface, &rules).unwrap();
        let before = calls();
        let mut queue = open(interface.index, 0, interface.chunk(), interface.mtu).unwrap();
        assert!(calls() > before, "the counter counts");
        program.serve(0, &*queue.device()).unwrap();
        let (mut port, client) = (Udp::new(queue), wire.client(server));
        for _ in 0..130 {
            client.send(b"query").unwrap();
        }
        let before = calls();
        let (mut replied, mut late) = (0, 0);
        while replied < 130 {
            let mut origin = None;
            let burst = port.burst(|packets| {
                for packet in packets {
                    packet.verdict = Verdict::Reply;
                    origin = Some((packet.peer, packet.origin));
                }
            });
            replied += burst.unwrap().replied;
            let Some((peer, origin)) = origin else { continue };
            let mut text = *b"late";
            let mut reply = Packet::new(&mut text, 4, peer, packet::Transport::Datagram);
            reply.origin = origin;
            while port.queue(&reply) {}
            port.flush(|taken| late += usize::from(taken));
        }
        assert!(late > 0);
        assert_eq!(calls(), before);
    });
}

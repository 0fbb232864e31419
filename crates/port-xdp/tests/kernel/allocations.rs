//! After it was made, the port never allocates.

use crate::wire::{Wire, is_root};
use packet::{Packet, Verdict};
use port::{Port, Udp};
use port_xdp::{Interface, Program, Rules, open};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting what this thread asks of it.
struct Counting;

// SAFETY: everything is passed on to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the same.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_burst_allocates_nothing() {
    if !is_root() {
        return;
    }
    let wire = Wire::new();
    let server = "192.0.2.1:53".parse().unwrap();
    wire.in_server(|| {
        let interface = Interface::find("s0").unwrap();
        let rules = Rules { listen: vec![server], route_check: true };
        let mut program = Program::attach(&interface, &rules).unwrap();
        let before = ALLOCATIONS.get();
        let mut queue = open(interface.index, 0, interface.chunk(), interface.mtu).unwrap();
        assert!(ALLOCATIONS.get() > before, "the counter counts");
        program.serve(0, &*queue.device()).unwrap();
        let (mut port, client) = (Udp::new(queue), wire.client(server));
        for _ in 0..130 {
            client.send(b"query").unwrap();
        }
        let before = ALLOCATIONS.get();
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
        assert_eq!(ALLOCATIONS.get(), before);
    });
}

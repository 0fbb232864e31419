//! After it was made, the port never allocates.

use packet::{Packet, Transport, Verdict};
use port::Port;
use port_socket::{SocketPort, bind};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::UdpSocket;

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
    for any in ["127.0.0.1:0", "0.0.0.0:0"] {
        let before = ALLOCATIONS.get();
        let mut port = SocketPort::new(bind(any.parse().unwrap()).unwrap()).unwrap();
        assert!(ALLOCATIONS.get() > before, "the counter counts");
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = client.local_addr().unwrap();
        for _ in 0..130 {
            client.send_to(b"query", ("127.0.0.1", port.address().port())).unwrap();
        }
        let before = ALLOCATIONS.get();
        let (mut replied, mut late) = (0, 0);
        while replied < 130 {
            let burst = port.burst(|packets| {
                for packet in packets {
                    packet.verdict = Verdict::Reply;
                }
            });
            replied += burst.unwrap().replied;
            let mut text = *b"late";
            let reply = Packet::new(&mut text, 4, peer, Transport::Datagram);
            while port.queue(&reply) {}
            port.flush(|taken| late += usize::from(taken));
        }
        assert!(late > 0);
        assert_eq!(ALLOCATIONS.get(), before);
    }
}

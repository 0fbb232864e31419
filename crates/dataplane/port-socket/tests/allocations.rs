//! After it was made, the port never allocates.

use test_support::counting;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

use counting::calls;
use packet::{Packet, Transport, Verdict};
use port::Port;
use port_socket::{SocketPort, bind};
use std::net::UdpSocket;

#[test]
fn burst_allocates_nothing() {
    for any in ["127.0.0.1:0", "0.0.0.0:0"] {
        let before = calls();
        let mut port = SocketPort::new(bind(any.parse().unwrap()).unwrap()).unwrap();
        assert!(calls() > before, "the counter counts");
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = client.local_addr().unwrap();
        for _ in 0..130 {
            client.send_to(b"query", ("127.0.0.1", port.address().port())).unwrap();
        }
        let before = calls();
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
        assert_eq!(calls(), before);
    }
}

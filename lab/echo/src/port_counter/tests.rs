use super::*;
use rustix::io::Errno;
use std::net::UdpSocket;

/// Sends this many datagrams from one socket to another, and reads each.
fn send(from: &UdpSocket, to: &UdpSocket, count: usize) {
    let address = to.local_addr().unwrap();
    for _ in 0..count {
        from.send_to(&[0; 20], address).unwrap();
        to.recv(&mut [0; 20]).unwrap();
    }
}

#[test]
fn datagrams_of_other_ports_are_not_counted() {
    for loopback in ["127.0.0.1:0", "[::1]:0"] {
        let socket = || UdpSocket::bind(loopback).unwrap();
        let (server, client, upstream) = (socket(), socket(), socket());
        let queries_of_its_own = socket();
        let counter = match PortCounter::start(server.local_addr().unwrap()) {
            Err(Error::Failed(why)) if why.contains(&Errno::PERM.to_string()) => {
                return test_support::skip::skip("root, or CAP_NET_RAW");
            }
            counter => counter.unwrap(),
        };
        send(&client, &server, 300);
        send(&server, &client, 200);
        send(&queries_of_its_own, &upstream, 70);
        send(&upstream, &queries_of_its_own, 50);
        assert_eq!(counter.take().unwrap(), PortCounts { arrived: 300, left: 200 }, "{loopback}");
        assert_eq!(counter.take().unwrap(), PortCounts { arrived: 0, left: 0 }, "{loopback}");
    }
}

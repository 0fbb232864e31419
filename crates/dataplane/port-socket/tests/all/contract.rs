//! The socket port keeps the contract, for both families and however it is bound.

use packet::{DropReason, Verdict};
use port::Port;
use port_contract::{TestLink, contract};
use port_socket::{SocketPort, adopt, bind, confine, limits, steer, unsteer};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use test_support::skip;

struct Kernel {
    port: SocketPort,
    clients: [UdpSocket; 2],
}

impl Kernel {
    /// A port bound to `listen`, and two clients that send to `to`.
    fn new(listen: &str, to: &str) -> Self {
        Self::on(bind(format!("{listen}:0").parse().unwrap()).unwrap(), to)
    }

    /// The same with a socket that another process bound.
    fn adopted(listen: &str, to: &str) -> Self {
        let fd = OwnedFd::from(UdpSocket::bind(format!("{listen}:0")).unwrap());
        let address = adopt(&fd).unwrap();
        assert_eq!(address.ip(), format!("{listen}:0").parse::<SocketAddr>().unwrap().ip());
        Self::on(fd, to)
    }

    fn on(fd: OwnedFd, to: &str) -> Self {
        let port = SocketPort::new(fd).unwrap();
        let server = SocketAddr::new(to.parse().unwrap(), port.address().port());
        let own = if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        let clients = [(); 2].map(|()| {
            let client = UdpSocket::bind(own).unwrap();
            client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            // A connected socket hears only from the address it asked.
            client.connect(server).unwrap();
            client
        });
        Self { port, clients }
    }
}

impl TestLink for Kernel {
    type Port = SocketPort;

    fn port(&mut self) -> &mut SocketPort {
        &mut self.port
    }

    fn address(&self, client: usize) -> SocketAddr {
        self.clients[client].local_addr().unwrap()
    }

    fn send(&mut self, client: usize, payload: &[u8]) {
        self.clients[client].send(payload).unwrap();
    }

    fn receive(&mut self, client: usize) -> Option<Vec<u8>> {
        let mut buf = vec![0; 65_535];
        let len = self.clients[client].recv(&mut buf).ok()?;
        buf.truncate(len);
        Some(buf)
    }
}

contract!(v4, Kernel::new("127.0.0.1", "127.0.0.1"));
contract!(v6, Kernel::new("[::1]", "::1"));
// Bound to every address: the reply comes from the one that was asked, not from the first one.
contract!(v4_any, Kernel::new("0.0.0.0", "127.7.7.7"));
contract!(v6_any, Kernel::new("[::]", "::1"));
contract!(v4_adopted, Kernel::adopted("0.0.0.0", "127.7.7.7"));
contract!(v6_adopted, Kernel::adopted("[::]", "::1"));

#[test]
fn both_families_bind_one_port_and_several_sockets_share_it() {
    let first = bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let port = SocketPort::new(first).unwrap().address().port();
    let held: Vec<_> = ["0.0.0.0", "0.0.0.0", "[::]", "[::]"]
        .map(|any| bind(format!("{any}:{port}").parse().unwrap()).unwrap())
        .into();
    assert_eq!(held.len(), 4);
}

#[test]
fn steering_follows_the_receiving_cpu() {
    let allowed = cpu::allowed().unwrap();
    let cpus: Vec<_> = allowed.as_slice().iter().copied().take(4).collect();
    let mut ports = Vec::new();
    let mut address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    for _ in &cpus {
        ports.push(SocketPort::new(bind(address).unwrap()).unwrap());
        address = ports[0].address();
    }
    steer(ports[0].as_fd().unwrap(), &cpus).unwrap();
    // What is sent over the loopback device is received by the CPU that sent it.
    for &cpu in &cpus {
        let sender = std::thread::spawn(move || {
            cpu::pin(cpu).unwrap();
            for _ in 0..20 {
                // A new source port each time: the hash of addresses would spread these.
                UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"q", address).unwrap();
            }
        });
        sender.join().unwrap();
        let received = ports.iter_mut().map(|port| port.burst(|_| {}).unwrap().received);
        let expected = cpus.iter().map(|&own| if own == cpu { 20 } else { 0 });
        assert!(received.eq(expected), "what CPU {cpu} received went elsewhere");
    }
}

#[test]
fn unsteered_sockets_use_the_hash_of_the_kernel() {
    let first = SocketPort::new(bind("127.0.0.1:0".parse().unwrap()).unwrap()).unwrap();
    let address = first.address();
    let mut ports = [first, SocketPort::new(bind(address).unwrap()).unwrap()];
    let shares = |ports: &mut [SocketPort; 2]| {
        for _ in 0..60 {
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"q", address).unwrap();
        }
        ports.each_mut().map(|port| port.burst(|_| {}).unwrap().received)
    };
    unsteer(ports[0].as_fd().unwrap()).expect("nothing to undo is not an error");
    steer(ports[0].as_fd().unwrap(), &[0]).unwrap();
    assert_eq!(shares(&mut ports), [60, 0]);
    unsteer(ports[1].as_fd().unwrap()).unwrap();
    let [one, other] = shares(&mut ports);
    assert!(one > 0 && other > 0 && one + other == 60, "{one} and {other}");
}

#[test]
fn who_is_confined_leaves_what_is_bound_later_alone() {
    let first = SocketPort::new(bind("127.0.0.1:0".parse().unwrap()).unwrap()).unwrap();
    let address = first.address();
    let next = || SocketPort::new(bind(address).unwrap()).unwrap();
    let second = next();
    confine(first.as_fd().unwrap(), 2).unwrap();
    let mut ports = [first, second, next(), next()];
    for _ in 0..60 {
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"q", address).unwrap();
    }
    let [one, two, three, four] = ports.each_mut().map(|port| port.burst(|_| {}).unwrap().received);
    assert!(one > 0 && two > 0 && one + two == 60, "{one} and {two}");
    assert_eq!((three, four), (0, 0));
}

#[test]
fn steering_nothing_or_too_much_is_refused() {
    let fd = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    assert!(steer(fd.as_fd(), &[]).is_err());
    assert!(steer(fd.as_fd(), &vec![0; limits::STEERED_MAX + 1]).is_err());
    assert!(steer(fd.as_fd(), &vec![0; limits::STEERED_MAX]).is_ok());
}

#[test]
fn replies_to_closed_clients_disturb_nobody() {
    let mut link = Kernel::new("127.0.0.1", "127.0.0.1");
    link.send(0, b"gone before the reply");
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    closed.connect(link.port.address()).unwrap();
    closed.send(b"so is this one").unwrap();
    drop(closed);
    for text in ["one", "two"] {
        link.send(1, text.as_bytes());
    }
    let mut received = 0;
    while received < 4 {
        let burst = link.port.burst(|packets| {
            for packet in packets {
                packet.verdict = Verdict::Reply;
            }
        });
        received += burst.unwrap().received;
    }
    assert_eq!(link.receive(1).unwrap(), b"one");
    assert_eq!(link.receive(1).unwrap(), b"two");
}

#[test]
fn datagrams_from_ports_of_services_are_dropped_and_counted() {
    // An address that no other process of this host binds these ports of.
    let [.., high, low] = std::process::id().to_be_bytes();
    let bound = [7, 19, 123].map(|port| UdpSocket::bind((Ipv4Addr::new(127, 19, high, low), port)));
    if let Some(error) = bound.iter().find_map(|bound| bound.as_ref().err()) {
        return skip::skip(&format!("ports below 1024 need root: {error}"));
    }
    let mut link = Kernel::new("127.0.0.1", "127.0.0.1");
    let server = link.port.address();
    for socket in bound.into_iter().flatten() {
        assert_eq!(socket.send_to(b"forged", server).unwrap(), 6);
    }
    link.send(0, b"query");
    let (mut shown, mut dropped) = (Vec::new(), 0);
    let deadline = Instant::now() + Duration::from_secs(20);
    while shown.is_empty() {
        assert!(Instant::now() < deadline, "the query did not come");
        let burst = link.port.burst(|packets| {
            for packet in packets {
                shown.push(packet.message().to_vec());
                packet.verdict = Verdict::Reply;
            }
        });
        let burst = burst.unwrap();
        dropped += burst.dropped[DropReason::SourcePort as usize];
        assert_eq!(burst.received, burst.replied + burst.dropped.iter().sum::<usize>());
    }
    // The loopback network keeps the order of what is sent.
    assert_eq!((shown, dropped), (vec![b"query".to_vec()], 3));
    assert_eq!(link.receive(0).unwrap(), b"query");
}

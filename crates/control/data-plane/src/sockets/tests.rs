use super::*;
use crate::placement;
use config::Steering;
use packet::{Packet, Verdict};
use port::Port;
use port_socket::SocketPort;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use test_support::wait;
use worker::{App, WorkerSetup, Workers};

const PATIENCE: Duration = Duration::from_secs(10);
/// Address of the servers of these tests. Clients use another one, so that they never hold the UDP
/// port whose TCP port a server got.
const HERE: &str = "127.0.0.4:0";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Opens new sockets of one address.
fn open(text: &str, workers: usize) -> (Listening, Vec<SharedSocket>) {
    let mut sockets = Sockets::default();
    let mut all = sockets.open(&[address(text)], workers).expect("a free port");
    (all.remove(0), sockets.finish().expect("nothing is left over"))
}

/// A socket as the service manager passes it.
fn passed(kind: SocketKind, fd: impl Into<OwnedFd>) -> SharedSocket {
    let fd = fd.into();
    let address = rustix::net::getsockname(&fd).expect("a bound socket");
    SharedSocket { kind, address: address.try_into().expect("an IP"), given: true, fd }
}

/// Receives one burst from each socket and sends it back; returns the number of packets of each.
fn answer(datagrams: Vec<OwnedFd>) -> Vec<usize> {
    let receive = |fd| {
        let mut port = SocketPort::new(fd).expect("a bound socket");
        let burst = port.burst(|packets| {
            packets.iter_mut().for_each(|packet| packet.verdict = Verdict::Reply);
        });
        burst.expect("a socket that works").replied
    };
    datagrams.into_iter().map(receive).collect()
}

fn client() -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client
}

fn error_of(text: &str) -> String {
    let mut sockets = Sockets::default();
    sockets.open(&[address(text)], 1).map(drop).expect_err("not to be had").to_string()
}

#[test]
fn all_sockets_of_an_address_have_its_port() {
    let mut sockets = Sockets::default();
    let addresses = [HERE, "[::1]:0"].map(address);
    let all = sockets.open(&addresses, 3).expect("loopback can be listened on");
    for listening in &all {
        assert_eq!(listening.datagrams.len(), 3);
        for datagram in &listening.datagrams {
            let bound = rustix::net::getsockname(datagram).expect("a bound socket");
            assert_eq!(SocketAddr::try_from(bound).expect("an IP"), listening.address);
        }
    }
    let shared = sockets.finish().expect("nothing is left over");
    let kinds: Vec<_> = shared.iter().map(|shared| shared.kind).collect();
    use SocketKind::{Tcp, Udp};
    assert_eq!(kinds, [Tcp, Udp, Udp, Udp, Tcp, Udp, Udp, Udp]);
    assert!(shared.iter().all(|shared| !shared.given));
}

/// Some ports that are free over TCP are in use by clients over UDP.
#[test]
fn unspecified_port_is_free_over_tcp_and_udp() {
    let clients: Vec<_> = (0..500).map(|_| UdpSocket::bind("127.0.0.6:0")).collect();
    assert!(clients.iter().all(Result::is_ok));
    // Of 28,000 ports: that none of 500 tries meets one of them is 1 in 8,000.
    for _ in 0..500 {
        let (listening, shared) = open("127.0.0.6:0", 2);
        assert_eq!((listening.datagrams.len(), shared.len()), (2, 3));
    }
}

#[test]
fn both_families_listen_at_one_port() {
    let mut wrong = Vec::new();
    // Not from the range that the kernel gives to clients: their TIME_WAIT would occupy a port for
    // a minute.
    let first = std::process::id() as u16 % 10_000;
    for port in (0..10).map(|n| 20_000 + (first + 997 * n) % 10_000) {
        let both = [format!("0.0.0.0:{port}"), format!("[::]:{port}")].map(|text| address(&text));
        match Sockets::default().open(&both, 2) {
            Ok(all) => return assert_eq!(all.len(), 2),
            // Another process may have this port.
            Err(error) => wrong.push(error.to_string()),
        }
    }
    panic!("not at any of ten ports: {wrong:#?}");
}

#[test]
fn room_for_streams_follows_the_limit_of_open_files() {
    assert_eq!(room_for_streams(100, 4_096, 1 << 20), Some(4_096));
    assert_eq!(room_for_streams(100, 4_096, 1_024), Some(1_024 - 100 - CLOSING_MAX - FILES_OTHER));
    assert_eq!(room_for_streams(8, 4_096, 64), Some(14), "most are left for other files");
    assert_eq!(room_for_streams(8, 10, 64), Some(10), "not more than configured");
    assert_eq!(room_for_streams(8, 4_096, 39), None);
}

#[test]
fn address_that_cannot_be_opened_has_a_remedy() {
    let (taken, _shared) = open(HERE, 1);
    let text = error_of(&taken.address.to_string());
    assert!(text.contains("(TCP)") && text.contains("another server"), "{text}");
    let text = error_of("192.0.2.1:5300");
    assert!(text.contains("192.0.2.1:5300") && text.contains("ip address"), "{text}");
}

#[test]
fn datagram_queued_before_a_hot_restart_is_answered_after_it() {
    for (workers_before, workers_after) in [(1, 1), (3, 2), (2, 4)] {
        let (old, shared) = open(HERE, workers_before);
        // From many ports, so that every socket is likely to receive some.
        let clients: Vec<_> = (0..40).map(|_| client()).collect();
        for client in &clients {
            client.send_to(b"early", old.address).expect("loopback");
        }
        let mut sockets = Sockets::new(shared);
        let mut all = sockets.open(&[old.address], workers_after).expect("they are there");
        drop(old);
        let new = all.remove(0);
        assert_eq!(new.datagrams.len(), workers_before.max(workers_after));
        assert_eq!(answer(new.datagrams).iter().sum::<usize>(), 40);
        for client in &clients {
            assert_eq!(client.recv(&mut [0; 8]).expect("an answer"), 5);
        }
        let shared = sockets.finish().expect("nothing is left over");
        assert_eq!(shared.len(), 1 + workers_before.max(workers_after));
    }
}

/// A new process may load zones for minutes, and fail even then.
#[test]
fn sockets_beside_inherited_ones_receive_nothing_before_they_are_read() {
    let (old, shared) = open(HERE, 2);
    let mut sockets = Sockets::new(shared);
    let new = sockets.open(&[old.address], 6).expect("they are there");
    let send_all = || {
        let clients: Vec<_> = (0..60).map(|_| client()).collect();
        clients.iter().for_each(|client| _ = client.send_to(b"q", old.address).expect("loopback"));
        answer(new[0].datagrams.iter().map(|fd| fd.try_clone().expect("a descriptor")).collect())
    };
    let counts = send_all();
    assert_eq!(counts[..2].iter().sum::<usize>(), 60, "the old process's: {counts:?}");
    assert!(!placement::steer(Steering::Hash, &[None; 6], &Listening::first_sockets(&new)));
    let counts = send_all();
    assert!(counts[2..].iter().sum::<usize>() > 0, "then all sockets: {counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), 60);
    let first_sockets = Listening::first_sockets(std::slice::from_ref(&old));
    let cpu = cpu::allowed().expect("CPUs").as_slice()[0];
    for (steering, worker_cpus) in [(Steering::Hash, [None; 2]), (Steering::Cpu, [Some(cpu); 2])] {
        assert!(!placement::steer(Steering::Hash, &[None; 6], &Listening::first_sockets(&new)));
        placement::restore_steering(steering, &worker_cpus, &first_sockets);
        let counts = send_all();
        assert_eq!(counts[..2].iter().sum::<usize>(), 60, "the new process failed: {counts:?}");
    }
}

#[test]
fn connection_that_waits_during_a_hot_restart_is_accepted_after_it() {
    let (old, shared) = open(HERE, 1);
    let waiting = std::net::TcpStream::connect(old.address).expect("a listener");
    let mut sockets = Sockets::new(shared);
    let new = sockets.open(&[old.address], 1).expect("it is there").remove(0);
    drop(old);
    let (accepted, _) = new.streams.accept().expect("the waiting connection");
    assert_eq!(accepted.peer_addr().expect("connected"), waiting.local_addr().expect("connected"));
}

#[test]
fn port_0_keeps_the_inherited_port() {
    let (old, shared) = open(HERE, 2);
    let all = Sockets::new(shared).open(&[address(HERE)], 2).expect("they are there");
    assert_eq!(all[0].address, old.address);
}

#[test]
fn address_that_is_no_longer_configured_stays_with_the_old_process() {
    let (one, mut shared) = open(HERE, 1);
    let (other, more) = open(HERE, 1);
    shared.extend(more);
    let mut sockets = Sockets::new(shared);
    let all = sockets.open(&[one.address], 1).expect("it is there");
    let kept = sockets.finish().expect("no error");
    assert_eq!((all.len(), kept.len()), (1, 2));
    // The old process still has the socket and its datagrams.
    client().send_to(b"late", other.address).expect("loopback");
    assert_eq!(answer(other.datagrams), [1]);
}

#[test]
fn single_passed_socket_is_shared_by_all_workers() {
    let alone = UdpSocket::bind("127.0.0.5:0").expect("a socket");
    let address = alone.local_addr().expect("bound");
    let mut sockets = Sockets::new(vec![passed(SocketKind::Udp, alone)]);
    assert_eq!(sockets.activated(), [address]);
    let wanted = sockets.activated();
    let listening = sockets.open(&wanted, 3).expect("it is there").remove(0);
    assert_eq!(listening.datagrams.len(), 3);
    let client = client();
    for fd in listening.datagrams {
        client.send_to(b"one", address).expect("loopback");
        assert_eq!(answer(vec![fd]), [1]);
        assert_eq!(client.recv(&mut [0; 8]).expect("an answer"), 3);
    }
    let shared = sockets.finish().expect("nothing is left over");
    assert_eq!(shared.len(), 2, "one UDP socket, however many workers read it");
    assert!(shared.iter().any(|shared| shared.given && shared.kind == SocketKind::Udp));
}

#[test]
fn passed_socket_without_config_is_an_error_that_names_it() {
    let listener = || TcpListener::bind("127.0.0.1:0").expect("a socket");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for (shared, word) in [
        (passed(SocketKind::Udp, udp), "UDP"),
        (passed(SocketKind::Tcp, listener()), "FileDescriptorName=ops"),
        (passed(SocketKind::Ops, listener()), "in [ops]"),
        (passed(SocketKind::Api, listener()), "in [api]"),
    ] {
        let (fd, passed) = (shared.fd.as_raw_fd(), shared.address);
        let mut sockets = Sockets::new(vec![shared]);
        sockets.open(&[address("127.0.0.2:0")], 1).expect("a free port");
        let error = sockets.finish().expect_err("it is not configured").to_string();
        for part in [&format!("descriptor {fd}"), &passed.to_string(), word] {
            assert!(error.contains(part), "{error}");
        }
    }
}

#[test]
fn listener_of_ops_is_inherited_by_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let bound = listener.local_addr().expect("bound");
    let mut sockets = Sockets::new(vec![passed(SocketKind::Ops, listener)]);
    assert_eq!(sockets.activated(), [], "it receives no DNS queries");
    let ops = sockets.open_ops(bound).expect("it is there");
    assert_eq!(ops.local_addr().expect("bound"), bound);
    let other = sockets.open_ops(address("127.0.0.1:0")).expect("a free port");
    assert_ne!(other.local_addr().expect("bound"), bound);
    let shared = sockets.finish().expect("nothing is left over");
    assert!(shared.iter().all(|shared| shared.kind == SocketKind::Ops) && shared.len() == 2);
}

#[test]
fn too_many_inherited_sockets_are_refused_with_the_workers_they_need() {
    let (old, mut shared) = open(HERE, 1);
    while shared.len() <= PORTS_MAX + 1 {
        let fd = shared[1].fd.try_clone().expect("a descriptor");
        shared.push(SharedSocket { kind: SocketKind::Udp, address: old.address, given: false, fd });
    }
    let mut sockets = Sockets::new(shared);
    let error = sockets.open(&[old.address], 1).expect_err("too many").to_string();
    assert!(error.contains("workers = 2"), "{error}");
}

/// Answers every packet with itself.
struct Echo;

impl App for Echo {
    fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
        packets.iter_mut().for_each(|packet| packet.verdict = Verdict::Reply);
    }

    fn park(&mut self) {}
}

fn serve(datagrams: Vec<OwnedFd>, workers: usize) -> Workers<SocketPort> {
    let mut ports: Vec<Vec<SocketPort>> = (0..workers).map(|_| Vec::new()).collect();
    for (n, socket) in datagrams.into_iter().enumerate() {
        ports[n % workers].push(SocketPort::new(socket).expect("a bound socket"));
    }
    let setups =
        ports.into_iter().map(|ports| WorkerSetup { ports, app: Echo, cpu: None }).collect();
    Workers::start(setups, Arc::new(|failure| panic!("{failure}"))).expect("workers")
}

#[test]
fn no_query_is_lost_while_the_number_of_workers_changes() {
    let (mut old, mut shared) = open(HERE, 2);
    let mut fleet = serve(std::mem::take(&mut old.datagrams), 2);
    let ended = Arc::new(AtomicBool::new(false));
    let answered: [Arc<AtomicU64>; 2] = Default::default();
    let senders = answered.each_ref().map(|answered| {
        let (ended, answered) = (Arc::clone(&ended), Arc::clone(answered));
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                // A new port each time, so that every socket gets queries. Queries are not
                // repeated, so a lost one is noticed.
                let client = client();
                for n in 0..8_u64 {
                    client.send_to(&n.to_be_bytes(), old.address).expect("loopback");
                }
                for _ in 0..8 {
                    client.recv(&mut [0; 8]).expect("an answer");
                }
                answered.fetch_add(8, Ordering::Relaxed);
            }
        })
    });
    for workers in [4, 1, 3, 2, 5, 2] {
        let mut sockets = Sockets::new(shared);
        let new = sockets.open(&[old.address], workers).expect("they are there").remove(0);
        shared = sockets.finish().expect("nothing is left over");
        let new_workers = serve(new.datagrams, workers);
        // Both ask while there are old and new workers.
        for answered in &answered {
            let before = answered.load(Ordering::Relaxed);
            let now = || answered.load(Ordering::Relaxed);
            wait::until_value("answers of one client", now, |now| *now > before + 64);
        }
        fleet.stop();
        fleet = new_workers;
    }
    ended.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.join().expect("all answered");
    }
    fleet.stop();
}

use super::*;
use crate::workers;
use config::Steering;
use packet::{Packet, Verdict};
use port::Port;
use port_socket::SocketPort;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use worker::{App, WorkerSetup, Workers};

const PATIENCE: Duration = Duration::from_secs(10);
/// Where the servers of these tests listen. Clients are elsewhere, so that they never have the UDP
/// port whose TCP port a server was given.
const HERE: &str = "127.0.0.4:0";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Opens one address anew.
fn anew(text: &str, workers: usize) -> (Listening, Vec<SharedSocket>) {
    let mut sockets = Sockets::default();
    let mut all = sockets.open(&[address(text)], workers).expect("a free port");
    (all.remove(0), sockets.finish().expect("nothing is left over"))
}

/// As the service manager passes it.
fn given(kind: SocketKind, fd: impl Into<OwnedFd>) -> SharedSocket {
    let fd = fd.into();
    let address = rustix::net::getsockname(&fd).expect("a bound socket");
    SharedSocket { kind, address: address.try_into().expect("an IP"), given: true, fd }
}

/// What comes to each socket, answered as it came.
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

fn told(text: &str) -> String {
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

/// Some of the ports that TCP has free are a client's over UDP.
#[test]
fn where_any_port_will_do_one_is_found_that_is_free_for_both() {
    let clients: Vec<_> = (0..500).map(|_| UdpSocket::bind("127.0.0.6:0")).collect();
    assert!(clients.iter().all(Result::is_ok));
    // Of 28,000 ports: that none of 500 tries meets one of them is 1 in 8,000.
    for _ in 0..500 {
        let (listening, shared) = anew("127.0.0.6:0", 2);
        assert_eq!((listening.datagrams.len(), shared.len()), (2, 3));
    }
}

#[test]
fn both_families_may_listen_everywhere() {
    let mut wrong = Vec::new();
    // Not of those the kernel gives to clients: what is left of their connections for a minute
    // (TIME_WAIT) keeps a port from who wants it at every address.
    let first = std::process::id() as u16 % 10_000;
    for port in (0..10).map(|n| 20_000 + (first + 997 * n) % 10_000) {
        let both = [format!("0.0.0.0:{port}"), format!("[::]:{port}")].map(|text| address(&text));
        match Sockets::default().open(&both, 2) {
            Ok(all) => return assert_eq!(all.len(), 2),
            // Somebody may have this port at an address.
            Err(error) => wrong.push(error.to_string()),
        }
    }
    panic!("not at any of ten ports: {wrong:#?}");
}

#[test]
fn streams_are_as_many_as_there_may_be_files() {
    assert_eq!(room_for_streams(100, 4_096, 1 << 20), Some(4_096));
    assert_eq!(room_for_streams(100, 4_096, 1_024), Some(1_024 - 100 - CLOSING_MAX - FILES_OTHER));
    assert_eq!(room_for_streams(8, 4_096, 64), Some(14), "most are for what else there is");
    assert_eq!(room_for_streams(8, 10, 64), Some(10), "nor more than are wanted");
    assert_eq!(room_for_streams(8, 4_096, 39), None);
}

#[test]
fn a_failure_says_what_to_do() {
    let (taken, _shared) = anew(HERE, 1);
    let text = told(&taken.address.to_string());
    assert!(text.contains("(TCP)") && text.contains("another server"), "{text}");
    let text = told("192.0.2.1:5300");
    assert!(text.contains("192.0.2.1:5300") && text.contains("ip address"), "{text}");
}

#[test]
fn a_datagram_queued_before_is_answered_after() {
    for (workers_before, workers_after) in [(1, 1), (3, 2), (2, 4)] {
        let (old, shared) = anew(HERE, workers_before);
        // From many ports, so that every socket is likely to hold some.
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

/// A successor may load zones for minutes, and fail even then.
#[test]
fn sockets_beside_inherited_ones_receive_nothing_before_they_are_read() {
    let (old, shared) = anew(HERE, 2);
    let mut sockets = Sockets::new(shared);
    let new = sockets.open(&[old.address], 6).expect("they are there");
    let ask = || {
        let clients: Vec<_> = (0..60).map(|_| client()).collect();
        clients.iter().for_each(|client| _ = client.send_to(b"q", old.address).expect("loopback"));
        answer(new[0].datagrams.iter().map(|fd| fd.try_clone().expect("a descriptor")).collect())
    };
    let counts = ask();
    assert_eq!(counts[..2].iter().sum::<usize>(), 60, "the predecessor's: {counts:?}");
    assert!(!workers::steer(Steering::Hash, &[None; 6], &Listening::first_of_each(&new)));
    let counts = ask();
    assert!(counts[2..].iter().sum::<usize>() > 0, "and then all: {counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), 60);
    let first_of_each = Listening::first_of_each(std::slice::from_ref(&old));
    let cpu = cpu::allowed().expect("CPUs").as_slice()[0];
    for (steering, places) in [(Steering::Hash, [None; 2]), (Steering::Cpu, [Some(cpu); 2])] {
        assert!(!workers::steer(Steering::Hash, &[None; 6], &Listening::first_of_each(&new)));
        workers::steer_again(steering, &places, &first_of_each);
        let counts = ask();
        assert_eq!(counts[..2].iter().sum::<usize>(), 60, "it failed: {counts:?}");
    }
}

#[test]
fn a_connection_that_waits_before_is_accepted_after() {
    let (old, shared) = anew(HERE, 1);
    let waiting = std::net::TcpStream::connect(old.address).expect("a listener");
    let mut sockets = Sockets::new(shared);
    let new = sockets.open(&[old.address], 1).expect("it is there").remove(0);
    drop(old);
    let (accepted, _) = new.streams.accept().expect("the one that waits");
    assert_eq!(accepted.peer_addr().expect("connected"), waiting.local_addr().expect("connected"));
}

#[test]
fn port_0_keeps_the_port_there_is() {
    let (old, shared) = anew(HERE, 2);
    let all = Sockets::new(shared).open(&[address(HERE)], 2).expect("they are there");
    assert_eq!(all[0].address, old.address);
}

#[test]
fn an_address_that_is_gone_is_left_to_the_predecessor() {
    let (one, mut shared) = anew(HERE, 1);
    let (other, more) = anew(HERE, 1);
    shared.extend(more);
    let mut sockets = Sockets::new(shared);
    let all = sockets.open(&[one.address], 1).expect("it is there");
    let kept = sockets.finish().expect("that is no error");
    assert_eq!((all.len(), kept.len()), (1, 2));
    // The predecessor still has it, with what it holds.
    client().send_to(b"late", other.address).expect("loopback");
    assert_eq!(answer(other.datagrams), [1]);
}

#[test]
fn one_socket_that_stands_alone_is_read_by_all_workers() {
    let alone = UdpSocket::bind("127.0.0.5:0").expect("a socket");
    let address = alone.local_addr().expect("bound");
    let mut sockets = Sockets::new(vec![given(SocketKind::Udp, alone)]);
    assert_eq!(sockets.given(), [address]);
    let wanted = sockets.given();
    let listening = sockets.open(&wanted, 3).expect("it is there").remove(0);
    assert_eq!(listening.datagrams.len(), 3);
    let client = client();
    for fd in listening.datagrams {
        client.send_to(b"one", address).expect("loopback");
        assert_eq!(answer(vec![fd]), [1]);
        assert_eq!(client.recv(&mut [0; 8]).expect("an answer"), 3);
    }
    let shared = sockets.finish().expect("nothing is left over");
    assert_eq!(shared.len(), 2, "it is one socket, however many read from it");
    assert!(shared.iter().any(|shared| shared.given && shared.kind == SocketKind::Udp));
}

#[test]
fn what_is_passed_and_not_configured_is_an_error_that_names_it() {
    let listener = || TcpListener::bind("127.0.0.1:0").expect("a socket");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for (shared, word) in [
        (given(SocketKind::Udp, udp), "UDP"),
        (given(SocketKind::Tcp, listener()), "FileDescriptorName=ops"),
        (given(SocketKind::Ops, listener()), "in [ops]"),
        (given(SocketKind::Api, listener()), "in [api]"),
    ] {
        let (fd, passed) = (shared.fd.as_raw_fd(), shared.address);
        let mut sockets = Sockets::new(vec![shared]);
        sockets.open(&[address("127.0.0.2:0")], 1).expect("a free port");
        let told = sockets.finish().expect_err("it is not configured").to_string();
        for part in [&format!("descriptor {fd}"), &passed.to_string(), word] {
            assert!(told.contains(part), "{told}");
        }
    }
}

#[test]
fn metrics_have_a_listener_of_their_own() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let bound = listener.local_addr().expect("bound");
    let mut sockets = Sockets::new(vec![given(SocketKind::Ops, listener)]);
    assert_eq!(sockets.given(), [], "questions do not come in by it");
    let ops = sockets.open_ops(bound).expect("it is there");
    assert_eq!(ops.local_addr().expect("bound"), bound);
    let anew = sockets.open_ops(address("127.0.0.1:0")).expect("a free port");
    assert_ne!(anew.local_addr().expect("bound"), bound);
    let shared = sockets.finish().expect("nothing is left over");
    assert!(shared.iter().all(|shared| shared.kind == SocketKind::Ops) && shared.len() == 2);
}

#[test]
fn too_many_for_few_workers_say_how_many_could() {
    let (old, mut shared) = anew(HERE, 1);
    while shared.len() <= PORTS_MAX + 1 {
        let fd = shared[1].fd.try_clone().expect("a descriptor");
        shared.push(SharedSocket { kind: SocketKind::Udp, address: old.address, given: false, fd });
    }
    let mut sockets = Sockets::new(shared);
    let told = sockets.open(&[old.address], 1).expect_err("too many").to_string();
    assert!(told.contains("workers = 2"), "{told}");
}

/// Workers that answer with what they are asked.
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
    let seats =
        ports.into_iter().map(|ports| WorkerSetup { ports, app: Echo, cpu: None }).collect();
    Workers::start(seats, Arc::new(|failure| panic!("{failure}"))).expect("workers")
}

#[test]
fn whoever_asks_all_the_while_is_always_answered() {
    let (mut old, mut shared) = anew(HERE, 2);
    let mut fleet = serve(std::mem::take(&mut old.datagrams), 2);
    let ended = Arc::new(AtomicBool::new(false));
    let asking: Vec<_> = (0..2)
        .map(|_| {
            let ended = Arc::clone(&ended);
            thread::spawn(move || {
                let mut asked = 0_u64;
                while !ended.load(Ordering::Relaxed) {
                    // A new port each time, so that every socket is asked. Nothing is asked twice:
                    // what is lost shows.
                    let client = client();
                    for n in 0..8_u64 {
                        client.send_to(&n.to_be_bytes(), old.address).expect("loopback");
                    }
                    for _ in 0..8 {
                        client.recv(&mut [0; 8]).expect("an answer");
                    }
                    asked += 8;
                }
                asked
            })
        })
        .collect();
    for workers in [4, 1, 3, 2, 5, 2] {
        let mut sockets = Sockets::new(shared);
        let new = sockets.open(&[old.address], workers).expect("they are there").remove(0);
        shared = sockets.finish().expect("nothing is left over");
        let successor = serve(new.datagrams, workers);
        thread::sleep(Duration::from_millis(20));
        fleet.stop();
        fleet = successor;
    }
    ended.store(true, Ordering::Relaxed);
    let asked: Vec<u64> = asking.into_iter().map(|one| one.join().expect("all answered")).collect();
    assert!(asked.iter().all(|asked| *asked > 0), "{asked:?}");
    fleet.stop();
}

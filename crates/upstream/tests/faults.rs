//! Servers that answer, or do not, on sockets of their own.

use answer::{Lifetimes, Now, Policy, Scratch, Tally, batch};
use compile::Image;
use image::{ForwardRule, Forwards, HashKey};
use packet::{Packet, Transport, Verdict};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use upstream::{Asker, Plan, Servers, View};
use wire::{Name, NameBuf};

const LIFETIMES: Lifetimes = Lifetimes { ttl_min: 0, ttl_max: 3600, negative_ttl_max: 3600 };
const CLIENT: &str = "192.0.2.9:5353";

/// A server on loopback.
struct Fake {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    ports: Arc<Mutex<HashSet<u16>>>,
}

impl Fake {
    /// One that sends what `reply` makes of each question and its number, each message by itself.
    fn start(reply: impl Fn(&[u8], usize) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        Self::start_on(UdpSocket::bind("127.0.0.1:0").unwrap(), reply)
    }

    fn start_on(
        socket: UdpSocket,
        reply: impl Fn(&[u8], usize) -> Vec<Vec<u8>> + Send + 'static,
    ) -> Self {
        let address = socket.local_addr().unwrap();
        let (asked, ports) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<HashSet<u16>>>::default());
        let (count, seen) = (Arc::clone(&asked), Arc::clone(&ports));
        std::thread::spawn(move || {
            let mut buf = [0; 4096];
            while let Ok((len, from)) = socket.recv_from(&mut buf) {
                seen.lock().unwrap().insert(from.port());
                let nth = count.fetch_add(1, Ordering::SeqCst);
                for message in reply(&buf[..len], nth) {
                    socket.send_to(&message, from).unwrap();
                }
            }
        });
        Self { address, asked, ports }
    }

    /// One whose answers are all too long for a datagram, and that sends so many octets of them
    /// over TCP before it closes.
    fn start_long(octets: usize) -> Self {
        // A port that is free for both.
        let (socket, listener) =
            std::iter::repeat_with(|| TcpListener::bind("127.0.0.1:0").unwrap())
                .find_map(|tcp| Some((UdpSocket::bind(tcp.local_addr().unwrap()).ok()?, tcp)))
                .unwrap();
        let server = Self::start_on(socket, |question, _| {
            let mut cut = answer(question, 60, 0);
            cut[2] |= 2;
            vec![cut]
        });
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut question = [0; 4096];
                let len = stream.read(&mut question).unwrap();
                let answer = answer(&question[2..len], 60, 100);
                let framed = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
                stream.write_all(&framed[..octets.min(framed.len())]).unwrap();
            }
        });
        server
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// An answer with so many addresses.
fn answer(question: &[u8], ttl: u32, count: u16) -> Vec<u8> {
    let mut message = question.to_vec();
    message.truncate(message.len() - 11);
    message[2] |= 0x80;
    message[3] = 0x80;
    message[6..8].copy_from_slice(&count.to_be_bytes());
    message[11] = 0;
    for n in 0..count {
        message.extend([0xc0, 12, 0, 1, 0, 1]);
        message.extend(ttl.to_be_bytes());
        message.extend([0, 4, 10, 0]);
        message.extend(n.to_be_bytes());
    }
    message
}

/// An address where nobody is.
fn nobody() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A thread that asks such servers.
struct Scene {
    image: Image,
    rules: Vec<ForwardRule>,
    scratch: Box<Scratch>,
    asker: Asker,
}

/// What a client got: code, addresses, and the extended error.
#[derive(Debug, PartialEq, Eq)]
struct Got(u8, u16, Option<u16>);

impl Scene {
    fn new(servers: &[SocketAddr]) -> Self {
        let key = HashKey::new(std::array::from_fn(|n| {
            (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }));
        let (suffix, addresses) = (NameBuf::root(), servers.to_vec());
        let groups = vec![Servers { suffix, addresses, mixes_case: true, caches: true }];
        let plan = Plan { groups, cache_len: 1 << 20, lifetimes: LIFETIMES, stale_max: 3600 };
        Self {
            image: Image::new(Arc::new(key)),
            rules: vec![ForwardRule { suffix: NameBuf::root(), group: 0 }],
            scratch: Box::default(),
            asker: Asker::new(plan).unwrap(),
        }
    }

    /// Asks, and waits until all are answered, or for so long.
    fn ask(&mut self, names: &[&str], patience: Duration) -> Vec<Got> {
        let Self { image, rules, scratch, asker } = self;
        let mut got = Vec::new();
        for name in names {
            let question = question(name);
            let mut octets = question.clone();
            octets.resize(4096, 0);
            let peer = CLIENT.parse().unwrap();
            let mut packet = Packet::new(&mut octets, question.len(), peer, Transport::Datagram);
            asker.begin(now());
            run(image, rules, asker, scratch, &mut packet);
            got.extend(read(&packet));
        }
        let until = Instant::now() + patience;
        while got.len() < names.len() && Instant::now() < until {
            let left = Timespec::try_from(until - Instant::now()).unwrap();
            poll(&mut [PollFd::new(&*asker, PollFlags::IN)], Some(&left)).unwrap();
            let mut take = |asker: &mut Asker, packet: &mut Packet<'_>, _| {
                run(image, rules, asker, scratch, packet);
                got.extend(read(packet));
            };
            asker.tend(now(), &mut take).unwrap();
        }
        got
    }

    fn ask_one(&mut self, name: &str) -> (Got, Duration) {
        let begun = Instant::now();
        let mut got = self.ask(&[name], Duration::from_secs(8));
        (got.pop().expect("an answer"), begun.elapsed())
    }
}

/// The clock that timers go by.
fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn run(
    image: &Image,
    rules: &[ForwardRule],
    asker: &mut Asker,
    scratch: &mut Scratch,
    packet: &mut Packet<'_>,
) {
    let policy = Policy { forwards: Forwards::new(rules), ..Policy::default() };
    let monotonic_micros = now().as_micros() as u64;
    let now = Now { unix_seconds: 1, monotonic_micros, seed: monotonic_micros };
    let packets = slice::from_mut(packet);
    batch(image, &policy, now, asker, scratch, packets, &mut Tally::default());
}

fn question(name: &str) -> Vec<u8> {
    let mut octets = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).unwrap();
    octets.extend(name.as_name().octets());
    octets.extend([0, 1, 0, 1, 0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
    octets
}

fn read(packet: &Packet<'_>) -> Option<Got> {
    if packet.verdict == Verdict::Later {
        return None;
    }
    assert_eq!((packet.verdict, packet.peer), (Verdict::Reply, CLIENT.parse().unwrap()));
    let message = packet.message();
    assert_eq!(message[..2], [0x12, 0x34]);
    let count = u16::from_be_bytes([message[6], message[7]]);
    let error = match message {
        // It stands behind everything else.
        [.., 0, 15, 0, 2, e0, e1] => Some(u16::from_be_bytes([*e0, *e1])),
        _ => None,
    };
    Some(Got(message[3] & 0xf, count, error))
}

fn answered(count: u16) -> Got {
    Got(0, count, None)
}

fn failed(error: u16) -> Got {
    Got(2, 0, Some(error))
}

#[test]
fn what_was_asked_once_is_known() {
    let server = Fake::start(|question, _| vec![answer(question, 60, 2)]);
    let mut scene = Scene::new(&[server.address]);
    assert_eq!(scene.ask_one("www.example.net.").0, answered(2));
    assert_eq!(scene.ask_one("WWW.example.net.").0, answered(2));
    assert_eq!(server.asked(), 1);
}

#[test]
fn what_may_not_be_kept_is_asked_again() {
    let server = Fake::start(|question, _| vec![answer(question, 0, 1)]);
    let mut scene = Scene::new(&[server.address]);
    for nth in 1..=3 {
        assert_eq!(scene.ask_one("www.example.net.").0, answered(1));
        assert_eq!(server.asked(), nth);
    }
}

#[test]
fn who_asks_the_same_at_once_is_one_question() {
    let server = Fake::start(|question, _| vec![answer(question, 0, 1)]);
    let mut scene = Scene::new(&[server.address]);
    let got = scene.ask(&["www.example.net."; 60], Duration::from_secs(5));
    assert_eq!(got.len(), 60);
    assert!(!scene.asker.owes());
    assert_eq!(server.asked(), 1);
}

#[test]
fn what_is_no_reply_is_not_taken_for_one() {
    let server = Fake::start(|question, _| {
        let right = answer(question, 60, 1);
        let changed = |at: usize| {
            let mut lie = answer(question, 60, 66);
            lie[at] ^= 0x20;
            lie
        };
        vec![changed(0), changed(1), changed(13), changed(25), right[..11].to_vec(), right]
    });
    let mut scene = Scene::new(&[server.address]);
    assert_eq!(scene.ask_one("www.example.net.").0, answered(1));
    assert_eq!(View::server([&scene.asker.view()], 0).counts.mismatched, 5);
}

#[test]
fn ports_are_many_and_change() {
    let server = Fake::start(|question, _| vec![answer(question, 60, 1)]);
    let mut scene = Scene::new(&[server.address]);
    let mut ask = |from: usize| {
        (from..from + 5_000).for_each(|n| {
            scene.ask_one(&format!("name-{n}.example.net."));
        });
        server.ports.lock().unwrap().len()
    };
    let few = ask(0);
    assert!(few >= 16, "{few}");
    assert!(ask(5_000) > few + 8, "others take their places");
}

#[test]
fn what_is_too_long_for_a_datagram_comes_by_stream() {
    let server = Fake::start_long(usize::MAX);
    let mut scene = Scene::new(&[server.address]);
    // It does not fit into the client's datagram either, but it is known then.
    assert_eq!(scene.ask_one("www.example.net.").0, answered(0));
    assert_eq!(scene.ask_one("www.example.net.").0, answered(0));
    assert_eq!(server.asked(), 1);
}

#[test]
fn a_stream_that_ends_too_early_is_a_failure() {
    let server = Fake::start_long(100);
    let (got, took) = Scene::new(&[server.address]).ask_one("www.example.net.");
    assert_eq!(got, failed(22));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn who_is_not_there_is_known_soon_and_remembered() {
    let mut scene = Scene::new(&[nobody()]);
    let (got, took) = scene.ask_one("www.example.net.");
    assert_eq!(got, failed(22));
    assert!(took < Duration::from_secs(1), "{took:?}");
    let (got, took) = scene.ask_one("www.example.net.");
    assert_eq!(got, failed(13), "remembered (RFC 9520)");
    assert!(took < Duration::from_millis(50), "{took:?}");
    let (got, took) = scene.ask_one("other.example.net.");
    assert_eq!(got, failed(22), "of another name nothing is");
    assert!(took < Duration::from_millis(50), "nobody is asked: {took:?}");
}

#[test]
fn another_server_is_asked_where_one_does_not_know_is_silent_or_gone() {
    let good = Fake::start(|question, _| vec![answer(question, 60, 1)]);
    let servfail = Fake::start(|question, _| {
        let mut message = answer(question, 0, 0);
        message[3] |= 2;
        vec![message]
    });
    let silent = Fake::start(|_, _| vec![]);
    for bad in [servfail.address, silent.address, nobody()] {
        let mut scene = Scene::new(&[bad, good.address]);
        for n in 0..20 {
            let (got, took) = scene.ask_one(&format!("name-{n}.example.net."));
            assert_eq!(got, answered(1));
            assert!(took < Duration::from_secs(1), "{bad}: {took:?}");
        }
    }
}

#[test]
fn who_is_silent_costs_a_client_few_seconds() {
    let silent = Fake::start(|_, _| vec![]);
    let mut scene = Scene::new(&[silent.address]);
    let (got, took) = scene.ask_one("www.example.net.");
    assert_eq!(got, failed(22));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(silent.asked() > 1, "a datagram may get lost");
}

/// RFC 8767 §5: who could have a stale answer waits 1.8 s for a better one, and once that was in
/// vain nobody does for a while.
#[test]
fn what_is_too_old_is_better_than_nothing() {
    let server = Fake::start(|question, nth| match nth {
        0 => vec![answer(question, 1, 1)],
        _ => vec![],
    });
    let mut scene = Scene::new(&[server.address]);
    assert_eq!(scene.ask_one("www.example.net.").0, answered(1));
    std::thread::sleep(Duration::from_millis(2_100));
    let (got, took) = scene.ask_one("www.example.net.");
    assert_eq!(got, Got(0, 1, Some(3)));
    assert!(took < Duration::from_millis(2_300), "{took:?}");
    // The question goes on, in vain.
    scene.ask(&["other.example.net."], Duration::from_secs(5));
    let (got, took) = scene.ask_one("www.example.net.");
    assert_eq!(got, Got(0, 1, Some(3)));
    assert!(took < Duration::from_millis(100), "{took:?}");
}

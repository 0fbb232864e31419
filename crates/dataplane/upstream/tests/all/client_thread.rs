//! Servers on sockets of their own, and a thread that queries them.
#![allow(dead_code, reason = "each test needs some of it")]

use test_support::ports;

use answer::{AnswerCounts, Now, Policy, Scratch, TtlLimits, batch};
use compile::Image;
use image::{ForwardRule, Forwards, HashKey};
use packet::{Packet, Transport, Verdict};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use upstream::{
    ResolverPlan, ServerMarks, TrustAnchors, UpstreamAddress, UpstreamClient, UpstreamServers,
};
use wire::{Name, NameBuf};

const LIFETIMES: TtlLimits = TtlLimits { ttl_min: 0, ttl_max: 3600, negative_ttl_max: 3600 };
const CLIENT: &str = "192.0.2.9:5353";

/// A server on loopback.
pub struct FakeServer {
    pub address: SocketAddr,
    query_count: Arc<AtomicUsize>,
    pub ports: Arc<Mutex<HashSet<u16>>>,
}

impl FakeServer {
    /// One that sends what `reply` makes of each query and its number, each message by itself.
    pub fn start(reply: impl Fn(&[u8], usize) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        Self::start_on(UdpSocket::bind("127.0.0.1:0").unwrap(), reply)
    }

    pub fn start_on(
        socket: UdpSocket,
        reply: impl Fn(&[u8], usize) -> Vec<Vec<u8>> + Send + 'static,
    ) -> Self {
        let address = socket.local_addr().unwrap();
        let (query_count, ports) =
            (Arc::<AtomicUsize>::default(), Arc::<Mutex<HashSet<u16>>>::default());
        let (count, seen) = (Arc::clone(&query_count), Arc::clone(&ports));
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
        Self { address, query_count, ports }
    }

    /// One whose answers are all too long for a datagram, and that sends this many bytes of them
    /// over TCP before it closes.
    pub fn start_long(bytes: usize) -> Self {
        let datagram = |query: &[u8], _| {
            let mut cut = answer(query, 60, 0);
            cut[2] |= 2;
            vec![cut]
        };
        Self::start_both(datagram, move |query| {
            let framed = framed(&answer(query, 60, 100));
            framed[..bytes.min(framed.len())].to_vec()
        })
    }

    /// One that also listens on TCP, and sends what `stream` makes of the query of each
    /// connection before it closes that.
    pub fn start_both(
        datagram: impl Fn(&[u8], usize) -> Vec<Vec<u8>> + Send + 'static,
        stream: impl Fn(&[u8]) -> Vec<u8> + Send + 'static,
    ) -> Self {
        let at = closed_address();
        let (socket, listener) = (UdpSocket::bind(at).unwrap(), TcpListener::bind(at).unwrap());
        std::thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let mut query = [0; 4096];
                let len = connection.read(&mut query).unwrap();
                connection.write_all(&stream(&query[2..len])).unwrap();
            }
        });
        Self::start_on(socket, datagram)
    }

    pub fn query_count(&self) -> usize {
        self.query_count.load(Ordering::SeqCst)
    }
}

/// An answer with so many addresses.
pub fn answer(query: &[u8], ttl: u32, count: u16) -> Vec<u8> {
    let mut message = query.to_vec();
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

/// A message as it goes over TCP.
pub fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// An address without a listener.
pub fn closed_address() -> SocketAddr {
    ports::free_address(Ipv4Addr::LOCALHOST).into()
}

/// A thread that queries such servers.
pub struct ClientThread {
    image: Image,
    rules: Vec<ForwardRule>,
    scratch: Box<Scratch>,
    pub upstream_client: UpstreamClient,
    /// Its time, if that is frozen.
    pub frozen_at: Option<Duration>,
    /// How far it is ahead of that clock.
    pub later: Duration,
    /// The client of its queries.
    pub client: SocketAddr,
    query_time: Duration,
    longest: Duration,
}

/// A reply: code, number of addresses, and the extended error.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply(pub u8, pub u16, pub Option<u16>);

impl ClientThread {
    /// One that queries a server with these answers.
    pub fn of_server(
        answers: impl Fn(&[u8], usize) -> Vec<Vec<u8>> + Send + 'static,
    ) -> (FakeServer, Self) {
        let server = FakeServer::start(answers);
        let thread = Self::new(&[server.address]);
        (server, thread)
    }

    pub fn new(servers: &[SocketAddr]) -> Self {
        Self::over(servers.iter().copied().map(UpstreamAddress::from).collect(), None)
    }

    /// One with a cache of this many bytes.
    pub fn with_memory(servers: &[SocketAddr], cache_len: usize) -> Self {
        Self::made(servers.iter().copied().map(UpstreamAddress::from).collect(), None, cache_len)
    }

    pub fn over(addresses: Vec<UpstreamAddress>, trust: Option<TrustAnchors>) -> Self {
        Self::made(addresses, trust, 1 << 20)
    }

    fn made(
        addresses: Vec<UpstreamAddress>,
        trust: Option<TrustAnchors>,
        cache_len: usize,
    ) -> Self {
        Self::grouped(vec![group(".", addresses)], trust, cache_len)
    }

    pub fn grouped(
        mut groups: Vec<UpstreamServers>,
        trust: Option<TrustAnchors>,
        cache_len: usize,
    ) -> Self {
        let mut first = 0;
        for servers in &mut groups {
            servers.first = first;
            first += servers.addresses.len() as u16;
        }
        let rule = |(group, servers): (u16, &UpstreamServers)| ForwardRule {
            suffix: servers.suffix.clone(),
            group,
        };
        let mut rules: Vec<_> = (0..).zip(&groups).map(rule).collect();
        Forwards::sort(&mut rules);
        let (lifetimes, stale_max, failure_ttl) = (LIFETIMES, 3600, 5);
        let marks = ServerMarks::new(0);
        let plan = ResolverPlan {
            serial: 0,
            groups,
            cache_len,
            lifetimes,
            stale_max,
            failure_ttl,
            trust,
            marks,
        };
        Self {
            image: image(),
            rules,
            scratch: Box::default(),
            upstream_client: UpstreamClient::new(plan).unwrap(),
            frozen_at: None,
            later: Duration::ZERO,
            client: CLIENT.parse().unwrap(),
            query_time: Duration::ZERO,
            longest: Duration::ZERO,
        }
    }

    /// Freezes its time: whatever comes comes without a timer.
    pub fn frozen(mut self) -> Self {
        self.frozen_at = Some(now());
        self
    }

    fn time(&self) -> Duration {
        self.frozen_at.unwrap_or_else(now) + self.later
    }

    /// Queries these names, and waits until all are answered, or for so long.
    pub fn query(&mut self, names: &[impl AsRef<str>], patience: Duration) -> Vec<Reply> {
        let begun = processor_time();
        self.longest = Duration::ZERO;
        let mut got = Vec::new();
        self.send(names, &mut got);
        self.wait(&mut got, names.len(), patience);
        self.query_time += processor_time() - begun;
        got
    }

    /// The longest turn of the last queries, in processor time.
    pub fn longest_turn(&self) -> Duration {
        self.longest
    }

    /// The processor time of this thread's queries.
    pub fn query_time(&self) -> Duration {
        self.query_time
    }

    /// Sends these queries, and takes the answers that are known already.
    pub fn send(&mut self, names: &[impl AsRef<str>], got: &mut Vec<Reply>) {
        names.iter().for_each(|name| self.send_type(name.as_ref(), 1, got));
        self.upstream_client.flush();
    }

    /// Sends a query of this type.
    pub fn send_type(&mut self, name: &str, rtype: u16, got: &mut Vec<Reply>) {
        let now = self.time();
        let Self { image, rules, scratch, upstream_client, client, .. } = self;
        let mut bytes = query_message(name);
        let len = bytes.len();
        bytes[len - 15..len - 13].copy_from_slice(&rtype.to_be_bytes());
        bytes.resize(4096, 0);
        let mut packet = Packet::new(&mut bytes, len, *client, Transport::Datagram);
        upstream_client.begin(now);
        run(image, rules, upstream_client, scratch, now, &mut packet);
        got.extend(read(&packet));
    }

    /// Waits until this many are answered, or for this long.
    pub fn wait(&mut self, got: &mut Vec<Reply>, count: usize, patience: Duration) {
        let until = Instant::now() + patience;
        while got.len() < count && Instant::now() < until {
            self.turn(got, until.saturating_duration_since(Instant::now()));
        }
    }

    /// Waits for something to do, or for this long, and does it.
    pub fn turn(&mut self, got: &mut Vec<Reply>, patience: Duration) {
        let left = Timespec::try_from(patience).unwrap();
        poll(&mut [PollFd::new(&self.upstream_client, PollFlags::IN)], Some(&left)).unwrap();
        let now = self.time();
        let Self { image, rules, scratch, upstream_client, longest, .. } = self;
        let mut take = |upstream_client: &mut UpstreamClient, packet: &mut Packet<'_>, _| {
            run(image, rules, upstream_client, scratch, now, packet);
            got.extend(read(packet));
        };
        let begun = processor_time();
        upstream_client.poll_deferred(now, &mut take).unwrap();
        *longest = processor_time().saturating_sub(begun).max(*longest);
    }

    /// Does what there is to do for this long, and nothing else.
    pub fn rest(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let left = Timespec::try_from(left).unwrap();
            poll(&mut [PollFd::new(&self.upstream_client, PollFlags::IN)], Some(&left)).unwrap();
            self.upstream_client
                .poll_deferred(now(), &mut |_, _, _| panic!("no client waits"))
                .unwrap();
        }
    }

    /// Queries twenty names, one after the other, each of which has so many addresses.
    #[track_caller]
    pub fn expect_twenty(&mut self, count: u16) {
        for n in 0..20 {
            assert_eq!(self.query_one(&format!("name-{n}.example.net.")), answered(count));
        }
    }

    pub fn query_one(&mut self, name: &str) -> Reply {
        self.query(&[name], test_support::wait::deadline()).pop().expect("an answer")
    }
}

/// Servers of the names below a suffix.
pub fn group(suffix: &str, addresses: Vec<UpstreamAddress>) -> UpstreamServers {
    UpstreamServers {
        first: 0,
        is_retired: false,
        suffix: NameBuf::from_text(suffix.as_bytes(), Name::ROOT).unwrap(),
        addresses,
        mixes_case: true,
        fixed_ports: None,
        ttl_max: None,
        caches: true,
    }
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The clock that timers go by.
pub fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// No zones.
pub fn image() -> Image {
    let word = |n: usize| (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Image::new(Arc::new(HashKey::new(std::array::from_fn(word))))
}

/// Answers a query, or has other servers queried.
pub fn run(
    image: &Image,
    rules: &[ForwardRule],
    upstream_client: &mut UpstreamClient,
    scratch: &mut Scratch,
    now: Duration,
    packet: &mut Packet<'_>,
) {
    let policy = Policy { forwards: Forwards::new(rules), ..Policy::default() };
    let monotonic_micros = now.as_micros() as u64;
    let now = Now { unix_seconds: 1, monotonic_micros, seed: monotonic_micros };
    let packets = slice::from_mut(packet);
    batch(image, &policy, now, upstream_client, scratch, packets, &mut AnswerCounts::default());
}

pub fn query_message(name: &str) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).unwrap();
    bytes.extend(name.as_name().as_bytes());
    bytes.extend([0, 1, 0, 1, 0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

fn read(packet: &Packet<'_>) -> Option<Reply> {
    if packet.verdict == Verdict::Deferred {
        return None;
    }
    assert_eq!((packet.verdict, packet.peer.port()), (Verdict::Reply, 5353));
    let message = packet.message();
    assert_eq!(message[..2], [0x12, 0x34]);
    let count = u16::from_be_bytes([message[6], message[7]]);
    let error = match message {
        // It stands behind everything else.
        [.., 0, 15, 0, 2, e0, e1] => Some(u16::from_be_bytes([*e0, *e1])),
        _ => None,
    };
    Some(Reply(message[3] & 0xf, count, error))
}

pub fn answered(count: u16) -> Reply {
    Reply(0, count, None)
}

pub fn failed(error: u16) -> Reply {
    Reply(2, 0, Some(error))
}

//! A path with a delay and a rate between a resolver and an authoritative server. It replaces
//! tc(8)'s netem, which many kernels lack.
use crate::Result;
use crate::ceiling::allow;
use crate::limits::{RELAY_HEADERS_LEN, RELAY_QUEUE_MAX};
use cpu::CpuList;
use lab_host::namespace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Delay and rate of each direction of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Delay of a datagram.
    pub delay: Duration,
    /// Bits a second, with the headers below; 0: no limit.
    pub bits_per_second: u64,
}

/// Counters of a relay.
#[derive(Debug, Default)]
pub struct RelayCounters {
    /// Datagrams that were passed on, in both directions.
    pub passed: AtomicU64,
    /// Datagrams that found their queue full, or that belong to no query.
    pub dropped: AtomicU64,
}

/// A relay of DNS messages over UDP, on a thread of its own. Dropping it ends it.
pub struct Relay {
    /// Its counters.
    pub counters: Arc<RelayCounters>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Datagrams of one direction, until they are due.
struct Link {
    path: Path,
    waiting: VecDeque<(Instant, SocketAddr, Vec<u8>)>,
    /// When the last datagram has left the sender.
    free_at: Instant,
}

impl Link {
    fn new(path: Path) -> Self {
        Self { path, waiting: VecDeque::new(), free_at: Instant::now() }
    }

    /// Adds a datagram; `false`: there is no room.
    fn put(&mut self, to: SocketAddr, datagram: Vec<u8>, now: Instant) -> bool {
        if self.waiting.len() >= RELAY_QUEUE_MAX {
            return false;
        }
        let bits = 8 * (datagram.len() + RELAY_HEADERS_LEN) as u64;
        let nanos = (bits * 1_000_000_000).checked_div(self.path.bits_per_second).unwrap_or(0);
        self.free_at = self.free_at.max(now) + Duration::from_nanos(nanos);
        self.waiting.push_back((self.free_at + self.path.delay, to, datagram));
        true
    }

    fn due(&mut self, now: Instant) -> Option<(SocketAddr, Vec<u8>)> {
        self.waiting.pop_front_if(|(due, ..)| *due <= now).map(|(_, to, datagram)| (to, datagram))
    }

    fn next(&self) -> Option<Instant> {
        self.waiting.front().map(|(due, ..)| *due)
    }
}

/// Queries under way: the client and its ID, by the ID that the server sees.
struct Queries {
    clients: Vec<Option<(SocketAddr, [u8; 2])>>,
    next: u16,
}

struct RelayThread {
    listener: UdpSocket,
    upstream: UdpSocket,
    server: SocketAddr,
    to_server: Link,
    to_client: Link,
    queries: Queries,
    counters: Arc<RelayCounters>,
}

impl Relay {
    /// Relays what arrives at an address of a network namespace to a server in it.
    ///
    /// # Errors
    /// The address is in use, the namespace does not exist, or the CPUs may not be used.
    pub fn start(
        (netns, cpus): (Option<&str>, &CpuList),
        listen: SocketAddr,
        server: SocketAddr,
        path: Path,
    ) -> Result<Self> {
        let open = |address: SocketAddr| {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok::<_, io::Error>(socket)
        };
        let failed = |error: io::Error| format!("relay at {listen}: {error}");
        let (listener, upstream) = namespace::within(netns, || {
            let any = (Ipv4Addr::UNSPECIFIED, 0).into();
            Ok((open(listen).map_err(failed)?, open(any).map_err(failed)?))
        })?;
        let counters = Arc::new(RelayCounters::default());
        let mut thread = RelayThread {
            listener,
            upstream,
            server,
            to_server: Link::new(path),
            to_client: Link::new(path),
            queries: Queries { clients: vec![None; 1 << 16], next: 0 },
            counters: Arc::clone(&counters),
        };
        let is_over = Arc::new(AtomicBool::new(false));
        let (ends, cpus) = (Arc::clone(&is_over), cpus.clone());
        let run = move || {
            // It also relays in another namespace.
            let _ = allow(&cpus);
            while !ends.load(Ordering::Relaxed) {
                thread.turn();
            }
        };
        let thread = std::thread::Builder::new().name("relay".into()).spawn(run).map_err(failed)?;
        Ok(Self { counters, is_over, thread: Some(thread) })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl RelayThread {
    /// Waits for a datagram, or until one is due.
    fn turn(&mut self) {
        const IDLE: Duration = Duration::from_millis(100);
        let next = [self.to_server.next(), self.to_client.next()].into_iter().flatten().min();
        let wait = next.map_or(IDLE, |due| due.saturating_duration_since(Instant::now()).min(IDLE));
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as i64 };
        let flags = PollFlags::IN;
        let mut sockets = [PollFd::new(&self.listener, flags), PollFd::new(&self.upstream, flags)];
        // An interrupted wait is a turn without a datagram.
        let _ = poll(&mut sockets, Some(&wait));
        let mut buf = [0; 4096];
        while let Ok((len, client)) = self.listener.recv_from(&mut buf) {
            self.query(client, &buf[..len]);
        }
        while let Ok((len, _)) = self.upstream.recv_from(&mut buf) {
            self.reply(&buf[..len]);
        }
        let now = Instant::now();
        while let Some((to, datagram)) = self.to_server.due(now) {
            self.count(self.upstream.send_to(&datagram, to).is_ok());
        }
        while let Some((to, datagram)) = self.to_client.due(now) {
            self.count(self.listener.send_to(&datagram, to).is_ok());
        }
    }

    fn count(&self, is_passed: bool) {
        let RelayCounters { passed, dropped } = &*self.counters;
        if is_passed { passed } else { dropped }.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends a query with an ID of the relay, so that one socket serves every client.
    fn query(&mut self, client: SocketAddr, message: &[u8]) {
        let Some((id, rest)) = message.split_first_chunk() else { return self.count(false) };
        let ours = self.queries.next;
        self.queries.next = ours.wrapping_add(1);
        self.queries.clients[usize::from(ours)] = Some((client, *id));
        let datagram = [&ours.to_be_bytes(), rest].concat();
        if !self.to_server.put(self.server, datagram, Instant::now()) {
            self.count(false);
        }
    }

    fn reply(&mut self, message: &[u8]) {
        let Some((ours, rest)) = message.split_first_chunk() else { return self.count(false) };
        let at = usize::from(u16::from_be_bytes(*ours));
        let Some((client, id)) = self.queries.clients[at].take() else { return self.count(false) };
        if !self.to_client.put(client, [&id, rest].concat(), Instant::now()) {
            self.count(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::wait;

    /// A server that sends back each message, and a client.
    fn around(path: Path) -> (Relay, SocketAddr) {
        let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = echo.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut buf = [0; 4096];
            while let Ok((len, from)) = echo.recv_from(&mut buf) {
                if buf[..len].ends_with(b"end") {
                    break;
                }
                echo.send_to(&buf[..len], from).unwrap();
            }
        });
        let listen = test_support::ports::free_address(Ipv4Addr::LOCALHOST).into();
        let cpus = CpuList::default();
        (Relay::start((None, &cpus), listen, server, path).unwrap(), listen)
    }

    fn client(relay: SocketAddr) -> UdpSocket {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(relay).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client
    }

    #[test]
    fn replies_return_to_their_clients_with_their_ids() {
        let (relay, address) = around(Path::default());
        let clients = [client(address), client(address)];
        for (number, client) in (1..).zip(&clients) {
            client.send(&[7, 7, number]).unwrap();
        }
        for (number, client) in (1..).zip(&clients) {
            let mut buf = [0; 16];
            let len = client.recv(&mut buf).unwrap();
            assert_eq!(buf[..len], [7, 7, number], "the same ID, another client");
        }
        // A datagram is counted after it is sent.
        let passed = || relay.counters.passed.load(Ordering::Relaxed);
        wait::until_eq("datagrams counted in both directions", passed, 4);
    }

    #[test]
    fn datagrams_are_delayed_in_both_directions() {
        let delay = Duration::from_millis(30);
        let (_relay, address) = around(Path { delay, ..Path::default() });
        let (client, began) = (client(address), Instant::now());
        client.send(&[1, 2, 3]).unwrap();
        client.recv(&mut [0; 16]).unwrap();
        assert!(began.elapsed() >= 2 * delay, "{:?}", began.elapsed());
    }

    #[test]
    fn rate_is_held_with_headers() {
        // 958 bytes and 42 of headers are 8,000 bits: 8 ms each at a megabit a second.
        let mut link = Link::new(Path { bits_per_second: 1_000_000, ..Path::default() });
        let (now, to) = (Instant::now(), (Ipv4Addr::LOCALHOST, 1).into());
        link.free_at = now;
        assert!((0..3).all(|_| link.put(to, vec![0; 958], now)));
        let due: Vec<_> = link.waiting.iter().map(|(due, ..)| *due - now).collect();
        assert_eq!(due, [8, 16, 24].map(Duration::from_millis));
        assert!(link.due(now).is_none() && link.due(now + due[0]).is_some());
    }

    #[test]
    fn full_queue_drops() {
        let mut link = Link::new(Path { delay: Duration::from_secs(1), ..Path::default() });
        let (now, to) = (Instant::now(), (Ipv4Addr::LOCALHOST, 1).into());
        let fits = (0..RELAY_QUEUE_MAX + 2).filter(|_| link.put(to, vec![0; 12], now)).count();
        assert_eq!(fits, RELAY_QUEUE_MAX);
    }
}

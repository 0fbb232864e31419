//! A link to a server that delays, loses, forges or cuts messages, as a test sets it.
//!
//! It forwards UDP and TCP between the subject and a real server, which decides the right answers.
//! The link needs no privileges and no kernel module.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Result;
use crate::limits::{LINK_RECORDED_MAX, LINK_TAKEN_MAX, LINK_TURN};
use crate::ports::free_address;
use crate::random::Random;

/// The address in every forged reply.
pub const FORGED: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 66);
/// The zone of forged records out of bailiwick.
pub const VICTIM: &str = "other.test";

/// What a link does to replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkFault {
    /// Nothing.
    #[default]
    Fair,
    /// Each takes so long.
    Slow(Duration),
    /// This many of a hundred datagrams get lost, half of them queries.
    Lossy(u8),
    /// No datagram passes, without an error.
    Silent,
    /// A forged reply comes before each reply.
    Lying(Forgery),
    /// A forged reply comes instead of each reply.
    OnlyLying(Forgery),
    /// SERVFAIL.
    Failing,
    /// Each reply is truncated.
    Truncating,
    /// The same, and streams end in the middle of the answer.
    Cutting,
}

/// What is wrong in a forged reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// The id.
    Id,
    /// The port it comes from.
    Port,
    /// The query name.
    Query,
    /// It has addresses of names below [`VICTIM`], after an alias and in other sections.
    Bailiwick,
}

/// A received query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedQuery {
    /// The port it came from.
    pub port: u16,
    /// Its id.
    pub id: u16,
    /// The name, letter by letter.
    pub name: Vec<u8>,
}

/// A link, until it is dropped.
#[derive(Debug)]
pub struct FaultyLink {
    /// The address of the server behind it.
    pub address: SocketAddrV4,
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inner {
    fault: Mutex<LinkFault>,
    ends: AtomicBool,
    lies: AtomicU64,
    streams: AtomicU64,
    /// The received queries, if they are wanted.
    seen: Mutex<Option<Vec<ReceivedQuery>>>,
    server: SocketAddrV4,
    front: UdpSocket,
    /// Another port, for forged replies.
    other: UdpSocket,
}

impl FaultyLink {
    /// A fair link to a server.
    pub fn open(server: SocketAddrV4) -> Result<Self> {
        let address = free_address(Ipv4Addr::LOCALHOST);
        Self::try_open(address, server).map_err(|error| format!("a link to {server}: {error}"))
    }

    fn try_open(address: SocketAddrV4, server: SocketAddrV4) -> io::Result<Self> {
        let (front, listener) = (UdpSocket::bind(address)?, TcpListener::bind(address)?);
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        front.set_nonblocking(true)?;
        listener.set_nonblocking(true)?;
        let inner = Arc::new(Inner {
            fault: Mutex::default(),
            ends: AtomicBool::new(false),
            lies: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            seen: Mutex::default(),
            server,
            front,
            other,
        });
        let (datagrams, streams) = (Arc::clone(&inner), Arc::clone(&inner));
        let threads = vec![
            std::thread::spawn(move || datagrams.carry_datagrams().expect("a link's sockets")),
            std::thread::spawn(move || streams.carry_streams(&listener)),
        ];
        Ok(Self { address, inner, threads })
    }

    /// Behaves like this from now on.
    pub fn set(&self, fault: LinkFault) {
        *self.inner.fault.lock().expect("no thread of a link panics") = fault;
    }

    /// Notes each query that comes from now on.
    pub fn watch(&self) {
        *self.inner.seen.lock().expect("no thread of a link panics") = Some(Vec::new());
    }

    /// The queries that came by datagram since [`watch`](Self::watch).
    pub fn seen(&self) -> Vec<ReceivedQuery> {
        self.inner.seen.lock().expect("no thread of a link panics").take().unwrap_or_default()
    }

    /// Lies told so far, and streams carried.
    pub fn counts(&self) -> (u64, u64) {
        (self.inner.lies.load(Ordering::Relaxed), self.inner.streams.load(Ordering::Relaxed))
    }
}

impl Drop for FaultyLink {
    fn drop(&mut self) {
        self.inner.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
    }
}

/// Waits for a datagram or a stream at one of the sockets, at most for a turn or until something
/// is due.
pub(crate) fn wait_for_input(sockets: &[impl AsFd], due: Option<Instant>) {
    let left = due.map_or(LINK_TURN, |due| due.saturating_duration_since(Instant::now()));
    let left = left.min(LINK_TURN);
    let left = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
    let mut fds: Vec<_> = sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    // What interrupts it is a turn too.
    let _ = poll(&mut fds, Some(&left));
}

/// A query that was carried to the server, by the id it has there.
#[derive(Clone, Copy, Debug)]
struct Carried {
    from: SocketAddr,
    id: [u8; 2],
}

/// When it leaves, to whom, whether from the other port, and what it says.
type Flying = Reverse<(Instant, SocketAddr, bool, Vec<u8>)>;

impl Inner {
    fn fault(&self) -> LinkFault {
        *self.fault.lock().expect("no thread of a link panics")
    }

    fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::Relaxed)
    }

    /// Carries queries, whose ids it changes so that no two have the same.
    fn carry_datagrams(&self) -> io::Result<()> {
        let back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        back.connect(self.server)?;
        back.set_nonblocking(true)?;
        let (mut random, mut next) = (Random::new(self.server.port().into()), 0u16);
        let mut carried: Vec<Option<Carried>> = vec![None; 1 << 16];
        let mut flying: BinaryHeap<Flying> = BinaryHeap::new();
        let mut buffer = vec![0; 65_536];
        while self.goes_on() {
            let due = flying.peek().map(|Reverse((at, ..))| *at);
            wait_for_input(&[&self.front, &back], due);
            for _ in 0..LINK_TAKEN_MAX {
                let Ok((len, from)) = self.front.recv_from(&mut buffer) else { break };
                let Some((id, rest)) = buffer[..len].split_first_chunk::<2>() else { continue };
                if self.loses(&mut random) {
                    continue;
                }
                self.note(from.port(), &buffer[..len]);
                next = next.wrapping_add(1);
                carried[usize::from(next)] = Some(Carried { from, id: *id });
                // A server that is gone shows by its silence.
                let _ = back.send(&[&next.to_be_bytes()[..], rest].concat());
            }
            for _ in 0..LINK_TAKEN_MAX {
                let Ok(len) = back.recv(&mut buffer) else { break };
                let Some((id, rest)) = buffer[..len].split_first_chunk::<2>() else { continue };
                let place = &mut carried[usize::from(u16::from_be_bytes(*id))];
                let Some(Carried { from, id }) = place.take() else { continue };
                self.reply(from, [&id[..], rest].concat(), &mut random, &mut flying);
            }
            while let Some(Reverse((at, ..))) = flying.peek()
                && *at <= Instant::now()
                && let Some(Reverse((_, to, is_other, message))) = flying.pop()
            {
                let socket = if is_other { &self.other } else { &self.front };
                // A socket that was closed meanwhile is not a failure of the link.
                let _ = socket.send_to(&message, to);
            }
        }
        Ok(())
    }

    fn note(&self, port: u16, query: &[u8]) {
        let mut seen = self.seen.lock().expect("no thread of a link panics");
        if let Some(seen) = seen.as_mut()
            && seen.len() < LINK_RECORDED_MAX
        {
            let id = u16::from_be_bytes([query[0], query[1]]);
            let name = query[12..question_end(query) - 4].to_vec();
            seen.push(ReceivedQuery { port, id, name });
        }
    }

    fn loses(&self, random: &mut Random) -> bool {
        match self.fault() {
            // Half of what gets lost does on the way there.
            LinkFault::Lossy(percent) => random.below(200) < percent.into(),
            LinkFault::Silent => true,
            _ => false,
        }
    }

    /// Does to a reply what is to be done.
    fn reply(
        &self,
        to: SocketAddr,
        mut message: Vec<u8>,
        random: &mut Random,
        flying: &mut BinaryHeap<Flying>,
    ) {
        let mut at = Instant::now();
        let fault = self.fault();
        match fault {
            LinkFault::Slow(delay) => at += delay,
            LinkFault::Lying(lie) | LinkFault::OnlyLying(lie) => {
                self.lies.fetch_add(1, Ordering::Relaxed);
                flying.push(Reverse((at, to, lie == Forgery::Port, tell(lie, &message))));
                at += Duration::from_micros(1);
            }
            LinkFault::Failing => {
                cut(&mut message);
                message[3] = message[3] & 0xf0 | 2;
            }
            LinkFault::Truncating | LinkFault::Cutting => {
                cut(&mut message);
                message[2] |= 2;
            }
            LinkFault::Fair | LinkFault::Lossy(_) | LinkFault::Silent => {}
        }
        let is_lost = self.loses(random) || matches!(fault, LinkFault::OnlyLying(_));
        if !is_lost {
            flying.push(Reverse((at, to, false, message)));
        }
    }

    fn carry_streams(self: &Arc<Self>, listener: &TcpListener) {
        let mut threads = Vec::new();
        while self.goes_on() {
            match listener.accept() {
                Ok((stream, _)) => {
                    self.streams.fetch_add(1, Ordering::Relaxed);
                    let inner = Arc::clone(self);
                    // How a stream ends is what is tried.
                    threads.push(std::thread::spawn(move || {
                        let _ = inner.carry_stream(stream);
                    }));
                }
                Err(_) => wait_for_input(&[listener], None),
            }
        }
        threads.into_iter().for_each(|thread| {
            // As above.
            let _ = thread.join();
        });
    }

    /// Carries messages one after the other.
    fn carry_stream(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LINK_TURN))?;
        let mut server = TcpStream::connect(self.server)?;
        while self.goes_on() {
            let Some(query) = read_message(&mut stream)? else { continue };
            if self.fault() == LinkFault::Silent {
                continue;
            }
            server.write_all(&query)?;
            let Some(answer) = read_message(&mut server)? else { return Ok(()) };
            if self.fault() == LinkFault::Cutting {
                return stream.write_all(&answer[..answer.len() / 2]);
            }
            stream.write_all(&answer)?;
        }
        Ok(())
    }
}

/// A message with its length; nothing if none begins within a turn.
fn read_message(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 2];
    match stream.read(&mut length[..1]) {
        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    }
    stream.read_exact(&mut length[1..])?;
    let mut message = length.to_vec();
    message.resize(2 + usize::from(u16::from_be_bytes(length)), 0);
    stream.read_exact(&mut message[2..])?;
    Ok(Some(message))
}

/// Leaves header and query.
fn cut(message: &mut Vec<u8>) {
    message.truncate(question_end(message));
    message[6..12].fill(0);
}

/// Where the query ends, in a message of a server that can be trusted to have one.
fn question_end(message: &[u8]) -> usize {
    let mut at = 12;
    while message[at] != 0 {
        at += 1 + usize::from(message[at]);
    }
    at + 5
}

/// A lie in the place of a reply.
fn tell(lie: Forgery, message: &[u8]) -> Vec<u8> {
    let mut lying = message.to_vec();
    cut(&mut lying);
    lying[3] &= 0xf0;
    match lie {
        Forgery::Id => lying[1] ^= 1,
        Forgery::Port => {}
        Forgery::Query => lying[13] ^= 1,
        Forgery::Bailiwick => {
            tell_of_others(&mut lying);
            return lying;
        }
    }
    lying[7] = 1;
    put_address(&mut lying, &[0xc0, 12]);
    lying
}

/// The name asked for is an alias of the same below the other zone; and here are the addresses of
/// that, and its servers.
fn tell_of_others(lying: &mut Vec<u8>) {
    let label = lying[12..13 + usize::from(lying[12])].to_vec();
    let labels =
        VICTIM.split('.').flat_map(|label| [label.len() as u8].into_iter().chain(label.bytes()));
    let zone: Vec<u8> = labels.chain([0]).collect();
    let victim = [&label[..], &zone].concat();
    lying[7] = 2;
    put_record(lying, &[0xc0, 12], 5, &victim);
    put_address(lying, &victim);
    lying[9] = 1;
    put_record(lying, &zone, 2, &victim);
    lying[11] = 1;
    put_address(lying, &victim);
}

fn put_address(message: &mut Vec<u8>, owner: &[u8]) {
    put_record(message, owner, 1, &FORGED.octets());
}

fn put_record(message: &mut Vec<u8>, owner: &[u8], rtype: u8, data: &[u8]) {
    message.extend(owner);
    message.extend([0, rtype, 0, 1, 0, 1, 0, 0]);
    message.extend((data.len() as u16).to_be_bytes());
    message.extend(data);
}

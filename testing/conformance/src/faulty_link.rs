//! A link to a server that is slow, loses, lies or is cut, as a test says from one moment to the
//! next.
//!
//! It stands between the subject and a real server, over UDP and TCP, so that what is right is
//! the server's to say. Each datagram's way and what is done to it is the link's own: it needs no
//! rights and no module of the kernel.

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

/// The address that every lie tells.
pub const LIE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 66);
/// The zone that lies out of bailiwick are about.
pub const VICTIM: &str = "other.test";

/// What a link does to replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Nothing.
    #[default]
    Fair,
    /// Each takes so long.
    Slow(Duration),
    /// Of a hundred datagrams, so many get lost: half of them questions.
    Lossy(u8),
    /// No datagram passes, without an error.
    Silent,
    /// What is not a reply comes before each reply.
    Lying(Lie),
    /// What is not a reply comes instead of each reply.
    OnlyLying(Lie),
    /// SERVFAIL.
    Failing,
    /// All is too long for a datagram.
    Truncating,
    /// The same, and streams end in the middle of the answer.
    Cutting,
}

/// What a lie is false in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// The id.
    Id,
    /// The port it comes from.
    Port,
    /// The name that is asked for.
    Question,
    /// It tells addresses of names below [`VICTIM`], behind an alias and beside the answer.
    Bailiwick,
}

/// A question as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The port it came from.
    pub port: u16,
    /// Its id.
    pub id: u16,
    /// The name, letter by letter.
    pub name: Vec<u8>,
}

/// A link, until it is dropped.
#[derive(Debug)]
pub struct Link {
    /// Where the server is asked through it.
    pub address: SocketAddrV4,
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inner {
    manner: Mutex<Manner>,
    ends: AtomicBool,
    lies: AtomicU64,
    streams: AtomicU64,
    /// The questions that came, if they are wanted.
    seen: Mutex<Option<Vec<Asked>>>,
    server: SocketAddrV4,
    front: UdpSocket,
    /// Another port, for lies.
    other: UdpSocket,
}

impl Link {
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
            manner: Mutex::default(),
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
    pub fn set(&self, manner: Manner) {
        *self.inner.manner.lock().expect("no thread of a link panics") = manner;
    }

    /// Notes each question that comes from now on.
    pub fn watch(&self) {
        *self.inner.seen.lock().expect("no thread of a link panics") = Some(Vec::new());
    }

    /// The questions that came by datagram since [`watch`](Self::watch).
    pub fn seen(&self) -> Vec<Asked> {
        self.inner.seen.lock().expect("no thread of a link panics").take().unwrap_or_default()
    }

    /// Lies told so far, and streams carried.
    pub fn counts(&self) -> (u64, u64) {
        (self.inner.lies.load(Ordering::Relaxed), self.inner.streams.load(Ordering::Relaxed))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.inner.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
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

/// A question that was carried to the server, by the id it has there.
#[derive(Clone, Copy, Debug)]
struct Carried {
    from: SocketAddr,
    id: [u8; 2],
}

/// When it leaves, to whom, whether from the other port, and what it says.
type Flying = Reverse<(Instant, SocketAddr, bool, Vec<u8>)>;

impl Inner {
    fn manner(&self) -> Manner {
        *self.manner.lock().expect("no thread of a link panics")
    }

    fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::Relaxed)
    }

    /// Carries questions, whose ids it changes so that no two have the same.
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

    fn note(&self, port: u16, question: &[u8]) {
        let mut seen = self.seen.lock().expect("no thread of a link panics");
        if let Some(seen) = seen.as_mut()
            && seen.len() < LINK_RECORDED_MAX
        {
            let id = u16::from_be_bytes([question[0], question[1]]);
            let name = question[12..question_end(question) - 4].to_vec();
            seen.push(Asked { port, id, name });
        }
    }

    fn loses(&self, random: &mut Random) -> bool {
        match self.manner() {
            // Half of what gets lost does on the way there.
            Manner::Lossy(percent) => random.below(200) < percent.into(),
            Manner::Silent => true,
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
        let manner = self.manner();
        match manner {
            Manner::Slow(delay) => at += delay,
            Manner::Lying(lie) | Manner::OnlyLying(lie) => {
                self.lies.fetch_add(1, Ordering::Relaxed);
                flying.push(Reverse((at, to, lie == Lie::Port, tell(lie, &message))));
                at += Duration::from_micros(1);
            }
            Manner::Failing => {
                cut(&mut message);
                message[3] = message[3] & 0xf0 | 2;
            }
            Manner::Truncating | Manner::Cutting => {
                cut(&mut message);
                message[2] |= 2;
            }
            Manner::Fair | Manner::Lossy(_) | Manner::Silent => {}
        }
        let is_lost = self.loses(random) || matches!(manner, Manner::OnlyLying(_));
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
            let Some(question) = read_message(&mut stream)? else { continue };
            if self.manner() == Manner::Silent {
                continue;
            }
            server.write_all(&question)?;
            let Some(answer) = read_message(&mut server)? else { return Ok(()) };
            if self.manner() == Manner::Cutting {
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

/// Leaves header and question.
fn cut(message: &mut Vec<u8>) {
    message.truncate(question_end(message));
    message[6..12].fill(0);
}

/// Where the question ends, in a message of a server that can be trusted to have one.
fn question_end(message: &[u8]) -> usize {
    let mut at = 12;
    while message[at] != 0 {
        at += 1 + usize::from(message[at]);
    }
    at + 5
}

/// A lie in the place of a reply.
fn tell(lie: Lie, message: &[u8]) -> Vec<u8> {
    let mut lying = message.to_vec();
    cut(&mut lying);
    lying[3] &= 0xf0;
    match lie {
        Lie::Id => lying[1] ^= 1,
        Lie::Port => {}
        Lie::Question => lying[13] ^= 1,
        Lie::Bailiwick => {
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
    put_record(message, owner, 1, &LIE.octets());
}

fn put_record(message: &mut Vec<u8>, owner: &[u8], rtype: u8, data: &[u8]) {
    message.extend(owner);
    message.extend([0, rtype, 0, 1, 0, 1, 0, 0]);
    message.extend((data.len() as u16).to_be_bytes());
    message.extend(data);
}

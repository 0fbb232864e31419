//! A steady load that loses nothing unnoticed: datagrams and streams at a known rate, each query
//! sent once, each answer read to its end and compared with what it must be.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use domain::base::iana::Rtype;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use test_support::wait;

use crate::Result;
use crate::client::{connect_from, framed};
use crate::limits::{ANSWER_TIMEOUT, STORIES_MAX};
use crate::names::{Name, name};
use crate::queries::Query;
use crate::random::Random;
use crate::reply::Reply;
use crate::zone::Zone;

/// The zone of the queries.
pub const ZONE: &str = "load.test";
/// The owner in it whose TXT records take nearly 64 KiB.
pub const LARGE: &str = "large";
/// Its strings, 250 bytes each.
const STRINGS_LARGE: usize = 246;
/// Owners of one address in it.
const NAMES: usize = 1000;
/// Owners of many strings in it.
const TEXTS: usize = 4;
/// Strings of such an owner, 250 bytes each: 15 kB.
const STRINGS: usize = 60;
/// Queries of a client over one UDP socket.
const QUERIES_PER_SOCKET: usize = 64;
/// Bytes that are read at once where answers are read piece by piece.
const PIECE: usize = 4096;
/// What the kernel keeps for the reader of large answers, in bytes: less than one, so that its
/// server has to wait; and enough pieces that neither waits for timers of TCP.
const LARGE_BUFFER: usize = 8 * PIECE;

/// Writes the zone into `directory`.
pub fn zone(directory: &Path) -> Result<Zone> {
    let mut text =
        "$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.1\n".to_owned();
    for owner in 0..NAMES {
        writeln!(text, "a{owner} A {}", address(owner)).expect("a string has room");
    }
    let texts = (0..TEXTS).map(|owner| (format!("t{owner}"), STRINGS));
    for (owner, strings) in texts.chain([(LARGE.to_owned(), STRINGS_LARGE)]) {
        for string in 0..strings {
            writeln!(text, "{owner} TXT \"{string:0250}\"").expect("a string has room");
        }
    }
    Zone::write(directory, name(ZONE), &text)
}

fn address(owner: usize) -> String {
    format!("10.0.{}.{}", owner / 256, owner % 256)
}

fn below(label: &str) -> Name {
    name(&format!("{label}.{ZONE}"))
}

/// How a client behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Datagrams, from a new port now and then, so that every worker has its turn.
    Datagrams,
    /// As many datagrams at once, from a new port each time: most of them wait in the server's
    /// queue.
    Bursts,
    /// One connection for all its time, up to four queries under way on it.
    Stream,
    /// One connection for all its time, each query sent in two halves with a pause between.
    Halves,
    /// One connection for all its time, large answers read piece by piece with pauses.
    Pieces,
    /// One connection for all its time, up to four queries under way on it whose answers have
    /// 64 KiB each, more than the kernels keep: read as before.
    Large,
    /// A new connection for each query, which comes at once or after a pause, and after which the
    /// client may close its side (RFC 7766 §6.2.1).
    Churn,
}

/// What all clients saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// Queries sent whole.
    pub asked: AtomicU64,
    /// Answers read whole, and right.
    pub answered: AtomicU64,
    /// Answers that are not what they must be.
    pub wrong: AtomicU64,
    /// Queries without an answer.
    pub lost: AtomicU64,
    /// Connections that ended while a query was under way on them, or could not be opened.
    pub cut: AtomicU64,
    /// Connections the server closed while nothing was under way.
    pub closed: AtomicU64,
    /// The first things that went wrong.
    pub stories: Mutex<Vec<String>>,
}

impl Seen {
    /// The counters.
    pub fn summary(&self) -> String {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        format!(
            "{} asked, {} answered, {} wrong, {} lost, {} connections cut mid-query, {} idle ones \
             closed",
            get(&self.asked),
            get(&self.answered),
            get(&self.wrong),
            get(&self.lost),
            get(&self.cut),
            get(&self.closed)
        )
    }

    /// The counters, and the first things that went wrong, a line each.
    pub fn report(&self) -> String {
        let stories = self.stories.lock().expect("no holder panics").join("\n");
        format!("{}\n{stories}", self.summary())
    }

    /// Right answers a query, 0 to 1.
    pub fn share(&self) -> f64 {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        get(&self.answered) / get(&self.asked).max(1.0)
    }

    /// Whether every query sent was answered rightly and no connection was cut in the middle.
    pub fn is_flawless(&self) -> bool {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        get(&self.asked) == get(&self.answered)
            && get(&self.wrong) + get(&self.lost) + get(&self.cut) == 0
    }

    /// Waits until clients have had so many more answers.
    ///
    /// # Errors
    /// They have not within the deadline.
    pub fn wait_for_answers(&self, more: u64) -> Result<()> {
        let enough = self.answered.load(Ordering::Relaxed) + more;
        wait::try_until_ok(&format!("{enough} answers"), || {
            let answered = self.answered.load(Ordering::Relaxed);
            if answered >= enough { Ok(()) } else { Err(answered) }
        })
    }

    fn count(counter: &AtomicU64, by: usize) {
        counter.fetch_add(by as u64, Ordering::Relaxed);
    }

    fn tell(&self, story: String) {
        let mut stories = self.stories.lock().expect("no holder panics");
        if stories.len() < STORIES_MAX {
            stories.push(story);
        }
    }
}

/// Clients on threads of their own, from [`Load::run`] until its body ends.
#[derive(Debug)]
pub struct Load<'a> {
    /// Whom they ask, on the loopback network.
    pub server: SocketAddrV4,
    /// A client for each, with an address of its own in 127.0.1.0/24.
    pub clients: &'a [Manner],
    /// Between two turns of a client.
    pub interval: Duration,
}

impl Load<'_> {
    /// Runs `body` under the load; returns what the clients saw, and the body's result.
    pub fn run<T>(&self, body: impl FnOnce(&Seen) -> T) -> (Seen, T) {
        let (seen, done) = (Seen::default(), AtomicBool::new(false));
        let result = std::thread::scope(|scope| {
            for (index, manner) in self.clients.iter().enumerate() {
                let mut client = Client {
                    source: Ipv4Addr::new(127, 0, 1, index as u8),
                    server: self.server,
                    manner: *manner,
                    random: Random::new(index as u64),
                    seen: &seen,
                    open: None,
                };
                let (done, interval) = (&done, self.interval);
                scope.spawn(move || client.work(interval, done));
            }
            // However the body ends, the clients must stop, or they would be waited for forever.
            let _told = Told(&done);
            body(&seen)
        });
        (seen, result)
    }
}

struct Told<'a>(&'a AtomicBool);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Client<'a> {
    source: Ipv4Addr,
    server: SocketAddrV4,
    manner: Manner,
    random: Random,
    seen: &'a Seen,
    open: Option<TcpStream>,
}

/// A query and what must be answered.
#[derive(Debug)]
pub(crate) struct Asked {
    query: Query,
    right: Right,
}

#[derive(Debug)]
enum Right {
    Address(usize),
    /// So many.
    Strings(usize),
}

impl Client<'_> {
    /// Takes its turns at their times; one that comes late is not left out.
    fn work(&mut self, interval: Duration, done: &AtomicBool) {
        let mut due = Instant::now();
        while !done.load(Ordering::Relaxed) {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let turns = match self.manner {
                Manner::Datagrams | Manner::Bursts => QUERIES_PER_SOCKET as u32,
                _ => 1,
            };
            if let Err(error) = self.turn(interval) {
                self.seen.tell(format!("{:?}: {error}", self.manner));
            }
            due += interval * turns;
        }
    }

    fn turn(&mut self, interval: Duration) -> io::Result<()> {
        match self.manner {
            Manner::Datagrams => self.ask_datagrams(interval),
            Manner::Bursts => self.ask_burst(),
            Manner::Churn => {
                self.open = Some(self.connect()?);
                if self.random.chance(50) {
                    self.pause();
                }
                self.ask_stream(1)
            }
            Manner::Stream | Manner::Large => {
                let count = 1 + self.random.below(4);
                self.ask_stream(count)
            }
            Manner::Halves | Manner::Pieces => self.ask_stream(1),
        }
    }

    fn socket(&self) -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind((self.source, 0))?;
        socket.connect(self.server)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(socket)
    }

    fn ask_datagrams(&mut self, interval: Duration) -> io::Result<()> {
        let socket = self.socket()?;
        let mut buffer = [0; 4096];
        for id in 0..QUERIES_PER_SOCKET as u16 {
            let asked = self.asked();
            Seen::count(&self.seen.asked, 1);
            let answer = socket.send(&asked.packet(id)).and_then(|_| socket.recv(&mut buffer));
            match answer {
                Ok(len) => self.judge(&asked, id, &buffer[..len]),
                Err(error) => {
                    Seen::count(&self.seen.lost, 1);
                    self.seen.tell(format!("lost over UDP: {}: {error}", asked.query));
                }
            }
            std::thread::sleep(interval);
        }
        Ok(())
    }

    /// Sends all queries, then takes an answer to each, in any order.
    fn ask_burst(&mut self) -> io::Result<()> {
        let socket = self.socket()?;
        let mut buffer = [0; 4096];
        let mut left: Vec<Option<Asked>> = Vec::new();
        for id in 0..QUERIES_PER_SOCKET as u16 {
            let asked = self.asked();
            Seen::count(&self.seen.asked, 1);
            socket.send(&asked.packet(id))?;
            left.push(Some(asked));
        }
        while left.iter().any(Option::is_some) {
            let Ok(len) = socket.recv(&mut buffer) else { break };
            let id = buffer.first_chunk().map_or(u16::MAX, |id| u16::from_be_bytes(*id));
            match left.get_mut(usize::from(id)).and_then(Option::take) {
                Some(asked) => self.judge(&asked, id, &buffer[..len]),
                None => {
                    Seen::count(&self.seen.wrong, 1);
                    self.seen.tell(format!("wrong: an answer with the unknown id {id}"));
                }
            }
        }
        for asked in left.into_iter().flatten() {
            Seen::count(&self.seen.lost, 1);
            self.seen.tell(format!("lost in a burst over UDP: {}", asked.query));
        }
        Ok(())
    }

    /// Asks `count` queries at once over the open connection, or over a new one.
    fn ask_stream(&mut self, count: usize) -> io::Result<()> {
        if self.open.as_ref().is_some_and(is_closed) {
            Seen::count(&self.seen.closed, 1);
            self.open = None;
        }
        let mut stream = match self.open.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        let asked: Vec<Asked> = (0..count).map(|_| self.asked()).collect();
        let mut left: Vec<usize> = (0..count).collect();
        Seen::count(&self.seen.asked, count);
        let result = self.converse(&mut stream, &asked, &mut left);
        match result {
            Ok(()) => self.open = Some(stream),
            Err(_) => {
                Seen::count(&self.seen.lost, left.len());
                Seen::count(&self.seen.cut, 1);
            }
        }
        result
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = connect_from(self.source, self.server, ANSWER_TIMEOUT);
        let stream = stream.inspect_err(|_| Seen::count(&self.seen.cut, 1))?;
        if self.manner == Manner::Large {
            set_socket_recv_buffer_size(&stream, LARGE_BUFFER)?;
        }
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(stream)
    }

    /// Sends all queries, then reads an answer to each, in any order (RFC 7766 §6.2.1.1).
    fn converse(
        &mut self,
        stream: &mut TcpStream,
        asked: &[Asked],
        left: &mut Vec<usize>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (id, asked) in asked.iter().enumerate() {
            bytes.extend(framed(&asked.packet(id as u16)));
        }
        let half = if self.manner == Manner::Halves { self.random.below(bytes.len()) } else { 0 };
        stream.write_all(&bytes[..half])?;
        if half > 0 {
            self.pause();
        }
        stream.write_all(&bytes[half..])?;
        if self.manner == Manner::Churn && self.random.chance(50) {
            stream.shutdown(Shutdown::Write)?;
        }
        while !left.is_empty() {
            let answer = self.read_message(stream)?;
            let id = answer.first_chunk().map_or(u16::MAX, |id| u16::from_be_bytes(*id));
            let Some(at) = left.iter().position(|index| *index == usize::from(id)) else {
                return Err(io::Error::other(format!("an answer with id {id}")));
            };
            self.judge(&asked[left.swap_remove(at)], id, &answer);
        }
        Ok(())
    }

    fn read_message(&mut self, stream: &mut TcpStream) -> io::Result<Vec<u8>> {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut message = vec![0; u16::from_be_bytes(length).into()];
        let pieces = matches!(self.manner, Manner::Pieces | Manner::Large);
        let piece = if pieces { PIECE } else { message.len().max(1) };
        for part in message.chunks_mut(piece) {
            stream.read_exact(part)?;
            if pieces {
                self.pause();
            }
        }
        Ok(message)
    }

    fn pause(&mut self) {
        std::thread::sleep(Duration::from_micros(self.random.below(5_000) as u64));
    }

    fn asked(&mut self) -> Asked {
        match self.manner {
            Manner::Pieces => {
                let owner = format!("t{}", self.random.below(TEXTS));
                Asked::strings(&owner, STRINGS)
            }
            Manner::Large => Asked::strings(LARGE, STRINGS_LARGE),
            _ => Asked::address(&mut self.random),
        }
    }

    fn judge(&self, asked: &Asked, id: u16, answer: &[u8]) {
        if asked.is_right(id, answer) {
            Seen::count(&self.seen.answered, 1);
        } else {
            Seen::count(&self.seen.wrong, 1);
            self.seen.tell(format!("wrong: {}: {:?}", asked.query, Reply::read(answer)));
        }
    }
}

impl Asked {
    /// For an address.
    pub(crate) fn address(random: &mut Random) -> Self {
        let owner = random.below(NAMES);
        let query = Query::new(below(&format!("a{owner}")), Rtype::A);
        Self { query, right: Right::Address(owner) }
    }

    /// For the strings of an owner, of which there are so many.
    fn strings(owner: &str, count: usize) -> Self {
        Self { query: Query::new(below(owner), Rtype::TXT), right: Right::Strings(count) }
    }

    pub(crate) fn packet(&self, id: u16) -> Vec<u8> {
        let mut packet = self.query.to_wire();
        packet[..2].copy_from_slice(&id.to_be_bytes());
        packet
    }

    pub(crate) fn is_right(&self, id: u16, answer: &[u8]) -> bool {
        let reply = Reply::read(answer);
        let sound = answer.starts_with(&id.to_be_bytes())
            && reply.faults.is_empty()
            && reply.rcode == 0
            && reply.aa
            && !reply.tc;
        sound
            && match self.right {
                Right::Strings(count) => reply.answer.len() == count,
                Right::Address(owner) => {
                    let [high, low] = (owner as u16).to_be_bytes();
                    let data: Vec<_> = reply.answer.iter().map(|record| &record.data[..]).collect();
                    data == [[10, 0, high, low]]
                }
            }
    }
}

/// Whether the server has closed this connection.
fn is_closed(stream: &TcpStream) -> bool {
    let mut byte = [0];
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut byte));
    // A socket that cannot be made blocking again says so when it is read next.
    let _ = stream.set_nonblocking(false);
    !matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests;

//! TCP connections (RFC 7766), several queries under way on each. A connection that has done its
//! share is closed by us when all its answers have come; one that the server ends is opened again
//! at once, and what was under way on it times out.

use super::{Batch, ChannelOptions, Sent, Transport, Watched};
use crate::clock::Clock;
use crate::limits::STREAM_BUFFER;
use rustix::event::epoll::EventFlags;
use rustix::net::{SocketType, sockopt};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

/// Before a connection that was refused is tried again.
const RETRY_NS: u64 = 10_000_000;

struct Connection {
    fd: OwnedFd,
    is_open: bool,
    /// Queries it may still take.
    left: u64,
    /// Bytes that the kernel has not taken yet.
    out: Vec<u8>,
    /// The received part of an incomplete answer.
    rest: Vec<u8>,
}

/// Connections, each a channel, of one thread.
pub(crate) struct Tcp {
    channels: ChannelOptions,
    connections: Vec<Connection>,
    watched: Watched,
    ready: Vec<(usize, EventFlags)>,
    each: u64,
    spent: VecDeque<usize>,
    closed: VecDeque<usize>,
    /// Connections that failed, and when to try again.
    broken: VecDeque<(u64, usize)>,
    opened: u64,
    buffer: Vec<u8>,
}

impl ChannelOptions {
    /// A connection that has begun to open.
    fn connection(&mut self, queries: u64) -> io::Result<Connection> {
        let fd = self.socket(SocketType::STREAM)?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        match rustix::net::connect(&fd, &self.server) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let (out, rest) = (Vec::with_capacity(STREAM_BUFFER), Vec::new());
        Ok(Connection { fd, is_open: false, left: queries, out, rest })
    }
}

impl Tcp {
    /// So many connections, each for this many queries; none: without an end.
    ///
    /// # Errors
    /// One cannot be made.
    pub fn new(
        mut channels: ChannelOptions,
        count: usize,
        queries_each: Option<u64>,
    ) -> io::Result<Self> {
        let (mut connections, watched) = (Vec::with_capacity(count), Watched::new()?);
        let each = queries_each.unwrap_or(u64::MAX);
        for channel in 0..count {
            let connection = channels.connection(each)?;
            watched.add(&connection.fd, channel, true)?;
            connections.push(connection);
        }
        Ok(Self {
            channels,
            connections,
            watched,
            ready: Vec::new(),
            each,
            spent: VecDeque::new(),
            closed: VecDeque::new(),
            broken: VecDeque::new(),
            opened: 0,
            buffer: vec![0; STREAM_BUFFER],
        })
    }

    /// A connection has ended: another one is opened, now or a little later.
    fn reopen(&mut self, channel: usize, now: u64) {
        let was_open = std::mem::take(&mut self.connections[channel].is_open);
        self.connections[channel].left = 0;
        self.spent.retain(|spent| *spent != channel);
        if was_open {
            self.closed.push_back(channel);
        }
        // A connection that was never open is retried later, to leave time for others.
        if !was_open || self.renew(channel).is_err() {
            self.broken.push_back((now + RETRY_NS, channel));
            // A closed connection leaves epoll, else every wait would return at once.
            self.watched.remove(&self.connections[channel].fd);
        }
    }

    /// Opens again what failed a while ago.
    fn retry(&mut self, now: u64) {
        while let Some(&(at, channel)) = self.broken.front()
            && at <= now
        {
            self.broken.pop_front();
            if self.renew(channel).is_err() {
                self.broken.push_back((now + RETRY_NS, channel));
            }
        }
    }

    /// Reads once; false: the connection has ended.
    fn read(
        &mut self,
        channel: usize,
        clock: &Clock,
        count: &mut usize,
        each: &mut impl FnMut(usize, u64, &[u8]),
    ) -> bool {
        let connection = &mut self.connections[channel];
        let len = match rustix::io::read(&connection.fd, &mut self.buffer[..]) {
            Ok(0) => return false,
            Ok(len) => len,
            Err(error) => {
                return matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR);
            }
        };
        let now = clock.now();
        let mut take = |message: &[u8]| {
            *count += 1;
            each(channel, now, message);
        };
        if connection.rest.is_empty() {
            let used = frames(&self.buffer[..len], &mut take);
            connection.rest.extend_from_slice(&self.buffer[used..len]);
        } else {
            connection.rest.extend_from_slice(&self.buffer[..len]);
            let used = frames(&connection.rest, &mut take);
            connection.rest.drain(..used);
        }
        true
    }

    /// The connection is open, or there is room again; false: it has failed.
    fn go_on(&mut self, channel: usize) -> bool {
        let connection = &mut self.connections[channel];
        if !connection.is_open {
            if !matches!(sockopt::socket_error(&connection.fd), Ok(Ok(()))) {
                return false;
            }
            connection.is_open = true;
            self.opened += 1;
        }
        connection.flush()
            && self.watched.change(&connection.fd, channel, !connection.out.is_empty()).is_ok()
    }
}

impl Connection {
    /// Writes as much of the waiting bytes as the kernel accepts; false: the connection has failed.
    fn flush(&mut self) -> bool {
        if self.out.is_empty() {
            return true;
        }
        match rustix::net::send(&self.fd, &self.out, rustix::net::SendFlags::NOSIGNAL) {
            Ok(len) => _ = self.out.drain(..len),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
        true
    }
}

/// Shows each whole message, which is behind its length (RFC 1035 §4.2.2); how much that was.
fn frames(bytes: &[u8], each: &mut impl FnMut(&[u8])) -> usize {
    let mut at = 0;
    while let Some(&[high, low]) = bytes.get(at..at + 2).and_then(|len| len.first_chunk()) {
        let end = at + 2 + usize::from(u16::from_be_bytes([high, low]));
        let Some(message) = bytes.get(at + 2..end) else { break };
        each(message);
        at = end;
    }
    at
}

impl Transport for Tcp {
    fn takes(&self, channel: usize) -> usize {
        let connection = &self.connections[channel];
        let has_room = connection.is_open && connection.out.len() < STREAM_BUFFER / 2;
        if has_room { usize::try_from(connection.left).unwrap_or(usize::MAX) } else { 0 }
    }

    fn send(&mut self, batch: &Batch) -> Sent {
        let connection = &mut self.connections[batch.channel];
        if !connection.is_open {
            return Sent::default();
        }
        let waiting = (batch.ends.len() - batch.done) as u64;
        let taken = waiting.min(connection.left) as usize;
        for index in batch.done..batch.done + taken {
            let query = batch.query(index);
            connection.out.extend_from_slice(&(query.len() as u16).to_be_bytes());
            connection.out.extend_from_slice(query);
        }
        connection.left -= taken as u64;
        if connection.left == 0 {
            self.spent.push_back(batch.channel);
        }
        // The next read of the connection reports a failure too, and handles it.
        let flushed = connection.flush();
        if flushed && !connection.out.is_empty() {
            let _ = self.watched.change(&connection.fd, batch.channel, true);
        }
        Sent { taken, refused: false }
    }

    fn receive(&mut self, clock: &Clock, each: &mut impl FnMut(usize, u64, &[u8])) -> usize {
        if !self.broken.is_empty() {
            self.retry(clock.now());
        }
        self.ready.clear();
        let events = self.watched.look().iter();
        self.ready.extend(events.map(|event| (event.data.u64() as usize, event.flags)));
        let mut count = 0;
        for index in 0..self.ready.len() {
            let (channel, flags) = self.ready[index];
            let reads = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
            let goes_on = (!flags.contains(EventFlags::OUT) || self.go_on(channel))
                && (!reads || self.read(channel, clock, &mut count, each));
            if !goes_on {
                self.reopen(channel, clock.now());
            }
        }
        count
    }

    fn wait(&mut self, length_ns: u64) {
        let most = if self.broken.is_empty() { length_ns } else { length_ns.min(RETRY_NS) };
        self.watched.wait(most);
    }

    fn renew(&mut self, channel: usize) -> io::Result<()> {
        let connection = self.channels.connection(self.each)?;
        self.watched.add(&connection.fd, channel, true)?;
        self.connections[channel] = connection;
        self.broken.retain(|(_, broken)| *broken != channel);
        Ok(())
    }

    fn spent(&mut self) -> Option<usize> {
        self.spent.pop_front()
    }

    fn closed(&mut self) -> Option<usize> {
        self.closed.pop_front()
    }

    fn connections(&self) -> u64 {
        self.opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener};
    use std::time::{Duration, Instant};

    /// A channel's answer wakes the thread even if it waits for another channel.
    #[test]
    fn a_connection_that_is_refused_delays_no_others_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let channels = ChannelOptions { server, sources: Vec::new(), next: 0, buffer: 1 << 16 };
        let mut tcp = Tcp::new(channels, 2, None).unwrap();
        let mut streams = [listener.accept().unwrap().0, listener.accept().unwrap().0];
        drop(listener);
        streams.sort_by_key(|stream| stream.peer_addr().unwrap().port());
        let ports: Vec<u16> = tcp.connections.iter().map(|one| port(&one.fd)).collect();
        let [mut first, mut second] = streams;
        if ports[0] > ports[1] {
            std::mem::swap(&mut first, &mut second);
        }
        let clock = Clock::ahead(0);
        drop(second);
        while tcp.broken.is_empty() {
            tcp.wait(RETRY_NS);
            tcp.receive(&clock, &mut |_, _, _| {});
        }
        let began = Instant::now();
        (0..5).for_each(|_| tcp.wait(RETRY_NS));
        assert!(began.elapsed() > Duration::from_millis(20), "it waits while nothing comes");
        first.write_all(&[0, 1, 9]).unwrap();
        let began = Instant::now();
        (0..50).for_each(|_| tcp.wait(RETRY_NS));
        assert!(began.elapsed() < Duration::from_millis(250), "it does not beside an answer");
        let mut came = Vec::new();
        while came.is_empty() {
            tcp.receive(&clock, &mut |channel, _, message| came.push((channel, message.to_vec())));
        }
        assert_eq!(came, [(0, vec![9])]);
    }

    fn port(fd: &OwnedFd) -> u16 {
        SocketAddr::try_from(rustix::net::getsockname(fd).unwrap()).unwrap().port()
    }

    #[test]
    fn messages_are_cut_out_of_a_stream() {
        let stream = [0, 3, 1, 2, 3, 0, 0, 0, 1, 9, 0, 2, 7];
        for end in 0..=stream.len() {
            let mut seen = Vec::new();
            let used = frames(&stream[..end], &mut |message| seen.push(message.to_vec()));
            let whole: &[&[u8]] = match end {
                ..5 => &[],
                5..7 => &[&[1, 2, 3]],
                7..10 => &[&[1, 2, 3], &[]],
                _ => &[&[1, 2, 3], &[], &[9]],
            };
            assert_eq!(seen, whole, "{end}");
            assert_eq!(used, [0, 5, 7, 10][whole.len()]);
        }
    }
}

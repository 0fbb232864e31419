//! *How*: the transports of queries and answers. A transport has channels, each with its own socket
//! or connection; a further one is another implementation of [`Transport`].

mod dpdk;
mod post;
mod tcp;
mod udp;
mod uring;
mod xdp;

use crate::clock::Clock;
use crate::limits::{BATCH_MAX, QUERY_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

pub(crate) use dpdk::{Dpdk, OpenOnce};
pub(crate) use tcp::Tcp;
pub(crate) use udp::Udp;
pub(crate) use uring::Uring;
pub(crate) use xdp::{AttachOnce, Xdp};

/// Queries that leave together on one channel.
#[derive(Debug)]
pub(crate) struct Batch {
    pub bytes: Vec<u8>,
    /// Where each ends.
    pub ends: Vec<u32>,
    /// The place of each in the table.
    pub places: Vec<u32>,
    /// How many have left, or never will.
    pub done: usize,
    pub channel: usize,
}

impl Batch {
    pub fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(BATCH_MAX * QUERY_MAX),
            ends: Vec::with_capacity(BATCH_MAX),
            places: Vec::with_capacity(BATCH_MAX),
            done: 0,
            channel: 0,
        }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.places.clear();
        self.done = 0;
    }

    /// Closes the query that was written last.
    pub fn end(&mut self, place: u32, id: u16) {
        let begin = self.begin(self.ends.len());
        self.bytes[begin..begin + 2].copy_from_slice(&id.to_be_bytes());
        self.ends.push(self.bytes.len() as u32);
        self.places.push(place);
    }

    /// Whether none waits to leave.
    pub fn is_empty(&self) -> bool {
        self.done == self.ends.len()
    }

    fn begin(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.ends[index - 1] as usize }
    }

    /// Bytes of a query.
    pub fn query(&self, index: usize) -> &[u8] {
        &self.bytes[self.begin(index)..self.ends[index] as usize]
    }
}

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// So many more were taken, from the first that waited on.
    pub taken: usize,
    /// The next one was refused for good. Else, if any waits, there is no room just now.
    pub refused: bool,
}

/// A way to a server.
pub(crate) trait Transport {
    /// How many more queries a channel takes now.
    fn takes(&self, channel: usize) -> usize;

    /// Sends what waits in `batch`.
    fn send(&mut self, batch: &Batch) -> Sent;

    /// Whether a query of the last batch was not sent although later ones were.
    fn was_refused(&self, _index: usize) -> bool {
        false
    }

    /// Shows each received message with its channel and the time it was read. Returns their number.
    fn receive(&mut self, clock: &Clock, each: &mut impl FnMut(usize, u64, &[u8])) -> usize;

    /// Waits until something has come, but no longer than this.
    fn wait(&mut self, length_ns: u64);

    /// Makes a channel another one: a new socket, or a new connection.
    ///
    /// # Errors
    /// No new one is available; the channel stays.
    fn renew(&mut self, channel: usize) -> io::Result<()>;

    /// A channel that must be renewed once it has no query under way.
    fn spent(&mut self) -> Option<usize> {
        None
    }

    /// A channel whose connection the server has closed; it has a new one already.
    fn closed(&mut self) -> Option<usize> {
        None
    }

    /// Connections that were opened.
    fn connections(&self) -> u64 {
        0
    }

    /// Why it can no longer send or receive: the load ends with this error.
    fn failure(&self) -> Option<&io::Error> {
        None
    }

    /// Frames that came and that the way had no room for; the kernel counts those of sockets.
    fn dropped(&self) -> u64 {
        0
    }

    /// Answers that came through the network stack, though queries went past it.
    fn detoured(&self) -> u64 {
        0
    }
}

/// How channels are made.
#[derive(Clone, Debug)]
pub(crate) struct ChannelOptions {
    pub server: SocketAddr,
    /// Source addresses, used in turn; none: the kernel chooses.
    pub sources: Vec<SocketAddr>,
    /// Which of them was used last.
    pub next: usize,
    /// Bytes of a socket's buffers.
    pub buffer: usize,
}

impl ChannelOptions {
    /// A socket that is bound to the next source, and non-blocking.
    fn socket(&mut self, kind: SocketType) -> io::Result<OwnedFd> {
        let family = if self.server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, kind, flags, None)?;
        // Beyond the system's limit takes a privilege; up to it, none.
        if sockopt::set_socket_recv_buffer_size_force(&fd, self.buffer / 2).is_err() {
            sockopt::set_socket_recv_buffer_size(&fd, self.buffer / 2)?;
        }
        sockopt::set_socket_send_buffer_size(&fd, self.buffer / 2)?;
        if !self.sources.is_empty() {
            let mut source = self.sources[self.next % self.sources.len()];
            // The port of the old socket is still in use.
            if self.next >= self.sources.len() {
                source.set_port(0);
            }
            self.next += 1;
            rustix::net::bind(&fd, &source).map_err(|error| {
                // A port that the kernel was to choose is not worth a word.
                let ip = source.ip();
                let from = if source.port() == 0 { ip.to_string() } else { source.to_string() };
                let error = io::Error::from(error);
                let told = match error.kind() {
                    io::ErrorKind::AddrNotAvailable => format!(
                        "cannot send queries from {ip}: it is not an address of this host (ip \
                         route add local \
                         PREFIX dev lo makes a whole prefix be, one of IPv6 with sysctl \
                         net.ipv6.ip_nonlocal_bind=1)"
                    ),
                    _ => format!("cannot send queries from {from}: {error}"),
                };
                io::Error::new(error.kind(), told)
            })?;
        }
        Ok(fd)
    }

    /// A UDP socket that receives from the server only.
    fn datagrams(&mut self) -> io::Result<OwnedFd> {
        let fd = self.socket(SocketType::DGRAM)?;
        rustix::net::connect(&fd, &self.server)?;
        Ok(fd)
    }
}

/// Sockets, and which of them have something.
pub(crate) struct Watched {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Watched {
    fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(BATCH_MAX) })
    }

    fn add(&self, fd: &OwnedFd, channel: usize, writes: bool) -> io::Result<()> {
        let data = epoll::EventData::new_u64(channel as u64);
        Ok(epoll::add(&self.epoll, fd, data, flags(writes))?)
    }

    fn change(&self, fd: &OwnedFd, channel: usize, writes: bool) -> io::Result<()> {
        let data = epoll::EventData::new_u64(channel as u64);
        Ok(epoll::modify(&self.epoll, fd, data, flags(writes))?)
    }

    fn remove(&self, fd: &OwnedFd) {
        // A socket that is not watched need not be removed.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Ready channels and their events.
    fn look(&mut self) -> &[epoll::Event] {
        self.events.clear();
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let room = rustix::buffer::spare_capacity(&mut self.events);
        // Only a signal can make it fail: the next turn calls it again.
        let _ = epoll::wait(&self.epoll, room, Some(&none));
        &self.events
    }

    fn wait(&self, length_ns: u64) {
        wait_for(&mut [PollFd::new(&self.epoll, PollFlags::IN)], length_ns);
    }
}

fn flags(writes: bool) -> epoll::EventFlags {
    match writes {
        true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        false => epoll::EventFlags::IN,
    }
}

/// Waits until one of these is readable, with the precision of the kernel's timers.
fn wait_for(fds: &mut [PollFd<'_>], length_ns: u64) {
    let time = Timespec {
        tv_sec: (length_ns / 1_000_000_000) as i64,
        tv_nsec: (length_ns % 1_000_000_000) as _,
    };
    // A signal ends it early, which does no harm.
    let _ = poll(fds, Some(&time));
}

/// Whether an error on a socket is about a datagram that was sent before, or about memory: the
/// socket continues.
fn is_passing(error: &io::Error) -> bool {
    const PASSING: [i32; 7] = [
        libc::EINTR,
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::EHOSTDOWN,
        libc::ENETDOWN,
        libc::EPROTO,
    ];
    error.raw_os_error().is_some_and(|code| PASSING.contains(&code))
}

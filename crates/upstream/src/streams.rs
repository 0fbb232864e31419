//! Questions whose answers are too long for a datagram, each by a TCP connection of its own.
use crate::limits::STREAMS_MAX;
use forward::Ticket;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What epoll tells of a stream: its place, and this.
pub(crate) const STREAM: u64 = 1 << 32;

/// A connection to a server, with one question on it.
#[derive(Debug)]
pub(crate) struct Stream {
    stream: TcpStream,
    pub(crate) ticket: Ticket,
    pub(crate) server: u16,
    pub(crate) id: u16,
    /// Length and question, and how much of it was sent.
    question: Vec<u8>,
    sent: usize,
    /// Length and reply, as far as they came.
    reply: Vec<u8>,
    until: Duration,
}

/// What a turn of a stream brought.
pub(crate) enum Turn {
    /// It is not done.
    Waits,
    /// The whole reply.
    Reply(Box<Stream>),
    /// There will be none.
    Failure(Box<Stream>),
}

/// The streams of a thread.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    places: Vec<Option<Box<Stream>>>,
    len: usize,
}

impl Stream {
    /// The reply without its length, once it is whole.
    pub(crate) fn message(&self) -> &[u8] {
        self.reply.get(2..).unwrap_or_default()
    }

    /// Whether the whole reply is there.
    fn turn(&mut self) -> io::Result<bool> {
        while self.sent < self.question.len() {
            self.sent += self.stream.write(&self.question[self.sent..])?;
        }
        loop {
            let len = self.reply.first_chunk().map_or(0, |len| u16::from_be_bytes(*len));
            let whole = 2 + usize::from(len);
            let have = self.reply.len();
            if have >= 2 && have == whole {
                return Ok(true);
            }
            self.reply.resize(whole, 0);
            let read = self.stream.read(&mut self.reply[have..]);
            self.reply.truncate(have + read.as_ref().map_or(0, |read| *read));
            if read? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Streams {
    /// Begins to ask a server. The question is behind its length.
    ///
    /// # Errors
    /// There are too many, or the system has no socket left.
    pub(crate) fn open(
        &mut self,
        epoll: BorrowedFd<'_>,
        address: SocketAddr,
        (ticket, server, id): (Ticket, u16, u16),
        question: Vec<u8>,
        until: Duration,
    ) -> io::Result<()> {
        let free = self.places.iter().position(Option::is_none);
        let place = free.unwrap_or(self.places.len());
        if place == STREAMS_MAX {
            return Err(ErrorKind::QuotaExceeded.into());
        }
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&fd, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        epoll::add(epoll, &fd, EventData::new_u64(STREAM | place as u64), flags)?;
        let (stream, reply) = (TcpStream::from(fd), Vec::new());
        let stream = Stream { stream, ticket, server, id, question, sent: 0, reply, until };
        if place == self.places.len() {
            self.places.push(None);
        }
        self.places[place] = Some(Box::new(stream));
        self.len += 1;
        Ok(())
    }

    /// Sends and receives what can be.
    pub(crate) fn turn(&mut self, place: usize) -> Turn {
        let Some(stream) = self.places.get_mut(place).and_then(Option::as_mut) else {
            return Turn::Waits;
        };
        let turn = stream.turn();
        let is_passing = |error: &io::Error| {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
        };
        match turn {
            Ok(false) => Turn::Waits,
            Err(error) if is_passing(&error) => Turn::Waits,
            Ok(true) => self.remove(place).map_or(Turn::Waits, Turn::Reply),
            Err(_) => self.remove(place).map_or(Turn::Waits, Turn::Failure),
        }
    }

    /// Closes those whose time is over; what waits for them is told by time as well.
    pub(crate) fn close_late(&mut self, now: Duration) {
        if self.len == 0 {
            return;
        }
        for place in 0..self.places.len() {
            if self.places[place].as_ref().is_some_and(|stream| stream.until <= now) {
                self.remove(place);
            }
        }
    }

    fn remove(&mut self, place: usize) -> Option<Box<Stream>> {
        let stream = self.places[place].take();
        self.len -= usize::from(stream.is_some());
        stream
    }
}

//! One connection: messages behind their lengths, answered in order (RFC 7766 §8, RFC 1035 §4.2.2).

use super::Handed;
use super::desk::{self, Clerk, Desk, Done, first_message};
use super::ending::Ending;
use super::shares::Client;
use crate::limits::{INBOX_MAX, OWED_PER_CONNECTION_MAX};
use crate::{App, clock};
use packet::proxy::{self, Header};
use packet::{Drop, Verdict};
use port::Burst;
use rustix::net::sockopt;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// That the client asks.
    Idle,
    /// The rest of a query, or of a proxy's header.
    Asking,
    /// That the client reads its replies; more queries may be there already.
    Replying,
    /// Replies that were put off; it may ask more.
    Owed,
    /// The same, and asks no more before it has some: because it has shut its side, or has asked
    /// as much as it may.
    OwedMuch,
}

/// A client's connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    client: SocketAddr,
    header_due: bool,
    /// What was read and not answered yet. At most [`INBOX_MAX`].
    inbox: Vec<u8>,
    outbox: Option<Outbox>,
    /// Replies that were put off.
    owed: usize,
    /// Whether the client asks no more, and waits for what it is owed (RFC 7766 §6.2.4).
    is_shut: bool,
    /// When the last query was answered, or the one that is unfinished was begun.
    since: Duration,
}

/// Replies that the kernel had no room for.
#[derive(Debug)]
struct Outbox {
    octets: Vec<u8>,
    sent: usize,
    /// Whose replies they are, but for those that were put off, which are counted already.
    burst: Burst,
    /// When the queries were read.
    read: Duration,
}

impl Connection {
    /// A connection that somebody accepted, or served before.
    pub fn new(handed: Handed, now: Duration) -> io::Result<Self> {
        let Handed { stream, peer, client, header_due, inbox } = handed;
        let stream = TcpStream::from(stream);
        stream.set_nonblocking(true)?;
        // Replies are written whole, so there is nothing to wait for.
        stream.set_nodelay(true)?;
        let (outbox, owed, is_shut) = (None, 0, false);
        Ok(Self { stream, peer, client, header_due, inbox, outbox, owed, is_shut, since: now })
    }

    /// What it waits for.
    pub fn state(&self) -> State {
        if self.outbox.is_some() {
            State::Replying
        } else if self.owed == OWED_PER_CONNECTION_MAX || self.is_shut {
            State::OwedMuch
        } else if self.has_message() {
            State::Replying
        } else if self.owed > 0 {
            State::Owed
        } else if self.header_due || !self.inbox.is_empty() {
            State::Asking
        } else {
            State::Idle
        }
    }

    /// Since when it waits for that.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Whom it is counted for.
    pub fn client(&self) -> Client {
        match self.header_due {
            true => Client::Proxy(self.peer.ip()),
            false => Client::at(self.client.ip()),
        }
    }

    /// Octets of its buffers.
    pub fn held(&self) -> usize {
        self.inbox.capacity() + self.outbox.as_ref().map_or(0, |outbox| outbox.octets.capacity())
    }

    /// Whether all replies are with the kernel, so that somebody else could go on.
    pub fn is_at_boundary(&self) -> bool {
        self.outbox.is_none() && self.owed == 0
    }

    fn has_message(&self) -> bool {
        !self.header_due && first_message(&self.inbox).is_some()
    }

    /// Sends what is left, then answers what has come: one read or less, and one burst of replies,
    /// so that all connections get their turns.
    pub fn turn<A: App>(&mut self, id: u64, desk: &mut Desk<A>) -> Result<(), Ending> {
        if !self.send(&mut desk.clerk)? {
            return Ok(());
        }
        if self.state() == State::OwedMuch {
            // Nothing is watched then, so the kernel tells of its end alone, and for as long as it
            // is there.
            let error = self.stream.take_error();
            return error.ok().filter(Option::is_none).map(|_| ()).ok_or(Ending::Error);
        }
        let Desk { read, clerk } = desk;
        if !self.has_message() {
            let len = match self.stream.read(read) {
                Ok(0) if self.owed > 0 => {
                    self.is_shut = true;
                    return Ok(());
                }
                Ok(0) => return Err(Ending::ByClient),
                Ok(len) => len,
                Err(error) if is_passing(&error) => return Ok(()),
                Err(_) => return Err(Ending::Error),
            };
            if self.inbox.is_empty() {
                if !self.header_due {
                    self.since = clock::now();
                }
                let used = self.answer(id, &read[..len], clerk)?;
                append(&mut self.inbox, &read[used..len]);
                return Ok(());
            }
            append(&mut self.inbox, &read[..len]);
        }
        let inbox = mem::take(&mut self.inbox);
        let used = self.answer(id, &inbox, clerk)?;
        // Only what is left is kept, in a buffer that is no larger.
        self.inbox = if used == 0 { inbox } else { inbox[used..].to_vec() };
        Ok(())
    }

    /// Sends what is left of earlier replies, and returns whether nothing is.
    pub fn send<A: App>(&mut self, clerk: &mut Clerk<A>) -> Result<bool, Ending> {
        let Some(outbox) = &mut self.outbox else {
            return Ok(true);
        };
        outbox.sent += write(&mut self.stream, &outbox.octets[outbox.sent..])?;
        if outbox.sent < outbox.octets.len() {
            return Ok(false);
        }
        if outbox.burst.received > 0 {
            clerk.count(&outbox.burst, outbox.read);
        }
        self.outbox = None;
        self.since = clock::now();
        if self.is_shut && self.owed == 0 { Err(Ending::ByClient) } else { Ok(true) }
    }

    /// Answers whole messages, and returns how many of `octets` were used.
    fn answer<A: App>(
        &mut self,
        id: u64,
        octets: &[u8],
        clerk: &mut Clerk<A>,
    ) -> Result<usize, Ending> {
        let now = clock::now();
        let header = self.read_header(octets)?;
        if self.header_due {
            return Ok(0);
        }
        let from = desk::From { id, peer: self.peer, client: self.client, owed: self.owed };
        let (used, Done { burst, owed }) = clerk.answer(&octets[header..], &from, now);
        self.owed += owed;
        if header + used > 0 {
            self.since = now;
        }
        if burst.received > 0 {
            self.reply(burst, now, clerk)?;
        }
        Ok(header + used)
    }

    /// Reads the header that is due, and returns how long it is.
    fn read_header(&mut self, octets: &[u8]) -> Result<usize, Ending> {
        if !self.header_due {
            return Ok(0);
        }
        match proxy::parse(octets).map_err(|_| Ending::ProxyHeader)? {
            Header::Partial => Ok(0),
            Header::Whole { len, client } => {
                self.client = client.unwrap_or(self.peer);
                self.header_due = false;
                Ok(len)
            }
        }
    }

    /// Sends the clerk's replies, and keeps what the kernel has no room for.
    fn reply<A: App>(
        &mut self,
        mut burst: Burst,
        read: Duration,
        clerk: &mut Clerk<A>,
    ) -> Result<(), Ending> {
        match write(&mut self.stream, &clerk.replies) {
            Ok(sent) if sent == clerk.replies.len() => clerk.count(&burst, read),
            Ok(sent) => {
                let octets = clerk.replies[sent..].to_vec();
                self.outbox = Some(Outbox { octets, sent: 0, burst, read });
            }
            Err(ending) => {
                lose(&mut burst);
                clerk.count(&burst, read);
                return Err(ending);
            }
        }
        Ok(())
    }

    /// Takes a reply that was put off, or what became of it, of a query that came so long ago.
    pub fn take_late<A: App>(
        &mut self,
        message: &[u8],
        verdict: Verdict,
        took: Duration,
        clerk: &mut Clerk<A>,
    ) -> Result<(), Ending> {
        self.owed = self.owed.saturating_sub(1);
        self.since = clock::now();
        let (mut burst, mut sent) = (Burst::default(), Ok(()));
        match verdict {
            Verdict::Drop(reason) => burst.drop(reason),
            _ => {
                clerk.replies.clear();
                desk::append(&mut clerk.replies, message);
                sent = self.send_late(clerk);
                match sent {
                    Ok(()) => burst.replied = 1,
                    Err(_) => burst.drop(Drop::Unsent),
                }
            }
        }
        clerk.count_late(&burst, took);
        sent?;
        if self.is_shut && self.is_at_boundary() { Err(Ending::ByClient) } else { Ok(()) }
    }

    /// Sends the clerk's replies behind those that are left, and keeps what the kernel has no room
    /// for.
    fn send_late<A: App>(&mut self, clerk: &mut Clerk<A>) -> Result<(), Ending> {
        if let Some(outbox) = &mut self.outbox {
            outbox.octets.extend_from_slice(&clerk.replies);
            return Ok(());
        }
        let sent = write(&mut self.stream, &clerk.replies)?;
        if sent < clerk.replies.len() {
            let octets = clerk.replies[sent..].to_vec();
            let (burst, read) = (Burst::default(), self.since);
            self.outbox = Some(Outbox { octets, sent: 0, burst, read });
        }
        Ok(())
    }

    /// Ends it. Replies that were not taken are lost, and counted; the kernel is not to keep them
    /// either.
    pub fn end<A: App>(self, clerk: &mut Clerk<A>) {
        if let Some(mut outbox) = self.outbox {
            if outbox.burst.received > 0 {
                lose(&mut outbox.burst);
                clerk.count(&outbox.burst, outbox.read);
            }
            // If it is refused, the kernel goes on trying for a while.
            let _ = sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
        }
    }

    /// Gives it away, at a boundary.
    pub fn hand_over(self) -> Handed {
        let Self { stream, peer, client, header_due, inbox, .. } = self;
        Handed { stream: stream.into(), peer, client, header_due, inbox }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The replies of a burst were not sent.
fn lose(burst: &mut Burst) {
    burst.dropped[Drop::Unsent as usize] += burst.replied;
    burst.replied = 0;
}

/// Writes as much as the kernel has room for.
fn write(stream: &mut TcpStream, octets: &[u8]) -> Result<usize, Ending> {
    if octets.is_empty() {
        return Ok(0);
    }
    match stream.write(octets) {
        Ok(sent) => Ok(sent),
        Err(error) if is_passing(&error) => Ok(0),
        Err(_) => Err(Ending::Error),
    }
}

/// Whether it is only to be tried again later.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Appends to an inbox: it grows by doubling, so that octets that trickle in are not copied again
/// and again, and never beyond [`INBOX_MAX`].
fn append(inbox: &mut Vec<u8>, octets: &[u8]) {
    let len = inbox.len() + octets.len();
    if len > inbox.capacity() {
        let capacity = len.max(INBOX_MAX.min(2 * inbox.capacity()));
        inbox.reserve_exact(capacity - inbox.len());
    }
    inbox.extend_from_slice(octets);
}

//! One connection: messages behind their lengths, answered in order (RFC 7766 §8, RFC 1035 §4.2.2).

use super::HandedConnection;
use super::client_shares::ClientIdentity;
use super::ending::Ending;
use super::responder::{self, MessageCounts, StreamBuffers, StreamResponder, first_message};
use crate::limits::{DEFERRED_PER_CONNECTION_MAX, INBOX_MAX};
use crate::{App, clock};
use packet::proxy::{self, ProxyHeader};
use packet::{DropReason, Verdict};
use port::Burst;
use rustix::net::sockopt;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// A query.
    Idle,
    /// The rest of a query, or of a proxy's header.
    Asking,
    /// The client must read replies; more queries may have arrived.
    Replying,
    /// Deferred replies, or a query.
    Deferred,
    /// Deferred replies only: the client has shut its side, or has too many queries deferred.
    DeferredOnly,
}

/// A client's connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    client: SocketAddr,
    header_due: bool,
    /// Bytes read and not answered yet, at most [`INBOX_MAX`].
    inbox: Vec<u8>,
    unsent: Option<UnsentReplies>,
    /// Deferred replies.
    deferred: usize,
    /// Whether the client has shut its side, and waits for deferred replies (RFC 7766 §6.2.4).
    is_shut: bool,
    /// Whether the next message is for the control plane, with the connection.
    is_passed_on: bool,
    /// When the last query was answered, or the incomplete one began.
    since: Duration,
}

/// Replies that the kernel had no room for.
#[derive(Debug)]
struct UnsentReplies {
    bytes: Vec<u8>,
    sent: usize,
    /// Their counts, without deferred replies, which are counted already.
    burst: Burst,
    /// When the queries were read.
    read: Duration,
}

impl Connection {
    /// A connection that was accepted, or handed over.
    pub fn new(handed: HandedConnection, now: Duration) -> io::Result<Self> {
        let HandedConnection { stream, peer, client, header_due, inbox } = handed;
        let stream = TcpStream::from(stream);
        stream.set_nonblocking(true)?;
        // Replies are written whole, so there is nothing to wait for.
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            peer,
            client,
            header_due,
            inbox,
            unsent: None,
            deferred: 0,
            is_shut: false,
            is_passed_on: false,
            since: now,
        })
    }

    /// Its state.
    pub fn state(&self) -> ConnectionState {
        if self.unsent.is_some() {
            ConnectionState::Replying
        } else if self.deferred == DEFERRED_PER_CONNECTION_MAX || self.is_shut || self.is_passed_on
        {
            ConnectionState::DeferredOnly
        } else if self.has_message() {
            ConnectionState::Replying
        } else if self.deferred > 0 {
            ConnectionState::Deferred
        } else if self.header_due || !self.inbox.is_empty() {
            ConnectionState::Asking
        } else {
            ConnectionState::Idle
        }
    }

    /// When its state began.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// The client that it counts for.
    pub fn client(&self) -> ClientIdentity {
        match self.header_due {
            true => ClientIdentity::Proxy(self.peer.ip()),
            false => ClientIdentity::at(self.client.ip()),
        }
    }

    /// Bytes of its buffers.
    pub fn held(&self) -> usize {
        self.inbox.capacity() + self.unsent.as_ref().map_or(0, |unsent| unsent.bytes.capacity())
    }

    /// Whether the kernel has all replies, so that it can be handed over.
    pub fn is_at_boundary(&self) -> bool {
        self.unsent.is_none() && self.deferred == 0
    }

    /// Whether the control plane is to serve it from now on: all earlier replies are sent.
    pub fn is_passed_on(&self) -> bool {
        self.is_passed_on && self.is_at_boundary()
    }

    fn has_message(&self) -> bool {
        !self.header_due && first_message(&self.inbox).is_some()
    }

    /// Sends what is left, then answers what has arrived: at most one read and one burst of
    /// replies, so that all connections get their turns.
    pub fn turn<A: App>(&mut self, id: u64, buffers: &mut StreamBuffers<A>) -> Result<(), Ending> {
        if !self.send(&mut buffers.responder)? {
            return Ok(());
        }
        if self.state() == ConnectionState::DeferredOnly {
            // Nothing is watched in this state, so the kernel reports only the end, and keeps
            // reporting it.
            let error = self.stream.take_error();
            return error.ok().filter(Option::is_none).map(|_| ()).ok_or(Ending::Error);
        }
        let StreamBuffers { read, responder } = buffers;
        if !self.has_message() {
            let len = match self.stream.read(read) {
                Ok(0) if self.deferred > 0 => {
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
                let used = self.answer(id, &read[..len], responder)?;
                append(&mut self.inbox, &read[used..len]);
                return Ok(());
            }
            append(&mut self.inbox, &read[..len]);
        }
        let inbox = mem::take(&mut self.inbox);
        let used = self.answer(id, &inbox, responder)?;
        // Only the rest is kept, in a buffer that is no larger.
        self.inbox = if used == 0 { inbox } else { inbox[used..].to_vec() };
        Ok(())
    }

    /// Sends the rest of earlier replies; returns whether all is sent.
    pub fn send<A: App>(&mut self, responder: &mut StreamResponder<A>) -> Result<bool, Ending> {
        let Some(unsent) = &mut self.unsent else {
            return Ok(true);
        };
        unsent.sent += write(&mut self.stream, &unsent.bytes[unsent.sent..])?;
        if unsent.sent < unsent.bytes.len() {
            return Ok(false);
        }
        if unsent.burst.received > 0 {
            responder.count(&unsent.burst, unsent.read);
        }
        self.unsent = None;
        self.since = clock::now();
        if self.is_shut && self.deferred == 0 { Err(Ending::ByClient) } else { Ok(true) }
    }

    /// Answers whole messages; returns how many of `bytes` were used.
    fn answer<A: App>(
        &mut self,
        id: u64,
        bytes: &[u8],
        responder: &mut StreamResponder<A>,
    ) -> Result<usize, Ending> {
        let now = clock::now();
        let header = self.read_header(bytes)?;
        if self.header_due {
            return Ok(0);
        }
        let from = responder::MessageSource {
            id,
            peer: self.peer,
            client: self.client,
            deferred: self.deferred,
        };
        let (used, MessageCounts { burst, deferred, is_passed_on }) =
            responder.answer(&bytes[header..], &from, now);
        self.deferred += deferred;
        self.is_passed_on = is_passed_on;
        if header + used > 0 {
            self.since = now;
        }
        if burst.received > 0 {
            self.reply(burst, now, responder)?;
        }
        Ok(header + used)
    }

    /// Reads the proxy header that is due; returns its length.
    fn read_header(&mut self, bytes: &[u8]) -> Result<usize, Ending> {
        if !self.header_due {
            return Ok(0);
        }
        match proxy::parse(bytes).map_err(|_| Ending::ProxyHeader)? {
            ProxyHeader::Partial => Ok(0),
            ProxyHeader::Whole { len, client } => {
                self.client = client.unwrap_or(self.peer);
                self.header_due = false;
                Ok(len)
            }
        }
    }

    /// Sends the responder's replies, and keeps what the kernel has no room for.
    fn reply<A: App>(
        &mut self,
        mut burst: Burst,
        read: Duration,
        responder: &mut StreamResponder<A>,
    ) -> Result<(), Ending> {
        match write(&mut self.stream, &responder.replies) {
            Ok(sent) if sent == responder.replies.len() => responder.count(&burst, read),
            Ok(sent) => {
                let bytes = responder.replies[sent..].to_vec();
                self.unsent = Some(UnsentReplies { bytes, sent: 0, burst, read });
            }
            Err(ending) => {
                lose(&mut burst);
                responder.count(&burst, read);
                return Err(ending);
            }
        }
        Ok(())
    }

    /// Takes a deferred reply, or its drop reason, for a query received `took` ago.
    pub fn take_late<A: App>(
        &mut self,
        message: &[u8],
        verdict: Verdict,
        took: Duration,
        responder: &mut StreamResponder<A>,
    ) -> Result<(), Ending> {
        self.deferred = self.deferred.saturating_sub(1);
        self.since = clock::now();
        let (mut burst, mut sent) = (Burst::default(), Ok(()));
        match verdict {
            Verdict::Drop(reason) => burst.drop(reason),
            _ => {
                responder.replies.clear();
                responder::append(&mut responder.replies, message);
                sent = self.send_late(responder);
                match sent {
                    Ok(()) => burst.replied = 1,
                    Err(_) => burst.drop(DropReason::Unsent),
                }
            }
        }
        responder.count_late(&burst, took);
        sent?;
        if self.is_shut && self.is_at_boundary() { Err(Ending::ByClient) } else { Ok(()) }
    }

    /// Sends the responder's replies behind those that are left, and keeps what the kernel has no
    /// room for.
    fn send_late<A: App>(&mut self, responder: &mut StreamResponder<A>) -> Result<(), Ending> {
        if let Some(unsent) = &mut self.unsent {
            unsent.bytes.extend_from_slice(&responder.replies);
            return Ok(());
        }
        let sent = write(&mut self.stream, &responder.replies)?;
        if sent < responder.replies.len() {
            let bytes = responder.replies[sent..].to_vec();
            let (burst, read) = (Burst::default(), self.since);
            self.unsent = Some(UnsentReplies { bytes, sent: 0, burst, read });
        }
        Ok(())
    }

    /// Ends the connection. Replies that were not read are lost and counted, and the kernel drops
    /// them too.
    pub fn end<A: App>(self, responder: &mut StreamResponder<A>) {
        if let Some(mut unsent) = self.unsent {
            if unsent.burst.received > 0 {
                lose(&mut unsent.burst);
                responder.count(&unsent.burst, unsent.read);
            }
            // If that fails, the kernel tries to deliver them for a while.
            let _ = sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
        }
    }

    /// Gives the connection away, at a boundary.
    pub fn hand_over(self) -> HandedConnection {
        let Self { stream, peer, client, header_due, inbox, .. } = self;
        HandedConnection { stream: stream.into(), peer, client, header_due, inbox }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Counts the replies of a burst as not sent.
fn lose(burst: &mut Burst) {
    burst.dropped[DropReason::Unsent as usize] += burst.replied;
    burst.replied = 0;
}

/// Writes as much as the kernel has room for.
fn write(stream: &mut TcpStream, bytes: &[u8]) -> Result<usize, Ending> {
    if bytes.is_empty() {
        return Ok(0);
    }
    match stream.write(bytes) {
        Ok(sent) => Ok(sent),
        Err(error) if is_passing(&error) => Ok(0),
        Err(_) => Err(Ending::Error),
    }
}

/// Whether the operation can be retried later.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Appends to an inbox. It grows by doubling, so that slowly arriving bytes are not copied again
/// and again, up to [`INBOX_MAX`].
fn append(inbox: &mut Vec<u8>, bytes: &[u8]) {
    let len = inbox.len() + bytes.len();
    if len > inbox.capacity() {
        let capacity = len.max(INBOX_MAX.min(2 * inbox.capacity()));
        inbox.reserve_exact(capacity - inbox.len());
    }
    inbox.extend_from_slice(bytes);
}

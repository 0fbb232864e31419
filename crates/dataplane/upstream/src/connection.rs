//! A TCP or TLS connection to a server.
use crate::fault::TlsFault;
use crate::limits::{
    ABANDONED_MAX, INBOX_CHUNK, OPENING_MAX, OUTBOX_MAX, QUERIES_PER_CONNECTION_MAX, STALL_MAX,
    TURN_BYTES,
};
use crate::tls::TlsClient;
use rustix::event::epoll::EventFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct UpstreamConnection {
    stream: TcpStream,
    /// `None`: no TLS, or its state is elsewhere.
    cipher: Option<Box<ClientConnection>>,
    /// A number that no other socket ever has.
    pub(crate) number: u32,
    pub(crate) server: u16,
    pub(crate) stage: ConnectionStage,
    /// IDs of queries without a reply, all different (RFC 7766 §6.2.1).
    pub(crate) ids: Vec<u16>,
    /// IDs of abandoned queries, oldest first; and the number of still older ones.
    given_up: VecDeque<u16>,
    forgotten: u32,
    /// Queries sent on this connection, and answered ones.
    pub(crate) asked: u32,
    pub(crate) answered: u32,
    /// Queries to send, each behind its length.
    pending_sends: Vec<u8>,
    /// Received bytes that were not handled yet.
    pub(crate) inbox: Vec<u8>,
    /// When something was received last, or the connection was opened or used again.
    pub(crate) heard_at: Duration,
    /// When the first query was sent since something was received.
    unheard_since: Option<Duration>,
    /// How long it stays open without a query.
    pub(crate) idle_max: Duration,
    /// The events that epoll watches.
    pub(crate) watched: EventFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionStage {
    /// The TCP connection is being opened.
    Connects,
    /// The TLS handshake is under way.
    Shakes,
    Open,
    /// It gets no more queries.
    Retired,
}

/// The events of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionEvents {
    /// It has just opened.
    pub(crate) opened: bool,
    /// It has ended, for this reason.
    pub(crate) fault: Option<TlsFault>,
}

impl UpstreamConnection {
    /// Starts to open a connection.
    ///
    /// # Errors
    /// No socket is left, or there is no route.
    pub(crate) fn open(
        address: SocketAddr,
        (server, number): (u16, u32),
        idle_max: Duration,
        now: Duration,
    ) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        rustix::net::sockopt::set_tcp_nodelay(&fd, true)?;
        match rustix::net::connect(&fd, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self {
            stream: fd.into(),
            cipher: None,
            number,
            server,
            stage: ConnectionStage::Connects,
            ids: Vec::new(),
            given_up: VecDeque::new(),
            forgotten: 0,
            asked: 0,
            answered: 0,
            pending_sends: Vec::new(),
            inbox: Vec::new(),
            heard_at: now,
            unheard_since: None,
            idle_max,
            watched: EventFlags::IN | EventFlags::OUT,
        })
    }

    /// Whether there is room for one more query with this ID.
    pub(crate) fn has_room(&self, id: u16, len: usize) -> bool {
        self.stage != ConnectionStage::Retired
            && self.ids.len() < QUERIES_PER_CONNECTION_MAX
            && self.pending_sends.len() + 2 + len <= OUTBOX_MAX
            && !self.ids.contains(&id)
            && !self.given_up.contains(&id)
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, ConnectionStage::Open | ConnectionStage::Retired)
    }

    /// Adds a query, which the next [`flush`](Self::flush) sends if the connection is open.
    pub(crate) fn query(&mut self, id: u16, question: &[u8], now: Duration) {
        if self.ids.is_empty() {
            self.heard_at = now;
        }
        self.unheard_since.get_or_insert(now);
        self.asked += 1;
        self.ids.push(id);
        self.pending_sends.extend_from_slice(&(question.len() as u16).to_be_bytes());
        self.pending_sends.extend_from_slice(question);
    }

    /// Removes the ID of a reply; false if it is unknown.
    pub(crate) fn take_reply(&mut self, id: u16) -> bool {
        let at = |other: &u16| *other == id;
        if let Some(at) = self.ids.iter().position(at) {
            self.ids.swap_remove(at);
        } else if let Some(at) = self.given_up.iter().position(at) {
            self.given_up.remove(at);
        } else if self.forgotten > 0 {
            self.forgotten -= 1;
        } else {
            return false;
        }
        self.answered += 1;
        true
    }

    /// Abandons a query, which makes room for another one.
    pub(crate) fn give_up(&mut self, id: u16) {
        let Some(at) = self.ids.iter().position(|other| *other == id) else { return };
        self.ids.swap_remove(at);
        if self.given_up.len() == ABANDONED_MAX {
            self.given_up.pop_front();
            self.forgotten = self.forgotten.saturating_add(1);
        }
        self.given_up.push_back(id);
    }

    /// Sends and receives as much as possible.
    pub(crate) fn turn(
        &mut self,
        tls: Option<(&TlsClient, &ServerName<'static>)>,
        now: Duration,
    ) -> ConnectionEvents {
        let before = self.inbox.len();
        let was_open = self.is_open();
        let fault = self.try_turn(tls).err();
        if self.inbox.len() > before {
            (self.heard_at, self.unheard_since) = (now, None);
        }
        let opened = !was_open && self.is_open();
        if opened {
            // Queries that were added meanwhile are sent now.
            self.unheard_since = self.unheard_since.map(|_| now);
        }
        ConnectionEvents { opened, fault }
    }

    fn try_turn(
        &mut self,
        tls: Option<(&TlsClient, &ServerName<'static>)>,
    ) -> Result<(), TlsFault> {
        if self.stage == ConnectionStage::Connects {
            if let Some(error) = self.stream.take_error().ok().flatten() {
                return Err((&error).into());
            }
            if self.stream.peer_addr().is_err() {
                return Ok(());
            }
            self.stage = match tls {
                None => ConnectionStage::Open,
                Some((tls, name)) => {
                    let mut cipher = tls.begin(name).map_err(|error| TlsFault::from(&error))?;
                    cipher.set_buffer_limit(Some(OUTBOX_MAX));
                    self.cipher = Some(Box::new(cipher));
                    ConnectionStage::Shakes
                }
            };
            return self.flush();
        }
        let received = self.receive();
        if self.stage == ConnectionStage::Shakes
            && self.cipher.as_ref().is_some_and(|c| !c.is_handshaking())
        {
            self.stage = ConnectionStage::Open;
        }
        // Messages received before the end count, and an alert is sent.
        let sent = self.flush();
        received.and(sent)
    }

    /// Sends as much as the system accepts.
    pub(crate) fn flush(&mut self) -> Result<(), TlsFault> {
        match self.try_flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err((&error).into()),
            _ => Ok(()),
        }
    }

    fn try_flush(&mut self) -> io::Result<()> {
        let Self { stream, cipher, pending_sends, stage, .. } = self;
        if *stage == ConnectionStage::Connects {
            return Ok(());
        }
        let is_open = *stage != ConnectionStage::Shakes;
        match cipher {
            None => {
                while !pending_sends.is_empty() {
                    let sent = stream.write(pending_sends)?;
                    pending_sends.drain(..sent);
                }
            }
            Some(cipher) => loop {
                if is_open && !pending_sends.is_empty() {
                    let taken = cipher.writer().write(pending_sends)?;
                    pending_sends.drain(..taken);
                }
                if !cipher.wants_write() {
                    break;
                }
                cipher.write_tls(stream)?;
            },
        }
        if pending_sends.is_empty() {
            // Frees memory after a burst.
            pending_sends.shrink_to(INBOX_CHUNK);
        }
        Ok(())
    }

    /// Receives up to one turn's share.
    fn receive(&mut self) -> Result<(), TlsFault> {
        let enough = self.inbox.len() + TURN_BYTES;
        while self.inbox.len() < enough {
            let Self { stream, cipher, inbox, .. } = self;
            let read = match cipher {
                None => read_chunk(stream, inbox),
                Some(cipher) => decipher(cipher, stream, inbox)?,
            };
            match read {
                // epoll reports the rest.
                Ok(len) if len < INBOX_CHUNK => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err((&error).into()),
            }
        }
        Ok(())
    }

    /// The events that epoll should watch.
    pub(crate) fn to_watch(&self) -> EventFlags {
        let waits = match &self.cipher {
            _ if self.stage == ConnectionStage::Connects => true,
            Some(cipher) => {
                cipher.wants_write() || self.is_open() && !self.pending_sends.is_empty()
            }
            None => !self.pending_sends.is_empty(),
        };
        if waits { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
    }

    /// When it times out if nothing happens.
    pub(crate) fn ends_at(&self) -> Duration {
        match (self.stage, self.unheard_since) {
            (ConnectionStage::Connects | ConnectionStage::Shakes, _) => self.heard_at + OPENING_MAX,
            (_, Some(since)) => since + STALL_MAX,
            (ConnectionStage::Retired, None) if self.ids.is_empty() => self.heard_at,
            (ConnectionStage::Retired, None) => self.heard_at + STALL_MAX,
            (ConnectionStage::Open, None) => self.heard_at + self.idle_max,
        }
    }

    /// Whether no reply is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_open() && self.ids.is_empty() && self.unheard_since.is_none()
    }

    /// Sends close_notify (RFC 8446 §6.1) without waiting.
    pub(crate) fn close(mut self) {
        if let Some(cipher) = &mut self.cipher {
            cipher.send_close_notify();
            let _ = self.try_flush();
        }
    }
}

impl AsFd for UpstreamConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Reads a chunk; returns its length.
fn read_chunk(stream: &mut impl Read, inbox: &mut Vec<u8>) -> io::Result<usize> {
    let have = inbox.len();
    inbox.resize(have + INBOX_CHUNK, 0);
    let read = stream.read(&mut inbox[have..]);
    inbox.truncate(have + read.as_ref().map_or(0, |read| *read));
    match read {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        read => read,
    }
}

/// The same for TLS; returns how many bytes were read.
fn decipher(
    cipher: &mut ClientConnection,
    stream: &mut TcpStream,
    inbox: &mut Vec<u8>,
) -> Result<io::Result<usize>, TlsFault> {
    let read = match cipher.read_tls(stream) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        read => read,
    };
    cipher.process_new_packets().map_err(|error| TlsFault::from(&error))?;
    loop {
        match read_chunk(&mut cipher.reader(), inbox) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(read),
            Err(error) => return Ok(Err(error)),
        }
    }
}

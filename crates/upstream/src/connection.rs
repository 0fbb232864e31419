//! A connection to a server, and the questions on it.
use crate::fault::Fault;
use crate::limits::{INBOX_CHUNK, OPENING_MAX, OUTBOX_MAX, QUESTIONS_MAX, STALL_MAX, TURN_OCTETS};
use crate::tls::Tls;
use rustix::event::epoll::EventFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// Nothing: what is said is not enciphered, or is not yet.
    cipher: Option<Box<ClientConnection>>,
    /// Tells it from every other socket there ever was.
    pub(crate) number: u32,
    pub(crate) server: u16,
    pub(crate) stage: Stage,
    /// Of questions whose replies have not come, all different (RFC 7766 §6.2.1).
    pub(crate) ids: Vec<u16>,
    /// Questions that were ever asked here, and answered.
    pub(crate) asked: u32,
    pub(crate) answered: u32,
    /// Each behind its length, as far as they were not sent.
    outbox: Vec<u8>,
    /// What came, and was not looked at.
    pub(crate) inbox: Vec<u8>,
    /// When something was heard last, or waited for.
    pub(crate) heard_at: Duration,
    /// How long it stays open without a question.
    pub(crate) idle_max: Duration,
    /// What epoll was told to watch.
    pub(crate) watched: EventFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// TCP's own opening is under way.
    Connects,
    /// TLS's is.
    Shakes,
    Open,
    /// No more is asked there.
    Retired,
}

/// What a turn brought, beside what is in the inbox.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// It has just opened.
    pub(crate) opened: bool,
    /// It has come to an end, for this reason.
    pub(crate) fault: Option<Fault>,
}

impl Connection {
    /// Begins to open one.
    ///
    /// # Errors
    /// The system has no socket left, or knows no way there.
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
            stage: Stage::Connects,
            ids: Vec::new(),
            asked: 0,
            answered: 0,
            outbox: Vec::new(),
            inbox: Vec::new(),
            heard_at: now,
            idle_max,
            watched: EventFlags::IN | EventFlags::OUT,
        })
    }

    /// Whether there is room for one more question with this id.
    pub(crate) fn has_room(&self, id: u16, len: usize) -> bool {
        self.stage != Stage::Retired
            && self.ids.len() < QUESTIONS_MAX
            && self.outbox.len() + 2 + len <= OUTBOX_MAX
            && !self.ids.contains(&id)
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::Retired)
    }

    /// Takes a question, to be sent by the next [`flush`](Self::flush) once it is open.
    pub(crate) fn ask(&mut self, id: u16, question: &[u8], now: Duration) {
        if self.ids.is_empty() {
            self.heard_at = now;
        }
        self.asked += 1;
        self.ids.push(id);
        self.outbox.extend_from_slice(&(question.len() as u16).to_be_bytes());
        self.outbox.extend_from_slice(question);
    }

    /// Notes the reply to a question; false where none of this id waits for one.
    pub(crate) fn take_reply(&mut self, id: u16) -> bool {
        let Some(at) = self.ids.iter().position(|other| *other == id) else { return false };
        self.ids.swap_remove(at);
        self.answered += 1;
        true
    }

    /// Sends and receives what can be.
    pub(crate) fn turn(
        &mut self,
        tls: Option<(&Tls, &ServerName<'static>)>,
        now: Duration,
    ) -> Turn {
        let before = self.inbox.len();
        let was_open = self.is_open();
        let fault = self.try_turn(tls).err();
        if self.inbox.len() > before {
            self.heard_at = now;
        }
        let opened = !was_open && self.is_open();
        Turn { opened, fault }
    }

    fn try_turn(&mut self, tls: Option<(&Tls, &ServerName<'static>)>) -> Result<(), Fault> {
        if self.stage == Stage::Connects {
            if let Some(error) = self.stream.take_error().ok().flatten() {
                return Err((&error).into());
            }
            if self.stream.peer_addr().is_err() {
                return Ok(());
            }
            self.stage = match tls {
                None => Stage::Open,
                Some((tls, name)) => {
                    let mut cipher = tls.begin(name).map_err(|error| Fault::from(&error))?;
                    cipher.set_buffer_limit(Some(OUTBOX_MAX));
                    self.cipher = Some(Box::new(cipher));
                    Stage::Shakes
                }
            };
            return self.flush();
        }
        let received = self.receive();
        if self.stage == Stage::Shakes && self.cipher.as_ref().is_some_and(|c| !c.is_handshaking())
        {
            self.stage = Stage::Open;
        }
        // What was received before it ended counts, and an alert is sent.
        let sent = self.flush();
        received.and(sent)
    }

    /// Sends what there is, as far as the system takes it.
    pub(crate) fn flush(&mut self) -> Result<(), Fault> {
        match self.try_flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err((&error).into()),
            _ => Ok(()),
        }
    }

    fn try_flush(&mut self) -> io::Result<()> {
        let Self { stream, cipher, outbox, stage, .. } = self;
        if *stage == Stage::Connects {
            return Ok(());
        }
        let is_open = *stage != Stage::Shakes;
        match cipher {
            None => {
                while !outbox.is_empty() {
                    let sent = stream.write(outbox)?;
                    outbox.drain(..sent);
                }
            }
            Some(cipher) => loop {
                if is_open && !outbox.is_empty() {
                    let taken = cipher.writer().write(outbox)?;
                    outbox.drain(..taken);
                }
                if !cipher.wants_write() {
                    break;
                }
                cipher.write_tls(stream)?;
            },
        }
        if outbox.is_empty() {
            // A burst is over: what it needed is not kept.
            outbox.shrink_to(INBOX_CHUNK);
        }
        Ok(())
    }

    /// Receives what there is, up to a turn's share.
    fn receive(&mut self) -> Result<(), Fault> {
        let enough = self.inbox.len() + TURN_OCTETS;
        while self.inbox.len() < enough {
            let Self { stream, cipher, inbox, .. } = self;
            let read = match cipher {
                None => read_chunk(stream, inbox),
                Some(cipher) => decipher(cipher, stream, inbox)?,
            };
            match read {
                // There may be more, which epoll tells.
                Ok(len) if len < INBOX_CHUNK => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err((&error).into()),
            }
        }
        Ok(())
    }

    /// What epoll is to watch: whether something comes, and whether there is room for what waits to
    /// be sent.
    pub(crate) fn to_watch(&self) -> EventFlags {
        let waits = match &self.cipher {
            _ if self.stage == Stage::Connects => true,
            Some(cipher) => cipher.wants_write() || self.is_open() && !self.outbox.is_empty(),
            None => !self.outbox.is_empty(),
        };
        if waits { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
    }

    /// When it is to be closed if nothing happens.
    pub(crate) fn ends_at(&self) -> Duration {
        let patience = match self.stage {
            Stage::Connects | Stage::Shakes => OPENING_MAX,
            _ if !self.ids.is_empty() => STALL_MAX,
            Stage::Retired => Duration::ZERO,
            Stage::Open => self.idle_max,
        };
        self.heard_at + patience
    }

    /// Says that no more will be asked (RFC 8446 §6.1), as far as that can be said at once.
    pub(crate) fn close(mut self) {
        if let Some(cipher) = &mut self.cipher {
            cipher.send_close_notify();
            let _ = self.try_flush();
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Reads a chunk behind what there is; returns its length.
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

/// The same for what is enciphered; returns how much of that was read.
fn decipher(
    cipher: &mut ClientConnection,
    stream: &mut TcpStream,
    inbox: &mut Vec<u8>,
) -> Result<io::Result<usize>, Fault> {
    let read = match cipher.read_tls(stream) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        read => read,
    };
    cipher.process_new_packets().map_err(|error| Fault::from(&error))?;
    loop {
        match read_chunk(&mut cipher.reader(), inbox) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(read),
            Err(error) => return Ok(Err(error)),
        }
    }
}

//! Frame Streams: length-prefixed messages between two handshakes.
//!
//! The bidirectional kind over a Unix socket, as in the reference implementation (fstrm): we send
//! READY, the reader ACCEPT, we START; at the end we send STOP and the reader FINISH. Nothing
//! blocks: the caller of [`FrameSender::turn`] waits for [`FrameSender::interest`] or for a while.
use crate::limits::{
    CONTROL_FRAME_MAX, DNSTAP_OUTBOX_BYTES, HANDSHAKE_MAX, RECONNECT_PAUSE_MAX, RECONNECT_PAUSE_MIN,
};
use crate::send_buffer::SendBuffer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Add;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const ACCEPT: u32 = 1;
const START: u32 = 2;
const STOP: u32 = 3;
const READY: u32 = 4;
/// The only field of control frames: a content type.
const CONTENT_TYPE: u32 = 1;

/// Counts of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// Passed to the kernel.
    pub sent: u64,
    /// Frames without room in the buffer, and one for each connection that broke within a frame.
    pub lost: u64,
    /// Connections after the first.
    pub reconnects: u64,
}

impl Add for SendCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            lost: self.lost + other.lost,
            reconnects: self.reconnects + other.reconnects,
        }
    }
}

/// Sends frames to a reader on a socket; reconnects after it was away.
pub struct FrameSender {
    path: PathBuf,
    content_type: &'static [u8],
    outbox: SendBuffer,
    state: SenderState,
    /// Wait before the next attempt.
    pause: Duration,
    connected_before: bool,
    /// Whether the missing reader was logged.
    complained: bool,
    counts: SendCounts,
}

enum SenderState {
    Down {
        until: Instant,
    },
    /// READY was sent; this was received so far.
    Greeting {
        socket: UnixStream,
        heard: Vec<u8>,
        until: Instant,
    },
    Open {
        socket: UnixStream,
    },
}

impl FrameSender {
    /// A sender that connects in its first turn.
    pub fn new(path: &Path, content_type: &'static str, now: Instant) -> Self {
        Self {
            path: path.into(),
            content_type: content_type.as_bytes(),
            outbox: SendBuffer::new(DNSTAP_OUTBOX_BYTES),
            state: SenderState::Down { until: now },
            pause: RECONNECT_PAUSE_MIN,
            connected_before: false,
            complained: false,
            counts: SendCounts::default(),
        }
    }

    /// The counts so far, without buffered frames.
    pub fn counts(&self) -> SendCounts {
        self.counts
    }

    /// Whether a reader is connected.
    pub fn is_open(&self) -> bool {
        matches!(self.state, SenderState::Open { .. })
    }

    /// Sends a frame, or counts it as lost if the buffer is full.
    pub fn push(&mut self, frame: &[u8]) {
        let len = (frame.len() as u32).to_be_bytes();
        if self.outbox.push(&[&len, frame]) {
            return;
        }
        self.flush();
        if !self.outbox.push(&[&len, frame]) {
            self.counts.lost += 1;
        }
    }

    /// Does what is possible without waiting.
    pub fn turn(&mut self, now: Instant) {
        match &mut self.state {
            SenderState::Down { until } if now < *until => {}
            SenderState::Down { .. } => match self.greet() {
                Ok(socket) => {
                    let until = now + HANDSHAKE_MAX;
                    self.state = SenderState::Greeting { socket, heard: Vec::new(), until };
                }
                Err(error) => self.fall(now, &error),
            },
            SenderState::Greeting { socket, heard, until } => match hear(socket, heard) {
                Ok(Some(frame)) => match self.start(&frame) {
                    Ok(()) => self.flush(),
                    Err(error) => self.fall(now, &error),
                },
                Ok(None) if now < *until => {}
                Ok(None) => self.fall(now, &ErrorKind::TimedOut.into()),
                Err(error) => self.fall(now, &error),
            },
            SenderState::Open { socket } => {
                // The reader sends nothing before our STOP, so input means its end.
                match hear(socket, &mut Vec::new()) {
                    Ok(None) => self.flush(),
                    Ok(Some(_)) => self.fall(now, &out_of_turn()),
                    Err(error) => self.fall(now, &error),
                }
            }
        }
    }

    /// The socket and events to wait for.
    pub fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match &self.state {
            SenderState::Down { .. } => None,
            SenderState::Greeting { socket, .. } => Some((socket.as_fd(), PollFlags::IN)),
            SenderState::Open { socket } if self.outbox.is_empty() => {
                Some((socket.as_fd(), PollFlags::IN))
            }
            SenderState::Open { socket } => Some((socket.as_fd(), PollFlags::IN | PollFlags::OUT)),
        }
    }

    /// Sends buffered frames and STOP until the given time. The only call that waits.
    pub fn finish(mut self, until: Instant) -> SendCounts {
        while let Some((fd, events)) = self.interest()
            && !(self.is_open() && self.outbox.is_empty())
            && wait(fd, events, until)
        {
            self.turn(Instant::now());
        }
        if let SenderState::Open { socket } = &mut self.state
            && self.outbox.is_empty()
        {
            say_goodbye(socket, until);
        }
        self.counts.lost += self.outbox.give_up();
        self.counts
    }

    /// Connects and sends READY. A socket with a full queue refuses at once.
    fn greet(&self) -> io::Result<UnixStream> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        net::connect(&fd, &SocketAddrUnix::new(&self.path)?)?;
        let mut socket = UnixStream::from(fd);
        socket.write_all(&control(READY, Some(self.content_type)))?;
        Ok(socket)
    }

    /// Starts the stream if the reader accepts the content type.
    fn start(&mut self, frame: &[u8]) -> io::Result<()> {
        if !accepts(frame, self.content_type) {
            let content_type = String::from_utf8_lossy(self.content_type);
            let message = format!("the reader does not accept {content_type}");
            return Err(io::Error::new(ErrorKind::InvalidData, message));
        }
        let down = SenderState::Down { until: Instant::now() };
        let SenderState::Greeting { mut socket, .. } = std::mem::replace(&mut self.state, down)
        else {
            return Err(out_of_turn());
        };
        socket.write_all(&control(START, Some(self.content_type)))?;
        self.state = SenderState::Open { socket };
        self.pause = RECONNECT_PAUSE_MIN;
        self.complained = false;
        self.counts.reconnects += u64::from(self.connected_before);
        self.connected_before = true;
        tracing::info!(socket = %self.path.display(), "dnstap: connected");
        Ok(())
    }

    fn flush(&mut self) {
        if let SenderState::Open { socket } = &mut self.state
            && let Err(error) = self.outbox.flush(socket, &mut self.counts.sent)
        {
            self.fall(Instant::now(), &error);
        }
    }

    /// Closes the connection until after a pause.
    fn fall(&mut self, now: Instant, error: &io::Error) {
        self.counts.lost += self.outbox.give_up_begun();
        self.state = SenderState::Down { until: now + self.pause };
        self.pause = (self.pause * 2).min(RECONNECT_PAUSE_MAX);
        if !self.complained {
            self.complained = true;
            let socket = self.path.display();
            tracing::warn!(%socket, %error, "dnstap: no reader; trying again");
        }
    }
}

/// Sends STOP after all frames, and waits for the reader's FINISH.
fn say_goodbye(socket: &mut UnixStream, until: Instant) {
    let (mut stop, mut said) = (SendBuffer::new(CONTROL_FRAME_MAX), 0);
    stop.push(&[&control(STOP, None)]);
    while stop.flush(socket, &mut said).is_ok()
        && said == 0
        && wait(socket.as_fd(), PollFlags::OUT, until)
    {}
    let mut heard = Vec::new();
    // FINISH, or the end of the connection.
    while said == 1
        && let Ok(None) = hear(socket, &mut heard)
        && wait(socket.as_fd(), PollFlags::IN, until)
    {}
}

/// Waits for a socket; returns whether there was time left.
fn wait(fd: BorrowedFd<'_>, events: PollFlags, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return false;
    }
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    !matches!(poll(&mut [PollFd::from_borrowed_fd(fd, events)], Some(&left)), Ok(0))
}

fn out_of_turn() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "unexpected frame from the dnstap reader")
}

/// A control frame: a data length of 0, then its own length, type and field.
fn control(kind: u32, content_type: Option<&[u8]>) -> Vec<u8> {
    let mut body = kind.to_be_bytes().to_vec();
    if let Some(content_type) = content_type {
        body.extend(CONTENT_TYPE.to_be_bytes());
        body.extend((content_type.len() as u32).to_be_bytes());
        body.extend(content_type);
    }
    let mut frame = vec![0; 4];
    frame.extend((body.len() as u32).to_be_bytes());
    frame.extend(body);
    frame
}

/// Reads on; returns the body of a control frame, with its type first, once it is complete.
fn hear(socket: &mut UnixStream, heard: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = [0; CONTROL_FRAME_MAX];
    match socket.read(&mut bytes) {
        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
        Ok(len) => heard.extend_from_slice(&bytes[..len]),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(error) if error.kind() == ErrorKind::Interrupted => {}
        Err(error) => return Err(error),
    }
    let mut rest = &heard[..];
    let (Some(escape), Some(len)) = (take(&mut rest), take(&mut rest)) else { return Ok(None) };
    if escape != 0 || len as usize > CONTROL_FRAME_MAX {
        return Err(out_of_turn());
    }
    Ok(rest.get(..len as usize).map(<[u8]>::to_vec))
}

/// Whether a frame is an ACCEPT of this content type; without a field it accepts all.
fn accepts(mut frame: &[u8], content_type: &[u8]) -> bool {
    if take(&mut frame) != Some(ACCEPT) {
        return false;
    }
    let mut any = true;
    while let (Some(CONTENT_TYPE), Some(len)) = (take(&mut frame), take(&mut frame)) {
        let Some((accepted, rest)) = frame.split_at_checked(len as usize) else { return false };
        if accepted == content_type {
            return true;
        }
        (frame, any) = (rest, false);
    }
    any && frame.is_empty()
}

/// Takes a number from the start.
fn take(rest: &mut &[u8]) -> Option<u32> {
    let (number, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_be_bytes(*number))
}

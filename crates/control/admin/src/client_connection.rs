//! The server's side of a connection: requests and replies.
use crate::limits::{CLIENT_TIME_MAX, FDS_PAUSE, REQUEST_LEN_MAX};
use crate::message::{self, DecodeError, PROTOCOL, Reply, Request};
use crate::wire;
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

/// An accepted client.
pub struct ClientConnection {
    stream: UnixStream,
    /// Received bytes that are not a request yet.
    inbox: Vec<u8>,
}

/// Why there is no request.
#[derive(Debug)]
pub enum RequestError {
    /// The client disconnected.
    Gone,
    /// An error for the client.
    Refused(String),
}

impl ClientConnection {
    /// An accepted stream.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, inbox: Vec::new() }
    }

    /// The client's process ID from the kernel.
    pub fn pid(&self) -> Option<u32> {
        let pid = self.stream.peer_cred().ok()?.pid()?;
        u32::try_from(pid).ok().filter(|pid| *pid > 0)
    }

    /// Waits for the next request.
    pub async fn request(&mut self, patience: Duration) -> Result<Request, RequestError> {
        let line = timeout(patience, self.line())
            .await
            .map_err(|_| RequestError::Refused("no request came in time".into()))??;
        message::decode(&line).map_err(|error| {
            RequestError::Refused(match error {
                DecodeError::Protocol(theirs) => format!(
                    "this server speaks version {PROTOCOL} of this protocol, but the request has \
                     version {theirs}: use the binary of the server's version"
                ),
                DecodeError::Json(error) => {
                    format!("not a request: {error}; use the binary of the server's version")
                }
            })
        })
    }

    async fn line(&mut self) -> Result<Vec<u8>, RequestError> {
        let mut room = [0; 512];
        loop {
            if let Some(end) = self.inbox.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.inbox.drain(..=end).collect();
                line.pop();
                return Ok(line);
            }
            if self.inbox.len() >= REQUEST_LEN_MAX {
                let why = format!("a request has at most {REQUEST_LEN_MAX} bytes");
                return Err(RequestError::Refused(why));
            }
            // The kernel closes descriptors sent along, since none are received.
            match self.stream.read(&mut room).await {
                Ok(0) | Err(_) => return Err(RequestError::Gone),
                Ok(len) => self.inbox.extend_from_slice(&room[..len]),
            }
        }
    }

    /// Sends a reply.
    pub async fn reply(&self, reply: &Reply) -> io::Result<()> {
        self.send(reply, &[]).await
    }

    /// Sends a reply with descriptors.
    pub async fn send(&self, reply: &Reply, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let line = message::encode(reply);
        let (mut rest, mut fds) = (&line[..], fds);
        while !rest.is_empty() {
            let sending =
                self.stream.async_io(Interest::WRITABLE, || wire::send(&self.stream, rest, fds));
            match timeout(CLIENT_TIME_MAX, sending).await? {
                Ok(sent) => {
                    rest = &rest[sent..];
                    fds = &[];
                }
                // Too many descriptors are in flight; the client receives some.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::TOOMANYREFS) => {
                    sleep(FDS_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

//! The starter: keeps CAP_NET_ADMIN, which the server gives up, and does nothing but start the
//! keeper, again and again.
use crate::limits::RESTART_PAUSE;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

/// The starter of one server's keeper.
pub struct Starter {
    /// The keeper's end of the socket, which each keeper gets.
    socket: OwnedFd,
}

impl Starter {
    /// A starter that passes this socket on.
    pub const fn new(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// Starts the keeper, and starts it again when it ends, until the server has closed its end.
    /// `command` makes the keeper's command; the keeper gets the socket as its standard input.
    ///
    /// # Errors
    /// No process can be started or waited for.
    pub fn run(&self, command: impl Fn() -> Command) -> io::Result<()> {
        loop {
            let socket = Stdio::from(self.socket.try_clone()?);
            let mut keeper = command().stdin(socket).spawn()?;
            // The keeper sees the end of the server by itself.
            let _ = keeper.wait()?;
            if self.is_server_gone()? {
                return Ok(());
            }
        }
    }

    /// Waits for the pause, or for the end of the server. Returns whether it is gone.
    fn is_server_gone(&self) -> io::Result<bool> {
        let pause = RESTART_PAUSE.try_into().map_err(io::Error::other)?;
        // The end of the other side is always reported.
        let mut watched = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::empty())];
        match poll(&mut watched, Some(&pause)) {
            Ok(events) => Ok(events > 0),
            Err(Errno::INTR) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }
}

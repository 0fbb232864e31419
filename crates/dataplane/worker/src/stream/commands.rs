//! Commands for a stream thread.

use super::HandedConnection;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// A command.
#[derive(Debug)]
pub enum StreamCommand {
    /// Serve a connection under this number.
    Serve(u64, HandedConnection),
    /// Close a connection, which was evicted.
    Evict(u64),
    /// End.
    Leave(LeaveReason),
}

/// How a thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveReason {
    /// Answer what has arrived, then close.
    Stop,
    /// Hand connections over to a new process.
    HandOver,
}

/// The commands of one thread. Bounded by the number of connections: each is in the queue at most
/// once to be served and once to be evicted.
#[derive(Debug)]
pub struct CommandQueue {
    commands: Mutex<Vec<StreamCommand>>,
    waker: OwnedFd,
}

impl CommandQueue {
    /// An empty queue.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new() -> io::Result<Self> {
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { commands: Mutex::default(), waker })
    }

    /// Adds a command.
    pub fn put(&self, command: StreamCommand) {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        // Only a full counter refuses a write, and then it is readable already.
        let _ = rustix::io::write(&self.waker, &1u64.to_ne_bytes());
    }

    /// All commands, the oldest first.
    pub fn take(&self) -> Vec<StreamCommand> {
        // Reset first, so that a command that arrives meanwhile wakes the thread again.
        let _ = rustix::io::read(&self.waker, &mut [0; 8]);
        mem::take(&mut *self.commands.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for CommandQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

//! What a stream thread is told from outside.

use super::Handed;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// What a thread is to do.
#[derive(Debug)]
pub enum Order {
    /// To serve a connection from now on, under this number.
    Serve(u64, Handed),
    /// To close a connection, which has lost its place to another.
    Evict(u64),
    /// To end.
    Leave(Leave),
}

/// How a thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Answers what has come, then closes.
    Stop,
    /// Gives its connections to a successor.
    HandOver,
}

/// The orders of one thread. Never more than there may be connections: each stands in the queue
/// once to be served, once to be evicted.
#[derive(Debug)]
pub struct Mailbox {
    orders: Mutex<Vec<Order>>,
    bell: OwnedFd,
}

impl Mailbox {
    /// An empty one.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { orders: Mutex::default(), bell })
    }

    /// Gives an order.
    pub fn put(&self, order: Order) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        // Only a counter at its very end refuses, and then it is readable already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// All orders, the oldest first.
    pub fn take(&self) -> Vec<Order> {
        // Silenced first, so that an order that comes meanwhile rings again.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        mem::take(&mut *self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

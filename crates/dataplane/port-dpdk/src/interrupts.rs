//! A queue whose device interrupts when something comes.

use crate::HostInterface;
use crate::calls::Calls;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The interrupts of a queue.
#[derive(Debug)]
pub struct Interrupts {
    calls: &'static Calls,
    port: u16,
    queue: u16,
    /// Readable once an armed queue has something to receive, or the kernel to send.
    descriptor: OwnedFd,
    is_armed: bool,
}

impl Interrupts {
    /// Those of a queue, and of the frames that the kernel sends; `None`: the device has none, or
    /// the process can open no file.
    pub fn open(
        calls: &'static Calls,
        (port, queue): (u16, u16),
        host: Option<&HostInterface>,
    ) -> Option<Self> {
        // SAFETY: the device is started.
        let received = unsafe { (calls.interrupts)(port, queue) };
        if received < 0 {
            return None;
        }
        let descriptor = epoll::create(CreateFlags::CLOEXEC).ok()?;
        // SAFETY: it is open until the device is closed, for which it waits for the queue.
        let received = unsafe { BorrowedFd::borrow_raw(received) };
        for fd in [Some(received), host.map(HostInterface::as_fd)].into_iter().flatten() {
            epoll::add(&descriptor, fd, EventData::new_u64(0), EventFlags::IN).ok()?;
        }
        Some(Self { calls, port, queue, descriptor, is_armed: false })
    }

    /// Has the queue interrupt; false: it does not. What came before may not interrupt.
    #[cold]
    pub fn arm(&mut self) -> bool {
        // SAFETY: the device is started, and this is the only user of the queue.
        self.is_armed = unsafe { (self.calls.arm)(self.port, self.queue) } == 0;
        self.is_armed
    }

    /// Ends that; returns whether it was so.
    #[cold]
    pub fn disarm(&mut self) -> bool {
        if self.is_armed {
            // SAFETY: as in `arm`.
            unsafe { (self.calls.disarm)(self.port, self.queue) };
        }
        std::mem::take(&mut self.is_armed)
    }

    /// Readable once there is something to do; `None`: the queue is not armed.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.is_armed.then(|| self.descriptor.as_fd())
    }
}

//! One queue of one device, and the contract every port passes.
use packet::Packet;
use std::io;
use std::os::fd::BorrowedFd;

/// What a device turned out to do.
#[derive(Clone, Debug)]
pub struct Caps {
    /// The most packets of one burst, 1 to [`packet::BURST_MAX`].
    pub burst_max: usize,
    /// Octets of room each packet has for its reply.
    pub room: usize,
}

/// What one burst did. `received = replied + unsent + dropped by verdict`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Packets taken from the device and shown to the application.
    pub received: usize,
    /// Replies the device took.
    pub replied: usize,
    /// Replies the device refused; they are lost.
    pub unsent: usize,
}

/// One queue of one device, owned by one worker thread. Never shared.
pub trait Port {
    /// What this device turned out to do.
    fn caps(&self) -> &Caps;

    /// Receives up to a burst without waiting, lets `app` edit the packets in place and set each
    /// verdict, then sends the replies and recycles the rest. `app` is not called for an empty
    /// burst.
    ///
    /// # Errors
    /// Only when the device can no longer be used; whatever concerns single packets is counted.
    fn burst(&mut self, app: impl FnOnce(&mut [Packet<'_>])) -> io::Result<Burst>;

    /// To be watched while idle.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

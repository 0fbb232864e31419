//! One queue of one device, and the contract every port passes.
#![forbid(unsafe_code)]

pub mod contract;
mod frames;
pub mod limits;
mod links;
mod loopback;
mod udp;

pub use frames::{Exchange, Frame, Frames};
pub use loopback::{Datagram, Loopback};
pub use udp::Udp;

use packet::{Drop, Packet};
use std::io;
use std::os::fd::BorrowedFd;

/// What a device turned out to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The most packets of one burst, 1 to [`packet::BURST_MAX`].
    pub burst_max: usize,
    /// Octets of room each packet has for its reply, and the most a received one may have.
    pub room: usize,
}

/// What one burst did. Every packet is counted once: `received` = `replied` + all of `dropped`, and
/// those whose replies were put off, which are counted when they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Packets taken from the device.
    pub received: usize,
    /// Replies the device took.
    pub replied: usize,
    /// Packets that were not answered, by reason ([`Drop`] is the index): what the application
    /// dropped, what the port kept from it, and replies the device refused.
    pub dropped: [usize; Drop::COUNT],
}

impl Burst {
    /// Counts a packet that is not answered.
    #[inline]
    pub fn drop(&mut self, reason: Drop) {
        self.dropped[reason as usize] += 1;
    }
}

/// One queue of one device, owned by one worker thread. Never shared.
pub trait Port {
    /// What this device turned out to do.
    fn caps(&self) -> &Caps;

    /// Receives up to a burst without waiting, lets `app` edit the packets in place and set each
    /// verdict, then sends the replies and recycles the rest, also what is answered later. `app`
    /// may change a packet's message, length and verdict, not its place in the slice. It is shown
    /// each packet once and in their order, all at a time or some, but not what cannot be answered
    /// ([`Drop::NoPeer`], [`Drop::Oversize`]); for an empty burst it is not called.
    ///
    /// # Errors
    /// Only when the device can no longer be used; whatever concerns single packets is counted.
    fn burst(&mut self, app: impl FnMut(&mut [Packet<'_>])) -> io::Result<Burst>;

    /// Takes a reply that was put off, to be sent by [`flush`](Self::flush) to whom the packet came
    /// from. False where there is no room before that, or, with nothing queued, never.
    fn queue(&mut self, reply: &Packet<'_>) -> bool;

    /// Sends what is queued; tells of each, in their order, whether the device took it.
    fn flush(&mut self, told: impl FnMut(bool));

    /// Whether replies wait here that leave only by another burst, be it an empty one.
    fn is_stuck(&self) -> bool {
        false
    }

    /// To be watched while idle: readable when a burst would not be empty.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

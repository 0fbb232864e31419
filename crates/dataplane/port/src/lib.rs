//! One queue of one device, and the contract that every port fulfills.
#![forbid(unsafe_code)]

mod frames;
pub mod limits;
mod links;
mod udp;

pub use frames::{Frame, FrameBurst, Frames};
pub use udp::Udp;

use packet::{DropReason, Packet};
use std::io;
use std::os::fd::BorrowedFd;

/// The properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortCapabilities {
    /// The most packets of one burst, 1 to [`packet::BURST_MAX`].
    pub burst_max: usize,
    /// Bytes of room of each packet for its reply, and the most that a received one may have.
    pub room: usize,
}

/// The result of a burst. Every packet is counted once: `received` = `replied` + all of `dropped` +
/// deferred ones, which are counted when they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Packets taken from the device.
    pub received: usize,
    /// Replies that the device accepted.
    pub replied: usize,
    /// Packets that were not answered, by reason ([`DropReason`] is the index): dropped by the
    /// application or the port, or refused by the device.
    pub dropped: [usize; DropReason::COUNT],
}

impl Burst {
    /// Counts a packet that is not answered.
    #[inline]
    pub fn drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }
}

/// One queue of one device, owned by one worker thread. Never shared.
pub trait Port {
    /// The properties of this device.
    fn caps(&self) -> &PortCapabilities;

    /// Receives up to a burst without waiting, lets `app` edit the packets in place and set each
    /// verdict, then sends the replies and recycles the rest, deferred packets included. `app` may
    /// change a packet's message, length and verdict, not its place in the slice. It gets each
    /// packet once, in order, in one or several slices, except those that cannot be answered
    /// ([`DropReason::NoPeer`], [`DropReason::SourcePort`], [`DropReason::Oversize`]); it is not
    /// called for an empty burst.
    ///
    /// # Errors
    /// Only if the device can no longer be used.
    fn burst(&mut self, app: impl FnMut(&mut [Packet<'_>])) -> io::Result<Burst>;

    /// Adds a deferred reply for [`flush`](Self::flush). False if there is no room before a flush,
    /// or, with an empty queue, none at all.
    fn queue(&mut self, reply: &Packet<'_>) -> bool;

    /// Sends what is queued; reports for each, in order, whether the device accepted it.
    fn flush(&mut self, reported: impl FnMut(bool));

    /// Whether replies wait that only another burst sends, which may be empty.
    fn is_stuck(&self) -> bool {
        false
    }

    /// Readable if a burst would not be empty. `None`: the device has no such descriptor, at least
    /// until the next burst, so that its worker polls it.
    fn as_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Whether the worker may pause while it receives nothing from a port without a descriptor;
    /// false: it polls all the time, for which it needs a CPU of its own.
    fn may_pause(&self) -> bool {
        true
    }
}

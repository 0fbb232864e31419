//! Devices that carry whole frames.

use std::io;
use std::os::fd::BorrowedFd;

/// A frame lent by a device for one burst.
#[derive(Debug)]
pub struct Frame<'a> {
    /// The frame, and behind it room for the reply.
    pub buf: &'a mut [u8],
    /// Bytes of the frame in `buf`. At most `buf.len()`.
    pub len: usize,
    /// Whether it is sent back; otherwise its memory is reused.
    pub is_sent: bool,
}

/// The result of a burst of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameBurst {
    /// Frames taken from the device.
    pub received: usize,
    /// Frames to send that the device had no room for.
    pub refused: usize,
}

/// One queue of one device that carries frames, owned by one worker, as a [`Port`](crate::Port).
pub trait Frames {
    /// The most bytes of an IP packet. Every frame has room for the link's header
    /// ([`packet::frame::LINK_MAX`]) before it.
    fn mtu(&self) -> usize;

    /// Receives up to [`packet::BURST_MAX`] frames without waiting, lets `app` edit them in place,
    /// then sends or recycles each. `app` gets each frame once, in order, in one or several slices;
    /// it is not called for an empty burst.
    ///
    /// # Errors
    /// Only if the device can no longer be used.
    fn burst(&mut self, app: impl FnMut(&mut [Frame<'_>])) -> io::Result<FrameBurst>;

    /// Adds a frame for [`flush`](Self::flush): `write` gets its room, and returns its length, or
    /// `None`. False if there is no room before a flush.
    fn queue(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool;

    /// Sends what is queued; reports for each, in order, whether the device accepted it.
    fn flush(&mut self, reported: impl FnMut(bool));

    /// Whether frames wait that only another burst sends.
    fn is_stuck(&self) -> bool;

    /// Readable if a burst would not be empty; `None`: the device is polled.
    fn as_fd(&self) -> Option<BorrowedFd<'_>>;

    /// As [`Port::may_pause`](crate::Port::may_pause).
    fn may_pause(&self) -> bool {
        true
    }
}

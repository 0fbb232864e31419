//! Devices that carry whole frames.

use std::io;
use std::os::fd::BorrowedFd;

/// A frame on loan from a device for the length of one burst.
#[derive(Debug)]
pub struct Frame<'a> {
    /// The frame, and behind it the room that one sent back may grow into.
    pub buf: &'a mut [u8],
    /// How many octets of `buf` are the frame. At most `buf.len()`.
    pub len: usize,
    /// Whether it is sent back; else its memory is used again.
    pub is_sent: bool,
}

/// What one burst of frames did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Frames taken from the device.
    pub received: usize,
    /// Frames that were to be sent and that the device had no room for.
    pub refused: usize,
}

/// One queue of one device that carries frames. As with [`Port`](crate::Port), one worker owns it.
pub trait Frames {
    /// The most octets of an IP packet that it carries. Every frame has room for the link's header
    /// ([`packet::frame::LINK_MAX`]) in front of that.
    fn mtu(&self) -> usize;

    /// Receives up to [`packet::BURST_MAX`] frames without waiting, lets `app` edit them in place,
    /// then sends or recycles each. `app` is shown each once and in their order, all at a time or
    /// some; it is not called for an empty burst.
    ///
    /// # Errors
    /// Only when the device can no longer be used.
    fn burst(&mut self, app: impl FnMut(&mut [Frame<'_>])) -> io::Result<Exchange>;

    /// Takes a frame of one's own, to be sent by [`flush`](Self::flush): `write` is given room for
    /// it, and tells its length, or that there is none after all. False where there is no room
    /// before that.
    fn queue(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool;

    /// Sends what is queued; tells of each, in their order, whether the device took it.
    fn flush(&mut self, told: impl FnMut(bool));

    /// Whether frames wait here that leave only by another burst.
    fn is_stuck(&self) -> bool;

    /// To be watched while idle: readable when a burst would not be empty.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

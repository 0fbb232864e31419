//! Buffers that are lent to the kernel, which fills them with what it receives.

use crate::datagram::PeerAddress;
use crate::limits::ROOM;
use crate::slab::Slab;
use io_uring::types::BufRingEntry;
use std::sync::atomic::{AtomicU16, Ordering};

/// The kernel's header in front of a datagram: lengths of its address, ancillary data and
/// payload, and flags (`struct io_uring_recvmsg_out`).
const HEAD: usize = 16;
/// Where the payload begins: behind the room for an address.
const PAYLOAD: usize = HEAD + PeerAddress::SIZE as usize;
/// Bytes from one buffer to the next: an odd number of cache lines.
const STRIDE: usize = (PAYLOAD + ROOM).next_multiple_of(64);
/// Buffers of a ring at most.
pub const BUFFERS_MAX: usize = 4_096;

/// The ring through which buffers are lent, of 16 bytes each; at the beginning of a page, however
/// large pages are.
#[derive(Clone, Copy)]
#[repr(C, align(65536))]
struct Entries([u128; BUFFERS_MAX]);

pub struct BufferRing {
    entries: Slab<Entries>,
    buffers: Slab<[u8; STRIDE]>,
    count: u16,
    /// Buffers lent so far, modulo 2^16.
    tail: u16,
}

/// A datagram that the kernel has put into a buffer.
pub struct Received<'l> {
    pub message: &'l mut [u8],
    pub is_cut: bool,
    pub peer: PeerAddress,
}

impl BufferRing {
    /// `count` buffers, a power of two, none of them lent.
    pub fn new(count: usize) -> Self {
        assert!(count.is_power_of_two() && count <= BUFFERS_MAX);
        let entries = Slab::new(1, Entries([0; BUFFERS_MAX]));
        Self { entries, buffers: Slab::new(count, [0; STRIDE]), count: count as u16, tail: 0 }
    }

    /// Where the ring is, for the kernel, and how many entries it has.
    pub fn ring(&self) -> (u64, u16) {
        (self.entries.at(0) as u64, self.count)
    }

    /// Lends a buffer, which is not in use; the kernel sees it with the next [`show`](Self::show).
    #[inline]
    pub fn lend(&mut self, buffer: u16) {
        let at = usize::from(self.tail & (self.count - 1));
        // SAFETY: the entry is within the ring, and the kernel does not read it before the tail
        // has passed it. Only the fields of an entry are written: the first one's rest is the tail.
        unsafe {
            let entry = self.entries.at(0).cast::<BufRingEntry>().add(at);
            (*entry).set_addr(self.buffers.at(buffer.into()) as u64);
            (*entry).set_len((PAYLOAD + ROOM) as u32);
            (*entry).set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel what has been lent.
    #[inline]
    pub fn show(&mut self) {
        // SAFETY: the tail is in the ring's first entry, aligned for its type; we alone write it.
        let tail = unsafe {
            let place = BufRingEntry::tail(self.entries.at(0).cast());
            AtomicU16::from_ptr(place.cast_mut())
        };
        tail.store(self.tail, Ordering::Release);
    }

    /// The contents of a filled buffer.
    #[inline]
    pub fn received(&mut self, buffer: u16) -> Received<'_> {
        // SAFETY: a filled buffer is ours, initialised, and in no other hands while `self` is lent.
        let bytes: &mut [u8; STRIDE] = unsafe { &mut *self.buffers.at(buffer.into()) };
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (len, flags) = (word(8) as usize, word(12));
        let (head, payload) = bytes.split_at_mut(PAYLOAD);
        let mut peer = PeerAddress::NONE;
        peer.0.copy_from_slice(&head[HEAD..]);
        let is_cut = len > ROOM || flags & libc::MSG_TRUNC as u32 != 0;
        Received { message: &mut payload[..len.min(ROOM)], is_cut, peer }
    }

    /// Where the parts of what is in a filled buffer are: its sender's address, and its payload.
    #[inline]
    pub fn parts(&self, buffer: u16) -> (*const libc::sockaddr, *const u8) {
        let start = self.buffers.at(buffer.into()).cast_const().cast::<u8>();
        (start.wrapping_add(HEAD).cast(), start.wrapping_add(PAYLOAD))
    }
}

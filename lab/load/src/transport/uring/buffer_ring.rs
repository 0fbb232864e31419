//! Buffers that the kernel fills with received messages.

use crate::limits::RING_BUFFER_BYTES;
use io_uring::types::BufRingEntry;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// How many there are: a power of two.
pub const BUFFERS: usize = 1_024;
/// Bytes from one to the next: an odd number of cache lines.
const STRIDE: usize = RING_BUFFER_BYTES + 64;

/// The ring through which buffers are lent, an entry of 16 bytes each; at the beginning of a page,
/// however large pages are.
#[repr(C, align(65536))]
struct Entries([u128; BUFFERS]);

/// All of it, reached through pointers only: references would contradict those the kernel has.
pub struct BufferRing {
    entries: NonNull<Entries>,
    buffers: NonNull<[u8]>,
    /// Buffers lent so far, modulo 2^16.
    tail: u16,
    is_kept: bool,
}

impl BufferRing {
    /// All of them lent.
    pub fn new() -> Self {
        let entries = NonNull::from(Box::leak(Box::new(Entries([0; BUFFERS]))));
        let buffers = vec![0u8; BUFFERS * STRIDE].into_boxed_slice();
        let buffers = NonNull::from(Box::leak(buffers));
        let mut buffer_ring = Self { entries, buffers, tail: 0, is_kept: false };
        (0..BUFFERS as u16).for_each(|buffer| buffer_ring.lend(buffer));
        buffer_ring.show();
        buffer_ring
    }

    /// Where the ring is, for the kernel.
    pub fn address(&self) -> u64 {
        self.entries.as_ptr() as u64
    }

    fn buffer(&self, buffer: u16) -> *mut u8 {
        assert!(usize::from(buffer) < BUFFERS);
        // SAFETY: it lies within.
        unsafe { self.buffers.cast::<u8>().as_ptr().add(usize::from(buffer) * STRIDE) }
    }

    /// Lends a buffer, which is not in use; the kernel sees it with the next [`show`](Self::show).
    #[inline]
    pub fn lend(&mut self, buffer: u16) {
        let at = usize::from(self.tail) & (BUFFERS - 1);
        let address = self.buffer(buffer) as u64;
        // SAFETY: the entry lies within the ring, and the kernel does not read it before the tail
        // has passed it. Only fields of an entry are written: the first one's rest is the tail.
        unsafe {
            let entry = self.entries.as_ptr().cast::<BufRingEntry>().add(at);
            (*entry).set_addr(address);
            (*entry).set_len(RING_BUFFER_BYTES as u32);
            (*entry).set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Gives the kernel the added buffers.
    #[inline]
    pub fn show(&mut self) {
        // SAFETY: the tail is in the ring's first entry, aligned for its type; we alone write it.
        let tail = unsafe {
            let place = BufRingEntry::tail(self.entries.as_ptr().cast());
            AtomicU16::from_ptr(place.cast_mut())
        };
        tail.store(self.tail, Ordering::Release);
    }

    /// The contents of a filled buffer that is not back in the ring yet.
    #[inline]
    pub fn message(&self, buffer: u16, len: usize) -> &[u8] {
        // SAFETY: a filled buffer is ours until it is lent, which takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.buffer(buffer), len.min(RING_BUFFER_BYTES)) }
    }

    /// Never gives the memory back.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for BufferRing {
    fn drop(&mut self) {
        if !self.is_kept {
            // SAFETY: both came from boxes, and no other pointer to them is left.
            unsafe {
                drop(Box::from_raw(self.entries.as_ptr()));
                drop(Box::from_raw(self.buffers.as_ptr()));
            }
        }
    }
}

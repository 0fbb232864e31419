//! Rings between two independent sides: one writes entries and advances the producer index, the
//! other reads them and advances the consumer index (`Documentation/networking/af_xdp.rst`,
//! "Rings").

use crate::umem::Mapping;
use libc::xdp_desc;
use std::mem::size_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// The rings of one queue.
#[derive(Debug)]
pub struct QueueRings {
    /// Frames to receive into.
    pub fill: Producer<u64>,
    /// Received frames.
    pub receive: Consumer<xdp_desc>,
    /// Frames to send.
    pub send: Producer<xdp_desc>,
    /// Sent frames.
    pub complete: Consumer<u64>,
}

/// Offsets of a ring's parts in a mapping, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct RingLayout {
    pub producer: usize,
    pub consumer: usize,
    pub flags: usize,
    pub entries: usize,
}

impl RingLayout {
    /// Of a ring in local memory: each index in its own cache line.
    pub const PLAIN: Self = Self { producer: 0, consumer: 64, flags: 128, entries: 192 };

    /// Bytes of a ring of `count` entries of a type.
    pub fn bytes<T>(&self, count: u32) -> usize {
        self.entries + count as usize * size_of::<T>()
    }
}

/// A word of a ring that both sides use.
///
/// # Safety
/// The offset is within the mapping and aligned, and this word is accessed as an atomic only.
unsafe fn index(mapping: &Mapping, at: usize) -> &AtomicU32 {
    // SAFETY: the caller guarantees it.
    unsafe { &*mapping.base().add(at).cast::<AtomicU32>() }
}

/// A view of a ring for another thread.
#[derive(Debug)]
pub struct RingLevel {
    mapping: Arc<Mapping>,
    layout: RingLayout,
}

impl RingLevel {
    /// How many entries wait in the ring, as far as each side has shown; too many if both sides
    /// move meanwhile.
    pub fn waiting(&self) -> u32 {
        // SAFETY: the side that made this checked the offsets.
        let read = |at| unsafe { index(&self.mapping, at) }.load(Ordering::Acquire);
        // In this order the producer is never seen behind the consumer.
        let consumer = read(self.layout.consumer);
        read(self.layout.producer).wrapping_sub(consumer)
    }
}

/// One side of a ring.
#[derive(Debug)]
struct RingSide<T> {
    mapping: Arc<Mapping>,
    layout: RingLayout,
    entries: *mut T,
    mask: u32,
    /// Our index, which may be ahead of what the other side was shown.
    own: u32,
    /// The other side's index when it was last read.
    other: u32,
}

impl<T: Copy> RingSide<T> {
    /// # Panics
    /// `count` is not a power of two, or the mapping is too small.
    fn new(mapping: Arc<Mapping>, layout: RingLayout, count: u32) -> Self {
        assert!(count.is_power_of_two() && layout.bytes::<T>(count) <= mapping.len());
        assert!(layout.entries.is_multiple_of(align_of::<T>()));
        assert!([layout.producer, layout.consumer, layout.flags].iter().all(|at| at % 4 == 0));
        // SAFETY: the offset is within the mapping.
        let entries = unsafe { mapping.base().add(layout.entries) }.cast();
        Self { mapping, layout, entries, mask: count - 1, own: 0, other: 0 }
    }

    fn index(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `new` checked the offset.
        unsafe { index(&self.mapping, at) }
    }

    fn level(&self) -> RingLevel {
        RingLevel { mapping: Arc::clone(&self.mapping), layout: self.layout }
    }

    fn entry(&self, index: u32) -> *mut T {
        // SAFETY: the index is masked, so it is less than the number of entries.
        unsafe { self.entries.add((index & self.mask) as usize) }
    }
}

/// The writing side.
#[derive(Debug)]
pub struct Producer<T>(RingSide<T>);

/// The reading side.
#[derive(Debug)]
pub struct Consumer<T>(RingSide<T>);

// SAFETY: the pointer is into the mapping, which the side holds.
unsafe impl<T: Send> Send for Producer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Consumer<T> {}

impl<T: Copy> Producer<T> {
    /// The producer of an unused ring of `count` entries.
    ///
    /// # Panics
    /// `count` is not a power of two, or the mapping is too small.
    pub fn new(mapping: Arc<Mapping>, layout: RingLayout, count: u32) -> Self {
        Self(RingSide::new(mapping, layout, count))
    }

    /// A view of the ring for another thread.
    pub fn level(&self) -> RingLevel {
        self.0.level()
    }

    /// Free entries.
    #[inline]
    pub fn room(&mut self) -> u32 {
        let side = &mut self.0;
        side.other = side.index(side.layout.consumer).load(Ordering::Acquire);
        (side.mask + 1).saturating_sub(side.own.wrapping_sub(side.other))
    }

    /// Writes an entry, which the other side is not shown yet; false: the ring is full.
    #[inline]
    pub fn push(&mut self, entry: T) -> bool {
        if self.0.own.wrapping_sub(self.0.other) > self.0.mask && self.room() == 0 {
            return false;
        }
        // SAFETY: within the entries, and the other side does not read it before `show`.
        unsafe { self.0.entry(self.0.own).write(entry) };
        self.0.own = self.0.own.wrapping_add(1);
        true
    }

    /// Shows the other side all written entries.
    #[inline]
    pub fn show(&mut self) {
        self.0.index(self.0.layout.producer).store(self.0.own, Ordering::Release);
    }

    /// Entries that the other side has not taken yet.
    #[inline]
    pub fn waiting(&mut self) -> u32 {
        self.0.mask + 1 - self.room()
    }

    /// Whether the kernel needs a system call to continue (`XDP_RING_NEED_WAKEUP`).
    ///
    /// The other side sets the flag, then checks the ring once more. Entries must be visible before
    /// the flag is read, or each side could miss the other.
    #[inline]
    pub fn wants_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        let flags = self.0.index(self.0.layout.flags).load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T: Copy> Consumer<T> {
    /// The consumer of an unused ring of `count` entries.
    ///
    /// # Panics
    /// `count` is not a power of two, or the mapping is too small.
    pub fn new(mapping: Arc<Mapping>, layout: RingLayout, count: u32) -> Self {
        Self(RingSide::new(mapping, layout, count))
    }

    /// A view of the ring for another thread.
    pub fn level(&self) -> RingLevel {
        self.0.level()
    }

    /// Takes the next entry. The other side may not reuse it before `release`.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let side = &mut self.0;
        if side.other == side.own {
            side.other = side.index(side.layout.producer).load(Ordering::Acquire);
            if side.other == side.own {
                return None;
            }
        }
        // SAFETY: within the entries; the other side has shown it.
        let entry = unsafe { side.entry(side.own).read() };
        side.own = side.own.wrapping_add(1);
        Some(entry)
    }

    /// Lets the other side reuse all taken entries.
    #[inline]
    pub fn release(&mut self) {
        self.0.index(self.0.layout.consumer).store(self.0.own, Ordering::Release);
    }
}

#[cfg(test)]
impl<T: Copy> Producer<T> {
    /// Sets the flag by which a kernel requests wake-ups.
    pub fn pretend_to_want_wakes(&self) {
        self.0.index(self.0.layout.flags).store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
    }
}

/// Both sides of a ring in local memory.
#[cfg(test)]
pub fn plain<T: Copy>(count: u32) -> std::io::Result<(Producer<T>, Consumer<T>)> {
    let mapping = Arc::new(Mapping::anonymous(RingLayout::PLAIN.bytes::<T>(count))?);
    let producer = Producer::new(Arc::clone(&mapping), RingLayout::PLAIN, count);
    Ok((producer, Consumer::new(mapping, RingLayout::PLAIN, count)))
}

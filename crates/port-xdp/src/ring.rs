//! Rings between two who run on their own: one writes entries and moves the producer's index, the
//! other reads them and moves the consumer's (`Documentation/networking/af_xdp.rst`, "Rings").

use crate::umem::Mapping;
use std::mem::size_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Where in a mapping a ring's parts lie, in octets.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub producer: usize,
    pub consumer: usize,
    pub flags: usize,
    pub entries: usize,
}

impl Layout {
    /// Of a ring in memory of our own: each index in a line of the cache.
    pub const PLAIN: Self = Self { producer: 0, consumer: 64, flags: 128, entries: 192 };

    /// The octets of a ring of so many entries of a type.
    pub fn octets<T>(&self, count: u32) -> usize {
        self.entries + count as usize * size_of::<T>()
    }
}

/// A word of a ring that both sides use.
///
/// # Safety
/// The offset is within the mapping and aligned, and nobody touches this word but as an atomic.
unsafe fn index(mapping: &Mapping, at: usize) -> &AtomicU32 {
    // SAFETY: the caller's promise.
    unsafe { &*mapping.base().add(at).cast::<AtomicU32>() }
}

/// A look at a ring from elsewhere.
#[derive(Debug)]
pub struct Level {
    mapping: Arc<Mapping>,
    layout: Layout,
}

impl Level {
    /// How many entries wait in it to be taken, as far as each side has shown; more than there are
    /// if the two move meanwhile.
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
struct Side<T> {
    mapping: Arc<Mapping>,
    layout: Layout,
    entries: *mut T,
    mask: u32,
    /// Our own index, perhaps ahead of what the other one was shown.
    own: u32,
    /// How far the other one was when we looked last.
    other: u32,
}

impl<T: Copy> Side<T> {
    /// # Panics
    /// `count` is no power of two, or the mapping is too small.
    fn new(mapping: Arc<Mapping>, layout: Layout, count: u32) -> Self {
        assert!(count.is_power_of_two() && layout.octets::<T>(count) <= mapping.len());
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

    fn level(&self) -> Level {
        Level { mapping: Arc::clone(&self.mapping), layout: self.layout }
    }

    fn entry(&self, index: u32) -> *mut T {
        // SAFETY: masked, so within the entries.
        unsafe { self.entries.add((index & self.mask) as usize) }
    }
}

/// The side that gives entries.
#[derive(Debug)]
pub struct Producer<T>(Side<T>);

/// The side that takes entries.
#[derive(Debug)]
pub struct Consumer<T>(Side<T>);

// SAFETY: the pointer is into the mapping, which the side holds.
unsafe impl<T: Send> Send for Producer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Consumer<T> {}

impl<T: Copy> Producer<T> {
    /// The producer of a ring of `count` entries that nobody has used yet.
    ///
    /// # Panics
    /// `count` is no power of two, or the mapping is too small.
    pub fn new(mapping: Arc<Mapping>, layout: Layout, count: u32) -> Self {
        Self(Side::new(mapping, layout, count))
    }

    /// A look at the ring from elsewhere.
    pub fn level(&self) -> Level {
        self.0.level()
    }

    /// How many entries there is room for.
    #[inline]
    pub fn room(&mut self) -> u32 {
        let side = &mut self.0;
        side.other = side.index(side.layout.consumer).load(Ordering::Acquire);
        (side.mask + 1).saturating_sub(side.own.wrapping_sub(side.other))
    }

    /// Gives an entry, which the other one is not shown yet; false: the ring is full.
    #[inline]
    pub fn push(&mut self, entry: T) -> bool {
        if self.0.own.wrapping_sub(self.0.other) > self.0.mask && self.room() == 0 {
            return false;
        }
        // SAFETY: within the entries, and the other one does not read it before `show`.
        unsafe { self.0.entry(self.0.own).write(entry) };
        self.0.own = self.0.own.wrapping_add(1);
        true
    }

    /// Shows the other one all that was given.
    #[inline]
    pub fn show(&mut self) {
        self.0.index(self.0.layout.producer).store(self.0.own, Ordering::Release);
    }

    /// How many entries the other one has not taken yet.
    #[inline]
    pub fn waiting(&mut self) -> u32 {
        self.0.mask + 1 - self.room()
    }

    /// Whether the kernel wants a system call to go on (`XDP_RING_NEED_WAKEUP`).
    ///
    /// The other one says so, then looks whether there is something after all: what was shown has
    /// to be visible before that is read, or each could miss the other.
    #[inline]
    pub fn wants_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        let flags = self.0.index(self.0.layout.flags).load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T: Copy> Consumer<T> {
    /// The consumer of a ring of `count` entries that nobody has used yet.
    ///
    /// # Panics
    /// `count` is no power of two, or the mapping is too small.
    pub fn new(mapping: Arc<Mapping>, layout: Layout, count: u32) -> Self {
        Self(Side::new(mapping, layout, count))
    }

    /// A look at the ring from elsewhere.
    pub fn level(&self) -> Level {
        self.0.level()
    }

    /// Takes the next entry. The other one may not use its place again before `release`.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let side = &mut self.0;
        if side.other == side.own {
            side.other = side.index(side.layout.producer).load(Ordering::Acquire);
            if side.other == side.own {
                return None;
            }
        }
        // SAFETY: within the entries; the other one has shown it.
        let entry = unsafe { side.entry(side.own).read() };
        side.own = side.own.wrapping_add(1);
        Some(entry)
    }

    /// Lets the other one use the places of all that was taken.
    #[inline]
    pub fn release(&mut self) {
        self.0.index(self.0.layout.consumer).store(self.0.own, Ordering::Release);
    }
}

#[cfg(test)]
impl<T: Copy> Producer<T> {
    /// Sets the flag by which a kernel says that it wants to be woken.
    pub fn pretend_to_want_wakes(&self) {
        self.0.index(self.0.layout.flags).store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
    }
}

/// Both sides of a ring in memory of our own.
#[cfg(test)]
pub fn plain<T: Copy>(count: u32) -> std::io::Result<(Producer<T>, Consumer<T>)> {
    let mapping = Arc::new(Mapping::anonymous(Layout::PLAIN.octets::<T>(count))?);
    let producer = Producer::new(Arc::clone(&mapping), Layout::PLAIN, count);
    Ok((producer, Consumer::new(mapping, Layout::PLAIN, count)))
}

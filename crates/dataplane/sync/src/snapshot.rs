//! The snapshot pointer: quiescent-state reclamation by generation.
//!
//! Each reader shows, in a slot of its own, the oldest generation it may still hold. The publisher
//! frees an image once every slot shows a later one. A parked reader holds nothing.
//!
//! Why it is sound. A slot that shows G keeps G and all later images alive, so an active reader may
//! load the pointer and use what it finds: the pointer never goes back. Before a parked reader
//! loads, it shows [`HOLDS_ANY`], fences, then loads; the publisher stores the pointer, fences,
//! then looks at the slots. Of the two, one sees the other: either the reader loads the new image,
//! or the publisher sees that the reader may hold an old one.

use crate::CachePadded;
use crate::limits::READERS_MAX;
use crate::sync::{Arc, AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
use std::collections::VecDeque;
use std::fmt;
use std::ptr;

/// In a slot: the reader is about to load and may hold any image.
const HOLDS_ANY: u64 = 0;
/// In a slot: the reader holds nothing and loads before it reads again.
const PARKED: u64 = u64::MAX;
/// The generation of the first image.
const FIRST: u64 = 1;

/// A value and its generation.
struct Published<T> {
    generation: u64,
    value: T,
}

/// What a reader shows the publisher; written by the reader only.
struct ReaderSlot {
    /// The oldest generation that the reader may hold, [`HOLDS_ANY`] or [`PARKED`].
    holds: AtomicU64,
    /// Whether the reader is gone and the slot can be removed.
    released: AtomicBool,
}

/// What the publisher and its readers share.
struct Shared<T> {
    newest: CachePadded<AtomicPtr<Published<T>>>,
    /// Images that could not be freed yet when the publisher was dropped before its readers.
    left: std::sync::Mutex<VecDeque<*mut Published<T>>>,
}

// SAFETY: the pointers lead to boxed `T`s that are read through `&T` by many threads (Sync) and
// dropped by the last owner (Send).
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above; everything is modified through atomics and a mutex only.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let left = self.left.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let newest = self.newest.0.load(Ordering::Acquire);
        for image in left.drain(..).chain([newest]) {
            // SAFETY: each pointer came from `Box::into_raw` and is in one place only; after the
            // last share of `Shared`, there is neither publisher nor reader.
            drop(unsafe { Box::from_raw(image) });
        }
    }
}

/// There are [`READERS_MAX`] readers already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadersFull;

impl fmt::Display for ReadersFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a snapshot has {READERS_MAX} readers at most")
    }
}

impl std::error::Error for ReadersFull {}

/// The writing end of a snapshot: one owner, who also frees.
pub struct Publisher<T> {
    shared: Arc<Shared<T>>,
    slots: Vec<Arc<CachePadded<ReaderSlot>>>,
    /// Replaced images, oldest first, that readers may still hold.
    retired: VecDeque<*mut Published<T>>,
    generation: u64,
}

// SAFETY: the retired pointers are owned boxes of `T`; see `Shared` for the rest.
unsafe impl<T: Send + Sync> Send for Publisher<T> {}
// SAFETY: through `&Publisher` only generations and slots are read.
unsafe impl<T: Send + Sync> Sync for Publisher<T> {}

impl<T: Send + Sync> Publisher<T> {
    /// A publisher of `first`, generation 1.
    pub fn new(first: T) -> Self {
        let newest = CachePadded(AtomicPtr::new(into_image(FIRST, first)));
        let shared = Arc::new(Shared { newest, left: Default::default() });
        Self { shared, slots: Vec::new(), retired: VecDeque::new(), generation: FIRST }
    }

    /// A new reader, parked. It may move to another thread; dropping it frees its slot.
    ///
    /// # Errors
    /// There are [`READERS_MAX`] already.
    pub fn reader(&mut self) -> Result<Reader<T>, ReadersFull> {
        self.forget_released();
        if self.slots.len() == READERS_MAX {
            return Err(ReadersFull);
        }
        let slot = ReaderSlot { holds: AtomicU64::new(PARKED), released: AtomicBool::new(false) };
        let slot = Arc::new(CachePadded(slot));
        self.slots.push(slot.clone());
        Ok(Reader { shared: self.shared.clone(), slot, held: ptr::null() })
    }

    /// Publishes `value`, which every reader sees from its next refresh on; returns its generation,
    /// one more than the last. Never waits and frees nothing; [`collect`](Self::collect) does.
    pub fn publish(&mut self, value: T) -> u64 {
        self.generation += 1;
        let image = into_image(self.generation, value);
        self.retired.push_back(self.shared.newest.0.swap(image, Ordering::AcqRel));
        self.generation
    }

    /// Frees the replaced images that no reader can still hold; returns how many remain.
    pub fn collect(&mut self) -> usize {
        self.forget_released();
        if self.retired.is_empty() {
            return 0;
        }
        let oldest = self.oldest_held();
        while let Some(&image) = self.retired.front() {
            // SAFETY: the pointers in `retired` came from `Box::into_raw` and have not been freed.
            if unsafe { (*image).generation } >= oldest {
                break;
            }
            self.retired.pop_front();
            // SAFETY: it is not the newest image, every slot shows a later generation or none, and
            // a parked reader's next load finds the newest (see the module).
            drop(unsafe { Box::from_raw(image) });
        }
        self.retired.len()
    }

    /// Whether every reader has loaded `generation` or a later one, or is parked and loads it
    /// before it reads again.
    pub fn is_live(&self, generation: u64) -> bool {
        generation <= self.generation && self.oldest_held() >= generation
    }

    /// The newest image's generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The newest image.
    pub fn newest(&self) -> &T {
        // SAFETY: only `publish` replaces the newest image and only `collect` frees replaced ones;
        // both need `&mut self`, which the returned borrow excludes.
        unsafe { &(*self.shared.newest.0.load(Ordering::Relaxed)).value }
    }

    /// The oldest generation that any reader may hold; [`PARKED`] if all are parked.
    fn oldest_held(&self) -> u64 {
        // The pointer was stored before; pairs with the fence in `Reader::wake`.
        fence(Ordering::SeqCst);
        let held = self.slots.iter().map(|slot| slot.0.holds.load(Ordering::Acquire));
        held.min().unwrap_or(PARKED)
    }

    /// Removes the slots of dropped readers.
    fn forget_released(&mut self) {
        self.slots.retain(|slot| !slot.0.released.load(Ordering::Acquire));
    }
}

impl<T> Drop for Publisher<T> {
    fn drop(&mut self) {
        let mut left = self.shared.left.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        left.append(&mut self.retired);
    }
}

impl<T> fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Publisher");
        out.field("generation", &self.generation).field("retired", &self.retired.len());
        out.finish_non_exhaustive()
    }
}

/// One thread's view of the snapshot.
pub struct Reader<T> {
    shared: Arc<Shared<T>>,
    slot: Arc<CachePadded<ReaderSlot>>,
    /// The image loaded last, whose generation the slot shows; null while parked.
    held: *const Published<T>,
}

// SAFETY: `held` is a shared borrow of a `T` that the slot keeps alive, whatever the thread.
unsafe impl<T: Send + Sync> Send for Reader<T> {}

impl<T> Reader<T> {
    /// The newest value. One atomic load if it has not changed. Everything seen before is released.
    /// Call it once a burst.
    #[inline]
    pub fn refresh(&mut self) -> &T {
        if self.held.is_null() {
            self.wake();
        }
        let newest = self.shared.newest.0.load(Ordering::Acquire).cast_const();
        if !ptr::eq(newest, self.held) {
            self.adopt(newest);
        }
        // SAFETY: the slot shows the image's generation, so the publisher keeps it until this
        // reader refreshes or parks, which the returned borrow of `self` excludes.
        unsafe { &(*newest).value }
    }

    /// Lets go of the image: nothing waits for a parked reader. The next refresh loads the newest.
    /// What refresh returned cannot be kept across this:
    ///
    /// ```compile_fail,E0499
    /// let mut publisher = sync::Publisher::new(7);
    /// let mut reader = publisher.reader().unwrap();
    /// let seven = reader.refresh();
    /// reader.park();
    /// assert_eq!(*seven, 7);
    /// ```
    pub fn park(&mut self) {
        self.held = ptr::null();
        // Release: what was read from the image happens before it is freed.
        self.slot.0.holds.store(PARKED, Ordering::Release);
    }

    /// Shows that an image is about to be loaded.
    #[cold]
    fn wake(&self) {
        self.slot.0.holds.store(HOLDS_ANY, Ordering::Relaxed);
        // Pairs with the fence in `Publisher::oldest_held`.
        fence(Ordering::SeqCst);
    }

    /// Shows the generation of `newest`, which releases all older ones.
    #[cold]
    fn adopt(&mut self, newest: *const Published<T>) {
        self.held = newest;
        // SAFETY: the slot shows an older generation or `HOLDS_ANY`; both keep this one alive.
        let generation = unsafe { (*newest).generation };
        self.slot.0.holds.store(generation, Ordering::Release);
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        self.park();
        self.slot.0.released.store(true, Ordering::Release);
    }
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("parked", &self.held.is_null()).finish_non_exhaustive()
    }
}

fn into_image<T>(generation: u64, value: T) -> *mut Published<T> {
    Box::into_raw(Box::new(Published { generation, value }))
}

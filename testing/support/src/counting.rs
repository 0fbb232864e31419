//! An allocator that counts, for tests of who never allocates, or holds little.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread has requested and not freed, and the most so far.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// How often this thread has asked the allocator for something so far.
pub fn calls() -> u64 {
    CALLS.get()
}

/// The most bytes that this thread holds while it runs this, beside the previous ones.
pub fn most_held(run: impl FnOnce()) -> usize {
    let (before, _) = HELD.get();
    HELD.set((before, before));
    run();
    (HELD.get().1 - before) as usize
}

/// The system's allocator, counting what each thread asks of it.
pub struct Counting;

fn count(bytes: isize) {
    // A thread that is ending counts no more.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    let _ = HELD.try_with(|held| {
        let (now, most) = (held.get().0 + bytes, held.get().1);
        held.set((now, most.max(now)));
    });
}

// SAFETY: every call is passed on to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

//! Memory that the kernel writes to and reads from, and that points at itself.

use std::ptr::NonNull;

/// So many values at a fixed place, reached through pointers only: references to them would
/// contradict the pointers that the kernel was given.
pub struct Slab<T: Copy>(NonNull<[T]>);

// SAFETY: the slab owns what it points at; no thread is tied to it.
unsafe impl<T: Copy + Send> Send for Slab<T> {}

impl<T: Copy> Slab<T> {
    /// `count` times `value`.
    pub fn new(count: usize, value: T) -> Self {
        let values = vec![value; count].into_boxed_slice();
        Self(NonNull::from(Box::leak(values)))
    }

    /// Where the value of that index is.
    #[inline]
    pub fn at(&self, index: usize) -> *mut T {
        assert!(index < self.0.len());
        // SAFETY: the index is within.
        unsafe { self.0.cast::<T>().as_ptr().add(index) }
    }
}

impl<T: Copy> Drop for Slab<T> {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and is not used any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

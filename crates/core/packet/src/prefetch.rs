//! Prefetching: the only `unsafe` of the core crates (invariant I7).

/// Asks the CPU to load the line at the start of `slice` into its first-level cache. A hint: it
/// never faults.
#[inline(always)]
pub fn prefetch<T>(slice: &[T]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHT0 has no architectural effect and cannot fault, whatever the address; the
    // pointer is that of a live slice anyway. SSE is part of every x86_64 CPU.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = slice;
}

//! Memory that the control plane has freed.

/// Gives freed memory back to the system. A load frees several times what it leaves, and the
/// allocator of glibc keeps all of it that is not at the end of its heap. This takes some
/// milliseconds, in which other threads may have to wait for their allocations; workers make none.
/// Without glibc it does nothing.
pub fn return_freed_memory() {
    // SAFETY: any thread may call it at any time; it only advises the kernel about memory that
    // belongs to no allocation.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

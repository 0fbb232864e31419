//! Memory shared with the kernel.

use std::io;
use std::ptr::{self, NonNull};

/// Zeroed pages of memory, freed when dropped.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the process; the owner decides who accesses which bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above; a reference gives the address alone.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Local memory.
    ///
    /// # Errors
    /// There is not enough.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0)
    }

    /// The same in huge pages, which need fewer TLB entries.
    ///
    /// # Errors
    /// There are not enough.
    pub fn huge(len: usize) -> io::Result<Self> {
        let len = len.next_multiple_of(2 << 20);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        Self::map(len, flags | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB, -1, 0)
    }

    /// Memory that a descriptor shares at an offset.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn shared(len: usize, fd: i32, offset: i64) -> io::Result<Self> {
        Self::map(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd, offset)
    }

    fn map(len: usize, flags: i32, fd: i32, offset: i64) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: no address is requested, so nothing is replaced.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, fd, offset as _) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len })
    }

    /// Its start.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and all pointers into it are gone, as the users
        // of the address guarantee.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

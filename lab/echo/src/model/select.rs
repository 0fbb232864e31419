//! Waits with select, then receives until the socket is empty or a batch is complete.

use crate::datagram::Datagram;
use crate::limits::PATIENCE;
use crate::thread_context::ThreadContext;
use std::os::fd::AsRawFd;
use std::{io, mem, ptr};

pub fn run(context: &ThreadContext) -> io::Result<()> {
    let mut datagram = Datagram::new();
    let fd = context.fd().as_raw_fd();
    if fd as usize >= libc::FD_SETSIZE {
        // A set has a bit for each descriptor it can watch, and no more.
        let message = format!("select cannot watch descriptor {fd}: use fewer threads, or poll");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    while context.goes_on() {
        // The kernel writes to both what is left.
        let mut patience = libc::timeval { tv_sec: 0, tv_usec: PATIENCE.subsec_micros().into() };
        // SAFETY: zeros are an empty set, which has room for the descriptor, as checked above; set
        // and time are live, and the other two sets may be null.
        let count = unsafe {
            let mut watched: libc::fd_set = mem::zeroed();
            libc::FD_SET(fd, &raw mut watched);
            let (set, none) = (&raw mut watched, ptr::null_mut());
            libc::select(fd + 1, set, none, none, &raw mut patience)
        };
        match count {
            0 => {}
            1.. => datagram.drain(context)?,
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}

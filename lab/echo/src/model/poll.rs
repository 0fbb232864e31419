//! Waits with poll, then receives until the socket is empty or a batch is complete.

use crate::datagram::Datagram;
use crate::limits::PATIENCE;
use crate::thread_context::ThreadContext;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;

pub fn run(context: &ThreadContext) -> io::Result<()> {
    let mut datagram = Datagram::new();
    let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
    while context.goes_on() {
        let mut watched = [PollFd::from_borrowed_fd(context.fd(), PollFlags::IN)];
        match poll(&mut watched, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => datagram.drain(context)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

//! Waits with epoll (level-triggered), then receives until the socket is empty or a batch is
//! complete.

use crate::datagram::Datagram;
use crate::limits::PATIENCE;
use crate::thread_context::ThreadContext;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::io;

pub fn run(context: &ThreadContext) -> io::Result<()> {
    let mut datagram = Datagram::new();
    let watched = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&watched, context.fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE.subsec_nanos().into() };
    let mut events =
        [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
    while context.goes_on() {
        match epoll::wait(&watched, &mut events, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => datagram.drain(context)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

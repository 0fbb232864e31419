//! One datagram per call without waiting: it uses all of a CPU, also when idle.

use crate::datagram::Datagram;
use crate::thread_context::ThreadContext;
use std::io;

pub fn run(context: &ThreadContext) -> io::Result<()> {
    let mut datagram = Datagram::new();
    while context.goes_on() {
        datagram.exchange(context, libc::MSG_DONTWAIT)?;
    }
    Ok(())
}

//! One datagram per call; the thread waits in the kernel.

use crate::datagram::Datagram;
use crate::thread_context::ThreadContext;
use std::io;

pub fn run(context: &ThreadContext) -> io::Result<()> {
    let mut datagram = Datagram::new();
    while context.goes_on() {
        datagram.exchange(context, 0)?;
    }
    Ok(())
}

//! One datagram a call, without ever waiting: a whole CPU, whether there is something to do or not.

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

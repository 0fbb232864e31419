//! One datagram a call, and the kernel has the thread wait for it.

use crate::datagram::Datagram;
use crate::seat::Seat;
use std::io;

pub fn run(seat: &Seat) -> io::Result<()> {
    let mut datagram = Datagram::new();
    while seat.goes_on() {
        datagram.exchange(seat, 0)?;
    }
    Ok(())
}

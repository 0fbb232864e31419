//! One datagram a call, without ever waiting: a whole CPU, whether there is something to do or not.

use crate::datagram::Datagram;
use crate::seat::Seat;
use std::io;

pub fn run(seat: &Seat) -> io::Result<()> {
    let mut datagram = Datagram::new();
    while seat.goes_on() {
        datagram.exchange(seat, libc::MSG_DONTWAIT)?;
    }
    Ok(())
}

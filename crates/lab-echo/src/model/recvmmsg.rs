//! A batch of datagrams a call: waits for the first, takes what else is there.

use crate::burst::Burst;
use crate::reply::Reason;
use crate::seat::Seat;
use std::io;

pub fn run(seat: &Seat) -> io::Result<()> {
    let mut burst = Burst::new(seat.batch);
    while seat.goes_on() {
        let received = burst.receive(seat.fd())?;
        if received == 0 {
            continue;
        }
        seat.tally().burst(received);
        for number in 0..received {
            let slot = burst.slot(number);
            let len = slot.message.len();
            if slot.is_cut {
                seat.tally().dropped(Reason::Oversize, 1);
            } else if seat.answer(slot.message, slot.peer.port()) {
                burst.queue(number, len);
            }
        }
        let (queued, taken) = burst.send(seat.fd());
        seat.sent(queued, taken);
    }
    Ok(())
}

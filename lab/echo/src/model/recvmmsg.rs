//! A batch of datagrams per call: waits for the first, and takes those that are ready with it.

use crate::burst::Burst;
use crate::reply::Reason;
use crate::thread_context::ThreadContext;
use std::io;

pub fn run(context: &ThreadContext) -> io::Result<()> {
    let mut burst = Burst::new(context.batch);
    while context.goes_on() {
        let received = burst.receive(context.fd())?;
        if received == 0 {
            continue;
        }
        context.counters_mut().burst(received);
        for number in 0..received {
            let slot = burst.slot(number);
            let len = slot.message.len();
            if slot.is_cut {
                context.counters_mut().dropped(Reason::Oversize, 1);
            } else if context.answer(slot.message, slot.peer.port()) {
                burst.queue(number, len);
            }
        }
        let (queued, taken) = burst.send(context.fd());
        context.sent(queued, taken);
    }
    Ok(())
}

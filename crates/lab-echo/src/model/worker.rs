//! Dunlin's own worker loop and socket port, with an echo as what answers.

use crate::board::Counts;
use crate::reply::Reason;
use crate::seat::Seat;
use door::CountersView;
use packet::{Drop, Packet, Verdict};
use plane::{App, COUNTERS, Totals, Worker};
use port_socket::SocketPort;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bursts after which a worker that is never idle shows what it counted.
const BURSTS_UNSEEN_MAX: u32 = 64;

pub fn run(seat: &Arc<Seat>) -> io::Result<()> {
    let port = SocketPort::new(seat.fd().try_clone_to_owned()?)?;
    let counters = Arc::new(OnceLock::new());
    let app = Echo { seat: seat.clone(), counters: counters.clone(), unseen: 0 };
    let worker = Worker::new(vec![port], app, seat.on_stop.clone())?;
    let view = worker.counters();
    show(seat, counters.get_or_init(|| worker.counters()));
    let done = worker.run();
    show(seat, &view);
    done
}

/// Answers every query with itself.
struct Echo {
    seat: Arc<Seat>,
    /// What the worker counts.
    counters: Arc<OnceLock<CountersView<COUNTERS>>>,
    unseen: u32,
}

impl Echo {
    fn show(&mut self) {
        self.unseen = 0;
        if let Some(counters) = self.counters.get() {
            show(&self.seat, counters);
        }
    }
}

impl App for Echo {
    fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
        for packet in packets {
            packet.verdict = match crate::reply::turn_around(&mut packet.buf[..packet.len]) {
                Ok(()) => {
                    crate::seat::spend(self.seat.spin);
                    Verdict::Reply
                }
                Err(Reason::Short) => Verdict::Drop(Drop::Short),
                Err(_) => Verdict::Drop(Drop::Response),
            };
        }
        self.unseen += 1;
        if self.unseen >= BURSTS_UNSEEN_MAX {
            self.show();
        }
    }

    fn park(&mut self) {
        self.show();
    }
}

/// Copies what a worker has counted onto the board.
fn show(seat: &Seat, counters: &CountersView<COUNTERS>) {
    let totals = Totals::sum([counters]);
    let mut counts = Counts {
        received: totals.received,
        answered: totals.replied,
        bursts: totals.bursts,
        ..Counts::default()
    };
    for (ours, theirs) in [
        (Reason::Short, Drop::Short),
        (Reason::Response, Drop::Response),
        (Reason::NoPeer, Drop::NoPeer),
        (Reason::Oversize, Drop::Oversize),
        (Reason::Unsent, Drop::Unsent),
    ] {
        counts.dropped[ours as usize] = totals.dropped[theirs as usize];
    }
    seat.tally().set(&counts);
}

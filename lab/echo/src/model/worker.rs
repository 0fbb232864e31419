//! Dunlin's worker loop and socket port, with an echo as the application.

use crate::reply::Reason;
use crate::shared_counters::Counts;
use crate::thread_context::ThreadContext;
use packet::{DropReason, Packet, Verdict};
use port_socket::SocketPort;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use sync::CountersView;
use worker::{App, COUNTERS, Worker, WorkerTotals};

/// Bursts after which a worker that is never idle shows what it counted.
const BURSTS_UNSEEN_MAX: u32 = 64;

pub fn run(context: &Arc<ThreadContext>) -> io::Result<()> {
    let port = SocketPort::new(context.fd().try_clone_to_owned()?)?;
    let counters = Arc::new(OnceLock::new());
    let app = Echo { context: context.clone(), counters: counters.clone(), unseen: 0 };
    let worker = Worker::new(vec![port], app, context.on_stop.clone())?;
    let view = worker.counters();
    show(context, counters.get_or_init(|| worker.counters()));
    let done = worker.run();
    show(context, &view);
    done
}

/// Answers every query with itself.
struct Echo {
    context: Arc<ThreadContext>,
    /// Counters of the worker.
    counters: Arc<OnceLock<CountersView<COUNTERS>>>,
    unseen: u32,
}

impl Echo {
    fn show(&mut self) {
        self.unseen = 0;
        if let Some(counters) = self.counters.get() {
            show(&self.context, counters);
        }
    }
}

impl App for Echo {
    fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
        for packet in packets {
            packet.verdict = match crate::reply::turn_around(&mut packet.buf[..packet.len]) {
                Ok(()) => {
                    crate::thread_context::spend(self.context.spin);
                    Verdict::Reply
                }
                Err(Reason::Short) => Verdict::Drop(DropReason::Short),
                Err(_) => Verdict::Drop(DropReason::Response),
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

/// Copies what a worker has counted onto the shared counters.
fn show(context: &ThreadContext, counters: &CountersView<COUNTERS>) {
    let totals = WorkerTotals::sum([counters]);
    let mut counts = Counts {
        received: totals.received,
        answered: totals.replied,
        bursts: totals.bursts,
        ..Counts::default()
    };
    for (ours, theirs) in [
        (Reason::Short, DropReason::Short),
        (Reason::Response, DropReason::Response),
        (Reason::NoPeer, DropReason::NoPeer),
        (Reason::Oversize, DropReason::Oversize),
        (Reason::Unsent, DropReason::Unsent),
    ] {
        counts.dropped[ours as usize] = totals.dropped[theirs as usize];
    }
    context.counters_mut().set(&counts);
}

//! The fleet: the workers of one process.

use crate::counters::COUNTERS;
use crate::limits::{LEND_MAX, PORTS_MAX, WORKERS_MAX};
use crate::orders::{self, Desk};
use crate::thread::{OnFailure, OnStop, spawn};
use crate::{App, Worker};
use door::CountersView;
use port::Port;
use std::io;
use std::thread::JoinHandle;

/// What one worker is given.
#[derive(Debug)]
pub struct Seat<P, A> {
    /// The ports it alone serves.
    pub ports: Vec<P>,
    /// What answers.
    pub app: A,
    /// The only CPU it is to run on; `None`: wherever the kernel puts it.
    pub cpu: Option<usize>,
}

/// Running workers, `worker-0` to `worker-N`. Dropping it stops them.
#[derive(Debug)]
pub struct Fleet<P> {
    desks: Vec<Desk<P>>,
    threads: Vec<JoinHandle<()>>,
    counters: Vec<CountersView<COUNTERS>>,
    /// How many ports each worker began with.
    own: Vec<usize>,
}

impl<P: Port + Send + 'static> Fleet<P> {
    /// Starts a worker for each seat. `on_failure` is told of each worker that ends by itself.
    ///
    /// # Errors
    /// More than [`WORKERS_MAX`] seats, one with no ports or too many, or no thread or file
    /// descriptor is left. None runs then.
    pub fn start<A: App + 'static>(
        seats: Vec<Seat<P, A>>,
        on_failure: OnFailure,
    ) -> io::Result<Self> {
        if seats.len() > WORKERS_MAX {
            let message = format!("a fleet has {WORKERS_MAX} workers at most");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let own = seats.iter().map(|seat| seat.ports.len()).collect();
        let (desks, threads, counters) = (Vec::new(), Vec::new(), Vec::new());
        let mut fleet = Self { desks, threads, counters, own };
        for (index, seat) in seats.into_iter().enumerate() {
            let bell = OnStop::new()?;
            let (desk, orders) = Desk::new(bell.clone());
            let worker = Worker::new(seat.ports, seat.app, bell)?.obeying(orders);
            fleet.desks.push(desk);
            fleet.counters.push(worker.counters());
            let thread = spawn(format!("worker-{index}"), on_failure.clone(), move || {
                if let Some(cpu) = seat.cpu {
                    cpu::pin(cpu).map_err(|error| {
                        io::Error::new(error.kind(), format!("cannot pin it to CPU {cpu}: {error}"))
                    })?;
                }
                worker.run()
            })?;
            fleet.threads.push(thread);
        }
        Ok(fleet)
    }

    /// Each worker's counters, in the order of the seats. They outlive the fleet.
    pub fn counters(&self) -> &[CountersView<COUNTERS>] {
        &self.counters
    }

    /// Gives each worker other ports beside those it began with, in place of those it was lent
    /// before: what these have received is answered, then they are dropped. `ports` has a list for
    /// each worker; one that it does not reach has none. Returns when all of it is done.
    ///
    /// # Errors
    /// A worker would have more than [`PORTS_MAX`] ports: then nothing changes. A worker has ended,
    /// or does not get to it within [`LEND_MAX`]: it may do so yet.
    pub fn lend(&self, ports: Vec<Vec<P>>) -> io::Result<()> {
        for (n, (own, lent)) in self.own.iter().zip(&ports).enumerate() {
            let count = own + lent.len();
            if count > PORTS_MAX {
                let message = format!(
                    "worker-{n} would have {count} ports and can have {PORTS_MAX}: it takes more \
                     workers"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        }
        let mut ports = ports.into_iter();
        let given = self.desks.iter().map(|desk| desk.give(ports.next().unwrap_or_default()));
        let given: io::Result<Vec<_>> = given.collect();
        given?.iter().try_for_each(|carried_out| orders::wait(carried_out, LEND_MAX))
    }
}

impl<P> Fleet<P> {
    /// Stops the workers, once they have answered what has arrived, and waits for them to end.
    pub fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        self.desks.iter().for_each(Desk::stop);
        for thread in self.threads.drain(..) {
            // A panic was caught and reported inside the thread.
            let _ = thread.join();
        }
    }
}

impl<P> Drop for Fleet<P> {
    fn drop(&mut self) {
        self.halt();
    }
}

//! The fleet: the workers of one process.

use crate::counters::COUNTERS;
use crate::limits::WORKERS_MAX;
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
pub struct Fleet {
    stop: OnStop,
    threads: Vec<JoinHandle<()>>,
    counters: Vec<CountersView<COUNTERS>>,
}

impl Fleet {
    /// Starts a worker for each seat. `on_failure` is told of each worker that ends by itself.
    ///
    /// # Errors
    /// More than [`WORKERS_MAX`] seats, one with no ports or too many, or no thread or file
    /// descriptor is left. None runs then.
    pub fn start<P, A>(seats: Vec<Seat<P, A>>, on_failure: OnFailure) -> io::Result<Self>
    where
        P: Port + Send + 'static,
        A: App + 'static,
    {
        if seats.len() > WORKERS_MAX {
            let message = format!("a fleet has {WORKERS_MAX} workers at most");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut fleet = Self { stop: OnStop::new()?, threads: Vec::new(), counters: Vec::new() };
        for (index, seat) in seats.into_iter().enumerate() {
            let worker = Worker::new(seat.ports, seat.app, fleet.stop.clone())?;
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

    /// Stops the workers, once they have answered what has arrived, and waits for them to end.
    pub fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        self.stop.stop();
        for thread in self.threads.drain(..) {
            // A panic was caught and reported inside the thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.halt();
    }
}

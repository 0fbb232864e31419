//! The workers of one process.

use crate::counters::COUNTERS;
use crate::limits::{LEND_MAX, PORTS_MAX, WORKERS_MAX};
use crate::port_changes::{self, PortChangeSender};
use crate::thread::{OnFailure, StopHook, spawn};
use crate::{App, Worker};
use port::Port;
use std::io;
use std::thread::JoinHandle;
use sync::CountersView;

/// The setup of one worker.
#[derive(Debug)]
pub struct WorkerSetup<P, A> {
    /// The ports that only this worker serves.
    pub ports: Vec<P>,
    /// The application.
    pub app: A,
    /// The only CPU it may run on; `None`: any.
    pub cpu: Option<usize>,
}

/// Running workers, `worker-0` to `worker-N`. Dropping it stops them.
#[derive(Debug)]
pub struct Workers<P> {
    all_buffers: Vec<PortChangeSender<P>>,
    threads: Vec<JoinHandle<()>>,
    counters: Vec<CountersView<COUNTERS>>,
    /// The number of each worker's own ports.
    own: Vec<usize>,
}

impl<P: Port + Send + 'static> Workers<P> {
    /// Starts a worker for each setup. `on_failure` is called for each worker that ends by itself.
    ///
    /// # Errors
    /// More than [`WORKERS_MAX`] setups, one with no ports or too many, or no thread or file
    /// descriptor is left. No worker runs then.
    pub fn start<A: App + 'static>(
        setups: Vec<WorkerSetup<P, A>>,
        on_failure: OnFailure,
    ) -> io::Result<Self> {
        if setups.len() > WORKERS_MAX {
            let message = format!("a fleet has {WORKERS_MAX} workers at most");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let own = setups.iter().map(|setup| setup.ports.len()).collect();
        let (all_buffers, threads, counters) = (Vec::new(), Vec::new(), Vec::new());
        let mut workers = Self { all_buffers, threads, counters, own };
        for (index, setup) in setups.into_iter().enumerate() {
            let waker = StopHook::new()?;
            let (buffers, port_changes) = PortChangeSender::new(waker.clone());
            let worker =
                Worker::new(setup.ports, setup.app, waker)?.with_port_changes(port_changes);
            workers.all_buffers.push(buffers);
            workers.counters.push(worker.counters());
            let thread = spawn(format!("worker-{index}"), on_failure.clone(), move || {
                setup.cpu.map_or(Ok(()), pin)?;
                worker.run()
            })?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Each worker's counters, in the order of the setups. They outlive the workers.
    pub fn counters(&self) -> &[CountersView<COUNTERS>] {
        &self.counters
    }

    /// Replaces the lent ports of each worker. The old ones answer what they have received, then
    /// they are dropped. `ports` has a list for each worker; missing ones are empty. Returns when
    /// all is done.
    ///
    /// # Errors
    /// A worker would have more than [`PORTS_MAX`] ports: then nothing changes. A worker has ended,
    /// or does not apply the change within [`LEND_MAX`]: it may still do so.
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
        let given =
            self.all_buffers.iter().map(|buffers| buffers.send(ports.next().unwrap_or_default()));
        let given: io::Result<Vec<_>> = given.collect();
        given?.iter().try_for_each(|carried_out| port_changes::wait(carried_out, LEND_MAX))
    }
}

/// Pins this thread. A CPU that was taken from the process after its workers were placed is no
/// failure: the worker runs on the others, and the next placement moves it.
fn pin(cpu: usize) -> io::Result<()> {
    let pinned = cpu::pin(cpu);
    match cpu::allowed() {
        Ok(allowed) if pinned.is_err() && !allowed.contains(cpu) => Ok(()),
        _ => pinned.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot pin it to CPU {cpu}: {error}"))
        }),
    }
}

impl<P> Workers<P> {
    /// Stops the workers once they have answered what has arrived, and waits for them to end.
    pub fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        self.all_buffers.iter().for_each(PortChangeSender::stop);
        for thread in self.threads.drain(..) {
            // A panic was caught and reported inside the thread.
            let _ = thread.join();
        }
    }
}

impl<P> Drop for Workers<P> {
    fn drop(&mut self) {
        self.halt();
    }
}

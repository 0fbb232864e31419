//! The echo: processes, their threads and counters.

mod process;

use crate::limits::{CHANGE_MAX, PATIENCE};
use crate::model::Opened;
use crate::shared_counters::{Counts, SharedCounters, State};
use crate::thread_context::ThreadContext;
use crate::{Error, Model, Options, model, netns, sockets};
use process::Processes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::any::Any;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use worker::StopHook;

/// A running echo. Dropping it ends all its processes and threads.
pub struct Echo {
    options: Options,
    address: SocketAddr,
    queues: (usize, usize),
    counters: Arc<SharedCounters>,
    on_stop: StopHook,
    processes: Processes,
    begun: Instant,
    /// Resources that stay open as long as it runs.
    _beside: Box<dyn Any + Send>,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The time has passed.
    TimedOut,
    /// The stop descriptor is readable.
    Stopped,
}

/// Counts of all threads at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Time since they began to answer.
    pub elapsed: Duration,
    /// Each thread, by process.
    pub threads: Vec<Thread>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The process it belongs to, from 0.
    pub process: usize,
    /// Its number there, from 0.
    pub number: usize,
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Its counts.
    pub counts: Counts,
    /// Its CPU time, user and system, without interrupts and kernel threads. `None` if the kernel
    /// does not report it.
    pub cpu_time: Option<Duration>,
}

impl Snapshot {
    /// All threads together.
    pub fn total(&self) -> Counts {
        self.threads.iter().fold(Counts::default(), |sum, thread| sum.plus(&thread.counts))
    }

    /// Time on CPUs of all threads together.
    pub fn cpu_time(&self) -> Option<Duration> {
        self.threads.iter().map(|thread| thread.cpu_time).sum()
    }
}

impl Echo {
    /// Opens the sockets, starts the processes and threads, and returns when all threads answer.
    /// More than one process requires a fork, so the caller must have a single thread. The forked
    /// processes end when the calling thread ends, for any reason.
    ///
    /// # Errors
    /// It cannot be done, and why; nothing runs then.
    pub fn start(options: Options) -> Result<Self, Error> {
        options.check()?;
        if options.model == Model::IoUring {
            model::probe_io_uring()?;
        }
        let count = options.processes * options.threads;
        let Opened { sockets, devices, beside } =
            netns::within(options.netns.as_deref(), || open(&options, count))?;
        let told = |error| Error::failed("a socket", error);
        // A packet socket has no port, and an AF_XDP socket no address: the requested one is used.
        let address = rustix::net::getsockname(&*sockets[0]).ok();
        let address = address.and_then(|address| address.try_into().ok()).unwrap_or(options.listen);
        let queues = sockets::buffers(&*sockets[0]).map_err(told)?;
        let counters =
            SharedCounters::new(count).map_err(|error| Error::failed("shared memory", error))?;
        let counters = Arc::new(counters);
        let on_stop = StopHook::new().map_err(|error| Error::failed("an eventfd", error))?;
        let mut devices = devices.into_iter();
        let contexts = sockets.into_iter().enumerate().map(|(number, socket)| {
            Arc::new(ThreadContext {
                number,
                cpu: options.cpu(number),
                batch: options.batch(),
                socket,
                device: Mutex::new(devices.next()),
                on_stop: on_stop.clone(),
                counters: counters.clone(),
                spin: options.spin,
            })
        });
        let processes = Processes::start(&options, contexts.collect())?;
        let begun = Instant::now();
        let echo =
            Self { options, address, queues, counters, on_stop, processes, begun, _beside: beside };
        echo.await_start()
    }

    fn await_start(mut self) -> Result<Self, Error> {
        let end = Instant::now() + CHANGE_MAX;
        while (0..self.count()).any(|thread| self.counters.state(thread) == State::Coming) {
            self.check()?;
            if Instant::now() > end {
                return Err(Error::failed("the threads", "not all run after 10 s"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.begun = Instant::now();
        Ok(self)
    }

    /// Threads, all processes together.
    fn count(&self) -> usize {
        self.options.processes * self.options.threads
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes of a socket's receive and send queues, as the kernel has them: without the privilege
    /// to exceed them, no more than the sysctls net.core.rmem_max and wmem_max allow.
    pub fn queues(&self) -> (usize, usize) {
        self.queues
    }

    /// Counts of all threads so far.
    pub fn snapshot(&self) -> Snapshot {
        let thread = |number| Thread {
            process: number / self.options.threads,
            number: number % self.options.threads,
            cpu: self.options.cpu(number),
            counts: self.counters.counts(number),
            cpu_time: self.counters.cpu_time(number),
        };
        Snapshot { elapsed: self.begun.elapsed(), threads: (0..self.count()).map(thread).collect() }
    }

    /// Waits until `until`, or until `stop` is readable.
    ///
    /// # Errors
    /// A thread has failed, or a process died. The rest continues until the echo is dropped.
    pub fn wait(&mut self, until: Option<Instant>, stop: BorrowedFd<'_>) -> Result<WaitEnd, Error> {
        loop {
            self.check()?;
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(WaitEnd::TimedOut);
            }
            let time = left.map_or(PATIENCE, |left| left.min(PATIENCE));
            if is_readable(stop, time) {
                return Ok(WaitEnd::Stopped);
            }
        }
    }

    /// # Errors
    /// As [`wait`](Self::wait).
    fn check(&mut self) -> Result<(), Error> {
        for number in 0..self.count() {
            if self.counters.state(number) == State::Failed {
                let (process, thread) =
                    (number / self.options.threads, number % self.options.threads);
                let what = format!("thread {thread} of process {process} ended");
                return Err(Error::failed(what, self.counters.story(number)));
            }
        }
        self.processes.check()
    }

    /// Ends it, and returns its counts.
    ///
    /// # Errors
    /// A thread failed, or a process died, before a stop was requested.
    pub fn stop(mut self) -> Result<Snapshot, Error> {
        self.check()?;
        let elapsed = self.begun.elapsed();
        self.end();
        Ok(Snapshot { elapsed, ..self.snapshot() })
    }

    fn end(&mut self) {
        self.counters.stop();
        self.on_stop.stop();
        self.processes.end();
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.end();
    }
}

/// Opens a socket for each thread, and further resources that stay open.
fn open(options: &Options, count: usize) -> Result<Opened, Error> {
    match options.model {
        Model::AfXdp | Model::XdpTx => model::open_xdp(options, count),
        Model::Packet => {
            let (sockets, silencer) = model::open_packet_sockets(options, count)?;
            Ok(Opened { sockets, devices: Vec::new(), beside: Box::new(silencer) })
        }
        _ => {
            let sockets = sockets::open(options, count)?;
            Ok(Opened { sockets, devices: Vec::new(), beside: Box::new(()) })
        }
    }
}

fn is_readable(fd: BorrowedFd<'_>, time: Duration) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    // An early end of the wait is handled when it begins again.
    poll(&mut watched, Some(&time)).is_ok_and(|count| count > 0)
}

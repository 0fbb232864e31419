//! The ceiling of a figure: the rate that the same generator gets from a bare echo in the server's
//! place.
//!
//! The echo answers at the server's address, on its CPUs and in its network namespace, at a port of
//! its own. It is measured before the run and after it. For a closed loop the measurement is the
//! same loop: the slower of generator and echo decides. For an open loop it is a closed loop, then
//! an open loop at a higher rate, because a generator that need not wait for answers sends more
//! queries at once. The higher rate counts.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cpu::CpuList;
use lab_echo::{Echo, Model};
use lab_host::namespace;
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::limits::RATE_MAX;
use lab_load::{LoadMode, Options, Path};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Result;
use crate::compare::OVERLOAD;
use crate::limits::{CEILING_NS, CEILING_OUTSTANDING, CEILING_TRIES};
use crate::observer::{Endpoints, RunResult};
use crate::verdict::Ceiling;

/// A bare echo, to compare a server with.
pub struct EchoBaseline {
    model: String,
    address: SocketAddr,
    /// Ends when this is dropped.
    _echo: Option<Echo>,
}

impl EchoBaseline {
    /// Starts an echo with a thread for each of `cpus`.
    ///
    /// # Errors
    /// It cannot be started: why, and what to do.
    pub fn start(model: Model, at: IpAddr, cpus: &CpuList, netns: Option<&str>) -> Result<Self> {
        let free = || UdpSocket::bind((at, 0)).and_then(|socket| socket.local_addr());
        let address = namespace::within(netns, || free().map_err(|e| format!("{at}: {e}")))?;
        let options = lab_echo::Options {
            threads: cpus.as_slice().len(),
            cpus: Some(cpus.clone()),
            netns: netns.map(ToOwned::to_owned),
            ..lab_echo::Options::new(address, model)
        };
        let start = || {
            allow(cpus)?;
            Echo::start(options).map_err(|error| error.to_string())
        };
        // In a thread of its own: the threads that it starts may use the server's CPUs, this thread
        // may not.
        let started = std::thread::scope(|scope| scope.spawn(start).join());
        let started = started.unwrap_or_else(|_| Err("the thread that starts it panicked".into()));
        let echo = started.map_err(|error| format!("no echo at {at}: {error}"))?;
        Ok(Self { model: model.name().into(), address, _echo: Some(echo) })
    }

    /// Starts an echo in the place of the server that `load` sends queries to.
    ///
    /// # Errors
    /// The server is not on this machine, or as [`Self::start`].
    pub fn in_place(model: Model, load: &Options, pids: &[u32]) -> Result<Self> {
        let endpoints = Endpoints::find(load, pids)?;
        let host = endpoints.server.ok_or_else(|| {
            let server = load.server;
            format!(
                "{server} is not on this machine: run `dunlin lab echo` beside it, and say where \
                 that answers instead of {}",
                model.name()
            )
        })?;
        let cpus = host.cpus.ok_or("it is not known which CPUs the server may use")?;
        Self::start(model, load.server.ip(), &cpus, host.netns.as_deref())
    }

    /// An echo that already runs.
    pub fn elsewhere(address: SocketAddr) -> Self {
        Self { model: format!("at {address}"), address, _echo: None }
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its I/O model, or its address.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Answers a second that the generator of `load` gets from it.
    ///
    /// # Errors
    /// The generator cannot run, `load` does not use UDP, or nothing answers.
    pub fn rate(&self, load: &Options, stop: &AtomicBool) -> Result<f64> {
        if matches!(load.path, Path::Tcp { .. }) {
            return Err("an echo answers over UDP; without it, the verdict has no ceiling".into());
        }
        let outstanding = match load.when {
            LoadMode::Closed { outstanding, .. } => outstanding,
            LoadMode::Open(_) => CEILING_OUTSTANDING.max(load.threads),
        };
        let closed = self.came_to(LoadMode::Closed { outstanding, rate_max: None }, load, stop)?;
        if !load.is_open() || stop.load(Ordering::Relaxed) {
            return Ok(closed);
        }
        let rate = Rate::Constant((closed * OVERLOAD).min(RATE_MAX));
        let more = Arrivals { rate, spacing: Spacing::Even, burst: 1 };
        Ok(closed.max(self.came_to(LoadMode::Open(more), load, stop)?))
    }

    fn came_to(&self, when: LoadMode, load: &Options, stop: &AtomicBool) -> Result<f64> {
        let options = Options {
            server: self.address,
            when,
            length_ns: CEILING_NS,
            timeout_ns: CEILING_NS,
            interval_ns: CEILING_NS,
            queries_max: None,
            oracle: None,
            ..load.clone()
        };
        // On a busy machine an echo may get no CPU time for this long.
        for tried in 0..CEILING_TRIES {
            // Each pause is longer, so that the wait ends.
            std::thread::sleep(Duration::from_nanos(tried as u64 * CEILING_NS));
            let answered = lab_load::run(&options, stop, &mut |_| {})?.counts.answered;
            if answered > 0 || stop.load(Ordering::Relaxed) {
                // Answers after the end are for queries from before it.
                return Ok(answered as f64 * 1e9 / CEILING_NS as f64);
            }
        }
        Err(format!("no echo answers at {}, asked {CEILING_TRIES} times", self.address))
    }

    /// Measures the echo, calls `run`, and measures the echo again; the verdict of the run uses
    /// both.
    ///
    /// # Errors
    /// As [`Self::rate`], and those of `run`.
    pub fn around(
        &self,
        load: &Options,
        stop: &AtomicBool,
        run: impl FnOnce() -> Result<RunResult>,
    ) -> Result<RunResult> {
        let before = self.rate(load, stop)?;
        let mut run = run()?;
        // After an interrupt, no further load runs.
        if !stop.load(Ordering::Relaxed) {
            let after = self.rate(load, stop)?;
            run.beside(Ceiling { model: self.model.clone(), before, after });
        }
        Ok(run)
    }
}

/// Pins the calling thread to these CPUs.
pub(crate) fn allow(cpus: &CpuList) -> Result<()> {
    let mut set = CpuSet::new();
    cpus.as_slice().iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set).map_err(|error| format!("CPU {cpus} may not be used: {error}"))
}

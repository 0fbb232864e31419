//! Records the measurements of a run for its verdict: the server's processes and address, the
//! counters of both kernels, and the processes on the CPUs of both sides.
//!
//! Counters are read when all sockets are open, when the last query is due, and when nothing is
//! under way any more: CPU times are of the first two, packets of the first and the last. In
//! between nothing is read, because reading costs CPU time. Only a thread on each of the
//! generator's CPUs sleeps for a short time again and again, to detect a stall of the CPU.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab_echo::PortCounter;
use lab_host::counters::Reading;
use lab_host::namespace;
use lab_load::{LEAD_NS, Options, Report, Snapshot};
use rustix::time::{ClockId, clock_gettime};

use crate::Result;
use crate::limits::SLEEPERS_MAX;
use crate::verdict::{Ceiling, Measurements, Verdict, judge};

mod endpoints;
mod measurements;
mod processes;
mod stall;

pub use endpoints::Endpoints;

/// A run with its measurements.
#[derive(Debug)]
pub struct RunResult {
    /// The report of the generator.
    pub report: Report,
    /// The measurements behind the verdict.
    pub measurements: Measurements,
    /// The verdict.
    pub verdict: Verdict,
    /// Bytes of the server's processes in RAM, each shared page counted once; absent for a server
    /// on another machine.
    pub resident: Option<u64>,
}

impl RunResult {
    /// CPU time of the server's side for an answer, µs; absent for a server on another machine.
    pub fn cpu_us(&self) -> Option<f64> {
        let side = self.measurements.server.as_ref()?;
        let answered = self.report.counts.answered;
        (answered > 0).then(|| (side.process_s + side.kernel_s) * 1e6 / answered as f64)
    }

    /// Adds the rate of an echo, and judges again.
    pub fn beside(&mut self, ceiling: Ceiling) {
        self.measurements.ceiling = Some(ceiling);
        self.verdict = judge(&self.measurements);
    }
}

/// All counters at one time.
#[derive(Clone, Debug)]
struct HostSample {
    server: Option<Reading>,
    client: Reading,
    running: Vec<processes::ProcessTime>,
    stopped: bool,
}

impl HostSample {
    fn take(endpoints: &Endpoints) -> Result<Self> {
        // A server on another machine, or one that has ended, is unknown; the run is measured
        // nevertheless.
        let server = endpoints.server.as_ref().and_then(|host| Reading::take(host).ok());
        Ok(Self {
            server,
            client: Reading::take(&endpoints.client)?,
            running: processes::running(),
            stopped: endpoints.server_pids().iter().any(|pid| processes::is_stopped(*pid)),
        })
    }
}

/// Runs a load against a server, and derives its verdict. `pids` are the server's processes, if the
/// caller knows them; else they are found by the sockets at its address.
///
/// # Errors
/// The load cannot be run, or the generator's host not be read.
pub fn measure(
    options: &Options,
    pids: &[u32],
    stop: &AtomicBool,
    seen: &mut dyn FnMut(&Snapshot),
) -> Result<RunResult> {
    let (endpoints, over) = (&Endpoints::find(options, pids)?, &AtomicBool::new(false));
    // A train of segments counts as one packet: with joined queries the count would be too low.
    let counter = (!options.path.joins()).then(|| count_port(endpoints)).flatten();
    let cpus = endpoints.client.cpus.as_ref().map_or(&[][..], |cpus| cpus.as_slice());
    let (report, before, begin_ns, sent, stall) = std::thread::scope(|scope| {
        let mut begun = None;
        let mut ready = || {
            let before = HostSample::take(endpoints)?;
            // Other datagrams may have arrived meanwhile.
            if let Some(counter) = &counter {
                counter.take().map_err(|error| format!("the counter of the port: {error}"))?;
            }
            let begin_ns = monotonic_ns() + LEAD_NS;
            let end_ns = begin_ns + options.length_ns;
            let watch = scope.spawn(move || at_the_end(end_ns, endpoints, over));
            let sleep = |cpu: &usize| {
                let cpu = *cpu;
                scope.spawn(move || stall::longest(cpu, end_ns, over))
            };
            let sleepers: Vec<_> = cpus.iter().take(SLEEPERS_MAX).map(sleep).collect();
            begun = Some((before, begin_ns, watch, sleepers));
            Ok(())
        };
        let report = lab_load::run_watched(options, stop, &mut ready, seen);
        over.store(true, Ordering::Relaxed);
        let report = report?;
        let (before, begin_ns, watch, sleepers) = begun.expect("a load that has run was ready");
        let sent = watch.join().map_err(|_| "the observing thread panicked")?;
        let stalls = sleepers.into_iter().filter_map(|sleeper| sleeper.join().ok().flatten());
        Ok::<_, String>((report, before, begin_ns, sent?, stalls.max()))
    })?;
    let after = HostSample::take(endpoints)?;
    let own_port = counter.and_then(|counter| counter.take().ok());
    let sent = sent.unwrap_or_else(|| after.clone());
    let seconds = sent.client.at_ns.saturating_sub(begin_ns) as f64 / 1e9;
    let looks = [&before, &sent, &after];
    let measurements =
        measurements::gather(options, endpoints, &report, looks, own_port, seconds, stall);
    let resident = endpoints.server.as_ref().and_then(|host| processes::resident(&host.pids));
    let verdict = judge(&measurements);
    Ok(RunResult { report, measurements, verdict, resident })
}

/// A counter of the server's port, where the counters of its network stack hold other datagrams,
/// too: those of a resolver to and from other servers, or of other programs. `None` if only the
/// server uses the stack, or packets cannot be distinguished.
fn count_port(endpoints: &Endpoints) -> Option<PortCounter> {
    let host = endpoints.server.as_ref().filter(|host| host.device.is_some())?;
    let is_shared = |reading: &Reading| {
        let port = endpoints.address.port();
        reading.sockets.iter().any(|socket| socket.port != port)
    };
    Reading::take(host).ok().filter(|_| !endpoints.is_one_host()).filter(|r| is_shared(r))?;
    let start = || PortCounter::start(endpoints.address).map_err(|error| error.to_string());
    namespace::within(host.netns.as_deref(), start).ok()
}

/// Reads the counters when the last query is due; `None` if the load ends before.
fn at_the_end(end_ns: u64, endpoints: &Endpoints, over: &AtomicBool) -> Result<Option<HostSample>> {
    while !over.load(Ordering::Relaxed) {
        let left = Duration::from_nanos(end_ns.saturating_sub(monotonic_ns()));
        if left.is_zero() {
            return HostSample::take(endpoints).map(Some);
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    Ok(None)
}

/// The clock of the time of a reading.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Whether a socket of this network namespace may have the address: whether it is one of its own.
fn is_ours(address: SocketAddr) -> bool {
    std::net::UdpSocket::bind(SocketAddr::new(address.ip(), 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_load::arrivals::{Arrivals, Rate, Spacing};
    use lab_load::names::{Order, QuestionSet, QuestionSpec};
    use lab_load::query::QueryFormat;
    use lab_load::{LoadMode, QuerySource};

    /// Queries that cannot leave in time are sent until the grace period after the end is over.
    #[test]
    fn cpu_time_after_the_end_is_not_counted() {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let form = QueryFormat::default();
        let set = QuestionSet::from_pattern("{i}.example", 10, wire::Rtype::A, form).unwrap();
        let (order, under) = (Order::Given, None);
        let what = QuestionSpec { set: set.into(), order, unique: 0.0, nxdomain: 0.0, under };
        let rate = Rate::Constant(20e6);
        let options = Options {
            when: LoadMode::Open(Arrivals { rate, spacing: Spacing::Even, burst: 1 }),
            length_ns: 200_000_000,
            timeout_ns: 300_000_000,
            ..Options::new(silent.local_addr().unwrap(), QuerySource::Questions(what.into()))
        };
        let run = measure(&options, &[], &AtomicBool::new(false), &mut |_| {}).unwrap();
        let (measurements, report) = (&run.measurements, &run.report);
        let (side, seconds) = (measurements.generator.as_ref().unwrap(), measurements.load.seconds);
        assert!(seconds >= 0.2 && side.process_s > 0.0, "{measurements:?}");
        for of_run in [side.process_s, side.busiest_s, side.waited_s] {
            assert!(of_run <= seconds * 1.05, "{measurements:?}");
        }
        let whole_s: f64 = report.threads.iter().map(|thread| thread.cpu_ns as f64 / 1e9).sum();
        assert!(side.process_s < whole_s, "{whole_s} {measurements:?}");
    }
}

//! Takes down what a run leaves behind: who and where the server is, what both kernels counted, who
//! ran on whose CPUs. Of all that a verdict is made.
//!
//! Counters are read before the run, when the last question has been sent, and when nothing is
//! under way any more: CPU times are of the first two, packets of the first and the last. In
//! between nothing is read, as reading costs CPU time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab_host::counters::Reading;
use lab_load::{Options, Report, Snapshot};

use crate::Result;
use crate::verdict::{Ceiling, Evidence, Verdict, judge};

mod evidence;
mod place;
mod processes;

pub use place::Place;

/// A run with all that is known of it.
#[derive(Debug)]
pub struct Measured {
    /// What the generator says.
    pub report: Report,
    /// What it is judged by.
    pub evidence: Evidence,
    /// What bounded it.
    pub verdict: Verdict,
    /// Octets of the server's processes in RAM, each shared page counted once; absent for a server
    /// elsewhere.
    pub resident: Option<u64>,
}

impl Measured {
    /// CPU time of the server's side for an answer, µs; absent for a server elsewhere.
    pub fn cpu_us(&self) -> Option<f64> {
        let side = self.evidence.server.as_ref()?;
        let answered = self.report.tally.answered;
        (answered > 0).then(|| (side.process_s + side.kernel_s) * 1e6 / answered as f64)
    }

    /// Adds what an echo came to, and judges again.
    pub fn beside(&mut self, ceiling: Ceiling) {
        self.evidence.ceiling = Some(ceiling);
        self.verdict = judge(&self.evidence);
    }
}

/// All that is looked at, at one time.
#[derive(Clone, Debug)]
struct Look {
    server: Option<Reading>,
    client: Reading,
    running: Vec<processes::Ran>,
    stopped: bool,
}

impl Look {
    fn take(place: &Place) -> Result<Self> {
        // A server elsewhere, or one that has gone, is not known; that is no reason not to measure.
        let server = place.server.as_ref().and_then(|host| Reading::take(host).ok());
        Ok(Self {
            server,
            client: Reading::take(&place.client)?,
            running: processes::running(),
            stopped: place.server_pids().iter().any(|pid| processes::is_stopped(*pid)),
        })
    }
}

/// Runs a load at a server, and judges what it came to. `pids` are the server's processes, where
/// somebody knows them; else they are looked for by its address.
///
/// # Errors
/// The load cannot be run, or the generator's host not be looked at.
pub fn measure(
    options: &Options,
    pids: &[u32],
    stop: &AtomicBool,
    seen: &mut dyn FnMut(&Snapshot),
) -> Result<Measured> {
    let place = Place::find(options, pids)?;
    let before = Look::take(&place)?;
    let over = AtomicBool::new(false);
    let (report, sent) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| at_the_end(options, &place, &over));
        let report = lab_load::run(options, stop, seen);
        over.store(true, Ordering::Relaxed);
        let sent = watch.join().map_err(|_| "the thread that looks panicked".to_owned());
        (report, sent)
    });
    let (report, sent) = (report?, sent??);
    let after = Look::take(&place)?;
    let sent = sent.unwrap_or_else(|| after.clone());
    let evidence = evidence::gather(options, &place, &report, [&before, &sent, &after]);
    let resident = place.server.as_ref().and_then(|host| processes::resident(&host.pids));
    let verdict = judge(&evidence);
    Ok(Measured { report, evidence, verdict, resident })
}

/// Looks when the last question is due; nothing where the load is over before.
fn at_the_end(options: &Options, place: &Place, over: &AtomicBool) -> Result<Option<Look>> {
    let end = Instant::now() + Duration::from_nanos(options.length_ns);
    while !over.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Look::take(place).map(Some);
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    Ok(None)
}

/// Whether a socket of this network namespace may have the address: whether it is one of its own.
fn is_ours(address: SocketAddr) -> bool {
    std::net::UdpSocket::bind(SocketAddr::new(address.ip(), 0)).is_ok()
}

//! What an answer costs: one more run of a point, which `perf` looks at, and which is in no rate.
use super::Sweep;
use super::plan::Planned;
use crate::bench::{Bench, closed_loop};
use lab::observer::Endpoints;
use lab::record::record;
use lab_host::perf::{Counters, Samples, count, sample};
use lab_load::Options;
use lab_report::costs::CostRecord;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The run: `perf` needs some of it to begin.
const LENGTH_NS: u64 = 4_000_000_000;
/// Before `perf` counts.
const BEFORE: Duration = Duration::from_millis(300);
/// How long it counts, and then samples.
const EACH: Duration = Duration::from_secs(1);

impl Sweep {
    /// The costs of a point; why they are not known.
    pub(super) fn costs(
        &self,
        bench: &mut Bench,
        point: &Planned,
        label: &str,
        stop: &AtomicBool,
    ) -> Result<CostRecord, String> {
        let folder = bench.folder.0.clone();
        let hosts = bench.hosts(point.layout, point.queues)?;
        let _running = self.start(&folder, hosts, point)?;
        let asks = self.queries.asks()?;
        let load = closed_loop(hosts, asks, point.spread, self.outstanding, LENGTH_NS)?;
        let (run, looked) = std::thread::scope(|scope| {
            let look = scope.spawn(|| look(&load, &folder));
            let run = record(label, point.settings.clone(), &load, &[], None, stop);
            (run, look.join().unwrap_or_else(|_| Err("the thread of perf panicked".into())))
        });
        let (counters, samples) = looked?;
        Ok(CostRecord { run: run?, counters, samples })
    }
}

fn look(load: &Options, folder: &Path) -> Result<(Counters, Samples), String> {
    let endpoints = Endpoints::find(load, &[])?;
    let pids = endpoints.server_pids();
    if pids.is_empty() {
        return Err("the processes of the server are not known".into());
    }
    let begun = Instant::now();
    std::thread::sleep(BEFORE);
    let counters = count(pids, EACH)?;
    let (samples, took) = sample(pids, EACH, folder)?;
    match begun.elapsed().saturating_sub(took) < Duration::from_nanos(LENGTH_NS) {
        true => Ok((counters, samples)),
        false => Err("perf took longer than the run: the machine is busy".into()),
    }
}

//! What an answer costs: CPU time by what it is spent on, system calls, context switches, and where
//! the machine counts them, instructions and cache misses.

use lab::record::RunRecord;
use lab_host::perf::{Counters, Samples};
use serde::{Deserialize, Serialize};

/// What `perf` counted during one more run of a point, which is in no rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostRecord {
    /// The run, raw.
    pub run: RunRecord,
    /// Counts during a part of it.
    pub counters: Counters,
    /// Samples of the CPU clock during another part of it.
    pub samples: Samples,
}

/// Costs of an answer; unknown ones are absent.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// CPU time of the server's processes, ns.
    pub cpu_ns: f64,
    /// CPU time by what it was spent on, ns: name and value.
    pub parts_ns: Vec<(&'static str, f64)>,
    /// System calls.
    pub syscalls: Option<f64>,
    /// Context switches.
    pub switches: Option<f64>,
    /// Instructions, user and kernel.
    pub instructions: Option<f64>,
    /// Misses of the last cache.
    pub cache_misses: Option<f64>,
    /// Bytes moved between that cache and memory for these misses.
    pub memory_bytes: Option<f64>,
}

/// Bytes of a cache line.
const LINE: f64 = 64.0;

impl CostRecord {
    /// The costs of an answer; none where nothing was answered or counted.
    pub fn costs(&self) -> Option<Costs> {
        let answers = self.run.derived.answered_rate * self.counters.seconds;
        let cpu_ns = self.counters.task_clock_ns? / answers;
        if !cpu_ns.is_finite() || self.counters.seconds <= 0.0 {
            return None;
        }
        let each = |count: Option<u64>| count.map(|count| count as f64 / answers);
        let all = self.samples.all().max(1) as f64;
        let parts = self.samples.parts().map(|(name, count)| (name, cpu_ns * count as f64 / all));
        let cache_misses = each(self.counters.cache_misses);
        Some(Costs {
            cpu_ns,
            parts_ns: parts.to_vec(),
            syscalls: each(self.counters.syscalls),
            switches: each(self.counters.context_switches),
            instructions: each(self.counters.instructions),
            cache_misses,
            memory_bytes: cache_misses.map(|misses| misses * LINE),
        })
    }

    /// The contradictions in its raw data.
    pub fn errors(&self) -> Vec<String> {
        let mut errors = self.run.errors();
        let Counters { seconds, task_clock_ns, .. } = self.counters;
        if !(seconds > 0.0 && seconds <= self.run.seconds) {
            errors.push("costs: counted for longer than the run".into());
        }
        if task_clock_ns.is_some_and(|ns| !(ns >= 0.0 && ns.is_finite())) {
            errors.push("costs: the CPU time is no time".into());
        }
        errors
    }
}

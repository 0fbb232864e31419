//! The cost of a query in CPU time of the replicas, and the capacity of a replica that follows.
use crate::limits::NODE_TYPES_MAX;
use crate::replicas::Work;
use std::collections::BTreeMap;

/// CPU seconds of evidence before costs count.
const EVIDENCE_CPU_S: f64 = 1.0;
/// Queries of evidence before costs count.
const EVIDENCE_QUERIES: f64 = 1_000.0;
/// The share of its CPUs from which on a replica is busy.
const BUSY_SHARE: f64 = 0.5;
/// Seconds after which evidence counts half.
const HALF_LIFE_S: f64 = 600.0;
/// How far the capacity may be from what the parameters say.
const FACTOR_MAX: f64 = 4.0;

/// Sums of a regression of CPU time over cache hits and misses. (A query without a cache is a hit.)
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    time_s: f64,
    queries: f64,
    cpu_s: f64,
    hit_hit: f64,
    hit_miss: f64,
    miss_miss: f64,
    hit_cpu: f64,
    miss_cpu: f64,
}

/// CPU seconds of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Of one that the cache answers, or that needs no cache.
    pub hit_s: f64,
    /// Of one that the cache does not answer.
    pub miss_s: f64,
}

impl Cost {
    /// Of the average query, with this share of misses.
    pub fn mean_s(&self, misses: f64) -> f64 {
        self.hit_s * (1.0 - misses) + self.miss_s * misses
    }
}

/// The costs of each type of node.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    types: BTreeMap<String, Sums>,
}

impl Costs {
    /// Takes what a replica on a node of this type, which may use so many CPUs, did for `span_s`
    /// seconds until `time_s`. A replica with little to do is left out: it wakes up for each query,
    /// which costs several times as much as a query of a burst. Its costs would ask for more
    /// replicas, which then have less to do and cost more still.
    pub fn add(&mut self, node_type: &str, cpus: f64, time_s: f64, span_s: f64, work: &Work) {
        if work.cpus < BUSY_SHARE * cpus {
            return;
        }
        if !self.types.contains_key(node_type) && self.types.len() >= NODE_TYPES_MAX {
            return;
        }
        let sums = self.types.entry(node_type.to_owned()).or_default();
        let keep = 0.5_f64.powf((time_s - sums.time_s).max(0.0) / HALF_LIFE_S);
        // What the kernel dropped has cost the replica nothing.
        let answered = (work.qps - work.dropped).max(0.0);
        let misses = work.misses.min(answered) * span_s;
        let (hits, cpu_s) = (answered * span_s - misses, work.cpus * span_s);
        let add = |sum: f64, more: f64| sum * keep + more;
        *sums = Sums {
            time_s,
            queries: add(sums.queries, hits + misses),
            cpu_s: add(sums.cpu_s, cpu_s),
            hit_hit: add(sums.hit_hit, hits * hits),
            hit_miss: add(sums.hit_miss, hits * misses),
            miss_miss: add(sums.miss_miss, misses * misses),
            hit_cpu: add(sums.hit_cpu, hits * cpu_s),
            miss_cpu: add(sums.miss_cpu, misses * cpu_s),
        };
    }

    /// The cost on nodes of this type, once there is evidence.
    pub fn cost(&self, node_type: &str) -> Option<Cost> {
        let sums = self.types.get(node_type)?;
        if sums.cpu_s < EVIDENCE_CPU_S || sums.queries < EVIDENCE_QUERIES {
            return None;
        }
        let mean_s = sums.cpu_s / sums.queries;
        let determinant = sums.hit_hit * sums.miss_miss - sums.hit_miss * sums.hit_miss;
        let whole = sums.hit_hit * sums.miss_miss;
        // Where hits and misses always came in one ratio, they cannot be told apart.
        if whole > 0.0 && determinant > 1e-3 * whole {
            let hit_s =
                (sums.hit_cpu * sums.miss_miss - sums.miss_cpu * sums.hit_miss) / determinant;
            let miss_s =
                (sums.miss_cpu * sums.hit_hit - sums.hit_cpu * sums.hit_miss) / determinant;
            if hit_s > 0.0 && miss_s > 0.0 {
                return Some(Cost { hit_s, miss_s });
            }
        }
        Some(Cost { hit_s: mean_s, miss_s: mean_s })
    }

    /// What a replica carries: the mean over replicas on nodes of these types, with so many CPUs
    /// each. A type without evidence has `capacity`, which was measured before, and none is more
    /// than four times away from it.
    pub fn capacity(&self, types: &[String], cpus: f64, misses: f64, capacity: f64) -> f64 {
        if types.is_empty() {
            return capacity;
        }
        let of = |node_type: &String| match self.cost(node_type) {
            Some(cost) => {
                let seen = cpus / cost.mean_s(misses);
                seen.clamp(capacity / FACTOR_MAX, capacity * FACTOR_MAX)
            }
            None => capacity,
        };
        types.iter().map(of).sum::<f64>() / types.len() as f64
    }
}

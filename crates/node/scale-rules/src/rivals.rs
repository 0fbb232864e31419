//! Other autoscalers, for simulations beside Dunlin's: the rule of EKS and a horizontal pod
//! autoscaler. (`linear` and `ladder` with their traps are in `proportional`.)
use crate::decision::Observation;
use crate::members::{Members, ParamsError, wrong};
use crate::proportional::Need;
use crate::window::{Peak, Trough};

/// The rule of the managed CoreDNS autoscaler of EKS: by the peak of nodes and cores, up at once,
/// down by a third every 3 minutes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Eks {
    /// Nodes that one replica serves.
    pub nodes_per_replica: f64,
    /// Cores that one replica serves.
    pub cores_per_replica: f64,
    /// The least replicas.
    pub min: u32,
    /// The most replicas.
    pub max: u32,
}

impl Default for Eks {
    fn default() -> Self {
        Self { nodes_per_replica: 16.0, cores_per_replica: 256.0, min: 2, max: 1_000 }
    }
}

/// A horizontal pod autoscaler on CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hpa {
    /// Queries a second with which one replica uses all its CPU.
    pub capacity: f64,
    /// The share of its CPU that a replica should use.
    pub target: f64,
    /// How long the highest recommendation holds, in seconds.
    pub stabilization_s: f64,
    /// The least replicas.
    pub min: u32,
    /// The most replicas.
    pub max: u32,
}

impl Default for Hpa {
    fn default() -> Self {
        Self { capacity: 20_000.0, target: 0.7, stabilization_s: 300.0, min: 2, max: 1_000 }
    }
}

impl Eks {
    pub(crate) const KEYS: [&str; 4] = ["nodesPerReplica", "coresPerReplica", "min", "max"];

    pub(crate) fn read(members: &mut Members) -> Result<Self, ParamsError> {
        let usual = Self::default();
        let eks = Self {
            nodes_per_replica: members.ratio("nodesPerReplica")?.unwrap_or(usual.nodes_per_replica),
            cores_per_replica: members.ratio("coresPerReplica")?.unwrap_or(usual.cores_per_replica),
            min: members.whole("min", 1)?.unwrap_or(usual.min),
            max: members.whole("max", 1)?.unwrap_or(usual.max),
        };
        check_order(members, eks.min, eks.max).map(|()| eks)
    }
}

impl Hpa {
    pub(crate) const KEYS: [&str; 5] = ["capacity", "target", "stabilizationSeconds", "min", "max"];

    pub(crate) fn read(members: &mut Members) -> Result<Self, ParamsError> {
        let usual = Self::default();
        let hpa = Self {
            capacity: members.ratio("capacity")?.unwrap_or(usual.capacity),
            target: members.ratio("target")?.unwrap_or(usual.target),
            stabilization_s: members
                .float("stabilizationSeconds")?
                .unwrap_or(usual.stabilization_s),
            min: members.whole("min", 1)?.unwrap_or(usual.min),
            max: members.whole("max", 1)?.unwrap_or(usual.max),
        };
        check_order(members, hpa.min, hpa.max).map(|()| hpa)
    }
}

fn check_order(members: &Members, min: u32, max: u32) -> Result<(), ParamsError> {
    match max < min {
        true => Err(wrong(&members.place("max"), &format!("{max} is less than min, {min}"))),
        false => Ok(()),
    }
}

/// What EKS remembers.
#[derive(Clone, Debug)]
pub struct EksState {
    peak: Peak,
    stepped_down_s: f64,
}

impl Default for EksState {
    fn default() -> Self {
        Self { peak: Peak::new(600.0), stepped_down_s: f64::NEG_INFINITY }
    }
}

impl EksState {
    pub(crate) fn decide(&mut self, eks: &Eks, seen: &Observation) -> Need {
        let nodes = seen.nodes.total as f64 / eks.nodes_per_replica;
        let cores = seen.nodes.total_cores as f64 / eks.cores_per_replica;
        let peak = self.peak.push(seen.time_s, nodes.max(cores).ceil());
        let wanted = (peak as u32).clamp(eks.min, eks.max);
        let mut replicas = wanted.max(seen.replicas);
        if wanted < seen.replicas {
            let least = seen.replicas - (seen.replicas / 3).max(1);
            if seen.time_s - self.stepped_down_s >= 180.0 {
                replicas = wanted.max(least);
                self.stepped_down_s = seen.time_s;
            }
        }
        let reason = format!("the peak of nodes and cores of 10 minutes asks for {wanted}");
        Need { replicas: replicas.into(), reason }
    }
}

/// What a horizontal pod autoscaler remembers.
#[derive(Clone, Debug)]
pub struct HpaState {
    peak: Option<(f64, Peak)>,
    synced_s: Option<f64>,
    /// The fewest replicas of the last seconds: those that have started.
    started: Trough,
    /// The CPU that a started replica used at the last sync, and how many had started: metrics are
    /// that old.
    used: Option<(f64, f64)>,
}

impl Default for HpaState {
    fn default() -> Self {
        Self { peak: None, synced_s: None, started: Trough::new(HPA_START_S), used: None }
    }
}

/// The loop of the controller.
const HPA_SYNC_S: f64 = 15.0;
/// Deviations that change nothing.
const HPA_TOLERANCE: f64 = 0.1;
/// Seconds until a replica is ready.
const HPA_START_S: f64 = 30.0;

impl HpaState {
    pub(crate) fn decide(&mut self, hpa: &Hpa, seen: &Observation) -> Need {
        let stay = |reason: &str| Need { replicas: seen.replicas.into(), reason: reason.into() };
        let placed = seen.replicas.saturating_sub(seen.unschedulable);
        let started = self.started.push(seen.time_s, placed.into()).max(1.0);
        if self.synced_s.is_some_and(|last| seen.time_s - last < HPA_SYNC_S) {
            return stay("the loop runs every 15 seconds");
        }
        self.synced_s = Some(seen.time_s);
        let Some(demand) = seen.demand else { return stay("there are no metrics") };
        let replicas = f64::from(seen.replicas.max(1));
        // A replica uses no more CPU than it has, whatever is asked of it.
        let now = ((demand.qps / (hpa.capacity * started)).min(1.0), started);
        let (used, measured) = self.used.replace(now).unwrap_or(now);
        let recommended = recommend(used / hpa.target, measured.min(started), replicas);
        // The usual policy: double, or four more.
        let recommended = recommended.min((2.0 * replicas).max(replicas + 4.0));
        let recommended = recommended.clamp(f64::from(hpa.min), f64::from(hpa.max));
        let is_same = self.peak.as_ref().is_some_and(|(length, _)| *length == hpa.stabilization_s);
        if !is_same {
            self.peak = Some((hpa.stabilization_s, Peak::new(hpa.stabilization_s)));
        }
        let peak =
            self.peak.as_mut().map_or(recommended, |(_, peak)| peak.push(seen.time_s, recommended));
        let wanted = if recommended < replicas { peak.min(replicas) } else { recommended };
        let reason = format!(
            "{:.0} % of the CPU is used, {:.0} % aimed at",
            100.0 * used,
            100.0 * hpa.target
        );
        Need { replicas: wanted as i64, reason }
    }
}

/// What the controller recommends where `ready` of the replicas have metrics that are `ratio` times
/// what is aimed at. Replicas that are not ready are left out; for a rise they count as idle.
/// (`GetResourceReplicas` of the controller's replica calculator, Kubernetes 1.34.)
fn recommend(ratio: f64, ready: f64, replicas: f64) -> f64 {
    let is_within = |ratio: f64| (ratio - 1.0).abs() <= HPA_TOLERANCE;
    if ratio <= 1.0 || ready >= replicas {
        return if is_within(ratio) { replicas } else { (ratio * ready).ceil() };
    }
    let with_idle = ratio * ready / replicas;
    match is_within(with_idle) || with_idle < 1.0 {
        true => replicas,
        false => (with_idle * replicas).ceil(),
    }
}

#[cfg(test)]
mod tests {
    use super::recommend;

    #[test]
    fn replicas_that_start_count_as_idle_for_a_rise_only() {
        for (ratio, ready, replicas, expected) in [
            (1.05, 4.0, 4.0, 4.0),
            (2.0, 4.0, 4.0, 8.0),
            // Four run at twice the target, four start: there are as many as are needed.
            (2.0, 4.0, 8.0, 8.0),
            (3.0, 4.0, 8.0, 12.0),
            (1.5, 4.0, 8.0, 8.0),
            (0.5, 4.0, 4.0, 2.0),
            (0.95, 4.0, 8.0, 8.0),
        ] {
            assert_eq!(recommend(ratio, ready, replicas), expected, "{ratio} {ready} {replicas}");
        }
    }
}

//! The mode `load`: replicas by the load and by what one replica carries.
use crate::decision::{Demand, Observation};
use crate::limits::REPLICAS_MAX;
use crate::members::{Members, ParamsError, wrong};
use crate::proportional::{Ladder, Linear, Need};
use crate::window::Peak;

/// How long a peak of the load counts, and how long it must be quiet before replicas go.
pub const QUIET_S: f64 = 600.0;
/// Time between two steps down.
pub const STEP_DOWN_S: f64 = 180.0;
/// Time between two steps up for a broken objective: replicas need it to start.
pub const STEP_UP_S: f64 = 60.0;
/// A zone that has more of the nodes than this is not planned to be lost.
const ZONE_SHARE_MAX: f64 = 0.75;

/// What nodes and cores ask for at least.
#[derive(Clone, Debug, PartialEq)]
pub enum Floor {
    /// The mode `linear`.
    Linear(Linear),
    /// The mode `ladder`.
    Ladder(Ladder),
}

/// Parameters of the mode `load`.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Queries a second that one replica answers within the latency objective, as measured.
    pub capacity: f64,
    /// CPUs that one replica may use; where it is known, the capacity follows the CPU time of a
    /// query.
    pub cpus: Option<f64>,
    /// Replicas by nodes and cores, which the load never undercuts.
    pub floor: Option<Floor>,
    /// Replicas that may fail while the others carry the peak.
    pub k: u32,
    /// The least replicas.
    pub min: u32,
    /// The most replicas.
    pub max: u32,
    /// How much more than the peak is planned for, 1 or more.
    pub headroom: f64,
    /// The share of its capacity that a replica is planned to use, 0 to 1.
    pub utilization: f64,
    /// The latency objective: the most of the 99th percentile, in milliseconds.
    pub p99_ms: Option<f64>,
    /// The share of dropped queries that breaks the objective.
    pub drops: f64,
    /// The port of the replicas' metrics; without it the Pod's port named `metrics`.
    pub metrics_port: Option<u16>,
}

impl Load {
    pub(crate) const KEYS: [&str; 13] = [
        "capacity",
        "machine",
        "date",
        "cpus",
        "floor",
        "k",
        "min",
        "max",
        "headroom",
        "utilization",
        "p99Ms",
        "drops",
        "metricsPort",
    ];

    pub(crate) fn read(members: &mut Members) -> Result<Self, ParamsError> {
        let place = members.place("capacity");
        let capacity = members.ratio("capacity")?.ok_or_else(|| {
            wrong(&place, "missing: the queries a second that one replica answers, as measured")
        })?;
        // Where and when the capacity was measured is for people.
        for key in ["machine", "date"] {
            members.text(key)?;
        }
        let load = Self {
            capacity,
            cpus: members.ratio("cpus")?,
            floor: floor(members)?,
            k: members.whole("k", 0)?.unwrap_or(2),
            min: members.whole("min", 1)?.unwrap_or(2),
            max: members.whole("max", 1)?.unwrap_or(50),
            headroom: within(members, "headroom", 1.0, 10.0)?.unwrap_or(1.2),
            utilization: within(members, "utilization", 0.05, 1.0)?.unwrap_or(0.8),
            p99_ms: members.ratio("p99Ms")?,
            drops: within(members, "drops", 0.0, 1.0)?.unwrap_or(0.001),
            metrics_port: port(members)?,
        };
        match load.max < load.min {
            true => {
                let text = format!("{} is less than min, {}", load.max, load.min);
                Err(wrong(&members.place("max"), &text))
            }
            false => Ok(load),
        }
    }

    /// The replicas for a peak, if one replica carries `capacity`, and why.
    pub fn need(&self, peak_qps: f64, capacity: f64, largest_zone: f64) -> Need {
        let whole = |value: f64| value.ceil().clamp(0.0, f64::from(REPLICAS_MAX)) as i64;
        let busy = whole(peak_qps * self.headroom / (capacity * self.utilization));
        let spare = whole(peak_qps / capacity) + i64::from(self.k);
        let zone = match largest_zone {
            share if share > 0.0 && share <= ZONE_SHARE_MAX => {
                whole(peak_qps / (capacity * (1.0 - share)))
            }
            _ => 0,
        };
        let replicas = busy.max(spare).max(zone);
        let cause = if replicas == busy {
            format!(
                "with a headroom of {} at {:.0} % of {capacity:.0} each",
                self.headroom,
                100.0 * self.utilization
            )
        } else if replicas == spare {
            format!("at {capacity:.0} each with {} to spare", self.k)
        } else {
            format!("at {capacity:.0} each without the zone of {:.0} %", 100.0 * largest_zone)
        };
        let reason = format!("a peak of {peak_qps:.0} queries/s asks for {replicas} {cause}");
        Need { replicas, reason }
    }

    /// What breaks the objective, if anything does.
    fn breach(&self, demand: &Demand) -> Option<String> {
        if demand.dropped > self.drops {
            let percent = 100.0 * demand.dropped;
            return Some(format!("{percent:.1} % of the queries are dropped"));
        }
        let (objective, p99) = (self.p99_ms?, demand.p99_ms?);
        (p99 > objective).then(|| format!("p99 is {p99:.0} ms, the objective {objective:.0} ms"))
    }
}

fn within(
    members: &mut Members,
    key: &str,
    least: f64,
    most: f64,
) -> Result<Option<f64>, ParamsError> {
    match members.float(key)? {
        Some(number) if !(least..=most).contains(&number) => {
            let text = format!("{number} is outside of {least} to {most}");
            Err(wrong(&members.place(key), &text))
        }
        number => Ok(number),
    }
}

fn port(members: &mut Members) -> Result<Option<u16>, ParamsError> {
    let Some(number) = members.whole("metricsPort", 1)? else { return Ok(None) };
    let outside = |_| wrong(&members.place("metricsPort"), "expected a port, 1 to 65535");
    u16::try_from(number).map(Some).map_err(outside)
}

fn floor(members: &mut Members) -> Result<Option<Floor>, ParamsError> {
    let Some(value) = members.take("floor") else { return Ok(None) };
    let place = members.place("floor");
    let mut inner = Members::new(&place, value, members.dialect(), &["linear", "ladder"])?;
    let floors = ["linear", "ladder"].map(|mode| (mode, inner.take(mode)));
    let mut found = floors.into_iter().filter_map(|(mode, value)| Some((mode, value?)));
    let (Some((mode, value)), None) = (found.next(), found.next()) else {
        return Err(wrong(&place, "expected one of linear and ladder"));
    };
    let is_linear = mode == "linear";
    let known: &[&str] = if is_linear { &Linear::KEYS } else { &Ladder::KEYS };
    let place = format!("{place}.{mode}");
    let mut floor = Members::new(&place, value, members.dialect(), known)?;
    Ok(Some(match is_linear {
        true => Floor::Linear(Linear::read(&mut floor)?),
        false => Floor::Ladder(Ladder::read(&mut floor)?),
    }))
}

/// What a scaler remembers of the load.
#[derive(Clone, Debug)]
pub struct LoadState {
    peak: Peak,
    /// Since when nothing has asked for as many replicas as there are.
    quiet_since_s: f64,
    stepped_down_s: f64,
    /// More replicas because the objective was broken, and until when.
    boost: Option<(u32, f64)>,
    boosted_s: f64,
}

/// What the load asks for.
pub struct LoadNeed {
    /// What it comes to.
    pub need: Need,
    /// The peak, if metrics are there.
    pub peak_qps: Option<f64>,
    /// Whether the count may fall at all, and how far.
    pub may_fall_to: Result<u32, &'static str>,
}

impl LoadState {
    /// Nothing is known before `time_s`, so the quiet time begins there.
    pub const fn new(time_s: f64) -> Self {
        Self {
            peak: Peak::new(QUIET_S),
            quiet_since_s: time_s,
            stepped_down_s: f64::NEG_INFINITY,
            boost: None,
            boosted_s: f64::NEG_INFINITY,
        }
    }

    /// What the load asks for now. `floor` is what nodes and cores ask for.
    pub fn need(&mut self, load: &Load, seen: &Observation, floor: Option<Need>) -> LoadNeed {
        let time_s = seen.time_s;
        let is_known = |demand: &Demand| demand.qps.is_finite() && demand.qps >= 0.0;
        let Some(demand) = seen.demand.filter(is_known) else {
            self.quiet_since_s = time_s;
            let mut need = floor.unwrap_or_else(|| Need { replicas: 0, reason: String::new() });
            need.replicas = clamp(load, need.replicas);
            let reason = "the replicas' metrics are stale, so the count stays";
            need.reason = match need.replicas > i64::from(seen.replicas) {
                true => format!("the replicas' metrics are stale; {}", need.reason),
                false => reason.into(),
            };
            return LoadNeed { need, peak_qps: None, may_fall_to: Err("metrics are stale") };
        };
        let capacity = seen.capacity.filter(|c| c.is_finite() && *c > 0.0).unwrap_or(load.capacity);
        let peak_qps = self.peak.push(time_s, demand.qps);
        let mut need = load.need(peak_qps, capacity, seen.largest_zone);
        let now = load.need(demand.qps, capacity, seen.largest_zone).replicas;
        let now = now.max(floor.as_ref().map_or(0, |floor| floor.replicas));
        if let Some(floor) = floor.filter(|floor| floor.replicas > need.replicas) {
            need = Need { replicas: floor.replicas, reason: format!("floor: {}", floor.reason) };
        }
        self.boost(load, seen, &demand, &mut need);
        let within = clamp(load, need.replicas);
        if within != need.replicas {
            let bound = if within < need.replicas { "max" } else { "min" };
            need.reason += &format!("; {bound} is {within}");
        }
        need.replicas = within;
        // The peak of 10 minutes is the quiet time, so the load of this moment counts here.
        if clamp(load, now) >= i64::from(seen.replicas) {
            self.quiet_since_s = time_s;
        }
        LoadNeed { need, peak_qps: Some(peak_qps), may_fall_to: self.may_fall(seen) }
    }

    /// Raises the need while the objective is broken, to twice what the load asks for at most:
    /// more replicas do not mend what other causes break.
    fn boost(&mut self, load: &Load, seen: &Observation, demand: &Demand, need: &mut Need) {
        let time_s = seen.time_s;
        let breach = load.breach(demand);
        if breach.is_some() {
            self.quiet_since_s = time_s;
        }
        let most = u32::try_from(need.replicas.saturating_mul(2)).unwrap_or(u32::MAX);
        if breach.is_some() && time_s - self.boosted_s >= STEP_UP_S {
            let more = seen.replicas.saturating_add(seen.replicas.div_ceil(4).max(1));
            let before = self.boost.map_or(0, |(replicas, _)| replicas);
            self.boost = Some((more.max(before).min(most), time_s + QUIET_S));
            self.boosted_s = time_s;
        }
        self.boost = self.boost.filter(|(_, until)| time_s < *until);
        let Some((replicas, _)) = self.boost else { return };
        let replicas = i64::from(replicas.min(most));
        if replicas > need.replicas {
            need.replicas = replicas;
            need.reason = match breach {
                Some(breach) => format!("{breach}, which asks for {replicas}"),
                None => format!("the objective was broken, which asks for {replicas} for a while"),
            };
        }
    }

    fn may_fall(&self, seen: &Observation) -> Result<u32, &'static str> {
        let time_s = seen.time_s;
        if seen.is_rolling_out {
            return Err("a rollout is under way");
        }
        if time_s - self.quiet_since_s < QUIET_S {
            return Err("it has not been quiet for 10 minutes");
        }
        if time_s - self.stepped_down_s < STEP_DOWN_S {
            return Err("the last step down is less than 3 minutes ago");
        }
        Ok(seen.replicas - (seen.replicas / 3).max(1).min(seen.replicas))
    }

    /// Remembers what was decided.
    pub fn decided(&mut self, seen: &Observation, replicas: u32) {
        if replicas < seen.replicas {
            self.stepped_down_s = seen.time_s;
        }
        if replicas > seen.replicas {
            self.quiet_since_s = seen.time_s;
        }
    }
}

fn clamp(load: &Load, replicas: i64) -> i64 {
    replicas.clamp(load.min.into(), load.max.into())
}

impl Floor {
    /// What nodes and cores ask for.
    pub fn need(&self, nodes: &crate::decision::Nodes) -> Need {
        match self {
            Self::Linear(linear) => linear.need(nodes),
            Self::Ladder(ladder) => ladder.need(nodes),
        }
    }
}

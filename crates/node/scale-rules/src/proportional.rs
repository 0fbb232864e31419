//! The two modes of the cluster-proportional-autoscaler: replicas by nodes and cores.
use crate::decision::Nodes;
use crate::json::Json;
use crate::limits::{NUMBER_MAX, STEPS_MAX};
use crate::members::{Dialect, Members, ParamsError, integer, wrong};

/// Parameters of the mode `linear`. A ratio of 0 is absent, as is a maximum of 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Linear {
    /// Cores that one replica serves.
    pub cores_per_replica: f64,
    /// Nodes that one replica serves.
    pub nodes_per_replica: f64,
    /// The least replicas.
    pub min: i64,
    /// The most replicas; 0 is no maximum.
    pub max: i64,
    /// Two replicas at least where there are two nodes.
    pub prevent_single_point_failure: bool,
    /// Count nodes that take no pods.
    pub include_unschedulable: bool,
    /// Whether every decision is that of the cluster-proportional-autoscaler, which prevents a
    /// single point of failure beyond the maximum and follows nodes that are not ready at once.
    pub keeps_traps: bool,
}

/// A step of a ladder: from so many nodes or cores on, so many replicas.
pub type Step = (i64, i64);

/// Parameters of the mode `ladder`; the steps are in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ladder {
    /// Steps by cores.
    pub cores: Vec<Step>,
    /// Steps by nodes.
    pub nodes: Vec<Step>,
    /// Count nodes that take no pods.
    pub include_unschedulable: bool,
    /// Whether every decision is that of the cluster-proportional-autoscaler.
    pub keeps_traps: bool,
}

/// What a mode asks for, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Replicas.
    pub replicas: i64,
    /// Why so many.
    pub reason: String,
}

impl Linear {
    pub(crate) const KEYS: [&str; 6] = [
        "coresPerReplica",
        "nodesPerReplica",
        "min",
        "max",
        "preventSinglePointFailure",
        "includeUnschedulableNodes",
    ];

    pub(crate) fn read(members: &mut Members) -> Result<Self, ParamsError> {
        let is_strict = members.dialect().is_strict();
        let ratio = |members: &mut Members, key| match is_strict {
            true => members.ratio(key),
            false => members.float(key),
        };
        let linear = Self {
            cores_per_replica: ratio(members, "coresPerReplica")?.unwrap_or(0.0),
            nodes_per_replica: ratio(members, "nodesPerReplica")?.unwrap_or(0.0),
            min: members.int("min")?.unwrap_or(0),
            max: members.int("max")?.unwrap_or(0),
            prevent_single_point_failure: members
                .flag("preventSinglePointFailure")?
                .unwrap_or(false),
            include_unschedulable: members.flag("includeUnschedulableNodes")?.unwrap_or(false),
            keeps_traps: members.dialect() == Dialect::Cpa,
        };
        linear.check(members)
    }

    fn check(mut self, members: &Members) -> Result<Self, ParamsError> {
        let refuse = |key, text: String| Err(wrong(&members.place(key), &text));
        for (key, ratio) in [
            ("coresPerReplica", self.cores_per_replica),
            ("nodesPerReplica", self.nodes_per_replica),
        ] {
            if ratio < 0.0 {
                return refuse(key, format!("{ratio} is negative; expected a positive number"));
            }
        }
        if self.min < 0 {
            return refuse("min", format!("{} is negative; expected 1 or more", self.min));
        }
        self.min = self.min.max(1);
        if self.max != 0 && self.max < self.min {
            return refuse("max", format!("{} is less than min, {}", self.max, self.min));
        }
        for (key, number) in [("min", self.min), ("max", self.max)] {
            if members.dialect().is_strict() && number as f64 > NUMBER_MAX {
                return refuse(key, format!("{number} is more than {NUMBER_MAX:.0}"));
            }
        }
        if self.cores_per_replica == 0.0 && self.nodes_per_replica == 0.0 {
            return refuse("coresPerReplica", "this or nodesPerReplica is needed".into());
        }
        Ok(self)
    }

    /// The replicas for so many nodes and cores.
    pub fn need(&self, nodes: &Nodes) -> Need {
        let (count, cores) = nodes.counted(self.include_unschedulable);
        let by_cores = self.term(cores, self.cores_per_replica);
        let mut by_nodes = self.term(count, self.nodes_per_replica);
        let mut reason = format!("{count} nodes ask for {by_nodes}, {cores} cores for {by_cores}");
        if self.prevent_single_point_failure && count > 1 && by_nodes < 2 {
            let most = if self.max == 0 || self.keeps_traps { 2 } else { self.max.min(2) };
            if most > by_nodes.max(by_cores) {
                reason += &format!("; {most} prevent a single point of failure");
            }
            by_nodes = by_nodes.max(most);
        }
        let replicas = by_cores.max(by_nodes);
        if replicas == self.min && replicas > 1 {
            reason += "; min holds";
        } else if replicas == self.max {
            reason += "; max holds";
        }
        Need { replicas, reason }
    }

    /// Replicas by one resource. An absent ratio asks for 1, whatever the minimum.
    fn term(&self, resources: u64, per_replica: f64) -> i64 {
        if per_replica == 0.0 {
            return 1;
        }
        let mut replicas = (resources as f64 / per_replica).ceil();
        if self.max != 0 {
            replicas = replicas.min(self.max as f64);
        }
        replicas.max(self.min as f64) as i64
    }
}

impl Ladder {
    pub(crate) const KEYS: [&str; 4] =
        ["coresToReplicas", "nodesToReplicas", "includeUnschedulableNodes", "allowZero"];

    pub(crate) fn read(members: &mut Members) -> Result<Self, ParamsError> {
        let ladder = Self {
            cores: steps(members, "coresToReplicas")?,
            nodes: steps(members, "nodesToReplicas")?,
            include_unschedulable: members.flag("includeUnschedulableNodes")?.unwrap_or(false),
            keeps_traps: members.dialect() == Dialect::Cpa,
        };
        if ladder.keeps_traps {
            return Ok(ladder);
        }
        let allow_zero = members.flag("allowZero")?.unwrap_or(false);
        if ladder.cores.is_empty() && ladder.nodes.is_empty() {
            let text = "there is no step: expected coresToReplicas, nodesToReplicas or both, such \
                        as [[1, 1], [64, 3]]; without steps there would be 0 replicas";
            return Err(wrong(&members.place("coresToReplicas"), text));
        }
        // The larger of the two lists counts, so both must reach 0 for 0 replicas.
        let reaches = |steps: &[Step]| steps.is_empty() || steps.iter().any(|step| step.1 == 0);
        if reaches(&ladder.cores) && reaches(&ladder.nodes) && !allow_zero {
            let text = "a step has 0 replicas, which ends all DNS; if that is meant, set \
                        \"allowZero\": true";
            return Err(wrong(&members.place("coresToReplicas"), text));
        }
        Ok(ladder)
    }

    /// The replicas for so many nodes and cores.
    pub fn need(&self, nodes: &Nodes) -> Need {
        let (count, cores) = nodes.counted(self.include_unschedulable);
        let (by_nodes, by_cores) = (at(&self.nodes, count), at(&self.cores, cores));
        let reason =
            format!("the step of {count} nodes has {by_nodes}, that of {cores} cores {by_cores}");
        Need { replicas: by_nodes.max(by_cores), reason }
    }
}

/// The last step that is reached; below the first one, the first.
fn at(steps: &[Step], resources: u64) -> i64 {
    let resources = i64::try_from(resources).unwrap_or(i64::MAX);
    let reached = steps.partition_point(|step| step.0 <= resources);
    steps.get(reached.saturating_sub(1)).map_or(0, |step| step.1)
}

/// A list of steps, in order.
fn steps(members: &mut Members, key: &str) -> Result<Vec<Step>, ParamsError> {
    let place = members.place(key);
    let entries = match members.take(key) {
        None => return Ok(Vec::new()),
        Some(Json::Array(entries)) if entries.len() <= STEPS_MAX => entries,
        Some(Json::Array(entries)) => {
            return Err(wrong(&place, &format!("{} steps, {STEPS_MAX} at most", entries.len())));
        }
        Some(other) => {
            let text = format!("expected a list such as [[1, 1], [64, 3]], not {}", other.kind());
            return Err(wrong(&place, &text));
        }
    };
    let is_cpa = members.dialect() == Dialect::Cpa;
    let mut steps = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let step =
            step(entry, is_cpa).map_err(|text| wrong(&format!("{place}[{index}]"), &text))?;
        steps.push(step);
    }
    steps.sort_by_key(|step| step.0);
    let twice = steps.windows(2).find(|pair| pair[0].0 == pair[1].0);
    if let Some([first, second]) = twice.filter(|_| !is_cpa) {
        let text = format!(
            "{} begins two steps, of {} and {} replicas; keep one",
            first.0, first.1, second.1
        );
        return Err(wrong(&place, &text));
    }
    Ok(steps)
}

/// A step of a list. Go fills a short pair with zeros and drops what is beyond two.
fn step(entry: &Json, is_cpa: bool) -> Result<Step, String> {
    let expected = || "expected a pair of whole numbers such as [64, 3]".to_owned();
    let numbers = match entry {
        Json::Array(numbers) => numbers,
        Json::Null if is_cpa => return Ok((0, 0)),
        _ => return Err(expected()),
    };
    if numbers.len() != 2 && !is_cpa {
        return Err(format!("{}, not {} of them", expected(), numbers.len()));
    }
    let number = |index: usize| match numbers.get(index) {
        None => Ok(0),
        Some(Json::Null) if is_cpa => Ok(0),
        Some(value) => integer(value).ok_or_else(expected),
    };
    let step = (number(0)?, number(1)?);
    if step.0 < 0 || step.1 < 0 {
        return Err(format!("[{}, {}] has a negative number", step.0, step.1));
    }
    if !is_cpa && (step.0 as f64 > NUMBER_MAX || step.1 as f64 > NUMBER_MAX) {
        return Err(format!("[{}, {}] is beyond {NUMBER_MAX:.0}", step.0, step.1));
    }
    Ok(step)
}

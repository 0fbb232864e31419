//! A recorded or made-up course of a cluster: one JSON object a line.
use crate::decision::{Demand, Nodes, Observation};
use crate::json::Json;
use crate::members::{Dialect, Members, ParamsError, wrong};

/// The fields of a line.
const KEYS: [&str; 15] = [
    "t",
    "nodes",
    "ready",
    "cores",
    "ready_cores",
    "schedulable_nodes",
    "schedulable_cores",
    "qps",
    "p99_ms",
    "unschedulable",
    "dropped",
    "rolling_out",
    "min_available",
    "largest_zone",
    "replicas",
];

/// Reads a trace line by line.
#[derive(Clone, Debug)]
pub struct Reader {
    seen: Observation,
    is_first: bool,
    qps: Option<f64>,
    dropped: f64,
    p99_ms: Option<f64>,
}

impl Reader {
    /// A reader whose first observation has so many replicas.
    pub fn new(replicas: u32) -> Self {
        let seen = Observation {
            time_s: 0.0,
            replicas,
            nodes: Nodes::default(),
            demand: None,
            capacity: None,
            unschedulable: 0,
            is_rolling_out: false,
            min_available: None,
            largest_zone: 0.0,
        };
        Self { seen, is_first: true, qps: None, dropped: 0.0, p99_ms: None }
    }

    /// The observation of the next line. A count of ready or schedulable nodes or cores that is
    /// absent equals the count of all; any other absent field keeps its value. `"qps": null` says
    /// that the metrics are stale.
    ///
    /// # Errors
    /// The line is not an object of the known fields, or its time lies before the line before.
    pub fn line(&mut self, text: &str) -> Result<Observation, ParamsError> {
        let value: Json = serde_json::from_str(text)
            .map_err(|error| wrong("", &format!("this is not JSON: {error}")))?;
        let mut members = Members::new("trace", value, Dialect::Strict, &KEYS)?;
        let mut next = self.clone();
        next.time(&mut members)?;
        next.nodes(&mut members)?;
        next.load(&mut members)?;
        let seen = &mut next.seen;
        let whole = |members: &mut Members, key| members.whole(key, 0);
        seen.unschedulable = whole(&mut members, "unschedulable")?.unwrap_or(seen.unschedulable);
        seen.replicas = whole(&mut members, "replicas")?.unwrap_or(seen.replicas);
        seen.min_available = whole(&mut members, "min_available")?.or(seen.min_available);
        seen.is_rolling_out = members.flag("rolling_out")?.unwrap_or(seen.is_rolling_out);
        if let Some(share) = measure(&mut members, "largest_zone", 1.0)? {
            seen.largest_zone = share;
        }
        *self = next;
        Ok(self.seen)
    }

    /// The replicas of the next observation.
    pub const fn set_replicas(&mut self, replicas: u32) {
        self.seen.replicas = replicas;
    }

    fn time(&mut self, members: &mut Members) -> Result<(), ParamsError> {
        let place = members.place("t");
        let time_s = members.float("t")?.ok_or_else(|| wrong(&place, "missing: the seconds"))?;
        if time_s < self.seen.time_s && !self.is_first {
            let before = self.seen.time_s;
            return Err(wrong(&place, &format!("{time_s} lies before the line before, {before}")));
        }
        (self.seen.time_s, self.is_first) = (time_s, false);
        Ok(())
    }

    fn nodes(&mut self, members: &mut Members) -> Result<(), ParamsError> {
        let nodes = &mut self.seen.nodes;
        let mut count = |key, usual: u64| {
            let number = measure(members, key, 1e9)?;
            Ok::<u64, ParamsError>(number.map_or(usual, |number| number.ceil() as u64))
        };
        nodes.total = count("nodes", nodes.total)?;
        nodes.ready = count("ready", nodes.total)?;
        nodes.schedulable = count("schedulable_nodes", nodes.total)?;
        nodes.total_cores = count("cores", nodes.total_cores)?;
        nodes.ready_cores = count("ready_cores", nodes.total_cores)?;
        nodes.schedulable_cores = count("schedulable_cores", nodes.total_cores)?;
        let parts = [
            ("ready", nodes.ready, nodes.total),
            ("schedulable_nodes", nodes.schedulable, nodes.total),
            ("ready_cores", nodes.ready_cores, nodes.total_cores),
            ("schedulable_cores", nodes.schedulable_cores, nodes.total_cores),
        ];
        match parts.into_iter().find(|(_, part, all)| part > all) {
            Some((key, part, all)) => {
                Err(wrong(&members.place(key), &format!("{part} is more than all, {all}")))
            }
            None => Ok(()),
        }
    }

    fn load(&mut self, members: &mut Members) -> Result<(), ParamsError> {
        match members.take("qps") {
            None => {}
            Some(Json::Null) => self.qps = None,
            Some(Json::Number(number)) if number.as_f64().is_some_and(|qps| qps >= 0.0) => {
                self.qps = number.as_f64();
            }
            Some(_) => {
                return Err(wrong(&members.place("qps"), "expected queries a second, or null"));
            }
        }
        self.p99_ms = measure(members, "p99_ms", f64::MAX)?.or(self.p99_ms);
        self.dropped = measure(members, "dropped", 1.0)?.unwrap_or(self.dropped);
        let (dropped, p99_ms) = (self.dropped, self.p99_ms);
        self.seen.demand = self.qps.map(|qps| Demand { qps, dropped, p99_ms });
        Ok(())
    }
}

/// A number from 0 to `most`.
fn measure(members: &mut Members, key: &str, most: f64) -> Result<Option<f64>, ParamsError> {
    match members.float(key)? {
        Some(number) if !(0.0..=most).contains(&number) => {
            Err(wrong(&members.place(key), &format!("{number} is outside of 0 to {most}")))
        }
        number => Ok(number),
    }
}

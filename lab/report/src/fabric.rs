//! Traffic between two ends of a machine, by how far apart they are: raw results, and what follows
//! from them.

use lab::record::SparseHistogram;
use lab::statistics::median;
use lab::verdict::thousands;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Result;
use crate::study::{Finding, StudyName};

mod statements;

/// Measurements of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricStudy {
    /// Whether it stands beside the article's figures.
    pub is_reproduction: bool,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Pairs of CPUs.
    pub classes: Vec<FabricClass>,
    /// Repeated runs of each way in each class.
    pub cells: Vec<FabricCell>,
    /// Agreements of replicas.
    pub agreements: Vec<FabricAgreement>,
    /// What was not run, and why.
    pub skipped: Vec<String>,
    /// The article's figures; null: it does not stand beside them.
    pub original: Value,
    /// The article's statements, each with an outcome.
    pub findings: Vec<Finding>,
}

/// A pair of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricClass {
    /// What they share, such as `same L3`.
    pub name: String,
    /// The client's and the server's; none: the machine has no such pair.
    pub cpus: Option<[usize; 2]>,
    /// The time of a cache line one way, ns; none between a CPU and itself.
    pub line_ns: Option<f64>,
}

/// Repeated runs of a way in a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricCell {
    /// The class.
    pub class: String,
    /// The way, such as `loopback`.
    pub way: String,
    /// What keeps the ends apart: `same process`, `process` or `namespace`.
    pub isolation: String,
    /// Whether each byte is summed.
    pub checksums: bool,
    /// Its runs.
    pub runs: Vec<FabricRun>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricRun {
    /// Round trips of 64 bytes, ns.
    pub round_trips: SparseHistogram,
    /// Pages of 1,000 bytes on one connection, ns.
    pub pages: SparseHistogram,
    /// Pages on 16 connections.
    pub page_rate: Rate,
    /// Packets of 1,400 bytes that arrived.
    pub packets: Rate,
    /// Bytes of a stream.
    pub bytes: Rate,
    /// The share of the bandwidth of copies on a third CPU that is left beside such a stream; none:
    /// there is no third CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_left: Option<f64>,
}

/// How much in how many seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// How much.
    pub units: u64,
    /// Seconds.
    pub seconds: f64,
}

/// Repeated runs of replicas that agree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricAgreement {
    /// The class of the CPUs that they run on in turn.
    pub class: String,
    /// The way.
    pub way: String,
    /// What keeps them apart.
    pub isolation: String,
    /// How many.
    pub replicas: usize,
    /// Its runs.
    pub runs: Vec<AgreementRun>,
}

/// A run of replicas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgreementRun {
    /// Decisions.
    pub decided: Rate,
    /// From request to decision, ns.
    pub times: SparseHistogram,
    /// Messages that arrived meanwhile.
    pub messages: u64,
    /// From the silence of the primary to the next decision, without the timeout, ns.
    pub view_change_ns: u64,
}

impl Rate {
    /// A second.
    pub fn per_second(&self) -> f64 {
        self.units as f64 / self.seconds.max(f64::EPSILON)
    }
}

/// The median of a figure of some runs.
fn of_runs<R>(runs: &[R], figure: impl Fn(&R) -> f64) -> f64 {
    median(&runs.iter().map(figure).collect::<Vec<_>>()).unwrap_or(0.0)
}

fn quantile(times: &SparseHistogram, share: f64) -> f64 {
    times.quantile(share).unwrap_or(0) as f64
}

impl FabricCell {
    /// Half of the round trips take less, ns.
    pub fn round_trip_ns(&self) -> f64 {
        of_runs(&self.runs, |run| quantile(&run.round_trips, 0.5))
    }

    /// Half of the pages on one connection take less, ns.
    pub fn page_ns(&self) -> f64 {
        of_runs(&self.runs, |run| quantile(&run.pages, 0.5))
    }

    /// Pages a second on 16 connections.
    pub fn pages_per_second(&self) -> f64 {
        of_runs(&self.runs, |run| run.page_rate.per_second())
    }

    /// Packets a second.
    pub fn packets_per_second(&self) -> f64 {
        of_runs(&self.runs, |run| run.packets.per_second())
    }

    /// Gigabits a second of a stream.
    pub fn gigabits(&self) -> f64 {
        of_runs(&self.runs, |run| run.bytes.per_second() * 8.0 / 1e9)
    }

    /// The share of the bandwidth of copies on a third CPU that is left beside a stream.
    pub fn memory_left(&self) -> Option<f64> {
        let left: Option<Vec<f64>> = self.runs.iter().map(|run| run.memory_left).collect();
        median(&left?)
    }

    /// Its name in tables.
    pub fn name(&self) -> String {
        format!("{}, {}", self.class, self.way)
    }

    fn row(&self, line_ns: Option<f64>) -> Vec<String> {
        let p99 = |of: fn(&FabricRun) -> &SparseHistogram| {
            of_runs(&self.runs, |run| quantile(of(run), 0.99))
        };
        let one_way = self.round_trip_ns() / 2.0;
        let per_line = line_ns.map_or("-".into(), |line| format!("{:.0}", one_way / line));
        vec![
            self.class.clone(),
            self.way.clone(),
            self.isolation.clone(),
            if self.checksums { "yes" } else { "no" }.into(),
            us(self.round_trip_ns()),
            us(p99(|run| &run.round_trips)),
            per_line,
            us(self.page_ns()),
            us(p99(|run| &run.pages)),
            rounded(self.pages_per_second()),
            rounded(self.packets_per_second()),
            format!("{:.1}", self.gigabits()),
            self.memory_left().map_or("-".into(), |left| format!("{:.0} %", 100.0 * left)),
        ]
    }
}

impl FabricAgreement {
    /// Decisions a second.
    pub fn per_second(&self) -> f64 {
        of_runs(&self.runs, |run| run.decided.per_second())
    }

    /// Messages a second.
    pub fn messages_per_second(&self) -> f64 {
        of_runs(&self.runs, |run| run.messages as f64 / run.decided.seconds.max(f64::EPSILON))
    }

    /// Its name in tables.
    pub fn name(&self) -> String {
        format!("{}, {}, {} replicas", self.class, self.way, self.replicas)
    }

    fn row(&self) -> Vec<String> {
        let times = |share| us(of_runs(&self.runs, |run| quantile(&run.times, share)));
        vec![
            self.class.clone(),
            self.way.clone(),
            self.isolation.clone(),
            self.replicas.to_string(),
            rounded(self.per_second()),
            times(0.5),
            times(0.99),
            rounded(self.messages_per_second()),
            us(of_runs(&self.runs, |run| run.view_change_ns as f64)),
        ]
    }
}

fn us(ns: f64) -> String {
    format!("{:.1}", ns / 1e3)
}

fn rounded(number: f64) -> String {
    thousands(number.round() as u64)
}

/// A table of a page.
pub struct FabricTable {
    /// Its title.
    pub title: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// Its columns.
    pub head: &'static [&'static str],
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

impl FabricStudy {
    /// Measurements whose findings follow from the runs.
    ///
    /// # Errors
    /// A run has nothing in it.
    pub fn new(raw: Self) -> Result<Self> {
        for cell in &raw.cells {
            let is_empty = |run: &FabricRun| {
                !run.round_trips.is_valid() || !run.pages.is_valid() || run.round_trips.0.is_empty()
            };
            if cell.runs.is_empty() || cell.runs.iter().any(is_empty) {
                return Err(format!("fabric: {}: a run without times", cell.name()));
            }
        }
        if raw.agreements.iter().any(|one| one.runs.iter().any(|run| run.decided.units == 0)) {
            return Err("fabric: replicas decided nothing".into());
        }
        let original = match raw.is_reproduction {
            true => StudyName::Heretic2019.original(),
            false => Value::Null,
        };
        let mut study = Self { original, findings: Vec::new(), ..raw };
        if study.is_reproduction {
            study.findings = statements::judge(&study);
        }
        Ok(study)
    }

    /// How many runs it has.
    pub fn run_count(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.runs.len());
        cells.chain(self.agreements.iter().map(|one| one.runs.len())).sum()
    }

    /// The cell of a class and a way.
    pub fn cell(&self, class: &str, way: &str) -> Option<&FabricCell> {
        self.cells.iter().find(|cell| (cell.class.as_str(), cell.way.as_str()) == (class, way))
    }

    /// The tables of its page.
    pub fn tables(&self) -> Vec<FabricTable> {
        let line_of = |class: &str| {
            self.classes.iter().find(|one| one.name == class).and_then(|one| one.line_ns)
        };
        let mut tables = Vec::new();
        if self.is_reproduction {
            tables.push(FabricTable {
                title: "Statements",
                about: "Each statement of the article, and what was measured here.",
                head: &["statement", "here", "because"],
                rows: self.findings.iter().map(|finding| finding.row().to_vec()).collect(),
            });
        }
        let class = |one: &FabricClass| {
            let cpus = one.cpus.map_or("absent".into(), |[a, b]| format!("{a}, {b}"));
            let line = one.line_ns.map_or("-".into(), |ns| format!("{ns:.0}"));
            vec![one.name.clone(), cpus, line]
        };
        tables.push(FabricTable {
            title: "Classes",
            about: "The CPUs of the two ends, and the time that a cache line takes one way.",
            head: &["class", "CPUs", "cache line, ns"],
            rows: self.classes.iter().map(class).collect(),
        });
        tables.push(FabricTable {
            title: "Ways",
            about: "Round trips have 64 bytes, pages 1,000, packets 1,400. Times are microseconds, \
                    on one connection; pages a second are those of 16. A ring's packet is a \
                    record, a Unix socket's a datagram, the others' one of UDP that arrived. \
                    \"/ line\" is half a round trip by the time of a cache line; \"memory left\" \
                    the share of the bandwidth of copies on a third CPU, if there is one, that is \
                    left beside a stream.",
            head: &[
                "class",
                "way",
                "apart",
                "checksums",
                "RTT p50",
                "p99",
                "/ line",
                "page p50",
                "p99",
                "pages/s",
                "packets/s",
                "Gbit/s",
                "memory left",
            ],
            rows: self.cells.iter().map(|cell| cell.row(line_of(&cell.class))).collect(),
        });
        if !self.agreements.is_empty() {
            tables.push(FabricTable {
                title: "Agreement",
                about: "All to all, a MAC (HMAC-SHA-256) on each message, 8 requests outstanding; \
                        replicas run in turn on the two CPUs, in one process. Times are \
                        microseconds; a change of views counts from the timeout.",
                head: &[
                    "class",
                    "way",
                    "apart",
                    "replicas",
                    "decisions/s",
                    "p50",
                    "p99",
                    "messages/s",
                    "view change",
                ],
                rows: self.agreements.iter().map(FabricAgreement::row).collect(),
            });
        }
        tables
    }
}

#[cfg(test)]
mod tests;

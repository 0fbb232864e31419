//! The points of a sweep: every combination of its settings that can differ.
use super::Sweep;
use crate::bench::{EchoSpec, Spread};
use cpu::CpuList;
use lab::servers::ServerKind;
use lab_host::core_sets::{CoreSetClass, classes, sets};
use lab_host::hosts::{Layout, Options as HostOptions, Side};
use lab_host::manifest::Cpu;
use lab_report::sweep::CoreClass;
use std::collections::BTreeMap;

/// What answers at a point.
#[derive(Clone, Debug)]
pub enum Answering {
    Echo(EchoSpec),
    Server(&'static ServerKind, usize),
}

/// A point that is to be measured.
#[derive(Clone, Debug)]
pub struct Planned {
    pub layout: Layout,
    pub queues: u32,
    pub spread: Spread,
    pub answering: Answering,
    pub settings: BTreeMap<String, String>,
    pub class: Option<CoreClass>,
}

/// Core sets by name: `each`, `pairs`, `triples`, `fours`, or CPUs such as `0+2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoreSets {
    Size(usize),
    One(CpuList),
}

impl std::str::FromStr for CoreSets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = ["each", "pairs", "triples", "fours"];
        if let Some(at) = names.iter().position(|name| *name == text) {
            return Ok(Self::Size(at + 1));
        }
        let told = |_| format!("expected {}, or CPUs such as 0+2", names.join(", "));
        text.replace('+', ",").parse().map(Self::One).map_err(told)
    }
}

/// A core set as labels have it: `0+2`.
pub fn set_name(set: &CpuList) -> String {
    set.as_slice().iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}

/// The CPU that receives the packets of the server's host, if it is one.
pub fn receiving(hosts: &HostOptions) -> Option<usize> {
    let cpus = hosts.cpus(Side::Server).ok()?;
    let polled = hosts.layout != Layout::Steered && hosts.queues == 1;
    let first = cpus.as_slice().first().copied();
    first.filter(|_| polled || cpus.as_slice().len() == 1)
}

/// One set of each class that the topology makes equal.
///
/// # Errors
/// There are too many sets.
pub fn core_classes(
    wanted: &[CoreSets],
    cpu: &Cpu,
    hosts: &HostOptions,
) -> Result<Vec<CoreSetClass>, String> {
    let own = hosts.cpus(Side::Server)?;
    let mut all = Vec::new();
    for set in wanted {
        match set {
            CoreSets::Size(size) => all.extend(sets(&own, *size)?),
            CoreSets::One(set) => all.push(set.clone()),
        }
    }
    Ok(classes(cpu, &all, receiving(hosts)))
}

fn class_of(class: &CoreSetClass) -> CoreClass {
    CoreClass { name: class.name.clone(), members: class.members.iter().map(set_name).collect() }
}

impl Sweep {
    /// The points, those on the same hosts beside each other.
    ///
    /// # Errors
    /// Too many core sets, or hosts that cannot be.
    pub fn plan(
        &self,
        cpu: &Cpu,
        hosts: impl Fn(Layout, u32) -> Result<HostOptions, String>,
    ) -> Result<Vec<Planned>, String> {
        let mut points = Vec::new();
        for (layout, queues) in pairs(&self.layout, &self.queues) {
            let classes = core_classes(&self.cores, cpu, &hosts(layout, queues)?)?;
            let cores: Vec<Option<&CoreSetClass>> = match classes.is_empty() {
                true => vec![None],
                false => classes.iter().map(Some).collect(),
            };
            for (spread, cores) in pairs(&self.spread, &cores) {
                for mut point in self.answering(cores) {
                    let mut set = |name: &str, value: String| {
                        point.settings.insert(name.into(), value);
                    };
                    set("layout", layout.to_string());
                    set("queues", queues.to_string());
                    set("flows", spread.to_string());
                    points.push(Planned { layout, queues, spread, ..point });
                }
            }
        }
        drop_constant(&mut points);
        Ok(points)
    }

    /// What answers on these cores, without the settings of the hosts.
    fn answering(&self, cores: Option<&CoreSetClass>) -> Vec<Planned> {
        let cpus = cores.map(|class| class.members[0].clone());
        let point = |answering, settings: &[(&str, String)]| {
            let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            let mut settings: BTreeMap<_, _> = settings.collect();
            if let Some(cpus) = &cpus {
                settings.insert("core set".into(), set_name(cpus));
                settings.insert("cores".into(), cpus.as_slice().len().to_string());
            }
            let spread = Spread { flows: 1, by_address: false };
            let class = cores.map(class_of);
            Planned { layout: Layout::Whole, queues: 1, spread, answering, settings, class }
        };
        let mut points = Vec::new();
        for (kind, threads) in pairs(&self.server, &self.threads) {
            let settings = [("server", kind.name.to_owned()), ("threads", threads.to_string())];
            points.push(point(Answering::Server(kind, threads), &settings));
        }
        let models = if self.server.is_empty() { self.model.as_slice() } else { &[] };
        for (model, (processes, threads)) in pairs(models, &pairs(&self.processes, &self.threads)) {
            let (default, can_be_set) = model.batch();
            let batches = if can_be_set { self.batch.as_slice() } else { &[] };
            let batches: Vec<Option<usize>> = match batches.is_empty() {
                true => vec![None],
                false => batches.iter().copied().map(Some).collect(),
            };
            for batch in batches {
                let settings = [
                    ("model", model.name().to_owned()),
                    ("processes", processes.to_string()),
                    ("threads", threads.to_string()),
                    ("batch", batch.unwrap_or(default).to_string()),
                ];
                let cpus = cpus.clone();
                let echo = EchoSpec { processes, threads, batch, cpus, ..EchoSpec::of(model) };
                points.push(point(Answering::Echo(echo), &settings));
            }
        }
        points
    }

    /// The setting that the law is fitted over: the first with three numbers, else the first with
    /// two.
    pub fn scale(points: &[Planned]) -> String {
        let count = |name: &str| {
            let numbers = points.iter().filter_map(|point| point.settings.get(name));
            numbers.collect::<std::collections::BTreeSet<_>>().len()
        };
        let names = ["processes", "threads", "cores"];
        let found = [3, 2].into_iter().find_map(|least| names.iter().find(|n| count(n) >= least));
        (*found.unwrap_or(&"processes")).into()
    }
}

/// Every pair of both.
fn pairs<A: Clone, B: Clone>(a: &[A], b: &[B]) -> Vec<(A, B)> {
    a.iter().flat_map(|a| b.iter().map(|b| (a.clone(), b.clone()))).collect()
}

/// Leaves out settings that are the same at all points, except those that a law may be over. A core
/// set whose size says it all gives way to that size.
fn drop_constant(points: &mut [Planned]) {
    let values = |name: &str| {
        let all = points.iter().map(|point| point.settings.get(name));
        all.collect::<std::collections::BTreeSet<_>>().len()
    };
    let mut gone: Vec<&str> = ["model", "batch", "flows", "layout", "queues", "server"]
        .into_iter()
        .filter(|name| values(name) < 2)
        .collect();
    if values("core set") == values("cores") {
        gone.push("core set");
    }
    for point in points {
        gone.iter().for_each(|name| {
            point.settings.remove(*name);
        });
    }
}

//! Why these CPUs. Everything is worked out from the result, so that it is true of it.
use crate::free::complete_cores;
use crate::request::{Constraints, Order, Request, Spread};
use cpu::CpuList;
use cpu_topology::{Level, Topology};
use serde::Serialize;
use std::fmt;

/// Why a plan is as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Which of two CPUs came first.
    pub order: Order,
    /// CPUs requested.
    pub requested: usize,
    /// CPUs among which was chosen: free, not reserved, and as preferred.
    pub free: usize,
    /// What was preferred, in the order in which it was tried.
    pub preferences: Vec<Preference>,
    /// What is to be known of the set.
    pub reasons: Vec<Reason>,
}

/// A part of the machine that is preferred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preference {
    /// Which CPUs: `local to eth0`.
    pub what: String,
    /// CPUs that were free there.
    pub free: usize,
    /// Whether these were enough, so that all CPUs are from there.
    pub is_met: bool,
}

/// A fact about the set and why it is so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// All CPUs are in one element.
    Within {
        /// The level.
        level: Level,
        /// The element.
        element: usize,
        /// CPUs of it among which was chosen.
        free: usize,
    },
    /// The CPUs are in several elements.
    Split {
        /// The level.
        level: Level,
        /// The elements.
        elements: Vec<usize>,
        /// The most CPUs among which was chosen that one element of the level has.
        largest: usize,
    },
    /// Threads of these cores are not in the set, and may be used by others.
    PartsOfCores {
        /// The cores, by their lowest CPU.
        cores: Vec<usize>,
        /// CPUs of whole cores among which was chosen.
        whole: usize,
    },
    /// It was to be spread.
    Spread {
        /// Over these.
        over: Level,
        /// This many of them.
        elements: usize,
    },
}

impl Explanation {
    pub(crate) fn of(
        topology: &Topology,
        cpus: &CpuList,
        pool: &CpuList,
        request: &Request,
        constraints: &Constraints,
        preferences: Vec<Preference>,
    ) -> Self {
        let mut reasons = Vec::new();
        if !cpus.is_empty() {
            reasons.extend(spread(topology, cpus, constraints.spread));
            reasons.extend(places(topology, cpus, pool));
            reasons.extend(parts_of_cores(topology, cpus, pool));
        }
        let (order, requested) = (constraints.order, request.cpus);
        Self { order, requested, free: pool.len(), preferences, reasons }
    }
}

fn spread(topology: &Topology, cpus: &CpuList, spread: Spread) -> Option<Reason> {
    let over = match spread {
        Spread::Packed => return None,
        Spread::AcrossNodes(_) => Level::Node,
        Spread::AcrossCores => Level::Core,
    };
    let elements = topology.elements(over);
    let elements = elements.values().filter(|members| !members.intersection(cpus).is_empty());
    Some(Reason::Spread { over, elements: elements.count() })
}

/// Splits over levels, smallest elements first, and the first element that holds all.
fn places(topology: &Topology, cpus: &CpuList, pool: &CpuList) -> Vec<Reason> {
    let mut levels: Vec<_> = [Level::L3, Level::Node, Level::Socket, Level::Machine]
        .map(|level| (level, topology.elements(level)))
        .into_iter()
        .filter(|(level, elements)| elements.len() > 1 || *level == Level::Machine)
        .collect();
    levels.sort_by_key(|(_, elements)| elements.values().map(CpuList::len).max());
    let mut reasons = Vec::new();
    for (level, elements) in levels {
        let used: Vec<usize> = elements
            .iter()
            .filter(|(_, members)| !members.intersection(cpus).is_empty())
            .map(|(id, _)| *id)
            .collect();
        let free = |members: &CpuList| members.intersection(pool).len();
        match used.as_slice() {
            // CPUs without an element of this level say nothing.
            [] => {}
            [element] if cpus.is_subset(&elements[element]) => {
                let free = free(&elements[element]);
                reasons.push(Reason::Within { level, element: *element, free });
                break;
            }
            _ => {
                let largest = elements.values().map(free).max().unwrap_or(0);
                reasons.push(Reason::Split { level, elements: used, largest });
            }
        }
    }
    reasons
}

fn parts_of_cores(topology: &Topology, cpus: &CpuList, pool: &CpuList) -> Option<Reason> {
    let whole = complete_cores(topology, cpus);
    let parts = cpus.difference(&whole);
    let mut cores: Vec<usize> =
        parts.iter().filter_map(|id| topology.cpu(id)).map(|cpu| cpu.core).collect();
    cores.sort_unstable();
    cores.dedup();
    let whole = complete_cores(topology, pool).len();
    (!cores.is_empty()).then_some(Reason::PartsOfCores { cores, whole })
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> =
            self.preferences.iter().map(|one| one.text(self.requested)).collect();
        lines.extend(self.reasons.iter().map(|reason| self.text(reason)));
        f.write_str(&lines.join("\n"))
    }
}

impl Preference {
    fn text(&self, requested: usize) -> String {
        let Self { what, free, is_met } = self;
        match (is_met, free) {
            (true, free) => format!("{what}, where {free} are free"),
            (false, 0) => format!("not {what}: none is free there"),
            (false, free) if *free >= requested => {
                format!("not only {what}: the {free} that are free there are on too few cores")
            }
            (false, free) => format!(
                "not all CPUs are {what}: only {free} of the {requested} requested are free there"
            ),
        }
    }
}

impl Explanation {
    fn text(&self, reason: &Reason) -> String {
        let requested = self.requested;
        match reason {
            Reason::Within { level: Level::Machine, .. } => {
                format!("the machine has {} to choose from", self.free)
            }
            Reason::Within { level, element, free } => {
                format!("all in {} {element}, which has {free} to choose from", level.noun(1))
            }
            Reason::Split { level, elements, largest } => {
                let (number, nouns) = (elements.len(), level.noun(elements.len()));
                let over = format!("split over {number} {nouns}");
                if *largest < requested {
                    return format!(
                        "{over} because none has {requested} free (the most is {largest})"
                    );
                }
                match self.order {
                    Order::Kubelet => format!(
                        "{over}, although one has {largest} free: the kubelet order fills the \
                         fullest first"
                    ),
                    Order::Dunlin => format!(
                        "{over}, although one has {largest} free: whole cores or a spread came \
                         first"
                    ),
                }
            }
            Reason::PartsOfCores { cores, whole } => {
                let list = cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
                let these = Level::Core.noun(cores.len());
                format!(
                    "parts of the {these} of CPU {list}: whole cores have {whole} CPUs to choose \
                     from"
                )
            }
            Reason::Spread { over, elements } => {
                format!("spread over {elements} {}, as asked", over.noun(*elements))
            }
        }
    }
}

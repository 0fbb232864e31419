//! Pairs of CPUs by what they share.
use cpu::CpuList;
use cpu_topology::{Relation, Topology, measure};

/// How near two ends are, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// One CPU for both.
    SameCpu,
    /// Two threads of a core.
    Sibling,
    /// Two cores with a cache in common.
    SameL3,
    /// Two cores of a NUMA node without one.
    OtherL3,
    /// Two NUMA nodes of a socket.
    OtherNode,
    /// Two sockets.
    OtherSocket,
}

impl Class {
    /// All of them, nearest first.
    pub const ALL: [Self; 6] = [
        Self::SameCpu,
        Self::Sibling,
        Self::SameL3,
        Self::OtherL3,
        Self::OtherNode,
        Self::OtherSocket,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SameCpu => "same CPU",
            Self::Sibling => "SMT sibling",
            Self::SameL3 => "same L3",
            Self::OtherL3 => "other L3",
            Self::OtherNode => "other NUMA node",
            Self::OtherSocket => "other socket",
        }
    }

    const fn of(relation: Relation) -> Self {
        match relation {
            Relation::SameCore => Self::Sibling,
            Relation::SameL2 | Relation::SameL3 => Self::SameL3,
            Relation::SameNode => Self::OtherL3,
            Relation::SameSocket => Self::OtherNode,
            Relation::OtherSocket => Self::OtherSocket,
        }
    }
}

/// The CPUs of two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// What they share.
    pub class: Class,
    /// The client's and the server's; `None`: the machine has no such pair.
    pub cpus: Option<[usize; 2]>,
}

/// The first pair of each class among these CPUs.
pub fn pairs(topology: &Topology, allowed: &CpuList) -> Vec<Pair> {
    let of = |class| {
        let first = |one: usize| {
            if class == Class::SameCpu {
                return Some([one, one]);
            }
            let is_pair = |other: &usize| {
                *other != one && topology.relation(one, *other).map(Class::of) == Some(class)
            };
            allowed.iter().find(is_pair).map(|other| [one, other])
        };
        Pair { class, cpus: allowed.iter().find_map(first) }
    };
    Class::ALL.map(of).to_vec()
}

/// Half of the times that a cache line takes one way between two CPUs are below this, in
/// nanoseconds; none between a CPU and itself.
///
/// # Errors
/// A CPU cannot be used.
pub fn line_ns(topology: &Topology, cpus: [usize; 2]) -> crate::Result<Option<f64>> {
    if cpus[0] == cpus[1] {
        return Ok(None);
    }
    let pairs = measure::measure(topology, &cpus.into_iter().collect(), 1_000, |_, _| ());
    let pairs = pairs.map_err(|error| error.to_string())?;
    let sum: f64 = pairs.iter().map(|pair| pair.median_ns).sum();
    Ok(Some(sum / pairs.len().max(1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpu_topology::{CoreKind, Cpu};

    /// Two sockets of two nodes, each with two L3 of one core with two threads.
    fn machine() -> Topology {
        let cpu = |id: usize| Cpu {
            id,
            core: id / 2 * 2,
            l2: Some(id / 2),
            l3: Some(id / 2),
            die: id / 4,
            node: id / 4,
            socket: id / 8,
            kind: CoreKind::Standard,
        };
        Topology { cpus: (0..16).map(cpu).collect(), ..Topology::default() }
    }

    #[test]
    fn each_class_has_its_first_pair_and_what_lacks_is_absent() {
        let all: CpuList = (0..16).collect();
        let found: Vec<_> = pairs(&machine(), &all).iter().map(|pair| pair.cpus).collect();
        let expected = [Some([0, 0]), Some([0, 1]), None, Some([0, 2]), Some([0, 4]), Some([0, 8])];
        assert_eq!(found, expected);
        let few: CpuList = [3, 9].into_iter().collect();
        let found: Vec<_> = pairs(&machine(), &few).iter().map(|pair| pair.cpus).collect();
        assert_eq!(found, [Some([3, 3]), None, None, None, None, Some([3, 9])]);
    }
}

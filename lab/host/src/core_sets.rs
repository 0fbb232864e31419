//! Classes of core sets that are equal by topology.
//!
//! Two sets are equal if some renaming of CPUs that keeps packages, caches and cores maps one to
//! the other, and the receiving CPU to itself. Of each class, one set needs to be measured.

use crate::limits::CORE_SETS_MAX;
use crate::manifest::Cpu;
use crate::{Result, manifest};
use cpu::CpuList;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A class of equal core sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreSetClass {
    /// Its name, such as `2 CPUs, shared cache L2; receiving CPU inside`.
    pub name: String,
    /// Its sets, in the order in which they were given.
    pub members: Vec<CpuList>,
}

/// The domains of a CPU, the widest first.
fn domains(cpu: &Cpu, number: usize) -> Vec<String> {
    let core = cpu.cores.iter().find(|core| core.cpu == number);
    let cache = |level: i64| {
        let holds = |cache: &&manifest::Cache| {
            let list = cache.cpus.parse::<CpuList>();
            let is_of = list.is_ok_and(|list| list.as_slice().contains(&number));
            cache.level == level && cache.kind != "Instruction" && is_of
        };
        let found = cpu.caches.iter().find(holds);
        found.map_or(String::new(), |cache| format!("{} {}", cache.size, cache.cpus))
    };
    let place = core.map_or((0, 0, String::new()), |c| (c.package, c.node, c.siblings.clone()));
    vec![format!("{} {}", place.0, place.1), cache(3), cache(2), place.2]
}

/// The distance of two CPUs: the smallest domain that contains both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// It is the same CPU.
    Same,
    /// Both are threads of one core.
    Core,
    /// Both use one L2 cache.
    L2,
    /// Both use one L3 cache.
    L3,
    /// Both are in one package.
    Package,
    /// They are in two packages.
    Machine,
}

impl Distance {
    /// Whether both use one cache, and are two CPUs.
    pub fn is_shared_cache(self) -> bool {
        matches!(self, Self::Core | Self::L2 | Self::L3)
    }

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "the same CPU",
            Self::Core => "threads of one core",
            Self::L2 => "shared cache L2",
            Self::L3 => "shared cache L3",
            Self::Package => "one package",
            Self::Machine => "two packages",
        }
    }

    /// That of two different CPUs with these domains.
    fn between(a: &[String], b: &[String]) -> Self {
        let is_shared = |level: usize| a[level] == b[level] && !a[level].is_empty();
        let levels = [(3, Self::Core), (2, Self::L2), (1, Self::L3), (0, Self::Package)];
        let nearest = levels.into_iter().find(|(level, _)| is_shared(*level));
        nearest.map_or(Self::Machine, |(_, distance)| distance)
    }
}

/// The distance of each CPU of a set to the CPU that receives packets, in the order of the set.
pub fn distances(cpu: &Cpu, set: &CpuList, receiving: usize) -> Vec<Distance> {
    let to = domains(cpu, receiving);
    let distance = |number: &usize| match *number == receiving {
        true => Distance::Same,
        false => Distance::between(&domains(cpu, *number), &to),
    };
    set.as_slice().iter().map(distance).collect()
}

/// A text that is equal for sets of one class: the tree of domains above the CPUs, sorted.
fn shape(cpus: &[(Vec<String>, char)], level: usize) -> String {
    let Some((first, _)) = cpus.first() else { return String::new() };
    if level == first.len() {
        let mut marks: Vec<char> = cpus.iter().map(|(_, mark)| *mark).collect();
        marks.sort_unstable();
        return marks.into_iter().collect();
    }
    let mut groups: BTreeMap<&str, Vec<(Vec<String>, char)>> = BTreeMap::new();
    for (domains, mark) in cpus {
        groups.entry(&domains[level]).or_default().push((domains.clone(), *mark));
    }
    let mut inside: Vec<String> = groups
        .into_iter()
        .map(|(domain, members)| {
            // Caches of different sizes are different.
            let size = domain.split(' ').next().filter(|_| level == 1 || level == 2);
            format!("({}{})", size.unwrap_or_default(), shape(&members, level + 1))
        })
        .collect();
    inside.sort();
    inside.concat()
}

fn name(cpu: &Cpu, set: &CpuList, receiving: Option<usize>) -> String {
    let all: Vec<Vec<String>> = set.as_slice().iter().map(|n| domains(cpu, *n)).collect();
    let pairs = all.iter().enumerate();
    let pairs = pairs.flat_map(|(i, a)| all[..i].iter().map(|b| Distance::between(a, b)));
    let pairs: Vec<_> = pairs.collect();
    let inside = match (pairs.iter().min(), pairs.iter().max()) {
        (Some(near), Some(far)) if near == far => format!("{} CPUs, {}", all.len(), near.name()),
        (Some(near), Some(far)) => {
            format!("{} CPUs, {} to {}", all.len(), near.name(), far.name())
        }
        _ => "1 CPU".into(),
    };
    let Some(receiving) = receiving else { return inside };
    match distances(cpu, set, receiving).into_iter().min() {
        Some(Distance::Same) => format!("{inside}; receiving CPU inside"),
        Some(near) => format!("{inside}; to the receiving CPU: {}", near.name()),
        None => inside,
    }
}

/// Sorts sets into classes. `receiving` is the CPU that receives packets, if it is one.
pub fn classes(cpu: &Cpu, sets: &[CpuList], receiving: Option<usize>) -> Vec<CoreSetClass> {
    let mut order: Vec<String> = Vec::new();
    let mut found: BTreeMap<String, CoreSetClass> = BTreeMap::new();
    for set in sets {
        let own = set.as_slice();
        let mark = |number: usize| if receiving == Some(number) { 'R' } else { 'c' };
        let mut cpus: Vec<_> = own.iter().map(|n| (domains(cpu, *n), mark(*n))).collect();
        if let Some(outside) = receiving.filter(|number| !own.contains(number)) {
            cpus.push((domains(cpu, outside), 'r'));
        }
        let key = shape(&cpus, 0);
        let class = || CoreSetClass { name: name(cpu, set, receiving), members: Vec::new() };
        if !found.contains_key(&key) {
            order.push(key.clone());
        }
        found.entry(key).or_insert_with(class).members.push(set.clone());
    }
    order.iter().filter_map(|key| found.remove(key)).collect()
}

/// All sets of `size` of these CPUs.
///
/// # Errors
/// There are more than [`CORE_SETS_MAX`].
pub fn sets(cpus: &CpuList, size: usize) -> Result<Vec<CpuList>> {
    let mut found: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..size {
        let longer = |set: &Vec<usize>| {
            let above = set.last().copied();
            let next = cpus.as_slice().iter().filter(move |n| above.is_none_or(|last| **n > last));
            let set = set.clone();
            next.map(move |n| set.iter().copied().chain([*n]).collect()).collect::<Vec<_>>()
        };
        found = found.iter().flat_map(longer).collect();
        if found.len() > CORE_SETS_MAX {
            return Err(format!(
                "CPUs {cpus} have more than {CORE_SETS_MAX} sets of {size}: name fewer CPUs, or \
                 the sets themselves"
            ));
        }
    }
    Ok(found.into_iter().filter(|set| !set.is_empty()).map(CpuList::from_iter).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Cache, Core};

    /// ISC's server: two packages of two pairs of cores, an L2 for each pair. CPUs 0, 2, 4, 6 are
    /// in one package, and 5 shares its cache with 7.
    fn isc() -> Cpu {
        let core = |cpu: usize| Core {
            cpu,
            package: (cpu % 2) as i64,
            siblings: cpu.to_string(),
            ..Core::default()
        };
        let cache = |cpus: &str| Cache {
            level: 2,
            kind: "Unified".into(),
            size: "4096K".into(),
            cpus: cpus.into(),
        };
        Cpu {
            cores: (0..8).map(core).collect(),
            caches: ["0,2", "4,6", "1,3", "5,7"].map(cache).to_vec(),
            ..Cpu::default()
        }
    }

    fn names(size: usize) -> Vec<(String, Vec<String>)> {
        let cpus: CpuList = (0..8).collect();
        let found = classes(&isc(), &sets(&cpus, size).unwrap(), Some(7));
        let text = |class: CoreSetClass| {
            (class.name, class.members.iter().map(ToString::to_string).collect())
        };
        found.into_iter().map(text).collect()
    }

    #[test]
    fn single_cores_fall_into_the_classes_that_isc_measured() {
        let found = names(1);
        let members: Vec<String> = found.iter().map(|(_, sets)| sets.join(" ")).collect();
        assert_eq!(members, ["0 2 4 6", "1 3", "5", "7"]);
        assert_eq!(found[0].0, "1 CPU; to the receiving CPU: two packages");
        assert_eq!(found[2].0, "1 CPU; to the receiving CPU: shared cache L2");
        assert_eq!(found[3].0, "1 CPU; receiving CPU inside");
    }

    #[test]
    fn pairs_are_measured_once_for_each_class() {
        let found = names(2);
        let sum: usize = found.iter().map(|(_, sets)| sets.len()).sum();
        assert_eq!(sum, 28);
        let class_of = |set: &str| {
            found.iter().position(|(_, sets)| sets.iter().any(|own| own == set)).unwrap()
        };
        assert_eq!(class_of("0,4"), class_of("2,6"), "two caches of the other package");
        assert_eq!(class_of("0,2"), class_of("4,6"), "one cache of the other package");
        assert_ne!(class_of("0,2"), class_of("0,4"));
        assert_eq!(class_of("1,5"), class_of("3,5"), "as the study found");
        assert_ne!(class_of("1,3"), class_of("1,5"));
        assert_eq!(found.len(), 9, "{found:?}");
    }

    #[test]
    fn too_many_sets_are_refused() {
        let many: CpuList = (0..64).collect();
        assert!(sets(&many, 8).unwrap_err().contains("sets of 8"));
        assert_eq!(sets(&many, 0).unwrap(), []);
    }
}

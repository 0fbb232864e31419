use super::*;
use FindingOutcome::{DoesNotHold, Holds, NotVisible};
use cpu::CpuList;
use lab_host::core_sets::{classes, distances, sets};
use lab_host::manifest::{Cache, Core, Cpu};

/// A machine of four CPUs, of which CPU 0 receives: caches by level and CPUs, and the threads of
/// each core.
fn machine(caches: &[(i64, &str)], siblings: [&str; 4]) -> Cpu {
    let core =
        |(cpu, threads): (usize, &str)| Core { cpu, siblings: threads.into(), ..Core::default() };
    let cache = |(level, cpus): &(i64, &str)| Cache {
        level: *level,
        kind: "Unified".into(),
        size: "4096K".into(),
        cpus: (*cpus).into(),
    };
    Cpu {
        cores: siblings.into_iter().enumerate().map(core).collect(),
        caches: caches.iter().map(cache).collect(),
        ..Cpu::default()
    }
}

const OWN: [&str; 4] = ["0", "1", "2", "3"];

/// Two dies, each of two cores with one L3.
fn two_dies() -> Cpu {
    machine(&[(3, "0-1"), (3, "2-3")], OWN)
}

/// One die: all cores use one L3.
fn one_die() -> Cpu {
    machine(&[(3, "0-3")], OWN)
}

/// Two cores of two threads each, which use one L2; both use one L3.
fn smt() -> Cpu {
    machine(&[(2, "0,2"), (2, "1,3"), (3, "0-3")], ["0,2", "1,3", "0,2", "1,3"])
}

/// No caches that are known, as in many virtual machines.
fn unknown() -> Cpu {
    machine(&[], OWN)
}

/// A step as the lab runs it: a group for each class of sets, whose label is that of the lab, with
/// the rate that the table has for its first set.
fn step(cpu: &Cpu, size: usize, rates: &[(&str, f64)]) -> Step {
    let all: CpuList = (0..4).collect();
    let mut groups = Vec::new();
    for class in classes(cpu, &sets(&all, size).unwrap(), Some(0)) {
        let set = &class.members[0];
        let name = set.as_slice().iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
        let found = rates.iter().find(|(of, _)| *of == name);
        let mean = found.unwrap_or_else(|| panic!("no rate of {name}: {}", class.name)).1;
        groups.push(Group {
            label: format!("CPU {name} ({})", class.name),
            number: size as f64,
            runs: Vec::new(),
            peak: false,
            range: Range::of(&[mean * 0.98, mean, mean * 1.02]),
            distances: distances(cpu, set, 0),
        });
    }
    Step { groups, ..Step::skipped("step", "", "", "") }
}

#[test]
fn single_cores_are_judged_by_rates_and_topology() {
    type Row = (fn() -> Cpu, &'static [(&'static str, f64)], FindingOutcome, &'static str);
    let rows: [Row; 8] = [
        (two_dies, &[("0", 50.0), ("1", 90.0), ("2", 70.0)], Holds, "CPU 1"),
        // The label of the fastest does not name a cache, but another one's does.
        (two_dies, &[("0", 50.0), ("1", 60.0), ("2", 90.0)], DoesNotHold, "CPU 2"),
        // The receiving core itself is the fastest: it shares each cache with itself.
        (two_dies, &[("0", 95.0), ("1", 80.0), ("2", 70.0)], DoesNotHold, "CPU 0"),
        (two_dies, &[("0", 50.0), ("1", 90.0), ("2", 89.0)], DoesNotHold, "overlap"),
        (one_die, &[("0", 50.0), ("1", 90.0)], NotVisible, "shared cache L3"),
        (smt, &[("0", 50.0), ("1", 70.0), ("2", 90.0)], Holds, "CPU 2"),
        (smt, &[("0", 50.0), ("1", 90.0), ("2", 70.0)], DoesNotHold, "CPU 1"),
        (unknown, &[("0", 50.0), ("1", 90.0)], NotVisible, "no core shares a cache"),
    ];
    for (cpu, rates, outcome, word) in rows {
        let found = nearest("claim", &step(&cpu(), 1, rates));
        assert_eq!(found.outcome, outcome, "{rates:?}: {}", found.because);
        assert!(found.because.contains(word), "{rates:?}: {}", found.because);
    }
}

#[test]
fn pairs_are_judged_by_rates_and_topology() {
    let dies = |near, far, other, elsewhere| {
        let rates = [("0+1", near), ("0+2", far), ("1+2", other), ("2+3", elsewhere)];
        nearest_pair("claim", &step(&two_dies(), 2, &rates))
    };
    assert_eq!(dies(90.0, 60.0, 50.0, 70.0).outcome, Holds);
    assert_eq!(dies(70.0, 60.0, 50.0, 90.0).outcome, DoesNotHold);
    // A pair that shares a cache far from the receiving core is not the claim's pair.
    assert!(dies(70.0, 60.0, 50.0, 90.0).because.contains("CPU 2+3"));
    let one = nearest_pair("claim", &step(&one_die(), 2, &[("0+1", 90.0), ("1+2", 50.0)]));
    assert_eq!(one.outcome, NotVisible, "{}", one.because);
    let rates = [("0+1", 60.0), ("0+2", 90.0), ("1+2", 50.0), ("1+3", 40.0)];
    let threads = nearest_pair("claim", &step(&smt(), 2, &rates));
    assert_eq!(threads.outcome, Holds, "{}", threads.because);
}

#[test]
fn larger_sets_are_compared_with_the_best_pair() {
    let pairs = step(&one_die(), 2, &[("0+1", 90.0), ("1+2", 50.0)]);
    let outcome = |rate: f64| {
        let sets = step(&one_die(), 3, &[("0+1+2", rate), ("1+2+3", 40.0)]);
        larger("claim", &sets, &pairs).outcome
    };
    assert_eq!([outcome(60.0), outcome(91.0), outcome(150.0)], [Holds, Holds, DoesNotHold]);
    assert_eq!(larger("claim", &pairs, &Step::skipped("", "", "", "")).outcome, NotVisible);
}

#[test]
fn runs_without_distances_decide_nothing() {
    let mut old = step(&two_dies(), 1, &[("0", 50.0), ("1", 90.0), ("2", 70.0)]);
    old.groups.iter_mut().for_each(|group| group.distances.clear());
    assert_eq!(nearest("claim", &old).outcome, NotVisible);
}

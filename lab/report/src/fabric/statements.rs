//! The statements of the article (HereticOS, 2019) beside what was measured here.

use super::{FabricStudy, rounded};
use crate::study::{Finding, FindingOutcome};
use FindingOutcome::{DoesNotHold, Holds, NotVisible};

/// The article's classes, by the names of ours; its last one is another machine.
const CLASSES: [&str; 6] =
    ["same CPU", "SMT sibling", "same L3", "other L3", "other NUMA node", "other socket"];
/// The closest to the article's switch, which is inside of one process.
const NEAREST: &str = "ring-threads";
/// Replicas of the article that are not run.
const LARGE: [u64; 2] = [4_096, 8_191];
/// Hardware threads that the article used.
const THREADS: f64 = 112.0;
/// Bytes of kernel memory of a connection with two empty ends, at least.
const CONNECTION_BYTES: u64 = 4_096;

fn finding(claim: &str, outcome: FindingOutcome, because: String) -> Finding {
    Finding { claim: claim.into(), outcome, because }
}

const fn holds(is_so: bool) -> FindingOutcome {
    if is_so { Holds } else { DoesNotHold }
}

/// A finding for each statement.
pub fn judge(study: &FabricStudy) -> Vec<Finding> {
    let mut all: Vec<Finding> = CLASSES.iter().enumerate().map(|(n, c)| row(study, n, c)).collect();
    all.push(finding(
        "other machine, NIC: 10,000 ns, 100 Gbit/s",
        NotVisible,
        "both ends are on this machine".into(),
    ));
    all.push(order(study));
    all.push(all_cpus(study));
    all.push(bandwidth(study));
    all.push(bare(study));
    all.push(agreement(study, 4, "4 replicas: 3 M transactions/s (other CCX of the die)"));
    all.push(large_agreement(study));
    all.extend(LARGE.map(not_run));
    all.push(finding(
        "4 replicas were not placed in one CCX, by mistake",
        NotVisible,
        "a remark on the article's own run; here the table says which CPUs replicas had".into(),
    ));
    all.push(finding(
        "In the class \"same socket\" one of three links was loaded: 3 times as much is expected",
        NotVisible,
        "one pair of CPUs is measured for each class, so one link at most".into(),
    ));
    all
}

/// A row of the article's table.
fn row(study: &FabricStudy, number: usize, class: &str) -> Finding {
    let row = &study.original["rows"][number];
    let figure = |at: usize| row[at].as_f64().unwrap_or(0.0);
    let name = row[0].as_str().unwrap_or(class);
    let claim = format!(
        "{name}: {} ns a request on one connection, {} M packets/s, {} Gbit/s (whole machine)",
        figure(1),
        figure(2) / 1e6,
        figure(3) / 1e9
    );
    let cells: Vec<_> = study.cells.iter().filter(|cell| cell.class == class).collect();
    let Some(nearest) = study.cell(class, NEAREST) else {
        return finding(&claim, NotVisible, format!("this machine has no pair \"{class}\""));
    };
    let each = cells.iter().map(|cell| {
        let Some(apart) = cell.isolation.split_whitespace().last() else { return String::new() };
        format!(
            "{} ({apart}) {:.0} ns, {} packets/s, {:.1} Gbit/s",
            cell.way,
            cell.page_ns(),
            rounded(cell.packets_per_second()),
            cell.gigabits()
        )
    });
    let because = format!(
        "a page on one connection, one pair of CPUs: {}. The article's web server is its own, ours \
         is hyper; a round trip of 64 bytes by the ring takes {:.0} ns",
        each.collect::<Vec<_>>().join("; "),
        nearest.round_trip_ns()
    );
    finding(&claim, holds(nearest.page_ns() <= figure(1)), because)
}

/// Whether what is nearer is faster.
fn order(study: &FabricStudy) -> Finding {
    let claim = "The nearer two ends are, the shorter is a request on one connection";
    let times: Vec<_> = CLASSES
        .iter()
        .filter_map(|class| Some((*class, study.cell(class, NEAREST)?.round_trip_ns())))
        .collect();
    let because = times.iter().map(|(class, ns)| format!("{class} {ns:.0} ns"));
    let because = format!("round trips by a ring of one process: {}", join(because));
    match times.len() {
        0 | 1 => finding(claim, NotVisible, because),
        _ => finding(claim, holds(times.windows(2).all(|two| two[0].1 <= two[1].1)), because),
    }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn all_cpus(study: &FabricStudy) -> Finding {
    let claim = "Whole machine: 200 M requests/s, 400 M packets/s, 620 GB/s in both directions";
    let each = 200e6 / THREADS;
    let cells = study.cells.iter().filter(|cell| cell.way == NEAREST);
    let best = cells.map(|cell| cell.pages_per_second()).fold(0.0, f64::max);
    let because = format!(
        "that is {} requests/s for each of its {THREADS} threads; here a pair of CPUs has {} \
         pages/s by a ring. One pair was measured, not a whole machine",
        rounded(each),
        rounded(best)
    );
    finding(claim, NotVisible, because)
}

fn bandwidth(study: &FabricStudy) -> Finding {
    let claim = "The switch takes about 50 % of the memory bandwidth";
    let left = study
        .cells
        .iter()
        .filter_map(|cell| Some(format!("{} {:.0} %", cell.name(), 100.0 * cell.memory_left()?)));
    let left = join(left);
    let because = match left.is_empty() {
        true => "this machine has no CPU beside those of both ends, which would copy".into(),
        false => format!(
            "one pair of CPUs was measured, not a whole machine. Left to copies on a third CPU \
             beside a stream: {left}"
        ),
    };
    finding(claim, NotVisible, because)
}

fn bare(study: &FabricStudy) -> Finding {
    let claim = "A bare switch is never measured, since it shares the memory with its containers";
    let cells = study.cells.iter().filter(|cell| cell.way == "switch");
    let each = cells.filter_map(|cell| {
        let bridge = study.cell(&cell.class, "bridge")?.round_trip_ns();
        let share = cell.round_trip_ns() / bridge;
        Some(format!("{} {share:.2} of the bridge's", cell.class))
    });
    let because = format!(
        "here, too, ends are measured, not the switch: the round trip by `dunlin fabric`'s switch \
         is {}",
        join(each)
    );
    finding(claim, Holds, because)
}

fn agreement(study: &FabricStudy, replicas: usize, claim: &str) -> Finding {
    let same = study.agreements.iter().filter(|one| one.replicas == replicas);
    let best = same.clone().map(|one| one.per_second()).fold(0.0, f64::max);
    let each =
        join(same.map(|one| format!("{} ({}) {}", one.way, one.class, rounded(one.per_second()))));
    match best > 0.0 {
        true => finding(claim, holds(best >= 3e6), format!("decisions a second: {each}")),
        false => finding(claim, NotVisible, "it was not run".into()),
    }
}

fn large_agreement(study: &FabricStudy) -> Finding {
    let claim = "241 replicas: 20 M x 2 messages/s (other die), 33 M x 2 (other socket)";
    let largest = study.agreements.iter().max_by_key(|one| one.replicas);
    let because = largest.map_or("it was not run".into(), |one| {
        format!(
            "the most that was run is {}: {} messages/s. 241 replicas need {} connections",
            one.name(),
            rounded(one.messages_per_second()),
            rounded((241 * 240 / 2) as f64)
        )
    });
    finding(claim, NotVisible, because)
}

fn not_run(replicas: u64) -> Finding {
    let connections = 2 * replicas * replicas;
    let needed = (connections * CONNECTION_BYTES) >> 30;
    let claim = format!("{} replicas agree, all to all", rounded(replicas as f64));
    let because = format!(
        "not run: 2 x {0} x {0} = {1} connections; at 4 KiB for each end's socket alone that is \
         {needed} GiB",
        rounded(replicas as f64),
        rounded(connections as f64)
    );
    finding(&claim, NotVisible, because)
}

//! Findings of the KDNS study, from simulated runs.

use super::run;
use lab::record::RunRecord;
use lab::verdict::Cause;
use lab_report::study::FindingOutcome::{DoesNotHold, Holds, NotVisible};
use lab_report::study::{Finding, Group, Step, Study, StudyName};

/// The finding that begins so, of a study with one step, whose runs have these labels in turn.
fn kdns_finding(claim: &str, key: &str, labels: &[&str], runs: &[RunRecord]) -> Finding {
    let mut groups: Vec<Group> = Vec::new();
    for (index, label) in labels.iter().enumerate() {
        match groups.iter_mut().find(|group| group.label == *label) {
            Some(group) => group.runs.push(index),
            None => groups.push(Group {
                label: (*label).into(),
                number: 1.0,
                runs: vec![index],
                peak: false,
                range: None,
                distances: Vec::new(),
            }),
        }
    }
    let step = Step { groups, ..Step::skipped(key, key, "", "") };
    let study = Study::new(StudyName::Kdns, true, 2, vec![step], runs).unwrap();
    study.findings.into_iter().find(|finding| finding.claim.starts_with(claim)).unwrap()
}

/// The slowest answers of `run` take 120 µs, those of a run that loses some as long as the timeout.
#[test]
fn slow_answers_say_nothing_where_the_machine_stood_still() {
    let found = |capacity: f64, stalls_us: [f64; 2]| {
        let with_stall = |stall_us| {
            let mut run = run("one-client", 1_000.0, 1.0, capacity);
            run.measurements.load.stalled_us = Some(stall_us);
            run
        };
        let runs = stalls_us.map(with_stall);
        kdns_finding("The slowest answer", "one-client", &["dunlin", "dunlin"], &runs)
    };
    assert_eq!(found(2_000.0, [20.0, 30.0]).outcome, Holds);
    let stopped = found(900.0, [400_000.0, 480_000.0]);
    assert_eq!(stopped.outcome, NotVisible, "{}", stopped.because);
    assert!(stopped.because.contains("stood still for"), "{}", stopped.because);
    let slow = found(900.0, [400_000.0, 1_000.0]);
    assert_eq!(slow.outcome, DoesNotHold, "{}", slow.because);
    assert!(slow.because.contains("in 1 of 2 runs"), "{}", slow.because);
}

#[test]
fn slower_own_names_are_undecided_if_the_second_load_delayed_the_generator() {
    let outcome = |p99_us: [u64; 2], generator_s: f64, server_s: f64| {
        let with = |p99_us: u64, generator_s, server_s| {
            let mut run = run("hanging", 1_000.0, 1.0, 2_000.0);
            run.derived.p99_ns = Some(p99_us * 1_000);
            run.measurements.generator.as_mut().unwrap().waited_s = generator_s;
            run.measurements.server.as_mut().unwrap().waited_s = server_s;
            run
        };
        let runs = [with(p99_us[0], 0.02, 0.03), with(p99_us[1], generator_s, server_s)];
        kdns_finding("Own names", "hanging", &["alone", "1,000 hanging/s"], &runs).outcome
    };
    assert_eq!(outcome([70, 80], 0.02, 0.03), Holds);
    assert_eq!(outcome([70, 2_900], 0.02, 0.03), DoesNotHold);
    assert_eq!(outcome([70, 2_900], 0.2, 0.03), NotVisible);
    // The server waited, too: its own work may be the cause.
    assert_eq!(outcome([70, 2_900], 0.2, 0.3), DoesNotHold);
}

/// A rate limited by the generator may be higher, so it does not disprove a claim of speed.
#[test]
fn finding_that_fails_only_by_the_generator_is_undecided() {
    let outcome = |limited: [bool; 3], capacity: f64| {
        let mut runs: Vec<_> = (0..3).map(|_| run("dunlin", 50_000.0, 1.0, capacity)).collect();
        for (run, is_limited) in runs.iter_mut().zip(limited) {
            run.derived.verdict.cause = if is_limited { Cause::Generator } else { Cause::Server };
        }
        runs.push(run("bind", 50_000.0, 1.0, 1_000.0));
        kdns_finding(
            "KDNS answers 20 times",
            "one-name",
            &["dunlin", "dunlin", "dunlin", "bind"],
            &runs,
        )
        .outcome
    };
    assert_eq!(outcome([true, true, false], 19_000.0), NotVisible);
    assert_eq!(outcome([true, false, false], 19_000.0), DoesNotHold);
    assert_eq!(outcome([true, true, true], 21_000.0), Holds);
}

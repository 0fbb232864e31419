//! Verification finds every kind of change.

mod kdns;

use lab::record::{IntervalRecord, Outcomes, RunRecord, SparseHistogram, derive};
use lab::verdict::{Ceiling, LoadResult, Measurements, SideUse};
use lab_host::counters::Interrupts;
use lab_host::manifest::Manifest;
use lab_host::perf::{Counters, Samples};
use lab_report::bundle::{Body, Bundle, Header, SearchRecord, SearchTrial};
use lab_report::costs::CostRecord;
use lab_report::event::{EventInterval, EventRecord, EventResult};
use lab_report::soak::{MemorySample, SoakRecord};
use lab_report::study::{FindingOutcome, Group, Range, Step, Study, StudyName, noise};
use lab_report::sweep::{Point, Sweep};
use lab_report::{report, verify};
use lab_search::{Config, Goal, Request, Search};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

fn header() -> Header {
    Header {
        title: "A search".into(),
        date: "2026-11-23".into(),
        commands: vec![vec!["dunlin-lab".into(), "search".into()]],
        data: vec!["names queries, 10 bytes".into()],
        seed: 7,
        machine: vec!["CPU: simulated".into()],
        manifest: Manifest { fingerprint: "00112233".into(), ..Manifest::default() },
        changes: Vec::new(),
        remarks: vec!["simulated".into()],
    }
}

/// A run at a simulated server of a capacity.
fn run(label: &str, rate: f64, seconds: f64, capacity: f64) -> RunRecord {
    let planned = (rate * seconds).round() as u64;
    let answered = planned.min((capacity * seconds).round() as u64);
    let timeouts = planned - answered;
    let half = (planned / 2).min(answered);
    let timeout_ns = 500_000_000;
    let bucket = SparseHistogram::bucket;
    let mut buckets = vec![(bucket(80_000), half), (bucket(120_000), answered - half)];
    buckets.push((bucket(timeout_ns), timeouts));
    buckets.retain(|(_, count)| *count > 0);
    let response = SparseHistogram(buckets);
    let outcomes = Outcomes { planned, sent: planned, answered, timeouts, ..Outcomes::default() };
    let measurements = Measurements {
        load: LoadResult {
            open: true,
            seconds,
            planned,
            sent: planned,
            answered,
            timeouts,
            ..LoadResult::default()
        },
        server: Some(SideUse { cpus: 1.0, process_s: seconds, ..SideUse::default() }),
        generator: Some(SideUse { cpus: 1.0, process_s: seconds / 3.0, ..SideUse::default() }),
        ..Measurements::default()
    };
    let cpu_us = (answered > 0).then(|| seconds * 1e6 / answered as f64);
    let derived = derive(&outcomes, seconds, timeout_ns, &response, &measurements);
    let until_ns = (seconds * 1e9) as u64;
    RunRecord {
        label: label.into(),
        settings: BTreeMap::from([("rate".into(), format!("{rate:.0}"))]),
        rate: Some(rate),
        seconds,
        timeout_ns,
        outcomes,
        intervals: vec![IntervalRecord {
            since_ns: 0,
            until_ns,
            answered,
            timeouts,
            response: response.clone(),
        }],
        response,
        interrupts: Interrupts { net_rx: vec![5, 7], ..Interrupts::default() },
        cpu_us,
        resident: Some(1 << 20),
        measurements,
        derived,
    }
}

fn search_bundle() -> Bundle {
    let goals = vec![Goal::ndr(), Goal::pdr()];
    let config = Config { goals, min: 1_000.0, max: 100_000.0, warmup_s: 0.0, time_max_s: 1e4 };
    let mut search = Search::new(config.clone()).unwrap();
    let (mut runs, mut trials) = (Vec::new(), Vec::new());
    while let Some(Request { load, duration_s }) = search.next_trial() {
        let run = run("trial", load, duration_s, 40_000.0);
        search.record(SearchRecord::outcome(&config, &run)).unwrap();
        trials.push(SearchTrial { run: runs.len(), load, duration_s });
        runs.push(run);
    }
    let results = search.result();
    let soak = runs.len();
    runs.push(self::run("soak", 30_000.0, 10.0, 40_000.0));
    let memory = (0..5).map(|s| MemorySample { at_s: f64::from(s), bytes: 1 << 20 }).collect();
    let soak = SoakRecord::new(soak, memory, &runs).ok();
    let event = Some(event());
    let record = SearchRecord { config, trials, results, soak, event };
    Bundle::new(header(), runs, Body::Search(Box::new(record)))
}

/// A reload after which nothing is answered for 100 ms.
fn event() -> EventRecord {
    let interval = |n: u32| {
        let (answered, failed) = if (20..25).contains(&n) { (0, 40) } else { (400, 0) };
        EventInterval { until_s: f64::from(n + 1) * 0.02, answered, failed }
    };
    let intervals: Vec<_> = (0..50).map(interval).collect();
    EventRecord {
        name: "reload".into(),
        command: "knotc reload".into(),
        rate: 20_000.0,
        seconds: 1.0,
        at_s: 0.4,
        took_s: 0.1,
        watch: Some("www.example".into()),
        staleness_s: Some(0.2),
        result: EventResult::of(&intervals, 1.0),
        intervals,
    }
}

/// Costs of the answers of a run.
fn costs(run: &RunRecord) -> CostRecord {
    let (task_clock_ns, syscalls) = (Some(4e8), Some(10_000));
    let counters = Counters { seconds: 0.5, task_clock_ns, syscalls, ..Counters::default() };
    let samples = Samples { user: 10, receive: 40, send: 100, softirq: 30, rest: 20 };
    CostRecord { run: run.clone(), counters, samples }
}

fn sweep_bundle() -> Bundle {
    let mut runs = Vec::new();
    let mut points = Vec::new();
    for processes in 1..=4u32 {
        let at = runs.len();
        (0..6).for_each(|n| {
            let capacity = 9_000.0 * f64::from(processes).sqrt() + f64::from(n) * 10.0;
            runs.push(run(&format!("{processes} processes"), 50_000.0, 1.0, capacity));
        });
        let settings = BTreeMap::from([("processes".into(), processes.to_string())]);
        let costs = (processes == 2).then(|| Box::new(costs(&runs[at])));
        let (class, rate, skipped) = (None, None, None);
        let runs = (at..at + 6).collect();
        points.push(Point { settings, class, runs, rate, costs, skipped });
    }
    let sweep = Sweep::new("processes", points, &runs).unwrap();
    Bundle::new(header(), runs, Body::Sweep(sweep))
}

fn study_bundle() -> Bundle {
    let mut runs = Vec::new();
    let mut step = |key: &str, capacity: f64| {
        let groups = (1..=4u32).map(|processes| {
            let at = runs.len();
            (0..3).for_each(|n| runs.push(run(key, 50_000.0, 1.0, capacity + f64::from(n))));
            Group {
                label: format!("{processes} processes"),
                number: f64::from(processes),
                runs: (at..at + 3).collect(),
                peak: false,
                range: None,
                distances: Vec::new(),
            }
        });
        let groups = groups.collect();
        let (key, skipped) = (key.to_owned(), String::new());
        Step { title: key.clone(), key, original: "flat".into(), groups, skipped }
    };
    let mut steps = vec![step("default-client", 20_000.0), step("tuned-client", 30_000.0)];
    steps.push(Step::skipped("pairs", "Pairs of cores", "5+7 best", "two CPUs"));
    let study = Study::new(StudyName::Isc2015, true, 2, steps, &runs).unwrap();
    Bundle::new(header(), runs, Body::Study(study))
}

/// The text with a value changed and the SHA-256 written again, as a careful forger would.
fn forged(text: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut value: Value = serde_json::from_str(text).unwrap();
    let before = value.clone();
    change(&mut value);
    assert_ne!(before, value, "nothing was changed");
    // Fields keep the order of the format only as a `Bundle`.
    let Ok(bundle) = serde_json::from_value::<Bundle>(value) else { return "damaged".into() };
    let again = bundle.to_text();
    let hash = again.rsplit_once("\"sha256\":\"").unwrap().1;
    assert_eq!(hash.len(), 64 + 3);
    again
}

fn add(value: &mut Value, path: &str, more: f64) {
    let target = value.pointer_mut(path).unwrap_or_else(|| panic!("there is no {path}"));
    *target = match target.as_u64() {
        Some(number) => json!(number + more as u64),
        None => json!(target.as_f64().unwrap_or_else(|| panic!("{path} is not a number")) + more),
    };
}

/// Numbers whose change contradicts something else in a search, sweep and study.
const NUMBERS: [(&str, &str); 50] = [
    ("search", "/runs/0/outcomes/planned"),
    ("search", "/runs/0/outcomes/sent"),
    ("search", "/runs/0/outcomes/unsent"),
    ("search", "/runs/0/outcomes/answered"),
    ("search", "/runs/0/outcomes/late"),
    ("search", "/runs/0/outcomes/timeouts"),
    ("search", "/runs/0/outcomes/wrong"),
    ("search", "/runs/0/response/0"),
    ("search", "/runs/0/response/1"),
    ("search", "/runs/0/response/3"),
    ("search", "/runs/0/intervals/0/since_ns"),
    ("search", "/runs/0/intervals/0/answered"),
    ("search", "/runs/0/intervals/0/timeouts"),
    ("search", "/runs/0/intervals/0/response/1"),
    ("search", "/runs/0/rate"),
    ("search", "/runs/0/seconds"),
    ("search", "/runs/0/cpu_us"),
    ("search", "/runs/0/derived/in_time"),
    ("search", "/runs/0/derived/answered_rate"),
    ("search", "/runs/QUIET/derived/p50_ns"),
    ("search", "/runs/QUIET/derived/p90_ns"),
    ("search", "/runs/QUIET/derived/p99_ns"),
    ("search", "/runs/QUIET/derived/p999_ns"),
    ("search", "/runs/0/measurements/load/planned"),
    ("search", "/runs/0/measurements/load/answered"),
    ("search", "/runs/0/measurements/load/timeouts"),
    ("search", "/runs/0/measurements/server/process_s"),
    ("search", "/body/search/config/min"),
    ("search", "/body/search/config/max"),
    ("search", "/body/search/config/goals/1/width"),
    ("search", "/body/search/trials/0/load"),
    ("search", "/body/search/trials/0/duration_s"),
    ("search", "/body/search/trials/2/run"),
    ("search", "/body/search/results/0/lower/load"),
    ("search", "/body/search/results/0/upper/load"),
    ("search", "/body/search/results/1/conditional_throughput"),
    ("sweep", "/body/sweep/points/0/rate/median"),
    ("sweep", "/body/sweep/fits/0/law/alpha"),
    ("study", "/body/study/steps/0/groups/0/range/mean"),
    ("study", "/body/study/original/server"),
    ("search", "/body/search/soak/run"),
    ("search", "/body/search/soak/result/worst"),
    ("search", "/body/search/soak/result/growth"),
    ("search", "/body/search/soak/memory/4/bytes"),
    ("search", "/body/search/event/intervals/22/answered"),
    ("search", "/body/search/event/intervals/22/failed"),
    ("search", "/body/search/event/result/gap_s"),
    ("search", "/body/search/event/result/errors_s"),
    ("sweep", "/body/sweep/points/1/costs/run/outcomes/answered"),
    ("sweep", "/body/sweep/points/1/costs/counters/seconds"),
];

#[test]
fn every_kind_of_change_is_found() {
    let bundles = BTreeMap::from([
        ("search", search_bundle()),
        ("sweep", sweep_bundle()),
        ("study", study_bundle()),
    ]);
    let mut kinds = 0;
    for (kind, bundle) in &bundles {
        let text = bundle.to_text();
        assert_eq!(verify::errors(bundle), Vec::<String>::new(), "{kind}");
        let read = verify::verify(&text).unwrap_or_else(|why| panic!("{kind}: {why}"));
        assert_eq!(verify::verify(&report(&read)).map(|b| b.sha256), Ok(read.sha256), "{kind}");
    }
    let quiet = bundles["search"].runs.iter().position(|run| run.outcomes.timeouts == 0).unwrap();
    for (kind, path) in NUMBERS {
        let path = &path.replace("QUIET", &quiet.to_string());
        let text = bundles[kind].to_text();
        let changed = forged(&text, |value| match path.ends_with("/server") {
            true => *value.pointer_mut(path).unwrap() = json!("another machine"),
            false => add(value, path, 1.0),
        });
        assert!(verify::verify(&changed).is_err(), "{path} of a {kind} can be changed");
        kinds += 1;
    }
    let text = bundles["search"].to_text();
    type Edit = fn(&mut Value);
    let structural: [(&str, Edit); 8] = [
        ("a run is left out", |v| drop(v["runs"].as_array_mut().unwrap().remove(2))),
        ("two runs change places", |v| v["runs"].as_array_mut().unwrap().swap(0, 2)),
        ("a trial is left out", |v| {
            drop(v["body"]["search"]["trials"].as_array_mut().unwrap().remove(1));
        }),
        ("a result is left out", |v| {
            drop(v["body"]["search"]["results"].as_array_mut().unwrap().pop());
        }),
        ("a verdict is changed", |v| {
            v["runs"][0]["derived"]["verdict"]["cause"] = json!("network")
        }),
        ("a reason is changed", |v| v["runs"][0]["derived"]["verdict"]["because"] = json!("none")),
        ("a bucket is left out", |v| {
            let stored = v["runs"][0]["response"].as_array_mut().unwrap();
            stored.truncate(stored.len() - 2);
        }),
        ("the commands are left out", |v| v["header"]["commands"] = json!([])),
    ];
    for (what, change) in structural {
        assert!(verify::verify(&forged(&text, change)).is_err(), "{what}");
        kinds += 1;
    }
    let study = bundles["study"].to_text();
    let finding = forged(&study, |v| {
        let finding = &mut v["body"]["study"]["findings"][0]["outcome"];
        *finding = json!(if *finding == "holds" { "does_not_hold" } else { "holds" });
    });
    assert!(verify::verify(&finding).is_err(), "a finding");
    // Of bytes, without a new SHA-256: one in a hundred of a bundle, one in a hundred of a report.
    for text in [text.clone(), report(&verify::verify(&text).unwrap())] {
        for at in (0..text.len()).step_by(text.len() / 100) {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
            let changed = String::from_utf8_lossy(&bytes).into_owned();
            assert!(changed == text || verify::verify(&changed).is_err(), "byte {at}");
        }
        kinds += 1;
    }
    assert!(kinds >= 50, "{kinds} kinds of change");
}

#[test]
fn bad_bundles_are_refused_with_a_reason() {
    let text = search_bundle().to_text();
    let newer = text.replacen("\"version\":3", "\"version\":4", 1);
    let other = text.replacen("dunlin-lab bundle", "another format", 1);
    let page = report(&search_bundle());
    for (bad, why) in [
        (&text[..text.len() / 2], "cut off"),
        (&newer, "version 3"),
        (&other, "format"),
        ("{}", "not a bundle"),
        ("", "cut off"),
        ("<!DOCTYPE html><html></html>", "no bundle"),
        (&page[..page.len() / 2], "no bundle"),
    ] {
        let error = verify::verify(bad).unwrap_err();
        assert!(error.contains(why), "{why:?} expected: {error}");
    }
    let hash = Sha256::digest(b"");
    assert_eq!(hash.len(), 32);
}

#[test]
fn markup_in_labels_is_escaped() {
    let mut bundle = sweep_bundle();
    bundle.header.title = "</title><script>alert(1)</script>".into();
    for run in &mut bundle.runs {
        run.label = "<img src=x onerror=alert(1)>".into();
    }
    let bundle = Bundle::parse(&bundle.to_text()).unwrap();
    let page = report(&bundle);
    assert!(!page.contains("<script>") && !page.contains("<img"), "markup came through");
    assert!(verify::verify(&page).is_ok());
}

#[test]
fn commands_are_shown_as_a_shell_takes_them() {
    let words = ["dunlin-lab", "load", "--pattern", "n{i}.it's", "-q", "8"].map(String::from);
    let shown = "dunlin-lab load --pattern 'n{i}.it'\\''s' -q 8";
    assert_eq!(lab_report::bundle::command_line(&words), shown);
}

/// Writes the reports that `tests/axe.sh` checks, where `DUNLIN_REPORTS` names a folder.
#[test]
fn reports_of_all_kinds_are_written() {
    let folder = std::env::var("DUNLIN_REPORTS").map(std::path::PathBuf::from);
    for (name, bundle) in
        [("search", search_bundle()), ("sweep", sweep_bundle()), ("study", study_bundle())]
    {
        let page = report(&Bundle::parse(&bundle.to_text()).unwrap());
        assert!(page.contains("<svg") && page.contains("<table"), "{name}");
        assert!(!page.contains("http://") && !page.contains("https://"), "{name} needs a network");
        if let Ok(folder) = &folder {
            std::fs::write(folder.join(format!("{name}.html")), page).unwrap();
        }
    }
}

/// Runs whose limit is the host prove neither a claim nor its contrary.
#[test]
fn findings_of_runs_limited_by_the_host_are_undecided() {
    use lab::verdict::{CompetingProcess, Drops};
    use lab_report::study::FindingOutcome::{DoesNotHold, Holds, NotVisible};
    let outcomes = |is_disturbed: bool, capacity: f64| {
        let Body::Study(study) = study_bundle().body else { panic!("a study") };
        let mut runs = study_bundle().runs;
        for run in &mut runs[12..] {
            *run = self::run(&run.label, 50_000.0, 1.0, capacity);
        }
        for run in runs.iter_mut().filter(|_| is_disturbed) {
            let side = run.measurements.server.as_mut().unwrap();
            (side.process_s, side.waited_s) = (0.1, 0.85);
            let name = "cc (7)".into();
            side.competing = Some(CompetingProcess { name, cpu_s: 0.9, most_s: 0.9 });
            let lost = Some(run.outcomes.timeouts);
            run.measurements.drops = Drops { server_socket: lost, ..Drops::default() };
            let outcomes = run.outcomes;
            let timeout = run.timeout_ns;
            run.derived = derive(&outcomes, run.seconds, timeout, &run.response, &run.measurements);
        }
        let study = Study::new(StudyName::Isc2015, true, 2, study.steps, &runs).unwrap();
        study.findings.iter().map(|finding| finding.outcome).take(2).collect::<Vec<_>>()
    };
    assert_eq!(outcomes(false, 30_000.0), [Holds, Holds]);
    assert_eq!(outcomes(false, 19_000.0), [Holds, DoesNotHold]);
    for capacity in [30_000.0, 19_000.0] {
        assert_eq!(outcomes(true, capacity), [NotVisible, NotVisible]);
    }
}

/// The pages of a study say which differences mean nothing: of equal runs, and of the machine.
#[test]
fn study_names_its_noise_and_an_unchanged_client() {
    let Body::Study(mut study) = study_bundle().body else { panic!("a study") };
    let mut runs = study_bundle().runs;
    study.steps[0].groups[1].range = Some(Range { min: 100.0, mean: 110.0, max: 121.0 });
    let widest = "Runs of one setting differ by up to 21 % (default-client, 2 processes)";
    assert_eq!(noise(&study, &runs), [widest]);
    for (run, before) in runs.iter_mut().zip([40_000.0, 50_000.0]) {
        run.settings.insert("client".into(), "1 socket and 100 outstanding".into());
        let (model, after) = ("recvmmsg".into(), 45_000.0);
        run.measurements.ceiling = Some(Ceiling { model, before, after });
    }
    let text = noise(&study, &runs);
    assert!(text[1].contains("1 socket and 100 outstanding, gave 40,000 to 50,000"), "{text:?}");

    let tuned = |steps: &[Step], runs: &[RunRecord]| {
        Study::new(StudyName::Isc2015, true, 2, steps.to_vec(), runs).unwrap().findings[1].clone()
    };
    let mut steps = study.steps;
    let found = tuned(&steps, &runs);
    assert_eq!(found.outcome, FindingOutcome::Holds);
    assert!(found.because.contains("the ranges of their runs do not overlap"), "{}", found.because);
    let mut search = steps[0].clone();
    (search.key, search.groups[0].label) = ("client-search".into(), "-c 1 -q 100".into());
    steps.push(search);
    steps[1].title = "The same by the tuned client (-c 1 -q 100)".into();
    assert_eq!(tuned(&steps, &runs).outcome, FindingOutcome::NotVisible);
}

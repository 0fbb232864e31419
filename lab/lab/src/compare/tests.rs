use super::*;
use crate::statistics::Difference;
use crate::verdict::{LoadResult, SideUse, thousands};
use lab_host::manifest::Manifest;

/// Servers that answer so many a second, and no more; a little noise.
struct Fake {
    capacity: Vec<f64>,
    /// What an overload leaves of it: all, or less where it was asked for more than this many
    /// times.
    left: fn(f64) -> f64,
    /// Of which trials, by their numbers, something else takes a twentieth.
    disturbed: fn(usize) -> bool,
    asked: Vec<usize>,
    /// Whose echo was asked, and behind how many trials.
    echoed: Vec<(usize, usize)>,
    told: Vec<(usize, usize)>,
    random: crate::statistics::Random,
}

impl Fake {
    fn new(capacity: &[f64]) -> Self {
        let random = crate::statistics::Random(1);
        let (asked, echoed, told) = (Vec::new(), Vec::new(), Vec::new());
        let (capacity, left, disturbed) = (capacity.to_vec(), |_| 1.0, |_| false);
        Self { capacity, left, disturbed, asked, echoed, told, random }
    }
}

/// A second in which only the server was busy, if it did not answer all queries.
fn measurements(rate: f64, answered: f64) -> Measurements {
    let (planned, answered) = (rate as u64, answered as u64);
    let load =
        LoadResult { open: true, seconds: 1.0, planned, sent: planned, ..LoadResult::default() };
    let side = |process_s| Some(SideUse { cpus: 1.0, process_s, ..SideUse::default() });
    Measurements {
        load: LoadResult { answered, timeouts: planned - answered, ..load },
        server: side(if answered < planned { 1.0 } else { 0.5 }),
        generator: side(0.3),
        ..Measurements::default()
    }
}

impl TrialRunner for Fake {
    fn trial(&mut self, server: usize, rate: f64) -> Result<Trial> {
        self.asked.push(server);
        let noise = 0.99 + self.random.below(1_000) as f64 * 0.000_02;
        let capacity = self.capacity[server];
        let answered = rate.min(capacity * noise * (self.left)(rate / capacity));
        let answered = answered * if (self.disturbed)(self.asked.len()) { 0.95 } else { 1.0 };
        let measurements = measurements(rate, answered);
        Ok(Trial {
            rate,
            in_time: answered / rate,
            answered,
            p50_ns: Some((1e12 / self.capacity[server] * noise) as u64),
            p99_ns: None,
            cpu_us: Some(1e6 / self.capacity[server] * noise),
            resident: Some(32 << 20),
            upstream: None,
            verdict: judge(&measurements),
            measurements,
        })
    }

    fn echo(&mut self, server: usize) -> Result<(String, f64)> {
        self.echoed.push((server, self.asked.len()));
        Ok(("recvmmsg".into(), self.capacity[server] * 2.0))
    }

    fn progress(&mut self, _: usize, done: usize, of: usize) {
        self.told.push((done, of));
    }
}

fn manifest() -> Manifest {
    Manifest { schema: lab_host::manifest::SCHEMA, ..Manifest::default() }
}

fn comparison(capacity: &[f64], rounds: usize) -> Comparison {
    begun(capacity, rounds, |_| ())
}

/// As [`comparison`], but servers are not what they were in the beginning.
fn begun(capacity: &[f64], rounds: usize, change: fn(&mut [f64])) -> Comparison {
    let mut all = capacity.to_vec();
    all.push(capacity[0]);
    let mut runner = Fake::new(&all);
    let beginning = begin(&mut runner, all.len(), 1e6, 0).unwrap();
    change(&mut runner.capacity);
    let found = super::rounds(&mut runner, &beginning, rounds).unwrap();
    let names = ["dunlin", "knot", "nsd", "bind"];
    let mut servers: Vec<ServerResult> = found
        .into_iter()
        .zip(beginning)
        .zip(names)
        .map(|((rounds, beginning), name)| ServerResult {
            name: name.into(),
            version: Version { version: format!("{name} 1.0"), build: "-O2 | -g".into() },
            command: format!("taskset -c 0 {name}"),
            remark: String::new(),
            beginning,
            rounds,
        })
        .collect();
    let again = ServerResult { name: servers[0].name.clone(), ..servers.pop().unwrap() };
    Comparison {
        date: "2026-11-21".into(),
        command: "dunlin lab compare".into(),
        data: vec!["zone".into()],
        seconds: 1.0,
        cpus: "0".into(),
        seed: 7,
        servers,
        again,
        limits: Vec::new(),
        manifest: serde_json::to_value(manifest()).unwrap(),
        machine: vec!["2 CPUs".into()],
    }
}

#[test]
fn orders_are_balanced() {
    assert_eq!(order(3, 0), [0, 1, 2]);
    assert_eq!(order(3, 1), [2, 1, 0]);
    // Over two rounds all servers have the same sum of positions.
    for server in 0..5 {
        let place = |round| order(5, round).iter().position(|e| *e == server).unwrap();
        assert_eq!(place(0) + place(1), 4);
    }
}

#[test]
fn announced_trials_match_the_trials_run() {
    let mut runner = Fake::new(&[100_000.0, 50_000.0, 100_000.0]);
    let all = trials(3, 4);
    let beginning = begin(&mut runner, 3, 1e6, all).unwrap();
    rounds(&mut runner, &beginning, 4).unwrap();
    let again = all * (TRIES - 1);
    assert!((all..=all + again).contains(&runner.asked.len()), "{} of {all}", runner.asked.len());
    assert!(runner.told.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(runner.told.iter().all(|(done, of)| done < of && *of == all));
    assert!(rounds(&mut runner, &beginning, 0).is_err());
    assert!(rounds(&mut runner, &beginning, ROUNDS_MAX + 1).is_err());
}

#[test]
fn an_echo_is_measured_before_and_after_each_round() {
    let mut runner = Fake::new(&[100_000.0, 50_000.0]);
    let found = rounds(&mut runner, &[100_000.0, 50_000.0], 1).unwrap();
    let first = runner.asked.iter().filter(|server| **server == 0).count();
    assert_eq!(runner.echoed, [(0, 0), (0, first), (1, first), (1, runner.asked.len())]);
    let Round { best, most, common, .. } = &found[1][0];
    for trial in [best.as_ref().unwrap(), most, common] {
        let ceiling = trial.measurements.ceiling.as_ref().unwrap();
        assert_eq!((ceiling.before, ceiling.after), (100_000.0, 100_000.0));
    }
    assert!(most.verdict.because.contains("of an echo's (recvmmsg)"), "{}", most.verdict);
}

#[test]
fn latencies_are_measured_at_one_common_rate() {
    let comparison = comparison(&[100_000.0, 20_000.0, 60_000.0], 2);
    let rounds = comparison.servers.iter().flat_map(|server| &server.rounds);
    let rates: Vec<f64> = rounds.map(|round| round.common.rate).collect();
    assert!(rates.iter().all(|rate| *rate == rates[0] && (9_500.0..=10_100.0).contains(rate)));
    let text = page(&comparison).unwrap();
    let said = format!("Common rate: {} queries", thousands(rates[0].round() as u64));
    assert!(text.contains(&said), "{said}: {text}");
}

#[test]
fn the_best_rate_is_found_within_two_percent() {
    for round in &comparison(&[100_000.0], 6).servers[0].rounds {
        let best = round.best.as_ref().unwrap();
        assert!((96_000.0..=101_500.0).contains(&best.answered), "{}", best.answered);
        assert!(best.in_time >= IN_TIME);
        assert_eq!(round.most.verdict.cause, Cause::Server);
        assert_eq!(round.common.verdict.cause, Cause::Offered);
    }
}

#[test]
fn a_best_is_found_though_every_third_trial_is_disturbed() {
    for disturbed in [|n| n % 3 == 0, |n| n % 3 == 1, |n| n % 3 == 2] {
        let mut runner = Fake { disturbed, ..Fake::new(&[100_000.0]) };
        let found = super::rounds(&mut runner, &[100_000.0], 4).unwrap();
        for round in &found[0] {
            let best = round.best.as_ref().unwrap();
            assert!((96_000.0..=101_500.0).contains(&best.answered), "{}", best.answered);
        }
    }
}

#[test]
fn a_server_that_collapses_under_overload_still_gets_its_best_rate() {
    for left in
        [|over| if over > 1.05 { 0.5 } else { 1.0 }, |over| if over > 2.0 { 0.1 } else { 1.0 }]
    {
        let mut runner = Fake { left, ..Fake::new(&[100_000.0]) };
        let beginning = begin(&mut runner, 1, 1e6, 0).unwrap();
        let round = &super::rounds(&mut runner, &beginning, 1).unwrap()[0][0];
        let best = round.best.as_ref().unwrap().answered;
        assert!((96_000.0..=101_500.0).contains(&best) && !round.best_is_least, "{best}");
        assert!(round.most.rate > 130_000.0, "far more: {}", round.most.rate);
    }
}

#[test]
fn a_server_that_became_faster_gets_a_higher_range() {
    for round in &begun(&[100_000.0], 3, |capacity| capacity[0] *= 1.3).servers[0].rounds {
        let best = round.best.as_ref().unwrap().answered;
        assert!((126_000.0..=131_500.0).contains(&best) && !round.best_is_least, "{best}");
    }
}

#[test]
fn a_search_that_ends_below_the_best_is_marked() {
    let comparison = begun(&[100_000.0, 60_000.0], 8, |capacity| capacity[1] *= 2.0);
    let summary = summarise(&comparison).unwrap();
    let [first, second] = [0, 1].map(|row: usize| &summary.rows[row].cells[0]);
    assert!(!first.is_least && second.is_least);
    assert_eq!(second.difference, Some(Difference::Unknown), "it may be far more");
    let text = page(&comparison).unwrap();
    assert!(text.contains("| knot | ≥ ") && !text.contains("| dunlin | ≥ "), "{text}");
    assert!(text.contains("best of knot is at least that"), "{text}");
}

#[test]
fn different_servers_are_distinguished() {
    let comparison = comparison(&[100_000.0, 99_900.0, 60_000.0], 8);
    let summary = summarise(&comparison).unwrap();
    let most = |row: usize| &summary.rows[row].cells[1];
    assert_eq!(most(0).difference, None, "the first is not beside itself");
    assert_eq!(most(1).difference, Some(Difference::WithinFloor));
    assert_eq!(most(2).difference, Some(Difference::Less));
    let ratio = most(2).ratio.unwrap();
    assert!((ratio.median - 0.6).abs() < 0.02 && ratio.interval.is_some());
    assert!(most(2).p.unwrap() < 0.05);
    assert!(summary.floors[1].unwrap() < 0.03);
    assert_eq!(summary.rows[2].cells[3].middle, None, "a percentile that is not known");
    assert_eq!(most(2).verdict.as_ref().unwrap().cause, Cause::Server);
}

#[test]
fn few_rounds_prove_no_difference() {
    let summary = summarise(&comparison(&[100_000.0, 60_000.0], 3)).unwrap();
    let most = &summary.rows[1].cells[1];
    assert_eq!(most.difference, Some(Difference::Unproven));
    assert_eq!(most.middle.unwrap().interval, None);
    let why = "Intervals of the medians are unknown: 3 rounds are fewer than 6.";
    assert!(summary.reasons.iter().any(|reason| reason == why), "{:?}", summary.reasons);
}

#[test]
fn too_few_rounds_report_the_required_number() {
    let three = [100_000.0, 50_000.0, 30_000.0];
    // Two beside the first, four figures of each: 8 tests.
    for (rounds, told) in [(4, Some(6)), (5, Some(6)), (6, None)] {
        let summary = summarise(&comparison(&three, rounds)).unwrap();
        let proven = summary.rows.iter().flat_map(|row| &row.cells);
        let proven = proven.filter(|cell| cell.difference == Some(Difference::Less)).count();
        let said = summary.reasons.iter().find(|reason| reason.starts_with("No difference can be"));
        let enough = told.map(|enough| format!("among 8 tests; {enough} rounds can prove it."));
        assert_eq!(said.is_some(), told.is_some(), "{:?}", summary.reasons);
        assert!(said.zip(enough).is_none_or(|(said, enough)| said.ends_with(&enough)), "{said:?}");
        assert_eq!(proven > 0, told.is_none(), "what is said is so");
    }
}

#[test]
fn one_round_gives_no_interval_and_says_why() {
    let comparison = comparison(&[100_000.0, 99_900.0], 1);
    let summary = summarise(&comparison).unwrap();
    let most = &summary.rows[1].cells[1];
    assert_eq!((summary.floors[1], most.difference), (None, Some(Difference::Unknown)));
    for text in [page(&comparison).unwrap(), tables(&comparison).unwrap()] {
        assert!(text.contains(" (unknown)") && !text.contains(" = "), "{text}");
        assert!(text.contains("one round cannot tell"), "{text}");
        assert!(
            text.contains("p99 at the common rate, µs is unknown of dunlin, knot: in"),
            "{text}"
        );
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
    let text = against(&comparison, &comparison).unwrap().to_string();
    assert!(text.contains("1.00 (unknown: no noise floor)") && !text.contains(" ="), "{text}");
}

#[test]
fn the_page_holds_all_results() {
    let comparison = comparison(&[100_000.0, 60_000.0], 8);
    let text = page(&comparison).unwrap();
    for part in [
        "| dunlin | ",
        "## Relative to dunlin",
        "| noise floor | ± ",
        "| knot | most | server | ",
        "| knot | recvmmsg | 120,000 ",
        "| knot | common rate | offered | ",
        "| knot | knot 1.0 | `taskset -c 0 knot` |",
        "```text\n-O2 | -g\n```",
        "* 2 CPUs",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf"));
}

#[test]
fn a_missed_or_unknown_limit_is_reported() {
    let mut comparison = comparison(&[100_000.0, 60_000.0, 80_000.0], 3);
    for (limit, measured, is_kept) in [
        ("best dunlin/knot >= 1.25", 1.67, true),
        ("best dunlin/knot <= 1.25", 1.67, false),
        ("best dunlin/others >= 1.2", 1.25, true),
        ("most all/echo >= 0.6", 0.5, false),
        ("kept all >= 0.9", 1.0, true),
        ("cpu dunlin/knot <= 0.75", 0.6, true),
        ("p99 dunlin/knot <= 1", f64::NAN, false),
        ("upstream all <= 0.11", f64::NAN, false),
        ("best coredns >= 1", f64::NAN, false),
    ] {
        comparison.limits = vec![limit.parse().unwrap()];
        assert_eq!(comparison.limits[0].to_string(), limit);
        let result = &limit_results(&comparison)[0];
        let value = result.measured.unwrap_or(f64::NAN);
        assert!(
            (value - measured).abs() < 0.03 || (value.is_nan() && measured.is_nan()),
            "{limit}: {value}"
        );
        assert_eq!(result.is_kept(), is_kept, "{limit}: {value}");
        let word = if is_kept { "| kept |" } else { "| MISSED |" };
        assert!(page(&comparison).unwrap().contains(word), "{limit}");
    }
    for wrong in ["best dunlin", "worst dunlin >= 1", "best dunlin > 1", "best a/b >= x"] {
        let error = wrong.parse::<Limit>().unwrap_err();
        assert!(error.contains(wrong) && error.contains("best dunlin/knot >= 1.25"), "{error}");
    }
}

#[test]
fn a_comparison_survives_a_round_trip() {
    let comparison = comparison(&[100_000.0, 60_000.0], 2);
    let text = serde_json::to_string(&comparison).unwrap();
    let read: Comparison = serde_json::from_str(&text).unwrap();
    assert_eq!(page(&read), page(&comparison));
}

#[test]
fn missing_rounds_are_refused() {
    let mut comparison = comparison(&[100_000.0, 60_000.0], 2);
    comparison.servers[1].rounds.pop();
    let error = summarise(&comparison).unwrap_err();
    assert_eq!(error, "knot has 1 rounds and dunlin has 2");
}

#[test]
fn results_of_another_machine_are_refused_with_the_differences() {
    let (old, mut new) = (comparison(&[100_000.0], 8), comparison(&[100_000.0], 8));
    let mut other = manifest();
    other.kernel.release = "6.99".into();
    new.manifest = serde_json::to_value(other).unwrap();
    new.seconds = 2.0;
    let error = against(&old, &new).unwrap_err();
    // Before anything has been measured that is known already.
    assert_eq!(comparable(&old, &Comparison { servers: Vec::new(), ..new }), Err(error.clone()));
    assert!(error.contains("kernel.release: ") && error.contains("6.99 now"), "{error}");
    assert!(error.contains("length of a trial: 1 then, 2 now"), "{error}");
}

#[test]
fn a_zero_divisor_gives_no_ratio() {
    let (mut old, new) =
        (comparison(&[100_000.0, 60_000.0], 8), comparison(&[100_000.0, 60_000.0], 8));
    // No rate was answered in time: its best is 0.
    old.servers[1].rounds.iter_mut().for_each(|round| round.best = None);
    let mut least = old.clone();
    least.servers[0].rounds[3].best_is_least = true;
    for (then, now) in [(&old, &new), (&new, &old), (&old, &old), (&least, &new), (&new, &least)] {
        let text = against(then, now).unwrap().to_string();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
    // No server's 99th percentile is known.
    let unknown = |then, now, name: &str| {
        let text = against(then, now).unwrap().to_string();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.matches("unknown").count() - 1
    };
    assert_eq!([unknown(&old, &new, "knot"), unknown(&old, &new, "dunlin")], [1, 0]);
    assert_eq!(unknown(&new, &old, "knot"), 0, "it has lost everything");
    assert_eq!(unknown(&least, &new, "dunlin"), 1, "it may have been more");
}

#[test]
fn slower_results_are_reported() {
    let (old, new) = (comparison(&[100_000.0, 60_000.0], 8), comparison(&[80_000.0, 60_000.0], 8));
    let text = against(&old, &new).unwrap().to_string();
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(line("dunlin").contains("0.80") && !line("dunlin").contains("0.80 ="), "{text}");
    assert!(line("knot").contains("1.00 ="), "{text}");
}

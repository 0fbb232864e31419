use super::*;
use crate::statistics::Difference;
use crate::verdict::{Load, Side, thousands};
use lab_host::manifest::Manifest;

/// Servers that answer so many a second, and no more; a little noise.
struct Fake {
    capacity: Vec<f64>,
    /// What an overload leaves of it: all, or less where it was asked for more than so many times.
    left: fn(f64) -> f64,
    /// Of which trials, by their numbers, something else takes a twentieth.
    disturbed: fn(usize) -> bool,
    asked: Vec<usize>,
    /// Whose echo was asked, and behind how many trials.
    echoed: Vec<(usize, usize)>,
    told: Vec<(usize, usize)>,
    chance: crate::statistics::Chance,
}

impl Fake {
    fn new(capacity: &[f64]) -> Self {
        let chance = crate::statistics::Chance(1);
        let (asked, echoed, told) = (Vec::new(), Vec::new(), Vec::new());
        let (capacity, left, disturbed) = (capacity.to_vec(), |_| 1.0, |_| false);
        Self { capacity, left, disturbed, asked, echoed, told, chance }
    }
}

/// A second in which the server was busy, if it did not answer all, and nobody else.
fn evidence(rate: f64, answered: f64) -> Evidence {
    let (planned, answered) = (rate as u64, answered as u64);
    let load = Load { open: true, seconds: 1.0, planned, sent: planned, ..Load::default() };
    let side = |process_s| Some(Side { cpus: 1.0, process_s, ..Side::default() });
    Evidence {
        load: Load { answered, timeouts: planned - answered, ..load },
        server: side(if answered < planned { 1.0 } else { 0.5 }),
        generator: side(0.3),
        ..Evidence::default()
    }
}

impl Bench for Fake {
    fn trial(&mut self, entrant: usize, rate: f64) -> Result<Trial> {
        self.asked.push(entrant);
        let noise = 0.99 + self.chance.below(1_000) as f64 * 0.000_02;
        let capacity = self.capacity[entrant];
        let answered = rate.min(capacity * noise * (self.left)(rate / capacity));
        let answered = answered * if (self.disturbed)(self.asked.len()) { 0.95 } else { 1.0 };
        let evidence = evidence(rate, answered);
        Ok(Trial {
            rate,
            in_time: answered / rate,
            answered,
            p50_ns: Some((1e12 / self.capacity[entrant] * noise) as u64),
            p99_ns: None,
            cpu_us: Some(1e6 / self.capacity[entrant] * noise),
            resident: Some(32 << 20),
            verdict: judge(&evidence),
            evidence,
        })
    }

    fn echo(&mut self, entrant: usize) -> Result<(String, f64)> {
        self.echoed.push((entrant, self.asked.len()));
        Ok(("recvmmsg".into(), self.capacity[entrant] * 2.0))
    }

    fn progress(&mut self, _: usize, done: usize, of: usize) {
        self.told.push((done, of));
    }
}

fn manifest() -> Manifest {
    Manifest { schema: lab_host::manifest::SCHEMA, ..Manifest::default() }
}

fn campaign(capacity: &[f64], rounds: usize) -> Campaign {
    begun(capacity, rounds, |_| ())
}

/// As [`campaign`], but servers are not what they were in the beginning.
fn begun(capacity: &[f64], rounds: usize, change: fn(&mut [f64])) -> Campaign {
    let mut all = capacity.to_vec();
    all.push(capacity[0]);
    let mut bench = Fake::new(&all);
    let beginning = begin(&mut bench, all.len(), 1e6, 0).unwrap();
    change(&mut bench.capacity);
    let found = super::rounds(&mut bench, &beginning, rounds).unwrap();
    let names = ["dunlin", "knot", "nsd", "bind"];
    let mut entrants: Vec<Entrant> = found
        .into_iter()
        .zip(beginning)
        .zip(names)
        .map(|((rounds, beginning), name)| Entrant {
            name: name.into(),
            version: Version { version: format!("{name} 1.0"), build: "-O2 | -g".into() },
            command: format!("taskset -c 0 {name}"),
            remark: String::new(),
            beginning,
            rounds,
        })
        .collect();
    let again = Entrant { name: entrants[0].name.clone(), ..entrants.pop().unwrap() };
    Campaign {
        date: "2026-11-21".into(),
        command: "dunlin lab compare".into(),
        data: vec!["zone".into()],
        seconds: 1.0,
        cpus: "0".into(),
        seed: 7,
        entrants,
        again,
        manifest: serde_json::to_value(manifest()).unwrap(),
        machine: vec!["2 CPUs".into()],
    }
}

#[test]
fn orders_are_balanced() {
    assert_eq!(order(3, 0), [0, 1, 2]);
    assert_eq!(order(3, 1), [2, 1, 0]);
    // Over two rounds each place has the same sum for everybody.
    for entrant in 0..5 {
        let place = |round| order(5, round).iter().position(|e| *e == entrant).unwrap();
        assert_eq!(place(0) + place(1), 4);
    }
}

#[test]
fn every_trial_that_was_announced_is_run_and_none_more_often_than_is_tried() {
    let mut bench = Fake::new(&[100_000.0, 50_000.0, 100_000.0]);
    let all = trials(3, 4);
    let beginning = begin(&mut bench, 3, 1e6, all).unwrap();
    rounds(&mut bench, &beginning, 4).unwrap();
    let again = all * (TRIES - 1);
    assert!((all..=all + again).contains(&bench.asked.len()), "{} of {all}", bench.asked.len());
    assert!(bench.told.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(bench.told.iter().all(|(done, of)| done < of && *of == all));
    assert!(rounds(&mut bench, &beginning, 0).is_err());
    assert!(rounds(&mut bench, &beginning, ROUNDS_MAX + 1).is_err());
}

#[test]
fn an_echo_is_asked_before_a_round_and_after_it() {
    let mut bench = Fake::new(&[100_000.0, 50_000.0]);
    let found = rounds(&mut bench, &[100_000.0, 50_000.0], 1).unwrap();
    let first = bench.asked.iter().filter(|entrant| **entrant == 0).count();
    assert_eq!(bench.echoed, [(0, 0), (0, first), (1, first), (1, bench.asked.len())]);
    let Round { best, most, common, .. } = &found[1][0];
    for trial in [best.as_ref().unwrap(), most, common] {
        let ceiling = trial.evidence.ceiling.as_ref().unwrap();
        assert_eq!((ceiling.before, ceiling.after), (100_000.0, 100_000.0));
    }
    assert!(most.verdict.because.contains("of an echo's (recvmmsg)"), "{}", most.verdict);
}

#[test]
fn latencies_are_of_one_rate_for_all() {
    let campaign = campaign(&[100_000.0, 20_000.0, 60_000.0], 2);
    let rounds = campaign.entrants.iter().flat_map(|entrant| &entrant.rounds);
    let rates: Vec<f64> = rounds.map(|round| round.common.rate).collect();
    assert!(rates.iter().all(|rate| *rate == rates[0] && (9_500.0..=10_100.0).contains(rate)));
    let text = page(&campaign).unwrap();
    let said = format!("Common rate: {} questions", thousands(rates[0].round() as u64));
    assert!(text.contains(&said), "{said}: {text}");
}

#[test]
fn the_best_rate_is_found_to_two_per_cent() {
    for round in &campaign(&[100_000.0], 6).entrants[0].rounds {
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
        let mut bench = Fake { disturbed, ..Fake::new(&[100_000.0]) };
        let found = super::rounds(&mut bench, &[100_000.0], 4).unwrap();
        for round in &found[0] {
            let best = round.best.as_ref().unwrap();
            assert!((96_000.0..=101_500.0).contains(&best.answered), "{}", best.answered);
        }
    }
}

#[test]
fn who_loses_much_to_an_overload_is_asked_for_its_best_all_the_same() {
    for left in
        [|over| if over > 1.05 { 0.5 } else { 1.0 }, |over| if over > 2.0 { 0.1 } else { 1.0 }]
    {
        let mut bench = Fake { left, ..Fake::new(&[100_000.0]) };
        let beginning = begin(&mut bench, 1, 1e6, 0).unwrap();
        let round = &super::rounds(&mut bench, &beginning, 1).unwrap()[0][0];
        let best = round.best.as_ref().unwrap().answered;
        assert!((96_000.0..=101_500.0).contains(&best) && !round.best_is_least, "{best}");
        assert!(round.most.rate > 130_000.0, "far more: {}", round.most.rate);
    }
}

#[test]
fn who_has_become_better_since_the_beginning_is_asked_for_more() {
    for round in &begun(&[100_000.0], 3, |capacity| capacity[0] *= 1.3).entrants[0].rounds {
        let best = round.best.as_ref().unwrap().answered;
        assert!((126_000.0..=131_500.0).contains(&best) && !round.best_is_least, "{best}");
    }
}

#[test]
fn where_the_search_ends_below_the_best_it_is_said() {
    let campaign = begun(&[100_000.0, 60_000.0], 8, |capacity| capacity[1] *= 2.0);
    let summary = summarise(&campaign).unwrap();
    let [first, second] = [0, 1].map(|row: usize| &summary.rows[row].cells[0]);
    assert!(!first.is_least && second.is_least);
    assert_eq!(second.difference, Some(Difference::Unknown), "it may be far more");
    let text = page(&campaign).unwrap();
    assert!(text.contains("| knot | ≥ ") && !text.contains("| dunlin | ≥ "), "{text}");
    assert!(text.contains("best of knot is at least that"), "{text}");
}

#[test]
fn who_differs_is_told_from_who_does_not() {
    let campaign = campaign(&[100_000.0, 99_900.0, 60_000.0], 8);
    let summary = summarise(&campaign).unwrap();
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
fn with_few_rounds_nothing_is_proven() {
    let summary = summarise(&campaign(&[100_000.0, 60_000.0], 3)).unwrap();
    let most = &summary.rows[1].cells[1];
    assert_eq!(most.difference, Some(Difference::Unproven));
    assert_eq!(most.middle.unwrap().interval, None);
    let why = "Intervals of the medians are unknown: 3 rounds are fewer than 6.";
    assert!(summary.reasons.iter().any(|reason| reason == why), "{:?}", summary.reasons);
}

#[test]
fn rounds_that_can_prove_nothing_are_told_how_many_could() {
    let three = [100_000.0, 50_000.0, 30_000.0];
    // Two beside the first, four figures of each: 8 tests.
    for (rounds, told) in [(4, Some(6)), (5, Some(6)), (6, None)] {
        let summary = summarise(&campaign(&three, rounds)).unwrap();
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
fn of_one_round_nothing_is_known_and_it_is_said_why() {
    let campaign = campaign(&[100_000.0, 99_900.0], 1);
    let summary = summarise(&campaign).unwrap();
    let most = &summary.rows[1].cells[1];
    assert_eq!((summary.floors[1], most.difference), (None, Some(Difference::Unknown)));
    for text in [page(&campaign).unwrap(), tables(&campaign).unwrap()] {
        assert!(text.contains(" (unknown)") && !text.contains(" = "), "{text}");
        assert!(text.contains("of one round nobody can tell"), "{text}");
        assert!(
            text.contains("p99 at the common rate, µs is unknown of dunlin, knot: in"),
            "{text}"
        );
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
    let text = against(&campaign, &campaign).unwrap().to_string();
    assert!(text.contains("1.00 (unknown: no noise floor)") && !text.contains(" ="), "{text}");
}

#[test]
fn the_page_says_all_of_it() {
    let campaign = campaign(&[100_000.0, 60_000.0], 8);
    let text = page(&campaign).unwrap();
    for part in [
        "| dunlin | ",
        "## Over dunlin's",
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
fn a_campaign_is_written_and_read_back() {
    let campaign = campaign(&[100_000.0, 60_000.0], 2);
    let text = serde_json::to_string(&campaign).unwrap();
    let read: Campaign = serde_json::from_str(&text).unwrap();
    assert_eq!(page(&read), page(&campaign));
}

#[test]
fn rounds_that_lack_are_refused() {
    let mut campaign = campaign(&[100_000.0, 60_000.0], 2);
    campaign.entrants[1].rounds.pop();
    let error = summarise(&campaign).unwrap_err();
    assert_eq!(error, "knot has 1 rounds and dunlin has 2");
}

#[test]
fn results_of_another_machine_are_refused_and_it_is_said_in_what() {
    let (old, mut new) = (campaign(&[100_000.0], 8), campaign(&[100_000.0], 8));
    let mut other = manifest();
    other.kernel.release = "6.99".into();
    new.manifest = serde_json::to_value(other).unwrap();
    new.seconds = 2.0;
    let error = against(&old, &new).unwrap_err();
    // Before anything has been measured that is known already.
    assert_eq!(comparable(&old, &Campaign { entrants: Vec::new(), ..new }), Err(error.clone()));
    assert!(error.contains("kernel.release: ") && error.contains("6.99 now"), "{error}");
    assert!(error.contains("length of a trial: 1 then, 2 now"), "{error}");
}

#[test]
fn beside_nothing_there_is_no_ratio() {
    let (mut old, new) = (campaign(&[100_000.0, 60_000.0], 8), campaign(&[100_000.0, 60_000.0], 8));
    // No rate was answered in time: its best is 0.
    old.entrants[1].rounds.iter_mut().for_each(|round| round.best = None);
    let mut least = old.clone();
    least.entrants[0].rounds[3].best_is_least = true;
    for (then, now) in [(&old, &new), (&new, &old), (&old, &old), (&least, &new), (&new, &least)] {
        let text = against(then, now).unwrap().to_string();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
    // Nobody's 99th percentile is known.
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
fn what_became_slower_since_is_told() {
    let (old, new) = (campaign(&[100_000.0, 60_000.0], 8), campaign(&[80_000.0, 60_000.0], 8));
    let text = against(&old, &new).unwrap().to_string();
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(line("dunlin").contains("0.80") && !line("dunlin").contains("0.80 ="), "{text}");
    assert!(line("knot").contains("1.00 ="), "{text}");
}

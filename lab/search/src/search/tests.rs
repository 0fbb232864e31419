use super::*;

fn config(goals: Vec<Goal>) -> Config {
    Config { goals, min: 1_000.0, max: 1_000_000.0, warmup_s: 0.0, time_max_s: 1e6 }
}

/// Runs a search at a server that answers at most `capacity`, by a generator with a limit.
fn run(config: Config, capacity: f64, generator: f64) -> Search {
    let goals = config.goals.len();
    let mut search = Search::new(config).unwrap();
    while let Some(Request { load, .. }) = search.next_trial() {
        let loss = (1.0 - capacity / load).max(0.0);
        let outcome = match load > generator {
            true => Outcome::Void,
            false => Outcome::Losses(vec![loss; goals]),
        };
        search.record(outcome).unwrap();
    }
    search
}

#[test]
fn a_hard_limit_is_found_within_the_width() {
    let search = run(config(vec![Goal::ndr(), Goal::pdr()]), 123_456.0, f64::MAX);
    let result = search.result();
    let (low, high) = (result[0].lower.unwrap().load, result[0].upper.unwrap().load);
    assert!(low <= 123_456.0 && 123_456.0 < high, "{low} {high}");
    assert_eq!((result[0].end, result[1].end), (End::Width, End::Width));
    assert!(result[0].width().unwrap() <= 0.005);
    assert!(result[1].lower.unwrap().load > low, "half a percent may be lost");
    assert!(search.spent_s() < 250.0, "{}", search.spent_s());
}

#[test]
fn a_server_above_or_below_the_range_ends_the_search() {
    let result = run(config(vec![Goal::ndr()]), 5e6, f64::MAX).result();
    assert_eq!((result[0].end, result[0].upper), (End::AboveHighest, None));
    let result = run(config(vec![Goal::ndr()]), 500.0, f64::MAX).result();
    assert_eq!((result[0].end, result[0].lower), (End::BelowLowest, None));
}

#[test]
fn void_trials_lower_the_highest_load() {
    let search = run(config(vec![Goal::pdr()]), 5e6, 300_000.0);
    let result = &search.result()[0];
    assert_eq!((result.end, result.upper), (End::Generator, None));
    let low = result.lower.unwrap().load;
    assert!((200_000.0..=300_000.0).contains(&low), "{low}");
    // Below the generator's limit it does not matter.
    let result = &run(config(vec![Goal::pdr()]), 50_000.0, 300_000.0).result()[0];
    assert_eq!(result.end, End::Width);
}

#[test]
fn a_search_out_of_time_reports_it() {
    let config = Config { time_max_s: 5.0, ..config(vec![Goal::ndr()]) };
    assert_eq!(run(config, 50_000.0, f64::MAX).result()[0].end, End::Time);
}

#[test]
fn invalid_goals_and_outcomes_are_refused() {
    for goal in [
        Goal { width: 0.0, ..Goal::ndr() },
        Goal { loss_ratio: 1.0, ..Goal::ndr() },
        Goal { exceed_ratio: -0.1, ..Goal::ndr() },
        Goal { duration_sum_s: 0.5, ..Goal::ndr() },
        Goal { initial_s: 0.0, ..Goal::ndr() },
    ] {
        assert!(Search::new(config(vec![goal.clone()])).is_err(), "{goal:?}");
    }
    assert!(Search::new(config(Vec::new())).is_err());
    let mut search = Search::new(config(vec![Goal::ndr()])).unwrap();
    assert!(search.record(Outcome::Void).is_err(), "no trial was requested");
    search.next_trial().unwrap();
    assert!(search.record(Outcome::Losses(vec![0.0, 0.0])).is_err());
}

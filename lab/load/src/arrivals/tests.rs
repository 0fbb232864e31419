use super::*;

const ALONE: ThreadShare = ThreadShare { index: 0, of: 1 };
const SECOND_NS: u64 = 1_000_000_000;

fn arrivals(rate: &str, spacing: Spacing) -> Arrivals {
    Arrivals { rate: rate.parse().unwrap(), spacing, burst: 1 }
}

fn plan(rate: &str, seconds: u64) -> Vec<u64> {
    Plan::new(&arrivals(rate, Spacing::Even), seconds * SECOND_NS, ALONE, 1).collect()
}

fn within(times: &[u64], from: u64, to: u64) -> usize {
    times.iter().filter(|time| (from..to).contains(*time)).count()
}

#[test]
fn a_constant_rate_is_even() {
    let times = plan("1000", 3);
    assert_eq!(times.len(), 3_000);
    assert_eq!(times[..3], [0, 1_000_000, 2_000_000]);
    assert!(times.windows(2).all(|pair| (999_999..=1_000_001).contains(&(pair[1] - pair[0]))));
}

#[test]
fn a_ramp_grows_evenly() {
    let times = plan("ramp:100-900", 4);
    assert!((1_999..=2_001).contains(&times.len()), "{}", times.len());
    // The rate at t is 100 + 200 t: 200, 400, 600 and 800 in the four seconds.
    for second in 0..4 {
        let count = within(&times, second * SECOND_NS, (second + 1) * SECOND_NS) as i64;
        let due = 200 * (second as i64 + 1);
        assert!((count - due).abs() <= 1, "{count} in second {second}");
    }
    let down = plan("ramp:900-100", 4);
    assert!((within(&down, 0, SECOND_NS) as i64 - 800).abs() <= 1);
}

#[test]
fn steps_and_squares_keep_their_rates() {
    let steps = plan("steps:100,300,200", 6);
    assert_eq!(
        [0, 2, 4].map(|at| within(&steps, at * SECOND_NS, (at + 2) * SECOND_NS)),
        [200, 600, 400]
    );
    let square = plan("square:100,500,2s", 5);
    let each = [0, 1, 2, 3, 4].map(|at| within(&square, at * SECOND_NS, (at + 1) * SECOND_NS));
    assert_eq!(each, [100, 500, 100, 500, 100]);
    let rate: Rate = "square:100,500,2s".parse().unwrap();
    assert_eq!(rate.queries(5 * SECOND_NS), 1_300.0);
    assert_eq!(rate.queries(5 * SECOND_NS + SECOND_NS / 2), 1_300.0 + 250.0);
}

/// The largest distance between the gaps' distribution and the exponential one.
fn distance_to_exponential(times: &[u64], mean_ns: f64) -> f64 {
    let mut gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    gaps.sort_by(f64::total_cmp);
    let count = gaps.len() as f64;
    gaps.iter()
        .enumerate()
        .map(|(index, gap)| {
            let law = 1.0 - (-gap / mean_ns).exp();
            (law - index as f64 / count).abs().max(((index + 1) as f64 / count - law).abs())
        })
        .fold(0.0, f64::max)
}

#[test]
fn poisson_arrivals_follow_their_distribution() {
    let poisson = arrivals("20k", Spacing::Poisson);
    for seed in 1..=5 {
        let times: Vec<u64> = Plan::new(&poisson, 5 * SECOND_NS, ALONE, seed).collect();
        // 100,000 events, whose number has that variance: 4 of its roots are 1,265.
        assert!((98_735..=101_265).contains(&times.len()), "{}", times.len());
        let count = (times.len() - 1) as f64;
        let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64);
        let mean = gaps.clone().sum::<f64>() / count;
        let variance = gaps.map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
        assert!((mean / 50_000.0 - 1.0).abs() < 0.013, "mean {mean}");
        assert!((variance / mean / mean - 1.0).abs() < 0.04, "variance {variance}");
        // Kolmogorov–Smirnov: 1.95 divided by the root of the count is passed once in a thousand.
        let distance = distance_to_exponential(&times, 50_000.0);
        assert!(distance < 1.95 / count.sqrt(), "{distance}");
    }
    // The test can fail: even gaps are far from that law.
    assert!(distance_to_exponential(&plan("20k", 5), 50_000.0) > 0.3);
}

#[test]
fn a_poisson_ramp_grows_like_the_even_one() {
    let ramp = arrivals("ramp:1k-9k", Spacing::Poisson);
    let times: Vec<u64> = Plan::new(&ramp, 4 * SECOND_NS, ALONE, 3).collect();
    for second in 0..4 {
        let count = within(&times, second * SECOND_NS, (second + 1) * SECOND_NS) as f64;
        let due = 2_000.0 * (second + 1) as f64;
        assert!((count - due).abs() < 4.5 * due.sqrt(), "{count} in second {second}");
    }
}

#[test]
fn shares_add_up_to_one() {
    for rate in ["1000", "ramp:100-900", "steps:100,300", "square:10,500,300ms"] {
        for burst in [1, 5] {
            let whole = Arrivals { burst, ..arrivals(rate, Spacing::Even) };
            let plan = |share| Plan::new(&whole, 2 * SECOND_NS, share, 1);
            let mut parts: Vec<u64> =
                (0..3).flat_map(|index| plan(ThreadShare { index, of: 3 })).collect();
            parts.sort_unstable();
            let whole: Vec<u64> = plan(ALONE).collect();
            assert_eq!(parts.len(), whole.len(), "{rate}");
            let near = |(part, whole): (&u64, &u64)| part.abs_diff(*whole) <= 1;
            assert!(parts.iter().zip(&whole).all(near), "{rate}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let poisson = arrivals("5k", Spacing::Poisson);
    let take = |seed, index| -> Vec<u64> {
        Plan::new(&poisson, SECOND_NS, ThreadShare { index, of: 2 }, seed).collect()
    };
    assert_eq!(take(1, 0), take(1, 0));
    assert_ne!(take(1, 0), take(2, 0));
    assert_ne!(take(1, 0), take(1, 1));
}

#[test]
fn bursts_come_together_at_the_same_rate() {
    let burst = Arrivals { burst: 10, ..arrivals("1000", Spacing::Even) };
    let times: Vec<u64> = Plan::new(&burst, SECOND_NS, ALONE, 1).collect();
    assert_eq!(times.len(), 1_000);
    assert!(times.chunks(10).all(|burst| burst.iter().all(|time| *time == burst[0])));
    assert_eq!(times[10], 10_000_000);
}

#[test]
fn captured_times_begin_at_the_first() {
    let text = "# seconds\n1690000000.000000001\n1690000000.5 # a comment\n\n1690000002\n";
    let captured = times(text).unwrap();
    assert_eq!(captured, Rate::Captured([0, 499_999_999, 1_999_999_999].into()));
    let arrivals = Arrivals { rate: captured, spacing: Spacing::Even, burst: 1 };
    let plan = |share| Plan::new(&arrivals, 2 * SECOND_NS - 1, share, 1).collect::<Vec<_>>();
    assert_eq!(plan(ALONE), [0, 499_999_999], "the last lies at the end");
    assert_eq!(plan(ThreadShare { index: 1, of: 2 }), [499_999_999]);
    assert_eq!(arrivals.rate.queries(SECOND_NS), 2.0);
}

#[test]
fn invalid_times_are_refused_with_their_line() {
    for (text, line) in [("1\nx\n", 2), ("2\n1\n", 2), ("", 1), ("0.0000000001", 1), ("-1", 1)] {
        assert_eq!(times(text).unwrap_err().0, line, "{text:?}");
    }
}

#[test]
fn rates_are_read_and_refused() {
    assert_eq!("1.5M".parse(), Ok(Rate::Constant(1.5e6)));
    assert_eq!("square:1,2,10ms".parse(), Ok(Rate::Square(1.0, 2.0, 10_000_000)));
    assert_eq!("square:1,2,1ms".parse(), Ok(Rate::Square(1.0, 2.0, 1_000_000)));
    // A query a second would be looked for in 10^9 halves.
    let told = "square:1,1,999999ns".parse::<Rate>().unwrap_err();
    assert!(told.contains("1ms or more"), "{told}");
    for wrong in
        ["", "0", "-5", "1e9", "2000M", "k", "ramp:5", "steps:", "square:1,2", "hill:1", "inf"]
    {
        assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
    }
}

use super::*;
use proptest::prelude::*;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn a_median_is_the_middle() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[1.0, f64::NAN]), None);
    assert_eq!(median(&[0.0; SAMPLES_MAX + 1]), None);
}

#[test]
fn intervals_are_those_of_the_tables_of_order_statistics() {
    // Ranks of the 95 % interval of a median, counted from 1 (Conover, Practical Nonparametric
    // Statistics, table of the binomial with p = 0.5).
    for (n, low, high) in [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15), (30, 10, 21)] {
        let samples: Vec<f64> = (1..=n).map(f64::from).collect();
        let Some(Interval { low: l, high: h }) = middle(&samples).unwrap().interval else {
            panic!("{n} have an interval")
        };
        assert_eq!((l, h), (f64::from(low), f64::from(high)), "{n} samples");
    }
    assert_eq!(middle(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap().interval, None, "five are too few");
}

#[test]
fn the_rank_test_gives_known_values() {
    // Complete separation of n from n: 2 / C(2n, n).
    assert!(near(mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap(), 2.0 / 20.0));
    let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0, 10.0, 11.0, 12.0]);
    assert!(near(mann_whitney(&low, &high).unwrap(), 2.0 / 924.0));
    // R: wilcox.test(c(0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46),
    //                c(1.15, 0.88, 0.90, 0.74, 1.21)), W = 35, p-value = 0.2544
    let x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
    let y = [1.15, 0.88, 0.90, 0.74, 1.21];
    assert!((mann_whitney(&x, &y).unwrap() - 0.2544).abs() < 5e-5);
    // Ties, by hand: of {1, 1} beside {1, 2} the six ways of dealing have sums of doubled ranks
    // 8 (three times) and 12 (three times); ours is 8.
    assert!(near(mann_whitney(&[1.0, 1.0], &[1.0, 2.0]).unwrap(), 1.0));
    assert!(near(mann_whitney(&[5.0; 4], &[5.0; 4]).unwrap(), 1.0), "all alike");
    assert_eq!(mann_whitney(&[], &[1.0]), None);
}

#[test]
fn disjoint_lists_have_the_smallest_probability() {
    for n in 1..=SAMPLES_MAX {
        let (low, high): (Vec<f64>, Vec<f64>) = (0..n).map(|i| (i as f64, (n + i) as f64)).unzip();
        let ratio = mann_whitney(&low, &high).unwrap() / least_probability(n);
        assert!(near(ratio, 1.0), "{n}: {ratio}");
    }
}

#[test]
fn the_longest_lists_are_tested() {
    let ours: Vec<f64> = (0..SAMPLES_MAX).map(|n| n as f64).collect();
    let theirs: Vec<f64> = ours.iter().map(|v| v + 1_000.0).collect();
    let p = mann_whitney(&ours, &theirs).unwrap();
    assert!(p > 0.0 && p < 1e-25, "{p}");
}

#[test]
fn holm_correction_matches_the_paper() {
    // Of p = 0.01, 0.04, 0.03, 0.005: times 4, 3, 2, 1 from the smallest, and never less again.
    let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
    for (got, expected) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        assert!(near(*got, expected), "{corrected:?}");
    }
    assert!(holm(&[]).is_empty());
    assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
}

#[test]
fn ratios_below_the_noise_floor_are_no_difference() {
    assert_eq!(difference(1.02, Some(0.03), 0.000_1), Difference::WithinFloor);
    assert_eq!(difference(0.98, Some(0.03), 0.000_1), Difference::WithinFloor);
    assert_eq!(difference(1.10, Some(0.03), 0.2), Difference::Unproven);
    assert_eq!(difference(1.10, Some(0.03), 0.001), Difference::More);
    assert_eq!(difference(0.90, Some(0.03), 0.001), Difference::Less);
    assert_eq!(difference(0.50, None, 0.001), Difference::Unknown);
}

#[test]
fn a_floor_is_the_farther_end() {
    let first = [100.0, 100.0, 100.0, 100.0, 100.0, 100.0];
    let again = [101.0, 99.0, 104.0, 100.0, 97.0, 101.0];
    let floor = noise_floor(&first, &again, 7).unwrap();
    assert!((0.01..=0.04).contains(&floor), "{floor}");
    assert_eq!(noise_floor(&first[..1], &again[..1], 7), None, "one pair has no spread");
}

#[test]
fn intervals_cover_the_true_value_as_stated() {
    // 400 times ten pairs whose true ratio is 1.2, with noise of 10 % on each side. The percentile
    // bootstrap of a median is known to be a little narrow for few samples.
    let mut random = Random(1);
    let mut noisy =
        |mean: f64| mean * (0.9 + 0.2 * random.below(1 << 20) as f64 / (1 << 20) as f64);
    let mut held = 0;
    for seed in 0..400 {
        let theirs: Vec<f64> = (0..10).map(|_| noisy(100.0)).collect();
        let ours: Vec<f64> = (0..10).map(|_| noisy(120.0)).collect();
        let interval = paired_ratio(&ours, &theirs, seed).unwrap().interval.unwrap();
        held += u32::from(interval.low <= 1.2 && 1.2 <= interval.high);
    }
    assert!(held >= 360, "{held} of 400");
}

fn lists() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    let list = || prop::collection::vec((0u32..40).prop_map(f64::from), 1..12);
    (list(), list())
}

proptest! {
    #[test]
    fn the_rank_test_is_a_probability_and_blind_to_order((ours, theirs) in lists()) {
        let p = mann_whitney(&ours, &theirs).unwrap();
        prop_assert!(p > 0.0 && p <= 1.0);
        prop_assert!(near(p, mann_whitney(&theirs, &ours).unwrap()), "who is first is no matter");
        let reversed: Vec<f64> = ours.iter().rev().copied().collect();
        prop_assert!(near(p, mann_whitney(&reversed, &theirs).unwrap()));
        let scale = |list: &[f64]| list.iter().map(|v| v * 3.0 + 7.0).collect::<Vec<_>>();
        prop_assert!(near(p, mann_whitney(&scale(&ours), &scale(&theirs)).unwrap()));
    }

    #[test]
    fn a_ratio_lies_in_its_interval_and_follows_from_its_seed(
        pairs in prop::collection::vec((1u32..1000, 1u32..1000), 2..20), seed: u64,
    ) {
        let ours: Vec<f64> = pairs.iter().map(|p| f64::from(p.0)).collect();
        let theirs: Vec<f64> = pairs.iter().map(|p| f64::from(p.1)).collect();
        let ratio = paired_ratio(&ours, &theirs, seed).unwrap();
        let Interval { low, high } = ratio.interval.unwrap();
        prop_assert!(low <= ratio.median && ratio.median <= high);
        prop_assert_eq!(ratio, paired_ratio(&ours, &theirs, seed).unwrap());
    }

    #[test]
    fn holm_never_helps_and_keeps_the_order(p in prop::collection::vec(0.0f64..1.0, 0..20)) {
        let corrected = holm(&p);
        for (i, a) in p.iter().enumerate() {
            prop_assert!(corrected[i] >= *a && corrected[i] <= 1.0);
            for (j, b) in p.iter().enumerate() {
                prop_assert!(a > b || corrected[i] <= corrected[j]);
            }
        }
    }
}

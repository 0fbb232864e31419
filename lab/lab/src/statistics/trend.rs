//! Change points of a series of medians.

use super::median;

/// Minimum number of points of a segment.
const SEGMENT_MIN: usize = 3;

/// Maximum number of values; of more, the last are used.
const VALUES_MAX: usize = 400;

/// Indexes at which new levels begin. A new level differs from the one before it by more than
/// `floor`, a share, and by clearly more than values of one level do.
///
/// The partition into levels has the least sum of absolute deviations, in units of the noise, plus
/// a cost for each level.
pub fn change_points(values: &[f64], floor: f64) -> Vec<usize> {
    let skipped = values.len().saturating_sub(VALUES_MAX);
    let log = |value: &f64| value.max(f64::MIN_POSITIVE).ln();
    let logs: Vec<f64> = values[skipped..].iter().map(log).collect();
    let mut starts = partition(&logs, floor);
    // Merges neighbors within the floor, the most alike first.
    loop {
        let level = |at: usize| {
            let end = starts.get(at + 1).copied().unwrap_or(logs.len());
            median(&logs[starts[at]..end]).unwrap_or(0.0)
        };
        let change = |at: usize| ((level(at) - level(at - 1)).exp() - 1.0).abs();
        let least = (1..starts.len()).min_by(|a, b| change(*a).total_cmp(&change(*b)));
        match least.filter(|at| change(*at) <= floor) {
            Some(at) => drop(starts.remove(at)),
            None => break,
        }
    }
    starts.iter().skip(1).map(|start| start + skipped).collect()
}

/// The start indexes of the levels, by dynamic programming over the end of the last level.
fn partition(logs: &[f64], floor: f64) -> Vec<usize> {
    let n = logs.len();
    let steps: Vec<f64> = logs.windows(2).map(|two| (two[1] - two[0]).abs()).collect();
    // Smaller noise than a tenth of the floor does not matter.
    let noise = (0.7 * median(&steps).unwrap_or(0.0)).max(0.1 * floor).max(f64::MIN_POSITIVE);
    let level_cost = 4.0 * (n.max(2) as f64).ln();
    let mut best: Vec<(f64, usize)> = vec![(0.0, 0)];
    for end in 1..=n {
        let of_begin = |begin: usize| {
            let is_short = end - begin < SEGMENT_MIN && end - begin < n;
            let own = cost(&logs[begin..end]) / noise + level_cost;
            (if is_short { f64::INFINITY } else { best[begin].0 + own }, begin)
        };
        let least = (0..end).map(of_begin).min_by(|a, b| a.0.total_cmp(&b.0));
        best.push(least.unwrap_or((0.0, 0)));
    }
    let mut starts = Vec::new();
    let mut end = n;
    while end > 0 {
        end = best[end].1;
        starts.push(end);
    }
    starts.reverse();
    starts
}

/// The sum of absolute deviations from the median: one outlier makes no level.
fn cost(logs: &[f64]) -> f64 {
    let middle = median(logs).unwrap_or(0.0);
    logs.iter().map(|log| (log - middle).abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(levels: &[(usize, f64)], noise: f64, seed: u64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let level = |(count, level): &(usize, f64)| {
            (0..*count).map(|_| level * (1.0 + noise * (random.f64() - 0.5))).collect::<Vec<_>>()
        };
        levels.iter().flat_map(level).collect()
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        for seed in 0..200 {
            let values = noisy(&[(10, 100.0), (8, 80.0)], 0.06, seed);
            assert_eq!(change_points(&values, 0.05), [10], "seed {seed}: {values:?}");
            let values = noisy(&[(8, 100.0), (8, 130.0), (8, 90.0)], 0.06, seed);
            assert_eq!(change_points(&values, 0.05), [8, 16], "seed {seed}: {values:?}");
        }
    }

    #[test]
    fn noise_and_single_outliers_are_no_change() {
        let mut wrong = 0;
        for seed in 0..200 {
            let mut values = noisy(&[(30, 100.0)], 0.1, seed);
            values[11] = 40.0;
            wrong += usize::from(!change_points(&values, 0.05).is_empty());
        }
        assert!(wrong <= 2, "{wrong} of 200 series of noise have a change");
    }

    #[test]
    fn changes_within_the_floor_and_short_series_have_none() {
        let series = [
            noisy(&[(10, 100.0), (10, 97.0)], 0.001, 1),
            vec![100.0, 50.0, 50.0, 50.0],
            Vec::new(),
        ];
        for values in series {
            assert!(change_points(&values, 0.05).is_empty(), "{values:?}");
        }
    }
}

//! Rank tests: the Mann–Whitney test, and Holm's correction for multiple tests.

use super::sort;

/// How likely two lists rank at least this unevenly if both were drawn from the same: the
/// Mann–Whitney U test, two-sided.
///
/// Exact, for lists with ties too: over all ways of dealing out the ranks that there are, the share
/// in which the sum of the first list lies as far out, the smaller tail twice. `None` if a list is
/// empty, longer than [`crate::limits::SAMPLES_MAX`], or holds what is not a number.
pub fn mann_whitney(ours: &[f64], theirs: &[f64]) -> Option<f64> {
    let (ours, theirs) = (sort(ours)?, sort(theirs)?);
    let ranks = doubled_ranks(&ours, &theirs);
    let sum: usize = ranks.iter().filter(|(_, ours)| *ours).map(|(rank, _)| rank).sum();
    let ways = ways(&ranks, ours.len());
    let all: f64 = ways.iter().sum();
    let below: f64 = ways[..=sum].iter().sum();
    let above: f64 = ways[sum..].iter().sum();
    Some((2.0 * below.min(above) / all).min(1.0))
}

/// The lowest result of [`mann_whitney`] for two lists of this length, if they do not overlap: `2 /
/// C(2n, n)`.
pub fn least_probability(samples: usize) -> f64 {
    (0..samples).fold(2.0, |p, i| p * (samples - i) as f64 / (2 * samples - i) as f64).min(1.0)
}

/// The doubled rank of each value, so that the mean rank of a tie is an integer; and whether the
/// value is from the first list.
fn doubled_ranks(ours: &[f64], theirs: &[f64]) -> Vec<(usize, bool)> {
    let mut values: Vec<(f64, bool)> =
        ours.iter().map(|v| (*v, true)).chain(theirs.iter().map(|v| (*v, false))).collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = Vec::with_capacity(values.len());
    for tie in values.chunk_by(|a, b| a.0 == b.0) {
        let rank = 2 * ranks.len() + tie.len() + 1;
        ranks.extend(tie.iter().map(|(_, ours)| (rank, *ours)));
    }
    ranks
}

/// The number of ways in which `count` of the ranks give each sum.
fn ways(ranks: &[(usize, bool)], count: usize) -> Vec<f64> {
    let most: usize = ranks.iter().map(|(rank, _)| rank).sum();
    let mut ways = vec![vec![0.0; most + 1]; count + 1];
    ways[0][0] = 1.0;
    for (taken, (rank, _)) in ranks.iter().enumerate() {
        for n in (1..=count.min(taken + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(n);
            for (to, from) in more[0][*rank..].iter_mut().zip(&fewer[n - 1]) {
                *to += from;
            }
        }
    }
    ways.swap_remove(count)
}

/// Holm's step-down correction: the probabilities, corrected for the number of tests.
///
/// The smallest is multiplied by how many there are, the next by one fewer, and none ends below one
/// that was smaller. In the order given.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut corrected = vec![0.0; probabilities.len()];
    let mut least = 0.0f64;
    for (place, index) in order.into_iter().enumerate() {
        let factor = (probabilities.len() - place) as f64;
        least = least.max((probabilities[index] * factor).min(1.0));
        corrected[index] = least;
    }
    corrected
}

//! Statistics of repeated runs.
//!
//! Runs are few and not normal, so nothing here assumes that they are: medians, order statistics,
//! ranks, resampling. Random numbers come from a seed.

use crate::limits::{RESAMPLES, SAMPLES_MAX};

mod rank;
mod trend;
pub use rank::{holm, least_probability, mann_whitney};
pub use trend::change_points;

/// A range that holds the true value with a stated confidence.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// A median with its interval, where there are enough samples for one.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct MedianEstimate {
    /// The median.
    pub median: f64,
    /// Where the median of all such runs lies, with a confidence of 95 % or more.
    pub interval: Option<Interval>,
}

/// The confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// Minimum number of samples for an interval of the median: with fewer, even the outermost samples
/// do not reach the confidence.
pub const MEDIAN_MIN: usize = 6;

/// The probability below which a difference counts as real.
pub const ALPHA: f64 = 1.0 - CONFIDENCE;

/// The median; `None` without samples, or if one is not a number.
pub fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sort(samples)?;
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    Some(f64::midpoint(sorted[low], sorted[high]))
}

/// The median with the interval between two order statistics.
///
/// The narrowest pair that lies evenly about the middle and holds the median with [`CONFIDENCE`]
/// (the binomial of the signs); no interval for fewer than six samples, because their outermost do
/// not reach the confidence.
pub fn middle(samples: &[f64]) -> Option<MedianEstimate> {
    let sorted = sort(samples)?;
    let n = sorted.len();
    let mut tail = 0.0;
    let mut depth = None;
    for k in 0..n / 2 {
        tail += binomial_half(n, k);
        if 2.0 * tail > ALPHA {
            break;
        }
        depth = Some(k);
    }
    let interval = depth.map(|k| Interval { low: sorted[k], high: sorted[n - 1 - k] });
    Some(MedianEstimate { median: median(&sorted)?, interval })
}

/// The probability of `k` heads of `n` coins.
fn binomial_half(n: usize, k: usize) -> f64 {
    (0..k).fold(0.5f64.powi(n as i32), |p, i| p * (n - i) as f64 / (i + 1) as f64)
}

/// The median of `ours / theirs`, run by run, with a bootstrap interval.
///
/// The runs are pairs: the nth runs of both were made one after the other, so other work on the
/// machine affected both. `None` for lists of different length or without samples, and if a divisor
/// is not above 0.
pub fn paired_ratio(ours: &[f64], theirs: &[f64], seed: u64) -> Option<MedianEstimate> {
    if ours.len() != theirs.len() || !theirs.iter().all(|t| *t > 0.0) {
        return None;
    }
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(o, t)| o / t).collect();
    let interval = (ratios.len() > 1).then(|| bootstrap(&ratios, seed)).flatten();
    Some(MedianEstimate { median: median(&ratios)?, interval })
}

/// The percentile bootstrap of the median.
fn bootstrap(samples: &[f64], seed: u64) -> Option<Interval> {
    let mut random = Random(seed);
    let mut draw = vec![0.0; samples.len()];
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        draw.fill_with(|| samples[random.below(samples.len())]);
        medians.push(median(&draw)?);
    }
    medians.sort_by(f64::total_cmp);
    let cut = (RESAMPLES as f64 * ALPHA / 2.0) as usize;
    Some(Interval { low: medians[cut], high: medians[RESAMPLES - 1 - cut] })
}

/// The noise floor: the deviation from 1 of the ratio of a server to itself.
///
/// `first` and `again` are runs of the same server, treated as two servers (A/A). The floor is the
/// end of the ratio's interval that is farther from 1, as a share: 0.03 means that a difference of
/// 3 % is noise. `None` for fewer than two pairs.
pub fn noise_floor(first: &[f64], again: &[f64], seed: u64) -> Option<f64> {
    let Interval { low, high } = paired_ratio(again, first, seed)?.interval?;
    Some((low - 1.0).abs().max((high - 1.0).abs()))
}

/// A ratio compared with the noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// More than the first, and more than the noise.
    More,
    /// Less than the first, by more than the noise.
    Less,
    /// Within the noise floor: no difference, whatever the result of the test.
    WithinFloor,
    /// Above the floor, but such runs are too likely by chance.
    Unproven,
    /// The floor is unknown: there are too few runs, or one lacks the figure.
    Unknown,
}

/// Judges a ratio by the floor, then by the probability of such ranks by chance, corrected by
/// [`holm`]. Without a floor the result is unknown.
pub fn difference(ratio: f64, floor: Option<f64>, p: f64) -> Difference {
    let Some(floor) = floor else { return Difference::Unknown };
    match ratio {
        r if (r - 1.0).abs() <= floor => Difference::WithinFloor,
        _ if p >= ALPHA => Difference::Unproven,
        r if r > 1.0 => Difference::More,
        _ => Difference::Less,
    }
}

/// The samples in order; `None` if there are none or too many, or one is not a number.
fn sort(samples: &[f64]) -> Option<Vec<f64>> {
    if !(1..=SAMPLES_MAX).contains(&samples.len()) || !samples.iter().all(|s| s.is_finite()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// Pseudorandom numbers from a seed (splitmix64, Steele et al. 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.draw()) * end as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests;

//! Classification of one load by the trials at it.

use std::collections::BTreeMap;

/// The conditions by which a load is classified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The highest loss ratio of a good trial.
    pub loss_ratio: f64,
    /// The share of trial time that may be bad.
    pub exceed_ratio: f64,
    /// Trials of this length or longer count fully, seconds.
    pub trial_s: f64,
    /// Trial time after which a load is classified, seconds.
    pub duration_sum_s: f64,
}

/// A load with respect to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The server carries it.
    Lower,
    /// The server does not carry it.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// Sums of trial time at one load, seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stat {
    good_long: f64,
    bad_long: f64,
    good_short: f64,
    bad_short: f64,
    /// Loss ratio and duration of each long trial.
    long: Vec<(f64, f64)>,
}

impl Stat {
    /// Adds a trial of this duration in seconds, with this loss ratio.
    pub fn add(&mut self, target: &Target, duration_s: f64, loss_ratio: f64) {
        let is_long = duration_s >= target.trial_s;
        let sum = match (is_long, loss_ratio <= target.loss_ratio) {
            (true, true) => &mut self.good_long,
            (true, false) => &mut self.bad_long,
            (false, true) => &mut self.good_short,
            (false, false) => &mut self.bad_short,
        };
        *sum += duration_s;
        if is_long {
            self.long.push((loss_ratio, duration_s));
        }
    }

    /// The class of the load. It is decided once the missing trials cannot change it.
    pub fn class(&self, target: &Target) -> Class {
        let exceed = target.exceed_ratio;
        // Short bad trials count only beyond the share that good short ones allow.
        let allowed_short = self.good_short * exceed / (1.0 - exceed);
        let bad = self.bad_long + (self.bad_short - allowed_short).max(0.0);
        let whole = (self.good_long + bad).max(target.duration_sum_s);
        let allowed = whole * exceed;
        let if_rest_good = bad <= allowed;
        let if_rest_bad = whole - self.good_long <= allowed;
        match (if_rest_good, if_rest_bad) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Undecided,
        }
    }

    /// The loss ratio at the quantile that the exceed ratio allows; missing trials lose everything.
    pub fn loss_at_quantile(&self, target: &Target) -> f64 {
        let whole = target.duration_sum_s.max(self.good_long + self.bad_long);
        let mut left = whole * (1.0 - target.exceed_ratio);
        let mut long = self.long.clone();
        long.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Durations of equal loss add up first, so that rounding does not depend on their order.
        let mut found = None;
        for trials in long.chunk_by(|a, b| a.0 == b.0) {
            if found.is_some() && left <= 0.0 {
                return found.unwrap_or(1.0);
            }
            found = Some(trials[0].0);
            left -= trials.iter().map(|(_, duration_s)| duration_s).sum::<f64>();
        }
        if left > 0.0 { 1.0 } else { found.unwrap_or(1.0) }
    }
}

/// The relevant bounds: the lowest upper bound, and the highest lower bound below it.
pub fn relevant_bounds<K: Ord + Copy>(
    stats: &BTreeMap<K, Stat>,
    target: &Target,
) -> (Option<K>, Option<K>) {
    let mut lower = None;
    for (load, stat) in stats {
        match stat.class(target) {
            Class::Lower => lower = Some(*load),
            Class::Upper => return (lower, Some(*load)),
            Class::Undecided => {}
        }
    }
    (lower, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target =
        Target { loss_ratio: 0.0, exceed_ratio: 0.5, trial_s: 1.0, duration_sum_s: 21.0 };

    fn stat(trials: &[(usize, f64, f64)]) -> Stat {
        let mut stat = Stat::default();
        for (times, duration_s, loss) in trials {
            (0..*times).for_each(|_| stat.add(&TARGET, *duration_s, *loss));
        }
        stat
    }

    #[test]
    fn eleven_of_twenty_one_trials_decide() {
        assert_eq!(stat(&[(10, 1.0, 0.0)]).class(&TARGET), Class::Undecided);
        assert_eq!(stat(&[(11, 1.0, 0.0)]).class(&TARGET), Class::Lower);
        assert_eq!(stat(&[(10, 1.0, 0.1)]).class(&TARGET), Class::Undecided);
        assert_eq!(stat(&[(11, 1.0, 0.1)]).class(&TARGET), Class::Upper);
        assert_eq!(stat(&[(10, 1.0, 0.1), (10, 1.0, 0.0)]).class(&TARGET), Class::Undecided);
    }

    #[test]
    fn short_good_trials_prove_nothing_but_excuse_short_bad_ones() {
        assert_eq!(stat(&[(100, 0.5, 0.0)]).class(&TARGET), Class::Undecided);
        assert_eq!(stat(&[(22, 0.5, 0.1)]).class(&TARGET), Class::Upper);
        assert_eq!(stat(&[(22, 0.5, 0.1), (22, 0.5, 0.0)]).class(&TARGET), Class::Undecided);
    }

    #[test]
    fn relevant_lower_bound_is_below_the_lowest_upper_bound() {
        let good = stat(&[(11, 1.0, 0.0)]);
        let bad = stat(&[(11, 1.0, 0.2)]);
        let stats = BTreeMap::from([(10, good.clone()), (20, bad.clone()), (30, good), (40, bad)]);
        assert_eq!(relevant_bounds(&stats, &TARGET), (Some(10), Some(20)));
    }

    #[test]
    fn conditional_loss_is_the_median_with_an_exceed_ratio_of_half() {
        let mixed = stat(&[(11, 1.0, 0.0), (10, 1.0, 0.3)]);
        assert_eq!(mixed.loss_at_quantile(&TARGET), 0.0);
        assert_eq!(stat(&[(10, 1.0, 0.0)]).loss_at_quantile(&TARGET), 1.0, "trials are missing");
    }
}

//! Zipf's law over any number of ranks, without a table: rejection from its integral (Hörmann and
//! Derflinger, *Rejection-inversion to generate variates from monotone discrete distributions*,
//! 1996).

use crate::random::Random;

/// Ranks 1 to n, rank k drawn in proportion to k^-s.
#[derive(Clone, Debug)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    /// The integral below half a rank behind the first one, and behind the last.
    low: f64,
    high: f64,
    /// Below this distance no rank is rejected.
    sure: f64,
}

impl Zipf {
    /// Over `count` ranks, at least 1, with an exponent above 0.
    pub fn new(count: usize, exponent: f64) -> Self {
        let count = count as f64;
        let mut zipf = Self { count, exponent, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(count + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// A rank less 1: an index.
    pub fn draw(&self, random: &mut Random) -> usize {
        loop {
            let u = self.high + random.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let rank = x.round().clamp(1.0, self.count);
            let is_in = rank - x <= self.sure || u >= self.integral(rank + 0.5) - self.weight(rank);
            if is_in {
                return rank as usize - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// The integral of the weight from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        let log = x.ln();
        if rest.abs() < 1e-9 { log } else { (rest * log).exp_m1() / rest }
    }

    fn inverse(&self, area: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        if rest.abs() < 1e-9 { area.exp() } else { ((rest * area).ln_1p() / rest).exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-squared over the ranks, for this many draws.
    fn chi_squared(zipf: &Zipf, exponent: f64, ranks: usize, draws: usize) -> f64 {
        let mut random = Random::new(1, 0);
        let mut seen = vec![0.0; ranks];
        (0..draws).for_each(|_| seen[zipf.draw(&mut random)] += 1.0);
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-exponent);
        let all: f64 = (0..ranks).map(weight).sum();
        let term = |rank: usize| {
            let due = draws as f64 * weight(rank) / all;
            (seen[rank] - due).powi(2) / due
        };
        (0..ranks).map(term).sum()
    }

    #[test]
    fn ranks_follow_the_zipf_distribution() {
        for exponent in [0.5, 0.99, 1.0, 1.3, 2.0] {
            let zipf = Zipf::new(20, exponent);
            // 19 degrees of freedom: 43.8 is passed once in a thousand.
            let distance = chi_squared(&zipf, exponent, 20, 200_000);
            assert!(distance < 43.8, "{exponent}: {distance}");
            assert!(chi_squared(&zipf, exponent + 0.1, 20, 200_000) > 100.0, "it can fail");
        }
    }

    #[test]
    fn one_rank_and_very_many_are_drawn() {
        let mut random = Random::new(1, 0);
        assert_eq!(Zipf::new(1, 1.0).draw(&mut random), 0);
        let many = Zipf::new(10_000_000, 0.8);
        let mut far = 0;
        for _ in 0..10_000 {
            let index = many.draw(&mut random);
            assert!(index < 10_000_000);
            far += usize::from(index > 1_000_000);
        }
        // Integral of x^-0.8 from a million up, of that from 1 up: 1 - 0.1^0.2 = 0.38, or so.
        assert!((3_300..4_500).contains(&far), "{far}");
    }
}

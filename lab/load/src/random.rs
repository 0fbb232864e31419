//! One seed, one sequence: SplitMix64, so that a load is made again from a number.

/// A small deterministic generator. Nothing that must be secret comes of it.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`; other `stream`s of it are others.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = Self(seed);
        let offset = mixed.bits().wrapping_add(stream.wrapping_mul(0xd134_2543_de82_ef95));
        let mut own = Self(offset);
        own.bits();
        own
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..end`; `end` is at least 1.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A number in `0.0..1.0`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A time between two events of a Poisson process, one event a unit in the mean.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_sequence() {
        let take = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.bits(), random.bits()]
        };
        assert_eq!(take(7, 0), take(7, 0));
        assert_ne!(take(7, 0), take(8, 0));
        assert_ne!(take(7, 0), take(7, 1));
    }

    #[test]
    fn numbers_stay_below_their_end_and_reach_it() {
        let mut random = Random::new(1, 0);
        let mut seen = [false; 7];
        (0..1_000).for_each(|_| seen[random.below(7) as usize] = true);
        assert_eq!(seen, [true; 7]);
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&random.unit())));
    }
}

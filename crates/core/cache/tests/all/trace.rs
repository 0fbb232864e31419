//! Numbers drawn from a seed, and names by Zipf's law.

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

pub fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// This many names by Zipf's law with this exponent.
pub fn zipf(exponent: f64, names: usize, seed: u64) -> impl FnMut() -> u64 {
    let mut sum = 0.0;
    let ranks: Vec<f64> = (1..=names)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    let mut random = Random(seed);
    move || {
        let drawn = random.share() * sum;
        ranks.partition_point(|upto| *upto < drawn) as u64
    }
}

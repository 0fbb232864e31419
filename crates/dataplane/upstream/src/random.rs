//! Unpredictable numbers from the system, fetched in batches.

/// Bytes fetched at once.
const POOL_LEN: usize = 512;

#[derive(Debug)]
pub(crate) struct SecureRandom {
    pool: [u8; POOL_LEN],
    used: usize,
}

impl SecureRandom {
    pub(crate) const fn new() -> Self {
        Self { pool: [0; POOL_LEN], used: POOL_LEN }
    }

    /// A number, used once.
    pub(crate) fn next_u64(&mut self) -> u64 {
        if self.used == POOL_LEN {
            // The system always has randomness, and nothing works without it.
            getrandom::fill(&mut self.pool).expect("the system's randomness");
            self.used = 0;
        }
        let number = self.pool[self.used..].first_chunk().expect("a multiple of eight");
        self.used += 8;
        u64::from_le_bytes(*number)
    }
}

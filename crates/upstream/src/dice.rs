//! Numbers that nobody can guess, from the system, some at a time.

/// Octets taken from the system at once.
const POOL_LEN: usize = 512;

#[derive(Debug)]
pub(crate) struct Dice {
    pool: [u8; POOL_LEN],
    used: usize,
}

impl Dice {
    pub(crate) const fn new() -> Self {
        Self { pool: [0; POOL_LEN], used: POOL_LEN }
    }

    /// A number, used once.
    pub(crate) fn throw(&mut self) -> u64 {
        if self.used == POOL_LEN {
            // The system has randomness from its start on; there is nothing to do without.
            getrandom::fill(&mut self.pool).expect("the system's randomness");
            self.used = 0;
        }
        let number = self.pool[self.used..].first_chunk().expect("a multiple of eight");
        self.used += 8;
        u64::from_le_bytes(*number)
    }
}

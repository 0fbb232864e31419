//! Keyed hashing of names.
//!
//! With a known hash function, a client who may write names could choose names that collide. NH
//! (the first layer of UMAC, RFC 4418 §5.2.2, here with words of 64 bits) is universal: over all
//! keys, two names have equal sums with a probability of at most 2^-63. The key never leaves the
//! process.
use wire::limits::PADDED_LEN;

/// Words of a key: two for each block of 16 bytes, and two to fold with.
pub const HASH_KEY_WORDS: usize = 2 * (PADDED_LEN / 16) + 2;
const FOLD: usize = HASH_KEY_WORDS - 2;

/// Masks for the last block, by the number of its bytes that belong to the name.
const MASKS: [[u64; 2]; 16] = {
    let mut masks = [[0; 2]; 16];
    let mut bytes = 0;
    while bytes < 16 {
        let mask = (1u128 << (8 * bytes)) - 1;
        masks[bytes] = [mask as u64, (mask >> 64) as u64];
        bytes += 1;
    }
    masks
};

/// The secret key of all name hashes.
#[derive(Clone)]
pub struct HashKey([u64; HASH_KEY_WORDS]);

impl HashKey {
    /// A key of these words, which must come from a good source of randomness.
    pub const fn new(words: [u64; HASH_KEY_WORDS]) -> Self {
        Self(words)
    }

    /// The hash of `len` bytes from `start`: labels in lower case without the root. They must lie
    /// within the first 255 bytes of the buffer. Other bytes do not change the hash.
    #[inline]
    pub fn hash(&self, buffer: &[u8; PADDED_LEN], start: usize, len: usize) -> u64 {
        // A name ends at least 17 bytes before the buffer does, so its last block is whole.
        let (blocks, _) = buffer.get(start..).unwrap_or_default().as_chunks::<16>();
        let keys = self.0[..FOLD].as_chunks::<2>().0;
        let (whole, rest) = (len / 16 % 16, len % 16);
        let mut sum = 0;
        for (block, key) in blocks.iter().zip(keys).take(whole) {
            sum = add(sum, *block, &[u64::MAX; 2], key);
        }
        if rest > 0
            && let (Some(block), Some(key)) = (blocks.get(whole), keys.get(whole))
        {
            sum = add(sum, *block, &MASKS[rest], key);
        }
        self.fold(sum)
    }

    /// The hash of labels in a slice of their own.
    pub fn hash_of(&self, labels: &[u8]) -> u64 {
        let (blocks, rest) = labels.as_chunks::<16>();
        let mut keys = self.0[..FOLD].as_chunks::<2>().0.iter();
        let mut sum = 0;
        for (block, key) in blocks.iter().zip(&mut keys) {
            sum = add(sum, *block, &[u64::MAX; 2], key);
        }
        if let (false, Some(key)) = (rest.is_empty(), keys.next()) {
            let mut block = [0; 16];
            block[..rest.len()].copy_from_slice(rest);
            sum = add(sum, block, &[u64::MAX; 2], key);
        }
        self.fold(sum)
    }

    #[inline(always)]
    fn fold(&self, sum: u128) -> u64 {
        let (low, high) = (sum as u64 ^ self.0[FOLD], (sum >> 64) as u64 ^ self.0[FOLD + 1]);
        let folded = u128::from(low) * u128::from(high);
        folded as u64 ^ (folded >> 64) as u64
    }
}

/// Adds one block to the sum.
#[inline(always)]
fn add(sum: u128, block: [u8; 16], mask: &[u64; 2], key: &[u64; 2]) -> u128 {
    let block = u128::from_le_bytes(block);
    let low = (block as u64 & mask[0]).wrapping_add(key[0]);
    let high = ((block >> 64) as u64 & mask[1]).wrapping_add(key[1]);
    sum.wrapping_add(u128::from(low) * u128::from(high))
}

impl core::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HashKey(secret)")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::HashSet;
    use std::format;

    fn key(seed: u64) -> HashKey {
        let mut state = seed;
        HashKey::new(core::array::from_fn(|_| {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    #[test]
    fn what_stands_around_a_name_does_not_count() {
        let key = key(1);
        for len in 0..=254 {
            let (mut quiet, mut noisy) = ([0; PADDED_LEN], [0xaa; PADDED_LEN]);
            for at in 0..len {
                quiet[at] = at as u8;
                noisy[at] = at as u8;
            }
            assert_eq!(key.hash(&quiet, 0, len), key.hash(&noisy, 0, len), "{len}");
            assert_eq!(key.hash(&quiet, 0, len), key.hash_of(&quiet[..len]), "{len}");
            if len > 3 {
                assert_eq!(key.hash(&quiet, 3, len - 3), key.hash_of(&quiet[3..len]), "{len}");
            }
        }
    }

    #[test]
    fn similar_names_spread_over_buckets() {
        let key = key(2);
        let mut full = HashSet::new();
        let mut buckets = [0u32; 256];
        for n in 0..100_000 {
            let text = format!("svc-{n:05}");
            let mut label = std::vec![text.len() as u8];
            label.extend(text.bytes());
            let hash = key.hash_of(&label);
            assert!(full.insert(hash), "{text}");
            buckets[(hash & 255) as usize] += 1;
        }
        // Chi-square over 256 buckets: mean 255, standard deviation 22.6.
        let expected = 100_000.0 / 256.0;
        let chi: f64 = buckets.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
        assert!(chi < 255.0 + 6.0 * 22.6, "{chi}");
    }

    #[test]
    fn another_key_hashes_otherwise() {
        assert_ne!(key(1).hash_of(b"\x03www"), key(2).hash_of(b"\x03www"));
    }
}

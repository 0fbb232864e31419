//! The Internet checksum (RFC 1071), in the byte order of the machine. Swapping the bytes of all
//! words swaps those of the sum (§2 B), so only the end result is converted.

/// The sum of 16-bit words, not folded yet. An odd last byte is padded with zero.
///
/// The sum is exact for less than 2^34 bytes; a datagram has at most 2^16.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let mut sum = 0;
    for word in &mut words {
        let mut four = [0; 4];
        four.copy_from_slice(word);
        sum += u64::from(u32::from_ne_bytes(four));
    }
    let mut rest = [0; 4];
    let left = words.remainder();
    rest[..left.len()].copy_from_slice(left);
    sum + u64::from(u32::from_ne_bytes(rest))
}

/// Folds a sum into one word.
#[inline]
pub fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The summand of a word in network byte order.
#[inline]
pub fn word(word: u16) -> u64 {
    u64::from(word.to_be())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sum as in RFC 1071 §4.1, word by word.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum: u64 = 0;
        for pair in bytes.chunks(2) {
            let low = pair.get(1).copied().unwrap_or_default();
            sum += u64::from(u16::from_be_bytes([pair[0], low]));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn the_example_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)).to_ne_bytes(), [0xdd, 0xf2]);
    }

    proptest! {
        #[test]
        fn checksum_is_the_sum_of_words(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(u16::from_be_bytes(fold(sum(&bytes)).to_ne_bytes()), plain(&bytes));
        }
    }

    #[test]
    fn nothing_is_lost_of_the_largest_sum() {
        assert_eq!(fold(sum(&[0xff; 65_536])), 0xffff);
        assert_eq!(fold(u64::MAX), 0xffff);
    }
}

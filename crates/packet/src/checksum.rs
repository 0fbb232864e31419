//! The Internet checksum (RFC 1071), in the order of octets of the machine: sums of words swap
//! their octets when the words do (§2 B), so nothing is turned round but once at the end.

/// The sum of 16-bit words, not yet folded. An odd last octet counts as if a zero followed.
///
/// Only a sum of less than 2^34 octets is exact; a datagram has 2^16 at most.
#[inline]
pub fn sum(octets: &[u8]) -> u64 {
    let mut words = octets.chunks_exact(4);
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

/// The sum in one word, carries added in.
#[inline]
pub fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// What a word in the order of the network adds.
#[inline]
pub fn word(word: u16) -> u64 {
    u64::from(word.to_be())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As RFC 1071 §4.1 has it: word by word.
    fn plain(octets: &[u8]) -> u16 {
        let mut sum: u64 = 0;
        for pair in octets.chunks(2) {
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
        let octets = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&octets)).to_ne_bytes(), [0xdd, 0xf2]);
    }

    proptest! {
        #[test]
        fn it_is_the_sum_of_words(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(u16::from_be_bytes(fold(sum(&octets)).to_ne_bytes()), plain(&octets));
        }
    }

    #[test]
    fn nothing_is_lost_of_the_largest_sum() {
        assert_eq!(fold(sum(&[0xff; 65_536])), 0xffff);
        assert_eq!(fold(u64::MAX), 0xffff);
    }
}

//! Random case of the letters in a question name. The reply repeats it, and an attacker who has not
//! seen the query must guess it (draft-vixie-dnsext-dns0x20).

/// A bit for each letter in upper case. The pattern repeats after 64 letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CaseMask(u64);

impl CaseMask {
    /// All letters in lower case.
    pub(crate) const LOWER: Self = Self(0);

    pub(crate) const fn new(random: u64) -> Self {
        Self(random)
    }

    /// The bytes of a name as sent; the input is in lower case. Lengths of labels are below 64, so
    /// they are not letters.
    pub(crate) fn of(self, lower: &[u8]) -> impl Iterator<Item = u8> {
        let mut bits = self.0;
        lower.iter().map(move |byte| {
            let is_upper = byte.is_ascii_lowercase() && {
                let bit = bits & 1 != 0;
                bits = bits.rotate_right(1);
                bit
            };
            if is_upper { byte.to_ascii_uppercase() } else { *byte }
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn letters_change_and_nothing_else() {
        let name = b"\x03www\x07ex-4mpl\x03com\x00";
        let sent: Vec<u8> = CaseMask::new(0b1011_0101).of(name).collect();
        assert_eq!(sent, b"\x03WwW\x07eX-4MpL\x03com\x00");
        assert!(CaseMask::LOWER.of(name).eq(*name));
        let all: Vec<u8> = CaseMask::new(u64::MAX).of(&[b'x'; 255]).collect();
        assert_eq!(all, [b'X'; 255]);
    }
}

//! The case of a question's letters, at random: it comes back as it went, and has to be guessed by
//! who has not seen it (draft-vixie-dnsext-dns0x20).

/// Which letters are in upper case. Beyond 64 letters the pattern begins anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Casing(u64);

impl Casing {
    /// All in lower case.
    pub(crate) const LOWER: Self = Self(0);

    pub(crate) const fn new(random: u64) -> Self {
        Self(random)
    }

    /// The octets of a name in lower case, as they are sent. Lengths of labels are no letters: they
    /// are below 64.
    pub(crate) fn of(self, lower: &[u8]) -> impl Iterator<Item = u8> {
        let mut bits = self.0;
        lower.iter().map(move |octet| {
            let is_upper = octet.is_ascii_lowercase() && {
                let bit = bits & 1 != 0;
                bits = bits.rotate_right(1);
                bit
            };
            if is_upper { octet.to_ascii_uppercase() } else { *octet }
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
        let sent: Vec<u8> = Casing::new(0b1011_0101).of(name).collect();
        assert_eq!(sent, b"\x03WwW\x07eX-4MpL\x03com\x00");
        assert!(Casing::LOWER.of(name).eq(*name));
        let all: Vec<u8> = Casing::new(u64::MAX).of(&[b'x'; 255]).collect();
        assert_eq!(all, [b'X'; 255]);
    }
}

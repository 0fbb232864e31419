//! The location of a client or an endpoint.
use core::fmt;

/// A location: a path such as `eu/fra1/a`, as a number that has 32 bits for each of its levels.
///
/// Numbers follow from the path alone, so all servers have the same without telling each other, and
/// no table of paths grows. Two names of one level have equal numbers once in 2^32 pairs; a client
/// of one of them is then taken for one of the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location(u128);

/// Why a text is no location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidLocation {
    /// It has no levels, or more than [`Location::LEVELS_MAX`].
    Levels,
    /// A level is empty, has more than [`Location::LEVEL_LEN_MAX`] bytes, or other characters than
    /// letters, digits, `-`, `_` and `.`.
    Level,
}

/// What a location is.
impl fmt::Display for InvalidLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Levels => {
                let max = Location::LEVELS_MAX;
                write!(f, "a location has 1 to {max} levels, such as \"eu/fra1/a\"")
            }
            Self::Level => {
                let max = Location::LEVEL_LEN_MAX;
                write!(
                    f,
                    "each level of a location has 1 to {max} letters, digits, `-`, `_` and `.`, \
                     such as \"eu/fra1/a\""
                )
            }
        }
    }
}

impl Location {
    /// Not known where.
    pub const UNKNOWN: Self = Self(0);
    /// The most levels.
    pub const LEVELS_MAX: usize = 4;
    /// The most bytes of a level.
    pub const LEVEL_LEN_MAX: usize = 63;
    /// The most bytes of a path.
    pub const LEN_MAX: usize = Self::LEVELS_MAX * (Self::LEVEL_LEN_MAX + 1) - 1;
    /// The packed length.
    pub const PACKED_LEN: usize = 16;

    /// The location of a path: levels, the widest first, with slashes between them. The case of
    /// letters does not matter.
    ///
    /// # Errors
    /// It is no path.
    pub fn parse(path: &str) -> Result<Self, InvalidLocation> {
        let mut number = 0;
        for (at, level) in path.split('/').enumerate() {
            if at == Self::LEVELS_MAX {
                return Err(InvalidLocation::Levels);
            }
            let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
            if !(1..=Self::LEVEL_LEN_MAX).contains(&level.len()) || !level.bytes().all(is_plain) {
                return Err(if path.is_empty() {
                    InvalidLocation::Levels
                } else {
                    InvalidLocation::Level
                });
            }
            number |= u128::from(level_number(level)) << (96 - 32 * at);
        }
        Ok(Self(number))
    }

    /// How many levels it has; 0: it is not known.
    #[inline]
    pub const fn levels(self) -> u32 {
        // No level has the number 0.
        4 - self.0.trailing_zeros() / 32
    }

    /// How many of the first levels two locations have in common.
    #[inline]
    pub const fn common_levels(self, other: Self) -> u32 {
        let differing = self.0 ^ other.0;
        // Most differ early.
        let same = match ((differing >> 96) as u32, (differing >> 64) as u32) {
            (0, 0) => differing.leading_zeros() / 32,
            (0, _) => 1,
            _ => return 0,
        };
        let own = self.levels();
        if same < own { same } else { own }
    }

    /// The packed form.
    pub const fn pack(self) -> [u8; Self::PACKED_LEN] {
        self.0.to_le_bytes()
    }

    /// Reads the packed form.
    #[inline]
    pub const fn unpack(packed: [u8; Self::PACKED_LEN]) -> Self {
        Self(u128::from_le_bytes(packed))
    }
}

/// The number of a level: FNV-1a of its lower case, mixed; never 0.
fn level_number(level: &str) -> u32 {
    let hash = level.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = hash ^ hash >> 32;
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).max(1) as u32
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    fn location(path: &str) -> Location {
        Location::parse(path).unwrap()
    }

    #[test]
    fn common_levels_are_those_of_the_longest_common_path() {
        for (a, b, common) in [
            ("eu/fra1/a", "eu/fra1/a", 3),
            ("eu/fra1/a", "eu/fra1/b", 2),
            ("eu/fra1", "eu/fra1/b", 2),
            ("eu/fra1/a/rack7", "eu/fra1/a/rack8", 3),
            ("eu", "us", 0),
            ("EU/fra1", "eu/FRA1", 2),
            ("a/eu", "eu/a", 0),
        ] {
            assert_eq!(location(a).common_levels(location(b)), common, "{a} {b}");
            assert_eq!(location(b).common_levels(location(a)), common, "{a} {b}");
        }
        let unknown = Location::UNKNOWN;
        assert_eq!((unknown.levels(), unknown.common_levels(unknown)), (0, 0));
        assert_eq!(location("a/b/c/d").levels(), 4);
        assert_eq!(Location::unpack(location("a/b").pack()), location("a/b"));
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, why) in [
            ("", InvalidLocation::Levels),
            ("a/b/c/d/e", InvalidLocation::Levels),
            ("eu//a", InvalidLocation::Level),
            ("/eu", InvalidLocation::Level),
            ("eu/", InvalidLocation::Level),
            ("eu west", InvalidLocation::Level),
            ("é", InvalidLocation::Level),
        ] {
            assert_eq!(Location::parse(text), Err(why), "{text:?}");
        }
        assert_eq!(Location::parse(&"x".repeat(64)), Err(InvalidLocation::Level));
        assert!(InvalidLocation::Levels.to_string().contains("1 to 4 levels"));
    }

    /// Servers of different versions in a fleet have to agree.
    #[test]
    fn number_of_a_path_never_changes() {
        assert_eq!(location("eu/fra1/a").0, 0xee19_312b_096e_ad1d_82b1_9d9c_0000_0000);
    }
}

//! Every limit of this room. What goes beyond one is an error with its place, never a surprise.

/// Octets read from a file at once; the window starts with this size.
pub(crate) const READ_OCTETS: usize = 64 << 10;
/// Octets of the longest entry, comments and line ends inside its parentheses included. The
/// longest record data, 65,535 octets all written as `\DDD`, takes half of it.
pub(crate) const ENTRY_OCTETS_MAX: usize = 512 << 10;
/// Octets of record data (RFC 1035 §3.2.1: RDLENGTH has 16 bits).
pub(crate) const RDATA_OCTETS_MAX: usize = u16::MAX as usize;
/// The largest TTL, in seconds (RFC 2181 §8).
pub(crate) const TTL_MAX: u32 = i32::MAX as u32;
/// Files open at once: the zone's own and those it includes, one inside another.
pub(crate) const INCLUDE_DEPTH_MAX: usize = 16;
/// Inclusions in one reading, each counted as often as it is read.
pub(crate) const INCLUDES_MAX: usize = 10_000;
/// Records of one $GENERATE.
pub(crate) const GENERATE_MAX: u64 = 1 << 20;
/// The widest number of a $GENERATE, in characters.
pub(crate) const GENERATE_WIDTH_MAX: usize = 127;
/// Errors collected before reading stops.
pub(crate) const ERRORS_MAX: usize = 100;
/// Characters of the file that an error message repeats at most.
pub(crate) const QUOTED_CHARS_MAX: usize = 60;

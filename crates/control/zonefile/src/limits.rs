//! Limits of this crate. Beyond a limit is an error with its position.

/// Bytes read from a file at once, and the first size of the window.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// Bytes of the longest entry, with comments and line ends inside its parentheses. The longest
/// record data, 65,535 bytes all written as `\DDD`, takes half of it.
pub(crate) const ENTRY_BYTES_MAX: usize = 512 << 10;
/// Bytes of record data (RFC 1035 §3.2.1: RDLENGTH has 16 bits).
pub(crate) const RDATA_BYTES_MAX: usize = u16::MAX as usize;
/// Bytes of a character-string (RFC 1035 §3.3).
pub(crate) const STRING_BYTES_MAX: usize = u8::MAX as usize;
/// The largest TTL, in seconds (RFC 2181 §8).
pub(crate) const TTL_MAX: u32 = i32::MAX as u32;
/// Files open at once: the zone's own and its nested includes.
pub(crate) const INCLUDE_DEPTH_MAX: usize = 16;
/// Includes in one zone; a file that is included twice counts twice.
pub(crate) const INCLUDES_MAX: usize = 10_000;
/// Records made by all `$GENERATE` of a zone. Limits the memory that a few bytes of text can use.
pub(crate) const GENERATE_MAX: u64 = 1 << 20;
/// Bytes of text of all generated records.
pub(crate) const GENERATE_BYTES_MAX: usize = 128 << 20;
/// The widest number of a $GENERATE, in characters.
pub(crate) const GENERATE_WIDTH_MAX: usize = 127;
/// Errors collected before reading stops.
pub(crate) const ERRORS_MAX: usize = 100;
/// Characters of the file that an error message quotes.
pub(crate) const QUOTED_CHARS_MAX: usize = 60;

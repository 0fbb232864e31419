//! Limits of this crate.

/// Bytes of a named.conf, and of each included file.
pub const FILE_LEN_MAX: usize = 16 << 20;
/// Bytes of one word.
pub const WORD_LEN_MAX: usize = 1 << 16;
/// Words, with those of all included files.
pub const WORDS_MAX: usize = 1 << 20;
/// Depth of nested braces.
pub const DEPTH_MAX: usize = 16;
/// Depth of files that include each other.
pub const INCLUDE_DEPTH_MAX: usize = 16;
/// Included files.
pub const INCLUDES_MAX: usize = 1 << 12;
/// Elements of one list, with those of the lists that it names.
pub const ELEMENTS_MAX: usize = 1 << 12;
/// Depth of lists that name each other.
pub const LIST_DEPTH_MAX: usize = 32;

//! Limits of this crate.

pub use import_report::limits::REMARKS_MAX;

/// Bytes of a Corefile, and of each imported file.
pub const FILE_LEN_MAX: usize = 16 << 20;
/// Bytes of one word.
pub const WORD_LEN_MAX: usize = 1 << 16;
/// Words; those of imported files and snippets count at each import.
pub const WORDS_MAX: usize = 1 << 20;
/// Depth of nested braces.
pub const DEPTH_MAX: usize = 16;
/// Imports of snippets and files; nested ones count at each import.
pub const IMPORTS_MAX: usize = 1 << 12;
/// Reverse zones of a network that does not end at a label.
pub const REVERSE_MAX: u32 = 128;
/// Servers of one suffix.
pub const SERVERS_MAX: usize = 16;
/// Bytes of `[server] nsid`, as the config takes them.
pub const NSID_LEN_MAX: usize = 128;

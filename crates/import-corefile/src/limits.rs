//! Every maximum of this room.

/// Octets of a Corefile, and of each file that is read for it.
pub const FILE_LEN_MAX: usize = 16 << 20;
/// Octets of one word.
pub const WORD_LEN_MAX: usize = 1 << 16;
/// Words, those of imported files and snippets each time they are imported.
pub const WORDS_MAX: usize = 1 << 20;
/// Braces within braces.
pub const DEPTH_MAX: usize = 16;
/// Imports of snippets and files, those within what is imported each time that is.
pub const IMPORTS_MAX: usize = 1 << 12;
/// Notes that are told; more are counted.
pub const NOTES_MAX: usize = 1 << 12;
/// Zones that a network which does not end at a label stands for.
pub const REVERSE_MAX: u32 = 128;
/// Servers of one suffix.
pub const SERVERS_MAX: usize = 16;

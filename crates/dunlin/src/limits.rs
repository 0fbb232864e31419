//! Limits of the command line.

/// Bytes of a config of another server's.
pub const IMPORT_LEN_MAX: usize = import_corefile::limits::FILE_LEN_MAX;

//! How much of everything.

/// The most readers one publisher has at a time: workers, streams and whoever else answers.
pub const READERS_MAX: usize = 1_024;

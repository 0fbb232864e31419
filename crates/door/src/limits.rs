//! How much of everything.

/// The most readers one publisher has at a time: workers, streams and whoever else answers.
pub const READERS_MAX: usize = 1_024;

/// The largest ring of events, in octets; a power of two.
pub const EVENTS_OCTETS_MAX: usize = 1 << 26;

//! Every maximum of this crate.

/// The most readers of one publisher: workers and stream threads.
pub const READERS_MAX: usize = 1_024;

/// The largest ring of events, in bytes; a power of two.
pub const EVENTS_BYTES_MAX: usize = 1 << 26;

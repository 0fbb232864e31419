//! Every maximum of this crate.

/// Events of Pods that the thread which writes them has not taken yet; more are dropped.
pub const EVENTS_QUEUED_MAX: usize = 256;

/// Different Events of Pods that wait to be written, or were written not long ago.
pub const EVENT_KEYS_MAX: usize = 256;

/// Events of Pods that are written at once.
pub const EVENTS_AT_ONCE_MAX: f64 = 10.0;

/// Events of Pods that are written in a minute beside those. In no minute more than both together
/// are written.
pub const EVENTS_A_MINUTE_MAX: f64 = 20.0;

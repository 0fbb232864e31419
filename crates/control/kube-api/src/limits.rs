//! Every maximum of this crate.
use std::time::Duration;

/// Different messages that are remembered, so that each is written once in a while.
pub const MESSAGES_MAX: usize = 64;
/// Time after which a message that holds on is written again.
pub const REMIND: Duration = Duration::from_secs(600);
/// Letters of the text of an Event; the API server takes 1,024 bytes.
pub const EVENT_LETTERS_MAX: usize = 1_000;
/// How long a connection may take to be made.
pub const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A peer that acknowledges nothing for so long is dead: idle time, interval of probes, probes.
pub const KEEPALIVE: (Duration, Duration, u32) =
    (Duration::from_secs(10), Duration::from_secs(5), 3);

//! Every maximum of this crate.

use std::time::Duration;

/// How long other processes may lock the dispatchers.
pub const DISPATCHER_LOCKED_MAX: Duration = Duration::from_secs(5);
/// How often the lock is tried meanwhile.
pub const DISPATCHER_LOOK: Duration = Duration::from_millis(20);
/// How often others may be faster in replacing a dispatcher.
pub const DISPATCHER_TRIES: u32 = 10;

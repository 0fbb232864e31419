//! Every maximum of this room.
use std::time::Duration;

/// Record sets with a change that is not yet applied.
pub const LETTERS_MAX: usize = 65_536;
/// How often images that were replaced are looked at again while a reader may still hold them.
pub const COLLECT_INTERVAL: Duration = Duration::from_millis(10);

//! Limits of this crate.

use std::time::Duration;

/// How long a change is planned again because other servers were first.
pub const CHANGE_MAX: Duration = Duration::from_secs(10);
/// The longest pause before that.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_millis(20);
/// Bytes of a file of lines.
pub const LINES_LEN_MAX: u64 = 64 << 20;

//! Limits of messages that the control plane decides.
use std::time::Duration;

/// How long a handler may take to decide a message: less than the data plane keeps a connection for
/// it.
pub const CONTROL_TIME_MAX: Duration = Duration::from_secs(4);
/// How long after a NOTIFY made a zone read its file the next one can.
pub const NOTIFY_PAUSE: Duration = Duration::from_secs(1);
/// How often refused signatures of one fault are logged.
pub const REFUSED_SIGNATURES_INTERVAL: Duration = Duration::from_secs(1);

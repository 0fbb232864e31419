//! Limits of this crate.
use std::time::Duration;

/// The longest wait before a member is asked again after an error; it begins with a tenth.
pub const RECONNECT_MAX: Duration = Duration::from_millis(500);
/// How long a write waits for etcd.
pub const WRITE_MAX: Duration = Duration::from_secs(5);
/// How long opening waits for the full list that fills a new replica; then it is retried.
pub const FIRST_LIST_MAX: Duration = Duration::from_secs(2);
/// How long to wait before a commit that the disk did not take is tried again.
pub const STORE_RETRY: Duration = Duration::from_secs(1);
/// The interval of renewals of a membership.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(3);
/// How long before the end of a write it is tried last.
pub const LAST_TRY: Duration = Duration::from_millis(500);

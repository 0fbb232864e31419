//! Limits of this crate.
use std::time::Duration;

/// Files are read after this long without events: an editor's write, rename and change of mode are
/// one change.
pub const QUIET: Duration = Duration::from_millis(50);
/// With continuous events, files are checked after this long.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Files are checked this often without events, which network file systems do not send.
pub const POLL: Duration = Duration::from_secs(10);
/// Without events, a file is complete after it stayed the same for this long. At a start, a file
/// modified more recently may still be written.
pub const SETTLED: Duration = Duration::from_secs(2);
/// How often to retry saving.
pub const SAVE_RETRY: Duration = Duration::from_secs(30);
/// How long a stopping server may still save zones.
pub const SAVE_AT_END: Duration = Duration::from_secs(2);
/// An older temporary file is a remainder of an ended process.
pub const TEMPORARY_AGE: Duration = Duration::from_secs(3600);
/// Warnings of one zone.
pub const FINDINGS_MAX: usize = 100;
/// Hashes that a check of a chain of NSEC3 records computes; about two seconds.
pub const HASHES_MAX: usize = 5_000_000;
pub const HOSTS_LINE_LEN_MAX: usize = 64 << 10;
/// Names of a hosts file, counted once per occurrence.
pub const HOSTS_NAMES_MAX: usize = 1 << 24;
/// Reported errors of one hosts file.
pub const HOSTS_ERRORS_MAX: usize = 100;
/// Errors of a zone file in the status; `dunlin check` reports all.
pub const ZONE_ERRORS_MAX: usize = 10;

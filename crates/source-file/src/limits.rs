//! The limits of this room, in one place.
use std::time::Duration;

/// How long files must be left alone before they are looked at: an editor's write, rename and
/// change of mode are one change.
pub const QUIET: Duration = Duration::from_millis(50);
/// However busy the folders are, files are looked at after this long.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Files are looked at this often even when nothing was told: network file systems tell nothing.
pub const POLL: Duration = Duration::from_secs(10);
/// What could not be saved is tried again this often.
pub const SAVE_RETRY: Duration = Duration::from_secs(30);
/// How long a server that ends may still save zones.
pub const SAVE_AT_END: Duration = Duration::from_secs(2);
/// A temporary file that is older was left by a process that is no more.
pub const TEMPORARY_AGE: Duration = Duration::from_secs(3600);
/// Doubtful things told of one zone.
pub const FINDINGS_MAX: usize = 100;
/// Octets of a line of a hosts file.
pub const HOSTS_LINE_LEN_MAX: usize = 64 << 10;
/// Names of a hosts file, each counted as often as it stands there.
pub const HOSTS_NAMES_MAX: usize = 1 << 24;
/// Errors told of one hosts file.
pub const HOSTS_ERRORS_MAX: usize = 100;

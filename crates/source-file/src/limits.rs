//! The limits of this room, in one place.
use std::time::Duration;

/// How long files must be left alone before they are looked at: an editor's write, rename and
/// change of mode are one change.
pub const QUIET: Duration = Duration::from_millis(50);
/// However busy the folders are, files are looked at after this long.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Files are looked at this often even when nothing was told: network file systems tell nothing.
pub const POLL: Duration = Duration::from_secs(10);

//! Limits of this crate.
use std::time::Duration;

/// Records of one zone, unless its section says otherwise.
pub const RECORDS_DEFAULT: usize = 10_000_000;
/// Bytes of the messages of one transfer.
pub const TRANSFER_BYTES_MAX: u64 = 4 << 30;
/// Transfers at the same time, over all zones. Further ones wait.
pub const TRANSFERS_MAX: usize = 16;
/// Refreshes at the same time, over all zones. Further ones wait.
pub const REFRESHES_MAX: usize = 256;
/// How long a primary has to take a connection.
pub const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long certificates are used without reading their files again.
pub const TLS_FILES_INTERVAL: Duration = Duration::from_secs(60);
/// How long a datagram is waited for.
pub const DATAGRAM_MAX: Duration = Duration::from_secs(2);
/// Datagrams that are sent before a stream is tried.
pub const DATAGRAMS: usize = 2;
/// How long the next message of a transfer is waited for.
pub const STALL_MAX: Duration = Duration::from_secs(30);
/// How long a whole transfer may take.
pub const TRANSFER_MAX: Duration = Duration::from_secs(2 * 60 * 60);
/// The bounds of the refresh and the retry interval of an SOA.
pub const INTERVAL_MIN: Duration = Duration::from_secs(2);
/// See [`INTERVAL_MIN`].
pub const INTERVAL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest pause after failures that follow each other.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60 * 60);
/// The first pause for a zone that was never transferred.
pub const RETRY_FIRST: Duration = Duration::from_secs(2);
/// A NOTIFY shortens the pause after a failure to this.
pub const NOTIFY_AFTER_FAILURE: Duration = Duration::from_secs(10);
/// How often to see whether a zone that another source serves is free again.
pub const OWNER_INTERVAL: Duration = Duration::from_secs(5);
/// How long an end waits for a zone that is being written.
pub const STOP_MAX: Duration = Duration::from_secs(10);
/// Bytes of a key file.
pub const KEY_FILE_LEN_MAX: u64 = 16 << 10;

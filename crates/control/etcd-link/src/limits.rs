//! Limits of this crate.
use std::time::Duration;

/// Operations of a transaction on sets and zones. etcd accepts 128 by default; the others are those
/// of the commit itself.
pub const OPS_MAX: usize = 120;
/// Bytes of the keys and values of a transaction. etcd accepts 1.5 MiB by default.
pub const TRANSACTION_BYTES_MAX: usize = 1 << 20;
/// How long to wait for the answer to one request before another member is asked.
pub const REQUEST_MAX: Duration = Duration::from_secs(2);
/// How long a request is tried again that no member has done: an election takes about a second.
pub const UNSENT_MAX: Duration = Duration::from_secs(2);
/// The pause before that.
pub const UNSENT_PAUSE: Duration = Duration::from_millis(50);
/// How long to wait for a connection, and for the login on it.
pub const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long to wait for the connection alone. A lost first packet is sent again after a second.
pub const HANDSHAKE_MAX: Duration = Duration::from_millis(1_200);
/// The interval of keepalives and progress requests, and how long their answers may take.
pub const KEEPALIVE: Duration = Duration::from_secs(5);
/// Keys of a page of a full list. A message of 4 MiB, the most that is read, has room for them,
/// unless their sets are unusually large: then the page is halved.
pub const PAGE_KEYS: i64 = 10_000;
/// Causes of one outage that are compared before they are logged.
pub const CAUSES_MAX: usize = 16;

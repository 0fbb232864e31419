//! Limits of this crate.
use std::time::Duration;

/// Open connections of allowed clients. Each has at most one request and response.
pub const CONNECTIONS_MAX: usize = 32;
/// Of these, connections from one IPv4 address or one IPv6 /64.
pub const CONNECTIONS_PER_CLIENT_MAX: usize = 8;
/// Open connections of denied clients, to send them an error. They do not count for others.
pub const DENIED_MAX: usize = 4;

/// Bytes of a request's line and header fields.
pub const HEADER_LEN_MAX: usize = 8 << 10;
/// Header fields of a request.
pub const HEADERS_MAX: usize = 32;
/// How long a request may take to arrive.
pub const HEADER_TIME_MAX: Duration = Duration::from_secs(3);
/// How long a connection lives: request, collection, and response. It serves one request.
pub const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection of a denied client lives.
pub const DENIED_TIME_MAX: Duration = Duration::from_secs(1);
/// How long a collection may take, with the wait for earlier ones. Only one runs at a time.
pub const GATHER_TIME_MAX: Duration = Duration::from_secs(5);
/// How long requests in progress may take after a stop.
pub const LAST_CALL: Duration = Duration::from_secs(1);

/// Zones with their own series in `/metrics`: the first of the config.
/// `dunlin_zones_without_series` counts the others, so that many zones do not make many series.
pub const ZONE_SERIES_MAX: usize = 1_000;

/// Bytes of all responses in progress. The largest, with all workers and zones, has some 11 MiB; a
/// usual one some 50 KiB.
pub const RESPONSES_LEN_MAX: usize = 36 << 20;
/// Characters of the faults that `/readyz` names.
pub const FAULTS_LEN_MAX: usize = 1_000;

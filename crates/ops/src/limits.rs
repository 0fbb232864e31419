//! Every maximum of this room.
use std::time::Duration;

/// Connections of those who may ask, open at a time. One holds one request at most, and the
/// response to it.
pub const CONNECTIONS_MAX: usize = 32;
/// Of them, connections from one IPv4 address or one IPv6 /64: nobody takes all.
pub const CONNECTIONS_PER_CLIENT_MAX: usize = 8;
/// Connections of those who may not ask, open at a time, to tell them so. They take no place from
/// others.
pub const DENIED_MAX: usize = 4;
/// Connections that wait to be accepted are bounded by the listener's backlog. How long accepting
/// rests after an error, such as no descriptor being left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Octets of a request's line and header fields.
pub const HEADER_LEN_MAX: usize = 8 << 10;
/// Header fields of a request.
pub const HEADERS_MAX: usize = 32;
/// How long a request may take to arrive.
pub const HEADER_TIME_MAX: Duration = Duration::from_secs(3);
/// How long a connection lives: request, gathering, and response read. One serves one request.
pub const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection lives of someone who may not ask.
pub const DENIED_TIME_MAX: Duration = Duration::from_secs(1);
/// How long gathering what is asked for may take, waiting for those before included. Only one is
/// under way at a time.
pub const GATHER_TIME_MAX: Duration = Duration::from_secs(5);
/// How long requests under way have to end after the order to stop.
pub const LAST_CALL: Duration = Duration::from_secs(1);

/// Zones with series of their own in `/metrics`: the first of the config. The rest is counted in
/// `dunlin_zones_without_series`, so that many zones do not make many series by surprise.
pub const ZONE_SERIES_MAX: usize = 1_000;
/// Zones a reason names; the rest is counted.
pub const NAMED_MAX: usize = 3;

/// Octets of all responses under way. The largest, of a server with all workers and zones it may
/// have, takes some 9 MiB; a usual one some 50 KiB.
pub const RESPONSES_LEN_MAX: usize = 32 << 20;

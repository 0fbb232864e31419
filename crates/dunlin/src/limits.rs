//! The limits of this room, in one place.

/// Octets of a config file.
pub const CONFIG_LEN_MAX: u64 = 1 << 20;
/// Addresses to listen on; each takes a socket a worker.
pub const LISTEN_MAX: usize = plane::limits::PORTS_MAX;
/// Worker threads: each has a reader of the image, of which streams need some too.
pub const WORKERS_MAX: usize = 256;
/// Zones of one config.
pub const ZONES_MAX: usize = 1 << 16;
/// Cookie secrets: the one that signs, and those on their way in and out.
pub const SECRETS_MAX: usize = 4;
/// Octets of a text in an answer: one character string (RFC 1035 §3.3).
pub const TEXT_LEN_MAX: usize = 255;
/// Octets of an answer over UDP that may be configured: from RFC 1035 §4.2.1 to the size of a page.
pub const UDP_SIZE: std::ops::RangeInclusive<u16> = 512..=4096;
/// Errors told of one config file; the rest is counted.
pub const DIAGNOSTICS_MAX: usize = 100;

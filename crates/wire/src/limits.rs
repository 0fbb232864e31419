//! Every maximum of this room.

/// Octets of the longest message (a stream's length prefix has 16 bits, RFC 1035 §4.2.2).
pub const MESSAGE_LEN_MAX: usize = 65_535;
/// Octets a UDP client without EDNS can receive (RFC 1035 §4.2.1).
pub const UDP_LEN_MIN: usize = 512;
/// Records besides the question that a query may carry; more of them is a format error. OPT and a
/// signature are all that is ever needed.
pub const QUERY_RECORDS_MAX: usize = 8;
/// Names a message remembers to point back to. Once full, later names are still compressed against
/// these, but no longer remembered.
pub const SUFFIXES_MAX: usize = 48;
/// Octets of the longest cookie: 8 of the client's and 32 of the server's (RFC 7873 §4).
pub const COOKIE_LEN_MAX: usize = 40;
/// Octets of a lower-case name's buffer: the longest name, and behind it room enough for reading
/// blocks of 16 octets without a check for the end.
pub const PADDED_LEN: usize = 272;

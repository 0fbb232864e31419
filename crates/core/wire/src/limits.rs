//! Every maximum of this crate.

/// Bytes of the longest message (a stream's length prefix has 16 bits, RFC 1035 §4.2.2).
pub const MESSAGE_LEN_MAX: usize = 65_535;
/// Bytes that a UDP client without EDNS can receive (RFC 1035 §4.2.1).
pub const UDP_LEN_MIN: usize = 512;
/// Records of a query besides the question. More are a format error; OPT and a signature are all
/// that is needed.
pub const QUERY_RECORDS_MAX: usize = 8;
/// Names that a message remembers for compression. Further names are compressed against these, but
/// not remembered.
pub const SUFFIXES_MAX: usize = 48;
/// Bytes of the longest cookie: 8 of the client's and 32 of the server's (RFC 7873 §4).
pub const COOKIE_LEN_MAX: usize = 40;
/// Bytes of a lower-case name's buffer: the longest name, and room to read blocks of 16 bytes
/// without a check for the end.
pub const PADDED_LEN: usize = 272;

//! Every maximum of this room.

/// Aliases followed for one question. A longer chain is answered as far as it was followed.
pub const ALIASES_MAX: usize = 16;
/// Records in the proofs of one answer: a wildcard's takes two of each alias, the last name's
/// three.
pub const PROOFS_MAX: usize = 2 * ALIASES_MAX + 3;
/// Names whose addresses are added for one record set that is no delegation.
pub const TARGETS_MAX: usize = 32;
/// Octets of the longest SOA record, compressed, that is kept at hand for negative answers; one
/// that is longer is composed for each.
pub const SOA_LEN_MAX: usize = 128;
/// UDP payload we send at most, and say we can receive, unless configured otherwise, in octets
/// (RFC 9715 §3.2: no fragments).
pub const UDP_SIZE_DEFAULT: u16 = 1232;
/// Seconds of a server cookie's life (RFC 9018 §4.3).
pub const COOKIE_AGE_MAX: u32 = 3600;
/// Seconds after which a valid cookie is replaced by a new one (RFC 9018 §4.3).
pub const COOKIE_AGE_RENEW: u32 = 1800;
/// Seconds a cookie may come from the future, for clocks that differ (RFC 9018 §4.3).
pub const COOKIE_SKEW_MAX: u32 = 300;
/// Octets of a name server identifier (RFC 5001 sets no bound; this leaves room for records).
pub const NSID_LEN_MAX: usize = 128;
/// Cookies that a worker remembers to be its own: 128 KiB of them.
pub const COOKIES_KNOWN: usize = 2048;
/// Octets of a record of another server's in which names are written out; longer ones have none.
pub const RELAYED_DATA_MAX: usize = 2_048;
/// Seconds that who gets a stale answer may keep it (RFC 8767 §4).
pub const STALE_TTL: u32 = 30;
/// The last part of its life in which an answer is renewed: one in so many.
pub const RENEWED_SHARE: u32 = 10;
/// How often an answer must have been found lately to be renewed.
pub const RENEWED_USES: u8 = 2;
/// Octets behind a question that are kept while its answer is begun.
pub const TAIL_MAX: usize = 512;

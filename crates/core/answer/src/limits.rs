//! Every maximum of this crate.

/// CNAMEs followed for one query. A longer chain is answered as far as it was followed.
pub const ALIASES_MAX: usize = 16;
/// Records in the proofs of one answer: two for each alias, three for the last name.
pub const PROOFS_MAX: usize = 2 * ALIASES_MAX + 3;
/// Names whose addresses are added for one record set, except delegations.
pub const TARGETS_MAX: usize = 32;
/// Bytes of the longest compressed SOA record that the fast path prepares. A longer one is composed
/// for each reply.
pub const SOA_LEN_MAX: usize = 128;
/// Default of the largest UDP payload to send and receive, in bytes (RFC 9715 §3.2: no fragments).
pub const UDP_SIZE_DEFAULT: u16 = 1232;
/// Lifetime of a server cookie, in seconds (RFC 9018 §4.3).
pub const COOKIE_AGE_MAX: u32 = 3600;
/// Age at which a valid cookie is replaced, in seconds (RFC 9018 §4.3).
pub const COOKIE_AGE_RENEW: u32 = 1800;
/// Seconds that a cookie may come from the future, for clocks that differ (RFC 9018 §4.3).
pub const COOKIE_SKEW_MAX: u32 = 300;
/// Bytes of a name server identifier (RFC 5001 sets no bound; this leaves room for records).
pub const NSID_LEN_MAX: usize = 128;
/// Verified cookies that a worker remembers: 128 KiB.
pub const COOKIES_KNOWN: usize = 2048;
/// Bytes of an upstream's record in which names are expanded. Longer records have none.
pub const RELAYED_DATA_MAX: usize = 2_048;
/// Types of an upstream's ANY answer that are compared for the smallest record set.
pub const ANY_TYPES_MAX: usize = 16;
/// TTL of a stale answer, in seconds (RFC 8767 §4).
pub const STALE_TTL: u32 = 30;
/// An answer is renewed in the last part of its lifetime: one in this many.
pub const RENEWED_SHARE: u32 = 10;
/// How often an answer must have been found recently to be renewed.
pub const RENEWED_USES: u8 = 2;
/// Bytes behind a question that are saved while its answer is composed.
pub const TAIL_MAX: usize = 512;

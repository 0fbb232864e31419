//! Limits and target sizes of this crate.

/// Average names of a leaf. With more, a lookup and a change touch more bytes; with fewer, pointers
/// cost more per name.
pub const LEAF_NAMES: usize = 32;
/// References on one page of the canonical order.
pub const PAGE_REFS_MAX: usize = 128;
/// Children of one inner page of the canonical order.
pub const PAGE_CHILDREN_MAX: usize = 16;
/// Names of one zone that may share 62 bits of their keyed hash. Among ten million names, two do so
/// in one of 100,000 cases; five never do.
pub const ORDINALS_MAX: u8 = 4;
/// Extra NSEC3 iterations of a zone; each costs a hash per denial. RFC 9276 §3.1 asks for 0, and
/// §3.2 lets validators ignore more than a few; peers still load this many.
pub const NSEC3_ITERATIONS_MAX: u16 = 100;
/// Aliases that are followed from one to the next.
pub const ALIASES_MAX: usize = 32;
/// Problems reported for one zone.
pub const PROBLEMS_MAX: usize = 50;
/// Bytes of a record set in a message. Leaves room for header, question and OPT in the largest
/// message.
pub const SET_WIRE_LEN_MAX: usize = 65_000;

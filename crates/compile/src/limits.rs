//! Every maximum of this room, and the sizes it aims at.

/// Names a leaf holds on average. More make a lookup and a change touch more octets; fewer make
/// pointers weigh more per name.
pub const LEAF_NAMES: usize = 32;
/// References on one page of the canonical order.
pub const PAGE_REFS_MAX: usize = 128;
/// Children of one inner page of the canonical order.
pub const PAGE_CHILDREN_MAX: usize = 16;
/// Names of one zone that may share 62 bits of their keyed hash. Two among ten million names are
/// one case in a hundred thousand; five never happen.
pub const ORDINALS_MAX: u8 = 4;
/// Extra NSEC3 iterations of a zone that is served: each costs a hash per denial. RFC 9276 §3.1
/// asks for 0, and §3.2 lets validators ignore more than a few; this is what peers still load.
pub const NSEC3_ITERATIONS_MAX: u16 = 100;
/// Problems told of one zone before it is given up.
pub const PROBLEMS_MAX: usize = 50;
/// Octets of a record set as it stands in a message: it must leave room for header, question and
/// OPT in the largest message there is.
pub const SET_WIRE_LEN_MAX: usize = 65_000;

//! Every maximum of this crate.

/// Links of deferred replies, a power of two: usually one for each next hop. Two links with the
/// same index replace each other, and a late reply by a replaced one is counted as unsent.
pub const LINKS: usize = 1_024;

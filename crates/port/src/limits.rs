//! How much of everything.

/// Links that replies which are put off may go back by, a power of two: one for each next hop, as
/// a rule. Two that fall on one place take turns, and a late reply by one that is gone is counted
/// as unsent.
pub const LINKS: usize = 1_024;

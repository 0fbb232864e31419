//! Every maximum of this crate.
use std::time::Duration;

/// Network namespaces that are looked into; more are not watched.
pub const NAMESPACES_MAX: usize = 4_096;
/// Bytes of a file of `/proc` that are read.
pub const FILE_LEN_MAX: u64 = 64 << 10;
/// Characters of a container's name that are kept.
pub const NAME_LEN_MAX: usize = 128;
/// Pairs that have metrics of their own: those with the most bytes.
pub const METRIC_PAIRS_MAX: usize = 1_000;
/// Pairs that a table on a terminal has.
pub const TABLE_PAIRS_MAX: usize = 20;
/// The longest time between two looks at who is there, while containers are followed.
pub const FOLLOW_INTERVAL_MAX: Duration = Duration::from_millis(500);
/// Pods of this node, or network policies; with more, no Pod is switched.
pub const OBJECTS_MAX: usize = 100_000;
/// Objects of a page of a list.
pub const OBJECTS_PAGE: usize = 500;

//! Every maximum of this crate.
use std::time::Duration;

/// Nodes of a cluster; more are not read.
pub const NODES_MAX: usize = 50_000;
/// Nodes in one page of a list.
pub const NODES_PAGE: usize = 250;
/// Replicas whose metrics are read.
pub const REPLICAS_READ_MAX: usize = 500;
/// Replicas whose metrics are read at once.
pub const REPLICAS_AT_ONCE: usize = 32;
/// How long the metrics of one replica may take.
pub const METRICS_TIME_MAX: Duration = Duration::from_secs(2);

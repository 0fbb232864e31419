//! Limits of the server process.
use std::time::Duration;

/// Maximum wait for the other threads after one has failed.
pub const STOP_AFTER_FAILURE_MAX: Duration = Duration::from_secs(10);
/// Interval of the health check.
pub const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// Threads that wait for the store on behalf of the REST API. Exports to slow clients use at most
/// half of them.
pub const API_BLOCKING_MAX: usize = 2 * api::limits::EXPORTS_MAX;
/// How long a start waits for the names of a Kubernetes cluster, as CoreDNS does.
pub const KUBERNETES_START_MAX: Duration = Duration::from_secs(5);
/// How often it is checked meanwhile.
pub const CLUSTER_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Removed zones that the reason names why a reload is held.
pub const REMOVED_SHOWN_MAX: usize = 5;

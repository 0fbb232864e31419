//! Status of the prober.
use serde::{Deserialize, Serialize};

/// The health of the addresses in record sets with a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthStatus {
    /// Targets, pairs of a check and an address, that are up.
    pub up: u64,
    /// Targets that are down.
    pub down: u64,
    /// Targets of which nothing is known yet.
    pub unknown: u64,
    /// Servers that probe: of the fleet, or this one.
    pub probers: u64,
    /// Targets that may not be probed, or not this often.
    pub not_probed: u64,
    /// Those of them that wait for a share of the probes a second, or for room in the list of
    /// targets: their zone has as much as any other.
    pub waiting: u64,
    /// Targets whose certificate ends soon.
    pub expiring: u64,
    /// Record sets that answer members that are down, because they have too few others.
    pub open_sets: u64,
    /// Whether all targets that are up fail now: the prober suspects its own network.
    pub suspects_itself: bool,
    /// Whether the states are on disk.
    pub is_saved: bool,
    /// Probes that passed.
    pub passed: u64,
    /// Probes that failed.
    pub failed: u64,
    /// Probes that were not made, because too many were in progress or this host lacks something.
    pub skipped: u64,
    /// Changes of targets to up.
    pub went_up: u64,
    /// Changes of targets to down.
    pub went_down: u64,
    /// Changes that the webhook has taken.
    pub webhook_sent: u64,
    /// Changes that it has not taken: its queue was full, or all tries failed.
    pub webhook_dropped: u64,
}

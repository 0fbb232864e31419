//! Reports of the prober about itself and its targets.
use crate::operator::Override;
use serde::{Deserialize, Serialize};
use server_status::HealthStatus;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A target, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetReport {
    /// Its check.
    pub check: String,
    /// Its address.
    pub address: IpAddr,
    /// The result of its probes: `up`, `down` or `unknown`.
    pub state: String,
    /// Since when, in seconds since 1970; 0: from the start.
    pub since_seconds: u64,
    /// Why the last probe failed; absent: it passed, or there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seconds until the next probe; absent: it is not probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_probe_seconds: Option<u64>,
    /// In a fleet: what each server that probes it says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vantages: Vec<VantageReport>,
    /// How many record sets name it.
    pub sets: usize,
    /// The state that an operator has set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<Override>,
    /// When the certificate of the server ends, in seconds since 1970; absent: no probe has seen
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_end_seconds: Option<u64>,
    /// A fault that is expected soon; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The finding of a server of the fleet about a target that it probes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VantageReport {
    /// The server.
    pub server: String,
    /// `up`, `down`, or `unknown`: it does not know yet.
    pub state: String,
    /// Since when, in seconds since 1970; absent: it does not know yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_seconds: Option<u64>,
    /// Why its probe failed; absent: it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The prober and its targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthReport {
    /// By check, then by address.
    pub targets: Vec<TargetReport>,
    /// Whether there are more than these.
    pub has_more: bool,
    /// The cursor of the next page; absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Targets that are not in any list, because there are too many.
    #[serde(default)]
    pub not_taken: usize,
    /// Sets that answer members that are down, because they have too few others.
    pub open_sets: usize,
    /// Whether all targets that are up fail now, or in a fleet most of them: the prober suspects
    /// its own network.
    pub suspects_itself: bool,
    /// Why states are not saved; absent: they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_saved: Option<String>,
}

macro_rules! counters {
    ($($name:ident)*) => {
        /// Counts of the prober; shared with its thread. Their meaning is that of the status.
        #[derive(Debug, Default)]
        pub struct HealthCounters {
            $(pub $name: AtomicU64,)*
            pub suspects_itself: AtomicBool,
            pub is_saved: AtomicBool,
        }

        impl HealthCounters {
            /// The status, with the number of sets that answer members that are down, and that of
            /// the servers that probe.
            pub fn status(&self, open_sets: usize, probers: usize) -> HealthStatus {
                HealthStatus {
                    probers: probers as u64,
                    $($name: self.$name.load(Relaxed),)*
                    open_sets: open_sets as u64,
                    suspects_itself: self.suspects_itself.load(Relaxed),
                    is_saved: self.is_saved.load(Relaxed),
                }
            }
        }
    };
}

counters!(
    passed failed skipped went_up went_down up down unknown not_probed waiting expiring
    webhook_sent webhook_dropped
);

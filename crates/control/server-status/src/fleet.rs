//! Status of a fleet: servers that share a store.
use serde::{Deserialize, Serialize};

/// This server's part in its fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetStatus {
    /// Its name, which no other member has.
    pub name: String,
    /// Why the others do not see it as a member, and what to do; `None`: they do.
    pub fault: Option<String>,
    /// Why what others wrote is not saved on this server's disk; `None`: it is. What is newer is
    /// served from memory.
    pub unsaved: Option<String>,
    /// Which servers have other content at the same revision, and what to do; `None`: no server.
    pub difference: Option<String>,
    /// Which keys of zones and record sets cannot be read, and what to do; `None`: all can.
    pub unreadable: Option<String>,
}

/// A server of a fleet, as it reports itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where it answers DNS queries.
    pub addresses: Vec<String>,
    /// The version of its binary.
    pub version: String,
    /// Its parts: `dns`, `api`, `kubernetes`, `health`.
    pub roles: Vec<String>,
    /// Where it is, as its config says.
    pub location: String,
    /// The newest revision that it serves.
    pub revision: u64,
    /// The digest of all zones at this revision, in hexadecimal; empty: it does not know.
    pub digest: String,
    /// When it became a member, by its clock: milliseconds since 1970.
    pub since: u64,
    /// When it wrote this, by its clock: milliseconds since 1970.
    pub reported: u64,
    /// The newest form of a store that it knows; 0: it does not say.
    #[serde(default)]
    pub form: u32,
}

/// How old a report of a living member can be, with time to spare: milliseconds.
const REPORT_AGE_MAX: u64 = 60_000;

/// How far a report can be ahead, because clocks are never the same: milliseconds.
const AHEAD_MAX: u64 = 5_000;

impl Member {
    /// By how many seconds its clock seems to be ahead of this time in milliseconds, or, if
    /// negative, behind it. `None`: no difference shows.
    pub fn clock_difference(&self, now: u64) -> Option<i64> {
        let ahead = self.reported as i64 - now as i64;
        let is_plausible = -(REPORT_AGE_MAX as i64) <= ahead && ahead <= AHEAD_MAX as i64;
        (!is_plausible).then_some(ahead / 1_000)
    }
}

/// What a shared store has of a Kubernetes cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredCluster {
    /// Its name.
    pub name: String,
    /// The server that writes its objects; `None`: none does.
    pub leader: Option<String>,
    /// What tells it from another cluster of this name.
    pub origin: Option<String>,
    /// Services, and services imported from other clusters.
    pub services: u64,
    /// EndpointSlices.
    pub slices: u64,
    /// Objects of all kinds.
    pub objects: u64,
    /// When it was retired, in seconds since 1970; `None`: it was not.
    pub retired_seconds: Option<u64>,
}

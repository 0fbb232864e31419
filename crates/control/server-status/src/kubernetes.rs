//! Status of the Kubernetes source.
use serde::{Deserialize, Serialize};

/// The names of a cluster, from its API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KubernetesStatus {
    /// Whether the names are served: all objects were listed, or were saved before.
    pub is_synced: bool,
    /// Whether the saved state is served, because not all objects are listed yet.
    pub is_saved: bool,
    /// Whether Pods or nodes as clients were neither listed nor saved before: who a client is, is
    /// not known.
    pub is_without_clients: bool,
    /// Services.
    pub services: u64,
    /// Ready endpoints that have names.
    pub endpoints: u64,
    /// Namespaces.
    pub namespaces: u64,
    /// Pods that have names.
    pub pods: u64,
    /// Record sets that are served in part, because no message can carry them.
    pub sampled: u64,
    /// Checks that services name in vain, with the reason; the first of them.
    pub unused_checks: Vec<String>,
    /// How many there are. The services are served as without a check.
    pub unused_check_count: u64,
    /// Each watched kind of object.
    pub streams: Vec<KubernetesStream>,
    /// Objects of the API server that are not used, and why; the first of them.
    pub skipped: Vec<String>,
    /// How many there are.
    pub skipped_count: u64,
    /// Why the state cannot be saved; `None`: it can.
    pub saving: Option<String>,
    /// The server that writes the objects for a fleet; `None`: there is none, or it is not known.
    pub leader: Option<String>,
    /// Whether that is this server.
    pub is_leader: bool,
    /// Since when this server knows it, in seconds since 1970.
    pub leader_seconds: Option<f64>,
    /// When this server last wrote objects for the fleet, in seconds since 1970; `None`: it has
    /// not.
    pub written_seconds: Option<f64>,
    /// Why this server cannot write the objects for the fleet; `None`: it can.
    pub fleet_fault: Option<String>,
    /// Objects of the fleet that are ignored, and why; the first of them.
    pub unusable: Vec<String>,
    /// The zones that clusters have together; `None`: there are none.
    pub parts: Option<PartsStatus>,
}

/// The zones that clusters have together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartsStatus {
    /// The zones.
    pub zones: Vec<String>,
    /// Whether the parts of all clusters were listed.
    pub is_synced: bool,
    /// Whether those of the saved state are served.
    pub is_saved: bool,
    /// The clusters with parts.
    pub clusters: Vec<ClusterParts>,
    /// Names with parts.
    pub names: u64,
    /// What cannot be merged, and why; the first of it.
    pub conflicts: Vec<String>,
    /// How much there is.
    pub conflict_count: u64,
    /// Why parts are not followed; `None`: they are.
    pub error: Option<String>,
    /// Why the parts cannot be saved; `None`: they can.
    pub saving: Option<String>,
}

/// A cluster with parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterParts {
    /// Its name.
    pub name: String,
    /// How many objects have parts.
    pub parts: u64,
    /// When its writer last said that it is there, in seconds since 1970; `None`: it has not.
    pub heartbeat_seconds: Option<f64>,
    /// Whether that is so long ago that its parts are left out.
    pub is_gone: bool,
}

/// A stream of objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KubernetesStream {
    /// The kind, as RBAC calls it.
    pub kind: String,
    /// Since when it is open, in seconds since 1970; `None`: it is not.
    pub open_seconds: Option<f64>,
    /// Why it is not open, and what to do.
    pub error: Option<String>,
    /// When what is known was last that of the API server, in seconds since 1970; `None`: it was
    /// not listed yet.
    pub current_seconds: Option<f64>,
    /// Whether that is longer ago than it should be.
    pub is_stale: bool,
    /// How often a request for it, or the stream itself, failed.
    pub failures: u64,
}

impl KubernetesStream {
    /// A stream that was not opened yet.
    pub fn new(kind: &str) -> Self {
        Self { kind: kind.into(), ..Self::default() }
    }
}

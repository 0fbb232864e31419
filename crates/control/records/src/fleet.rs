//! The servers that share a store.
use crate::{Refused, Revision, ZoneDigests};
use server_status::{FleetStatus, Member};
use zone_manager::Answer;

/// What a shared store has of a Kubernetes cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterPart {
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

/// The servers that share a store, as one of them sees them.
pub trait Fleet: Send + Sync {
    /// This server serves a revision: all its workers do.
    fn serves(&self, revision: Revision);

    /// What this server has, to compare it with what the others report.
    fn digests(&self) -> &ZoneDigests;

    /// The living members, by name, as the shared store has them now.
    fn members(&self) -> Answer<Vec<Member>, Refused>;

    /// Answers once every living member serves a revision.
    fn wait(&self, revision: Revision) -> Answer<(), Refused>;

    /// What the shared store has of a Kubernetes cluster with this name.
    fn cluster(&self, name: &str) -> Answer<ClusterPart, Refused>;

    /// Deletes what the shared store has of a cluster that is gone, all or nothing. Answers with
    /// what there was, or why nothing has changed.
    fn retire(&self, cluster: &str) -> Answer<Result<ClusterPart, String>, Refused>;

    /// The part of this server.
    fn status(&self) -> FleetStatus;
}

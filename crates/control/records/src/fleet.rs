//! The servers that share a store.
use crate::{Refused, Revision, ZoneDigests};
use server_status::{FleetStatus, Member, StoredCluster};
use zone_manager::Answer;

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
    fn cluster(&self, name: &str) -> Answer<StoredCluster, Refused>;

    /// Deletes what the shared store has of a cluster that is gone, all or nothing. Answers with
    /// what there was, or why nothing has changed.
    fn retire(&self, cluster: &str) -> Answer<Result<StoredCluster, String>, Refused>;

    /// The part of this server.
    fn status(&self) -> FleetStatus;
}

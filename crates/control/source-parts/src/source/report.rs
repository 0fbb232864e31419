//! The outcome of the merge, for the status and for writers of parts; and clusters that are gone.
use super::{Report, Worker};
use crate::limits::CONFLICTS_SHOWN;
use crate::merge::Conflict;
use crate::part::PartKey;
use server_status::ClusterParts;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use zone_manager::Stopped;

impl Worker {
    /// Leaves out the parts of clusters without a heartbeat for too long, and takes back those of
    /// clusters that have one again.
    pub(super) async fn leave_out_gone(&mut self) -> Result<(), Stopped> {
        let Some(max_age) = self.settings.max_age else { return Ok(()) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let before = self.parts.gone().clone();
        let changes = self.parts.set_oldest(now.saturating_sub(max_age).as_secs(), |cluster| {
            self.feeds.is_followed(cluster)
        });
        for cluster in self.parts.gone().difference(&before) {
            tracing::warn!(
                "the cluster {cluster} had no writer for `max_age`: its parts are left out"
            );
        }
        self.apply(changes).await
    }

    pub(super) fn report(&self) {
        let conflicts: BTreeSet<Conflict> = self.parts.conflicts().collect();
        let mut clusters: BTreeMap<&str, u64> = BTreeMap::new();
        for key in self.parts.parts().keys().filter(|key| !key.is_heartbeat()) {
            *clusters.entry(&key.cluster).or_default() += 1;
        }
        let clusters = clusters.into_iter().map(|(name, parts)| {
            let is_gone = self.parts.gone().contains(name);
            let beat = self.parts.parts().get(&PartKey::heartbeat(name));
            let heartbeat_seconds = beat.map(|beat| beat.created as f64);
            ClusterParts { name: name.into(), parts, heartbeat_seconds, is_gone }
        });
        let unusable = self.unusable.iter().map(|(key, why)| format!("{key}: {why}"));
        let shown = conflicts.iter().map(ToString::to_string).chain(unusable);
        let refused = self.feeds.refused();
        let count = conflicts.len() + self.unusable.len() + refused.len();
        let shown = refused.into_iter().chain(shown);
        self.edit_status(|status| {
            status.names = self.parts.names() as u64;
            status.clusters = clusters.collect();
            status.conflict_count = count as u64;
            status.is_synced = self.feeds.is_synced();
            status.is_saved &= !status.is_synced;
            status.conflicts = shown.take(CONFLICTS_SHOWN).collect();
        });
        for new in conflicts.difference(&self.outcome.borrow().conflicts).take(CONFLICTS_SHOWN) {
            tracing::warn!("cannot be merged: {new}");
        }
        let report = Report { conflicts, generations: self.generations() };
        self.outcome.send_if_modified(|known| {
            let is_other = **known != report;
            if is_other {
                *known = Arc::new(report);
            }
            is_other
        });
    }

    /// The generations of objects whose parts are answered.
    fn generations(&self) -> BTreeMap<PartKey, u64> {
        if !self.is_published || self.is_held() {
            return BTreeMap::new();
        }
        let parts = self.parts.parts().iter().filter(|(_, part)| part.generation != 0);
        parts.map(|(key, part)| (key.clone(), part.generation)).collect()
    }
}

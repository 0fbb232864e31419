//! What the source reports, and what it saves.
use super::sharing::seconds;
use super::{STREAMS, Worker, now_seconds};
use crate::saved;

impl Worker {
    pub(super) fn note(&mut self, at: usize, state: Result<(), String>) {
        let (kind, now) = (STREAMS[at], f64::from(now_seconds()));
        self.streams[at].is_open = state.is_ok();
        if let Err(why) = &state {
            tracing::warn!(kind, "Kubernetes is not watched: {why}");
        }
        self.status.edit(|status| {
            if let Some(stream) = status.streams.iter_mut().find(|stream| stream.kind == kind) {
                match state {
                    Ok(()) => (stream.open_seconds, stream.error) = (Some(now), None),
                    Err(why) => (stream.open_seconds, stream.error) = (None, Some(why)),
                }
            }
        });
    }

    pub(super) fn note_counts(&mut self) {
        let (counts, sampled) = (self.cluster.counts(), self.publisher.sampled());
        self.status.edit(|status| {
            status.services = counts.services;
            status.endpoints = counts.endpoints;
            status.namespaces = counts.namespaces;
            status.pods = counts.pods;
            status.sampled = sampled;
            let written = self.map.as_ref().and_then(|map| map.last_write());
            status.written_seconds = written.map(seconds);
            let unusable = self.unusable.iter();
            status.unusable = unusable.map(|(key, why)| format!("{key}: {why}")).collect();
        });
        let Some((unused, count)) = self.cluster.checks.unused() else { return };
        let unused: Vec<String> = unused.iter().map(ToString::to_string).collect();
        let before = self.status.get().unused_checks;
        for new in unused.iter().filter(|new| !before.contains(new)) {
            tracing::warn!("a check of Kubernetes is not used: {new}");
        }
        self.status.edit(|status| {
            (status.unused_checks, status.unused_check_count) = (unused, count as u64);
        });
    }

    /// Saves the state if it changed.
    pub(super) fn save(&mut self) {
        let Some(folder) = &self.settings.folder else { return };
        if !self.is_published || !self.is_changed {
            return;
        }
        let saved = saved::save(folder, &self.zones(), &self.cluster);
        self.is_changed = saved.is_err();
        if let Err(why) = &saved {
            tracing::error!("Kubernetes: {why}; it is tried again");
        }
        self.status.edit(|status| status.saving = saved.err());
    }
}

//! Reports and saved state of the source.
use super::{STREAMS, Worker, now_seconds};
use crate::failure::{Cause, Failure};
use crate::limits::{SKIPPED_SHOWN, STALE_AFTER};
use crate::saved;
use server_status::seconds;
use std::time::{Instant, SystemTime};

impl Worker {
    /// Takes in whether a stream is open. Failures of one cause are logged once a minute.
    pub(super) fn note(&mut self, at: usize, state: Result<(), Failure>) {
        let (kind, now) = (STREAMS[at], f64::from(now_seconds()));
        let stream = &mut self.streams[at];
        stream.is_open = state.is_ok();
        stream.is_absent = state.as_ref().is_err_and(|failure| failure.cause == Cause::Absent);
        if let Err(failure) = &state {
            stream.failures += 1;
            if let Some(repeated) = self.failure_log.take(failure, kind, Instant::now()) {
                tracing::warn!(kind, repeated, "Kubernetes is not watched: {failure}");
            }
        }
        let failures = stream.failures;
        self.status.edit(|status| {
            if let Some(stream) = status.streams.iter_mut().find(|stream| stream.kind == kind) {
                stream.failures = failures;
                match state {
                    Ok(()) => (stream.open_seconds, stream.error) = (Some(now), None),
                    Err(failure) => {
                        (stream.open_seconds, stream.error) = (None, Some(failure.what));
                    }
                }
            }
        });
    }

    pub(super) fn note_counts(&mut self) {
        let (counts, sampled) = (self.cluster.counts(), self.publisher.sampled());
        self.status.edit(|status| {
            for (kind, stream) in STREAMS.iter().zip(&self.streams) {
                if let Some(shown) = status.streams.iter_mut().find(|shown| shown.kind == *kind) {
                    // A follower has no bookmarks: what it has is current while it is connected.
                    let is_following = self.follows && stream.is_open && !stream.is_listing;
                    let now = is_following.then(SystemTime::now);
                    let current = now.or(stream.current);
                    let age = current.map(|at| at.elapsed().unwrap_or_default());
                    shown.is_stale = age.is_some_and(|age| age > STALE_AFTER);
                    shown.current_seconds = current.map(seconds);
                }
            }
            let skipped = self.skipped.iter().take(SKIPPED_SHOWN);
            status.skipped = skipped
                .map(|((at, object), why)| format!("{} {object}: {why}", STREAMS[*at]))
                .collect();
            status.skipped_count = self.skipped.len() as u64;
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
        let Some((unused, count)) = self.cluster.unused_checks() else { return };
        let unused: Vec<String> = unused.iter().map(ToString::to_string).collect();
        let before = self.status.get().unused_checks;
        for new in unused.iter().filter(|new| !before.contains(new)) {
            tracing::warn!("a check of Kubernetes is not used: {new}");
        }
        self.status.edit(|status| {
            (status.unused_checks, status.unused_check_count) = (unused, count as u64);
        });
    }

    /// Saves the state if it changed. That of an unfinished list, or of one that is held, never
    /// replaces a good one, so a restart does not end a hold.
    pub(super) fn save(&mut self) {
        let Some(folder) = &self.settings.folder else { return };
        if !self.is_changed || !self.is_whole() {
            return;
        }
        let saved = saved::save(folder, &self.zones(), &self.cluster);
        self.is_changed = saved.is_err();
        if let Err(why) = &saved {
            tracing::error!("Kubernetes: {why}; it is retried");
        }
        self.status.edit(|status| status.saving = saved.err());
    }
}

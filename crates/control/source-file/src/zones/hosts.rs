//! Hosts files as a source: each is a layer of the zone manager. And the status of each.
use super::lock;
use super::registry::shown_errors;
use crate::handler::{LoadAttempt, WriteKind};
use crate::hosts::{LoadedHosts, load_hosts};
use crate::saved;
use server_status::{HostsStatus, ZoneState, seconds};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};
use zone_manager::hold::{Arrival, Evidence};
use zone_manager::{
    HoldPolicy, Lane, Source, SourceKind, SourceSettings, SyncOutcome, Target, UpdateSender,
};

/// The files in the order of the config, shared between threads.
#[derive(Default)]
pub struct HostsFiles {
    files: Mutex<Vec<HostsFile>>,
    /// The TTL of their records in seconds.
    ttl: AtomicU32,
}

/// One file.
#[derive(Default)]
struct HostsFile {
    file: PathBuf,
    status: HostsStatus,
}

impl HostsFiles {
    /// Replaces the files; those that stay keep their status.
    pub fn set(&self, files: &[PathBuf]) {
        let mut kept = lock(&self.files);
        let mut known = std::mem::take(&mut *kept);
        kept.extend(files.iter().map(|file| {
            let at = known.iter().position(|old| old.file == *file);
            at.map(|at| known.swap_remove(at)).unwrap_or_else(|| HostsFile {
                status: HostsStatus { file: file.display().to_string(), ..HostsStatus::default() },
                file: file.clone(),
            })
        }));
    }

    /// Sets the TTL of what is loaded from now on.
    pub fn set_ttl(&self, seconds: u32) {
        self.ttl.store(seconds, Ordering::Relaxed);
    }

    pub fn ttl(&self) -> u32 {
        self.ttl.load(Ordering::Relaxed)
    }

    /// The layer of a file.
    pub fn layer(&self, file: &Path) -> Option<Target> {
        let number = lock(&self.files).iter().position(|known| known.file == file)?;
        Some(Target::Layer(number as u32))
    }

    /// The number of names in the served content of a file.
    pub fn names(&self, file: &Path) -> Option<u64> {
        Some(lock(&self.files).iter().find(|known| known.file == file)?.status.names)
    }

    /// The status of all.
    pub fn status(&self) -> Vec<HostsStatus> {
        lock(&self.files).iter().map(|file| file.status.clone()).collect()
    }

    /// A file was loaded.
    pub fn put(&self, file: &Path, names: u64) {
        self.edit(file, |known| {
            known.status = HostsStatus {
                state: ZoneState::Current,
                names,
                loaded_seconds: Some(seconds(SystemTime::now())),
                file: std::mem::take(&mut known.status.file),
                ..HostsStatus::default()
            };
        });
    }

    /// The new content of a file is held; its content stays as it was.
    pub fn hold(&self, file: &Path) {
        self.edit(file, |known| {
            let status = &mut known.status;
            status.state = ZoneState::Behind;
            (status.refused_seconds, status.errors) = (None, Vec::new());
        });
    }

    /// A file was refused; its content stays as it was.
    pub fn refuse(&self, file: &Path, errors: impl ExactSizeIterator<Item = String>) {
        self.edit(file, |known| {
            let status = &mut known.status;
            if status.state == ZoneState::Current {
                status.state = ZoneState::Behind;
            }
            status.refused_seconds = Some(seconds(SystemTime::now()));
            status.errors = shown_errors(errors);
        });
    }

    fn edit(&self, file: &Path, edit: impl FnOnce(&mut HostsFile)) {
        // It may have been removed.
        if let Some(known) = lock(&self.files).iter_mut().find(|known| known.file == file) {
            edit(known);
        }
    }
}

/// The source of the hosts files that the config names.
pub struct HostsSource(pub Arc<HostsFiles>);

impl Source for HostsSource {
    type Started = HostsLoader;

    fn settings(&self) -> SourceSettings {
        let (name, kind) = ("hosts-files".to_owned(), SourceKind::Hosts);
        SourceSettings { name, kind, lane: Lane::Normal, hold: HoldPolicy::Source }
    }

    fn start(self, updates: UpdateSender) -> HostsLoader {
        HostsLoader { files: self.0, updates }
    }
}

/// Loads hosts files and gives them to the zone manager.
pub struct HostsLoader {
    files: Arc<HostsFiles>,
    updates: UpdateSender,
}

impl HostsLoader {
    /// The files from now on.
    pub fn set_files(&mut self, files: &[PathBuf]) {
        self.files.set(files);
        self.updates.set_layers(files.to_vec());
    }

    /// Loads a hosts file; see [`crate::LoadHandler::load_hosts`].
    pub fn load(&mut self, file: &Path, attempt: &mut LoadAttempt<'_>) {
        let began = Instant::now();
        let layer = self.files.layer(file);
        let content = || self.updates.content(layer.as_ref()?);
        let old = content();
        let key = self.updates.publisher().key();
        let read = load_hosts(file, self.files.ttl(), &key, old.as_deref());
        // Free the old content when the new one is published.
        drop(old);
        if !attempt.is_whole() {
            return;
        }
        match read {
            Ok(loaded) => {
                let (names, warning) = (loaded.names, loaded.cut_off.clone());
                if !self.give(file, loaded, attempt.arrival()) {
                    return;
                }
                let (generation, _) = self.updates.publisher().published();
                let milliseconds = began.elapsed().as_millis() as u64;
                let file = file.display();
                tracing::info!(%file, names, generation, milliseconds, "hosts file loaded");
                if let Some(warning) = &warning {
                    tracing::warn!(rule = warning.rule.id, "{warning}");
                }
            }
            Err(failure) => {
                let errors = failure.errors.len();
                for error in &failure.errors {
                    tracing::error!(rule = error.rule.id, "{error}");
                }
                layer.iter().for_each(|layer| self.updates.drop_held(layer));
                self.files.refuse(file, failure.errors.iter().map(ToString::to_string));
                let instead = match content() {
                    Some(_) => "its content before is served",
                    None => "its names are not served until it is corrected",
                };
                tracing::error!(file = %file.display(), errors, "hosts file refused: {instead}");
            }
        }
    }

    /// Gives the content of a hosts file to the zone manager; returns whether it is served.
    fn give(&self, file: &Path, loaded: LoadedHosts, arrival: WriteKind) -> bool {
        let LoadedHosts { zone, names, cut_off } = loaded;
        let Some(layer) = self.files.layer(file) else { return false };
        let old = self.updates.content(&layer);
        let is_known = |old: &Arc<compile::Zone>| saved::are_equal(old, &zone);
        let is_whole = arrival == WriteKind::Renamed;
        let evidence = Evidence {
            arrival: if is_whole { Arrival::Whole } else { Arrival::InPlace },
            is_cut: cut_off.is_some() && !old.as_ref().is_some_and(is_known),
            had: old.and_then(|_| self.files.names(file)),
            has: names,
        };
        let synced = self.updates.sync(layer, zone, Some(evidence)).wait();
        let Ok(SyncOutcome::Held(held)) = synced.map(|synced| synced.outcome) else {
            self.files.put(file, names);
            return true;
        };
        self.files.hold(file);
        let file = file.display();
        tracing::warn!(%file, names_served = held.had, names_in_file = held.has,
            "hosts file held: it {}; its content before is served; `dunlin zones accept {file}` \
             serves it as it is", held.reason());
        false
    }
}

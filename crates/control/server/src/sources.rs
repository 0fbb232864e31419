//! The sources of records, the zone manager that publishes them, and the health of their addresses.
use crate::documents::Documents;
use crate::kubernetes::{self, ClientFeed, Kubernetes, PARTS_THREAD, THREAD as CLUSTER};
use crate::limits::{CLUSTER_POLL_INTERVAL, KUBERNETES_START_MAX};
use crate::prober;
use crate::sites::{Sites, THREAD as SITES};
use crate::store::{StoreConfig, Stored, WRITER};
use crate::zones;
use config::Config;
use data_plane::ViewNumbers;
use health::{HealthService, THREAD as PROBER};
use server_status::{KubernetesStatus, Status, seconds};
use source_file::CommandId;
use source_transfer::{Secondaries, SecondarySettings, THREAD as TRANSFERS};
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::time::{Instant, sleep};
use wire::Name;
use zone_manager::ZonePublisher;

/// The thread that publishes snapshots.
const CONTROL: &str = "control";

/// The sources of a server.
pub struct Sources {
    pub control: ZonePublisher,
    pub zones: source_file::Zones,
    /// Empty while the store is opened, or without a store in the config.
    pub store: OnceLock<Stored>,
    /// Other sites; empty while the store is opened, or without one in the config.
    pub sites: OnceLock<Sites>,
    /// The zones of primaries; empty until one is configured.
    secondaries: Arc<OnceLock<Secondaries>>,
    /// The names of a Kubernetes cluster; gone once it is stopped, or none is watched.
    kubernetes: Mutex<Option<Kubernetes>>,
    /// Probes the addresses of record sets; `None`: there is no check.
    pub prober: HealthService,
}

impl Sources {
    /// Starts all but the store, and the first load of the zone files. Health comes first: no first
    /// answer names what was down.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        config: &Config,
        control: ZonePublisher,
        documents: &Documents,
        worker_cpus: &[Option<usize>],
    ) -> Result<(Self, CommandId), Box<dyn Error>> {
        let prober = prober::start(config, &control, documents, worker_cpus)?;
        control.set_default_checks(zones::checks(config));
        let folder = config.server.folder();
        let zones = zones::configured(config, &ViewNumbers::default().of(config));
        let (zones, load) = source_file::Zones::start(&control, zones, folder)?;
        let kubernetes = Mutex::new(kubernetes::start(config, &control, documents)?);
        let (store, sites) = (OnceLock::new(), OnceLock::new());
        let secondaries = Arc::default();
        Ok((Self { control, zones, store, sites, secondaries, kubernetes, prober }, load))
    }

    /// Opens the configured store, then follows the other sites: a zone that both have stays that
    /// of the store. A store that cannot be opened is retried.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start_store(&self, config: &StoreConfig, is_hot_restart: bool) -> io::Result<()> {
        if let Some(stored) = Stored::start(config, &self.control, is_hot_restart)? {
            // Set only here.
            let _ = self.store.set(stored);
        }
        if let Some(sites) = config.start_sites(&self.control, is_hot_restart)? {
            let _ = self.sites.set(sites);
        }
        Ok(())
    }

    /// What follows the primaries of these zones from then on, with copies in this folder. It
    /// blocks until zones with copies are served, and fails if the thread cannot be started.
    pub fn follow_primaries(
        &self,
        zones: Vec<SecondarySettings>,
        data_dir: Option<PathBuf>,
    ) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        let (secondaries, control) = (Arc::clone(&self.secondaries), self.control.clone());
        move || {
            match (secondaries.get(), data_dir) {
                (Some(secondaries), _) => secondaries.set(zones),
                (None, Some(folder)) if !zones.is_empty() => {
                    let started = Secondaries::start(zones, &folder, &control)?;
                    // Set only here, one call after another.
                    let _ = secondaries.set(started);
                }
                // The config refuses zones of primaries without a folder.
                (None, _) => {}
            }
            Ok(())
        }
    }

    /// A primary says that a zone has changed; `false`: it is not from primaries.
    pub fn notify_secondary(&self, zone: Name<'_>) -> bool {
        self.secondaries.get().is_some_and(|secondaries| secondaries.notify(zone))
    }

    fn kubernetes(&self) -> MutexGuard<'_, Option<Kubernetes>> {
        self.kubernetes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clients of the cluster, as they change, if one is watched.
    pub fn clients(&self) -> Option<ClientFeed> {
        self.kubernetes().as_ref().map(Kubernetes::clients)
    }

    /// Waits a while until the names of the cluster are served, if one is watched.
    pub async fn wait_for_cluster(&self) {
        let is_known = |status: KubernetesStatus| status.is_synced && !status.is_without_clients;
        let is_there = || self.kubernetes().as_ref().is_none_or(|it| is_known(it.status()));
        let until = Instant::now() + KUBERNETES_START_MAX;
        while !is_there() {
            if Instant::now() > until {
                tracing::warn!(
                    "the objects of Kubernetes are not listed yet: names of the cluster answer \
                     SERVFAIL, and Pods are in no network, until they are"
                );
                return;
            }
            sleep(CLUSTER_POLL_INTERVAL).await;
        }
    }

    /// Fills in its part of a status.
    pub fn fill_status(&self, status: &mut Status) {
        let (generation, published) = self.control.published();
        status.generation = generation;
        status.generation_seconds = seconds(published);
        status.zones = self.zones.status();
        status.held = self.control.holds().all();
        status.hosts = self.zones.hosts();
        status.saving = self.zones.trouble();
        status.failed = self.failed();
        status.store = self.store.get().map(Stored::status);
        status.sites = self.sites.get().map(Sites::status).unwrap_or_default();
        status.secondaries = self.secondaries.get().map(Secondaries::status).unwrap_or_default();
        status.kubernetes = self.kubernetes().as_ref().map(Kubernetes::status);
        status.health = self.prober.has_checks().then(|| self.prober.status());
    }

    /// Threads that ended unexpectedly.
    pub fn failed(&self) -> Vec<String> {
        let each = [
            (source_file::LOADER, self.zones.have_failed()),
            (CONTROL, self.control.has_failed()),
            (CLUSTER, self.kubernetes().as_ref().is_some_and(Kubernetes::has_failed)),
            (PROBER, self.prober.has_failed()),
            (TRANSFERS, self.secondaries.get().is_some_and(Secondaries::have_failed)),
            (SITES, self.sites.get().is_some_and(Sites::have_failed)),
            (WRITER, self.store.get().is_some_and(|store| store.service.has_failed())),
        ];
        each.into_iter().filter(|(_, failed)| *failed).map(|(name, _)| name.to_owned()).collect()
    }

    /// The names of their threads, in the order in which they end.
    pub fn thread_names() -> impl Iterator<Item = String> {
        let names = [source_file::LOADER, source_file::SAVER, CLUSTER, PARTS_THREAD, PROBER];
        names.into_iter().chain([TRANSFERS, SITES, WRITER, CONTROL]).map(str::to_owned)
    }

    /// Stops the threads that change zones, sources first. Blocks.
    pub fn stop(&self) {
        self.zones.stop();
        // Drop it outside the lock, so that a status request does not wait for the thread to end.
        {
            let _cluster = self.kubernetes().take();
        }
        self.prober.stop();
        self.secondaries.get().into_iter().for_each(Secondaries::stop);
        self.sites.get().into_iter().for_each(Sites::stop);
        if let Some(store) = self.store.get() {
            store.stop();
        }
    }
}

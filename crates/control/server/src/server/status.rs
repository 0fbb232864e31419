//! The status of the server.
use super::{CLUSTER, CONTROL, PROBER, Server, lock};
use crate::forwarding;
use crate::gather::{self, seconds};
use crate::kubernetes::Kubernetes;
use crate::resources::VERSION;
use crate::store::{Stored, WRITER};
use server_status::{ApiStatus, CertificateStatus, Process, Status, failed_threads, find_faults};
use std::time::{Instant, SystemTime};
use worker::Connections;

impl Server {
    /// The complete status.
    pub fn status(&self) -> Status {
        let status = self.gather_status();
        Status { faults: find_faults(&status), ..status }
    }

    fn gather_status(&self) -> Status {
        let threads: Vec<_> = self.counters().iter().map(gather::thread).collect();
        let connections = lock(&self.threads)
            .as_ref()
            .map_or_else(Connections::default, |threads| threads.streams().connections());
        let (open_max, memory_max) = self.stream_limits;
        let (generation, published) = self.control.published();
        let views = self.views();
        let live = lock(&self.live);
        let config = live.started();
        let (upstreams, cache) = (
            forwarding::upstreams(live.forwards(), &views),
            forwarding::cache(&config.cache, &views),
        );
        let mut config = live.status.clone();
        config.server_file = live.server_file_fault();
        drop(live);
        Status {
            version: VERSION.to_owned(),
            pid: std::process::id(),
            state: *lock(&self.state),
            started_seconds: seconds(self.started),
            gathered_seconds: seconds(SystemTime::now()),
            faults: Vec::new(),
            listen: self.listen.clone(),
            config,
            upstreams,
            cache,
            generation,
            generation_seconds: seconds(published),
            zones: self.zones.status(),
            held: self.control.holds().all(),
            hosts: self.zones.hosts(),
            xdp: lock(&self.bypass).status(),
            saving: self.zones.trouble(),
            streams: gather::streams(&connections, open_max, memory_max),
            imbalance: gather::imbalance(&threads),
            failed: self.failed(),
            stuck: self.health.look(self.counters(), Instant::now()).err(),
            panics: gather::panics(self.counters()),
            threads,
            store: self.store.get().map(Stored::status),
            documents: self.documents.status(),
            kubernetes: lock(&self.kubernetes).as_ref().map(Kubernetes::status),
            health: self.prober.has_checks().then(|| self.prober.status()),
            api: self
                .rest
                .status()
                .map(|api| ApiStatus { fault: self.documents.credentials.fault(), ..api }),
            certificates: self.certificates(),
            process: Process::read(),
            tap: self.tap.status(),
            hot: self.tap.hot(),
        }
    }

    /// The certificates that this server shows to others.
    fn certificates(&self) -> Vec<CertificateStatus> {
        let of_etcd = lock(&self.live).started().etcd.cert.clone();
        let of_etcd = of_etcd.map(|file| listen::certificate_status("[etcd] cert", &file));
        self.rest.certificates().into_iter().chain(of_etcd).collect()
    }

    /// Threads of the control plane that ended unexpectedly.
    pub(super) fn failed(&self) -> Vec<String> {
        let each = [
            (source_file::LOADER, self.zones.have_failed()),
            (CONTROL, self.control.has_failed()),
            (CLUSTER, lock(&self.kubernetes).as_ref().is_some_and(Kubernetes::has_failed)),
            (PROBER, self.prober.has_failed()),
            (WRITER, self.store.get().is_some_and(|store| store.service.has_failed())),
        ];
        each.into_iter().filter(|(_, failed)| *failed).map(|(name, _)| name.to_owned()).collect()
    }

    /// Whether workers and streams make progress, and the control threads run.
    ///
    /// # Errors
    /// The thread that does not.
    pub fn look_at_health(&self) -> Result<(), String> {
        if let Some(why) = failed_threads(&self.failed()) {
            return Err(why);
        }
        self.health.look(self.counters(), Instant::now())
    }
}

//! The status of the server.
use super::{Server, lock};
use crate::resources::VERSION;
use server_status::{
    AnycastStatus, ApiStatus, CertificateStatus, Process, Status, failed_threads, find_faults,
    hindrance, seconds,
};
use std::time::SystemTime;

impl Server {
    /// The complete status.
    pub fn status(&self) -> Status {
        let mut status = Status {
            version: VERSION.to_owned(),
            pid: std::process::id(),
            state: self.stage.state(),
            started_seconds: seconds(self.started),
            gathered_seconds: seconds(SystemTime::now()),
            documents: self.documents.status(),
            api: self
                .services
                .rest
                .status()
                .map(|api| ApiStatus { fault: self.documents.credentials.fault(), ..api }),
            transfer: self.services.transfers.get().map(|thread| thread.transfers().status()),
            certificates: self.certificates(),
            anycast: self.anycast_status(),
            process: Process::read(),
            ..Status::default()
        };
        {
            let live = lock(&self.live);
            status.config = live.status.clone();
            status.config.server_file = live.server_file_fault();
            self.plane.fill_status(&mut status, live.forwards(), &live.started().cache);
            status.networks = self.plane.networks(&live.network_names());
        }
        self.sources.fill_status(&mut status);
        status.faults = find_faults(&status);
        status.was_ready = self.stage.note_readiness(hindrance(&status).is_none());
        status
    }

    /// The status of the announced addresses, if there are any.
    pub fn anycast_status(&self) -> Option<AnycastStatus> {
        let announcer = self.supervision.announcer.as_ref()?;
        Some(AnycastStatus { probes: self.plane.probe_answers(), ..announcer.status() })
    }

    /// The certificates that this server shows to others.
    fn certificates(&self) -> Vec<CertificateStatus> {
        let of_etcd = lock(&self.live).started().etcd.cert.clone();
        let of_etcd = of_etcd.map(|file| listen::certificate_status("[etcd] cert", &file));
        let transfers = self.services.transfers.get();
        let of_transfers = transfers.into_iter().flat_map(transfer::TransferThread::certificates);
        let of_api = self.services.rest.certificates();
        of_api.into_iter().chain(of_transfers).chain(of_etcd).collect()
    }

    /// Whether no worker or stream thread hangs, and the control threads run.
    ///
    /// # Errors
    /// The thread that does not.
    pub fn check_progress(&self) -> Result<(), String> {
        if let Some(why) = failed_threads(&self.sources.failed()) {
            return Err(why);
        }
        self.plane.hung_thread().map_or(Ok(()), Err)
    }
}

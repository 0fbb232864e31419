//! The fleet, as the record service and the API see it.
use super::{EtcdFleet, read_members};
use crate::limits::FLEET_WAIT_MAX;
use crate::waits::Waiter;
use etcd_link::RequestError;
use fleet_state::{read_cluster, retire};
use keyspace::EtcdLink;
use records::{Answer, answer};
use records::{Fleet, Refused, Revision, ZoneDigests};
use server_status::{FleetStatus, Member, StoredCluster};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

impl EtcdFleet {
    /// Answers with the result of requests to etcd.
    fn request<T: Send + 'static, F: Future<Output = Result<T, RequestError>> + Send + 'static>(
        &self,
        request: impl FnOnce(Arc<EtcdLink>) -> F,
    ) -> Answer<T, Refused> {
        let (promise, result) = answer();
        let link = &self.link;
        let requested = request(Arc::clone(link));
        link.runtime.spawn(async move {
            let done = requested.await;
            promise.answer(done.map_err(|error| Refused::Unreachable(error.why().into())));
        });
        result
    }
}

impl Fleet for EtcdFleet {
    fn serves(&self, revision: Revision) {
        self.served.send_replace(Some(revision));
    }

    fn digests(&self) -> &ZoneDigests {
        &self.digests
    }

    fn members(&self) -> Answer<Vec<Member>, Refused> {
        self.request(async move |link| read_members(&link, link.keys.members()).await)
    }

    fn wait(&self, revision: Revision) -> Answer<(), Refused> {
        let (promise, served) = answer();
        let waiter = Waiter { revision, until: Instant::now() + FLEET_WAIT_MAX, promise };
        let sent = match &*self.waits() {
            Some(waits) => waits.try_send(waiter),
            // The promise answers that the server is stopping.
            None => return served,
        };
        match sent {
            Err(TrySendError::Full(waiter)) => waiter.promise.answer(Err(Refused::Busy)),
            Ok(()) | Err(TrySendError::Closed(_)) => (),
        }
        served
    }

    fn cluster(&self, name: &str) -> Answer<StoredCluster, Refused> {
        let name = name.to_owned();
        self.request(async move |link| read_cluster(&link, &name).await)
    }

    fn retire(&self, cluster: &str) -> Answer<Result<StoredCluster, String>, Refused> {
        let cluster = cluster.to_owned();
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.request(async move |link| retire(&link, &cluster, seconds).await)
    }

    fn status(&self) -> FleetStatus {
        let state = self.state();
        let (fault, difference) = (state.fault.clone(), state.difference.clone());
        let name = self.member.name.clone();
        let mut status = FleetStatus { name, fault, difference, ..FleetStatus::default() };
        drop(state);
        (self.add_copy)(&mut status);
        status
    }
}

//! Transfers of zones to other servers: what they need of the rest of the server.
use crate::server::{Server, lock};
use api::{Credentials, PrincipalKey};
use compile::Zone;
use config::NotifyServer;
use control_messages::{KeyHolder, RefusalLog, now_seconds};
use data_plane::{AccessLists, yield_to_workers};
use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use transfer::{Access, KeyOwner, KnownKey, NotifyTarget, TlsListeners, TransferThread, Transfers};
use tsig::Refusal;
use wire::Name;
use worker::ConnectionSink;
use zone_manager::{SourceKind, ZonePublisher};

struct ServerAccess {
    control: ZonePublisher,
    credentials: Arc<Credentials>,
    lists: AccessLists,
    log: RefusalLog,
    server: Weak<Server>,
}

impl Access for ServerAccess {
    fn zone(&self, origin: Name<'_>) -> Option<Arc<Zone>> {
        self.control.image().zone(origin).cloned()
    }

    fn key(&self, name: Name<'_>) -> Option<KnownKey> {
        let PrincipalKey { key, principal } = self.credentials.of_key(name).ok()?;
        Some(KnownKey { key, owner: Arc::new(KeyHolder(principal)) })
    }

    fn certificate_owner(&self, names: &[String]) -> Option<Arc<dyn KeyOwner>> {
        let found = self.credentials.of_subjects(names.iter().map(String::as_str), now_seconds());
        Some(Arc::new(KeyHolder(found.ok()?)))
    }

    fn allows(&self, client: IpAddr) -> bool {
        self.lists.may_transfer(client)
    }

    fn record_refusal(&self, refusal: &Refusal, client: SocketAddr) {
        self.log.write(refusal, None, client);
    }

    fn now(&self) -> u64 {
        now_seconds()
    }

    fn generation(&self) -> u64 {
        self.control.published().0
    }

    /// All but those of the server itself, such as localhost.
    fn zones(&self) -> Vec<Arc<Zone>> {
        let built_in = self.control.catalog().origins(SourceKind::BuiltIn);
        let built_in: HashSet<&[u8]> =
            built_in.iter().map(|origin| origin.as_name().as_bytes()).collect();
        let image = self.control.image();
        let zones = image.zones().filter(|zone| !built_in.contains(zone.origin().as_bytes()));
        zones.cloned().collect()
    }

    fn notify_targets(&self) -> Vec<NotifyTarget> {
        let target = |one: &NotifyServer| NotifyTarget {
            address: one.address,
            key: one.key.as_deref().map(Into::into),
        };
        let Some(server) = self.server.upgrade() else { return Vec::new() };
        let live = lock(&server.live);
        live.config().transfer.notify.iter().map(target).collect()
    }
}

impl Server {
    /// Starts the thread of transfers, if any are configured. Returns what takes connections that
    /// ask for them.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start_transfers(
        self: &Arc<Self>,
        lists: &AccessLists,
        private: Option<TlsListeners>,
    ) -> io::Result<Option<ConnectionSink>> {
        let config = lock(&self.live).started().transfer.clone();
        if !config.enabled {
            return Ok(None);
        }
        let access = ServerAccess {
            control: self.sources.control.clone(),
            credentials: Arc::clone(&self.documents.credentials),
            lists: lists.clone(),
            log: RefusalLog::default(),
            server: Arc::downgrade(self),
        };
        let transfers = Arc::new(Transfers::new(Arc::new(access), config.max_streams));
        let server = Arc::downgrade(self);
        let give_back: ConnectionSink = Arc::new(move |connection| {
            if let Some(server) = server.upgrade() {
                server.plane.serve_again(vec![connection]);
            }
        });
        let thread = TransferThread::start(transfers, give_back, private, yield_to_workers)?;
        let sink = thread.sink();
        // Set only here.
        let _ = self.services.transfers.set(thread);
        Ok(Some(sink))
    }

    /// Cuts off transfers: their clients try again.
    pub fn stop_transfers(&self) {
        if let Some(thread) = self.services.transfers.get() {
            thread.stop();
        }
    }
}

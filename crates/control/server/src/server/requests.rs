//! The server as the management API, control messages and a hot restart see it.
use super::{Server, lock};
use crate::sites::Sites;
use admin::{Connection, NewProcess, SharedKeeper, SharedSocket};
use answer::Policy;
use api::{ControlFuture, Credentials, ExplainRequest, LocalApi, TokenRefused};
use compile::{Image, Zone};
use control_messages::ServerContext;
use data_plane::{ENDING, STARTING};
use durable::lock::DataLock;
use explain::{ClientPlace, ComposedAnswer, ExplainedContext, ExplainedQuery};
use handler::{Forwarding, Settings};
use records::{RecordService, Refused, WriteResult};
use server_status::command::{
    AcceptedZone, Command, CommandOutcome, ReloadOutcome, TokenOutcome, TokenRequest,
};
use server_status::explain::{ExplainedForward, Explanation};
use server_status::{AnycastStatus, ServerState, Status};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::net::UnixStream;
use transfer::{TransferThread, Transfers};
use wire::{Name, NameBuf, QName};
use zone_manager::Answer;

impl api::ServerControl for Server {
    fn status(&self) -> Status {
        Self::status(self)
    }

    fn served_zone(&self, origin: Name<'_>) -> Option<Arc<Zone>> {
        self.sources.control.image().zone(origin).cloned()
    }

    fn explain(&self, request: ExplainRequest) -> ControlFuture<'_, Result<Explanation, String>> {
        let explained = async move {
            let control = &self.sources.control;
            let mut seed = [0; 8];
            getrandom::fill(&mut seed).map_err(|error| error.to_string())?;
            let seed = u64::from_ne_bytes(seed);
            let (image, query) = (control.image(), ExplainedQuery { request, seed });
            let (answer, mut context) = self.answer_explained(&image, &query);
            if let Some(forward) = &mut context.forward {
                let rtype = Some(query.request.rtype.to_string());
                let name = forward.name.clone();
                if let CommandOutcome::Shown(threads) =
                    Self::command(self, Command::Show { name, rtype }).await?
                {
                    forward.cached = threads.into_iter().filter(|it| it.count > 0).collect();
                }
            }
            let mut sets = Vec::new();
            for set in query.sets(&image, &answer) {
                let (zone, owner) = (set.zone.origin(), (set.view, set.owner.as_name()));
                let judged = control.judged(zone, owner, set.rtype).await;
                let judged = judged.map_err(|stopped| stopped.to_string())?;
                sets.push((set, judged));
            }
            Ok(query.explain(&image, &answer, &sets, context))
        };
        Box::pin(explained)
    }

    fn command(&self, command: Command) -> ControlFuture<'_, Result<CommandOutcome, String>> {
        Box::pin(Self::command(self, command))
    }

    fn reload(&self, accepts: bool) -> ControlFuture<'_, ReloadOutcome> {
        Box::pin(self.reload_all(accepts))
    }

    fn accept(&self, zone: Option<String>) -> ControlFuture<'_, Result<Vec<AcceptedZone>, String>> {
        Box::pin(Self::accept(self, zone))
    }

    fn accept_site(&self, name: &str) -> Option<Answer<WriteResult, Refused>> {
        self.sources.sites.get()?.accept(name)
    }

    fn anycast(&self) -> Option<AnycastStatus> {
        self.anycast_status()
    }

    fn withdraw(&self, reason: Option<String>, is_forced: bool) -> Result<(), String> {
        let none = || "[anycast] names no addresses".to_owned();
        self.supervision.announcer.as_ref().ok_or_else(none)?.withdraw(reason, is_forced)
    }

    fn manage_tokens(
        &self,
        request: TokenRequest,
    ) -> ControlFuture<'_, Result<TokenOutcome, TokenRefused>> {
        Box::pin(async move {
            if self.plane.is_handed_over() && self.stage.state() != ServerState::Starting {
                return Err(ENDING.to_owned().into());
            }
            let credentials = Arc::clone(&self.documents.credentials);
            let handled = tokio::task::spawn_blocking(move || credentials.handle(request)).await;
            handled.map_err(|error| TokenRefused::NotSaved(format!("internal error: {error}")))?
        })
    }
}

impl Server {
    /// Answers a query to explain, and says what of the config decides.
    fn answer_explained(
        &self,
        image: &Image,
        query: &ExplainedQuery,
    ) -> (ComposedAnswer, ExplainedContext) {
        let live = lock(&self.live);
        let settings = live.settings.newest();
        let forwards = settings.forwarding.as_ref().map(Forwarding::rules).unwrap_or_default();
        let answer = query.answer(image, Policy { forwards, ..settings.policy() });
        let (at, path) = live.owner(answer.network);
        let found = at.and_then(|at| live.config().networks.get(at));
        let place = ClientPlace {
            network: found.map(|of| of.name.clone()),
            view: found.and_then(|of| of.view.clone()),
            location: query.request.location.clone().or_else(|| path.map(String::from)),
        };
        let mut name = QName::new();
        name.set(query.request.name.as_name());
        let rule = settings.networks.rule(answer.network, &name);
        let forward = answer.asked.as_ref().map(|(name, group)| {
            let upstreams = live.forwards().upstreams(*group);
            let (suffix, servers) = upstreams
                .map_or_else(Default::default, |(suffix, servers)| (suffix.to_string(), servers));
            ExplainedForward { name: name.to_string(), suffix, servers, cached: Vec::new() }
        });
        (answer, ExplainedContext { place, rule, forward })
    }
}

impl ServerContext for Server {
    fn credentials(&self) -> &Arc<Credentials> {
        &self.documents.credentials
    }

    fn records(&self) -> Option<RecordService> {
        self.services.rest.records.get().cloned()
    }

    fn image(&self) -> Image {
        self.sources.control.image()
    }

    fn with_settings(&self, read: &mut dyn FnMut(&Settings)) {
        read(lock(&self.live).settings.newest());
    }

    fn transfers(&self) -> Option<&Arc<Transfers>> {
        self.services.transfers.get().map(TransferThread::transfers)
    }

    fn refresh_zone(&self, zone: NameBuf) {
        if self.sources.notify_secondary(zone.as_name()) {
            tracing::info!(%zone, "NOTIFY: its primaries are asked");
        } else {
            tracing::info!(%zone, "NOTIFY: its file is read again");
            self.sources.zones.load(zone);
        }
    }
}

/// Serves the local socket.
pub struct Handler {
    server: Arc<Server>,
    api: LocalApi,
}

impl Handler {
    /// A handler of the local socket of this server.
    pub fn new(server: Arc<Server>) -> Self {
        Self { api: LocalApi::new(server.api()), server }
    }
}

impl admin::Handler for Handler {
    async fn http(&self, stream: UnixStream, uid: u32) {
        self.api.serve(stream, uid).await;
    }

    fn sockets(&self) -> io::Result<Vec<SharedSocket>> {
        if self.server.stage.state() == ServerState::Starting {
            return Err(io::Error::other(STARTING));
        }
        if self.server.supervision.notify.is_watched() {
            return Err(io::Error::other(
                "a service manager supervises this server, and would report its end as a failure: \
                 use `systemctl restart dunlin`, which loses no query, because systemd keeps the \
                 sockets",
            ));
        }
        let offered = self.server.plane.offer_sockets()?;
        // The new process waits until the store is closed.
        if let Some(store) = self.server.sources.store.get() {
            drop(store.service.close());
        }
        self.server.sources.sites.get().into_iter().for_each(Sites::close);
        Ok(offered)
    }

    fn lock(&self) -> io::Result<Option<OwnedFd>> {
        self.server.supervision.lock.as_ref().map(DataLock::share).transpose()
    }

    fn keeper(&self) -> io::Result<Option<SharedKeeper>> {
        self.server.supervision.announcer.as_ref().map_or(Ok(None), |announcer| announcer.share())
    }

    fn resume(&self) {
        if let Some(store) = self.server.sources.store.get() {
            drop(store.service.open());
        }
        self.server.sources.sites.get().into_iter().for_each(Sites::open);
        self.server.plane.take_back();
    }

    async fn hand_off(&self, _new_process: NewProcess) -> Vec<Connection> {
        // It stays ready, because the new process is: no probe may fail now.
        self.server.stage.hand_over();
        if let Some(announcer) = &self.server.supervision.announcer {
            announcer.pass_on();
        }
        self.server.supervision.notify.handed_over();
        self.server.services.rest.start_stop();
        let end = self.server.plane.hand_over();
        tokio::task::spawn_blocking(end).await.unwrap_or_default()
    }
}

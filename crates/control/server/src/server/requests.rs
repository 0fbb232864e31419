//! The server as the management API and a hot restart see it.
use super::{ENDING, STARTING, Server, lock};
use admin::{Connection, NewProcess, SharedSocket};
use api::{ControlFuture, LocalApi, TokenRefused};
use compile::Zone;
use durable::lock::DataLock;
use server_status::command::{
    AcceptedZone, Command, CommandOutcome, ReloadOutcome, TokenOutcome, TokenRequest,
};
use server_status::{ServerState, Status};
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::net::UnixStream;
use wire::Name;
use worker::HandedConnection;

impl api::ServerControl for Server {
    fn status(&self) -> Status {
        Self::status(self)
    }

    fn served_zone(&self, origin: Name<'_>) -> Option<Arc<Zone>> {
        self.control.image().zone(origin).cloned()
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

    fn manage_tokens(
        &self,
        request: TokenRequest,
    ) -> ControlFuture<'_, Result<TokenOutcome, TokenRefused>> {
        Box::pin(async move {
            if self.is_handed_over() && *lock(&self.state) != ServerState::Starting {
                return Err(ENDING.to_owned().into());
            }
            let credentials = Arc::clone(&self.documents.credentials);
            let handled = tokio::task::spawn_blocking(move || credentials.handle(request)).await;
            handled.map_err(|error| TokenRefused::NotSaved(format!("internal error: {error}")))?
        })
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
        if *lock(&self.server.state) == ServerState::Starting {
            return Err(io::Error::other(STARTING));
        }
        if self.server.notify.is_watched() {
            return Err(io::Error::other(
                "a service manager supervises this server, and would report its end as a failure: \
                 use `systemctl restart dunlin`, which loses no query, because systemd keeps the \
                 sockets",
            ));
        }
        match &lock(&self.server.shared)[..] {
            [] => Err(io::Error::other("the server is about to end: start without --hot-restart")),
            shared => {
                let offered =
                    shared.iter().map(SharedSocket::try_clone).collect::<io::Result<_>>()?;
                self.server.is_offered.store(true, Ordering::Relaxed);
                // The new process waits until the store is closed.
                if let Some(store) = self.server.store.get() {
                    drop(store.service.close());
                }
                Ok(offered)
            }
        }
    }

    fn lock(&self) -> io::Result<Option<OwnedFd>> {
        self.server.lock.as_ref().map(DataLock::share).transpose()
    }

    fn resume(&self) {
        if let Some(store) = self.server.store.get() {
            drop(store.service.open());
        }
        self.server.restore_steering();
    }

    async fn hand_off(&self, _new_process: NewProcess) -> Vec<Connection> {
        // It stays ready, because the new process is: no probe may fail now.
        self.server.handed_over.notify_one();
        lock(&self.server.bypass).end();
        self.server.rest.start_stop();
        let threads = mem::take(&mut *lock(&self.server.threads));
        let Some(threads) = threads else { return Vec::new() };
        let connections = tokio::task::spawn_blocking(move || threads.hand_over()).await;
        let connection = |HandedConnection { stream, peer, client, header_due, inbox }| {
            Connection { fd: stream, peer, client, header_due, inbox }
        };
        connections.unwrap_or_default().into_iter().map(connection).collect()
    }
}

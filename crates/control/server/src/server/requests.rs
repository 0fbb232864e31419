//! Requests to the running server: over the admin socket and from the API.
use super::{ENDING, STARTING, Server, lock};
use admin::{
    AcceptedZone, Command, CommandOutcome, Connection, NewProcess, ReloadOutcome, SharedSocket,
    TokenOutcome, TokenRequest,
};
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use worker::HandedConnection;
use zone_manager::lock::DataLock;
use zone_manager::status::{ServerState, Status};

/// The API sends the same requests as the admin socket.
impl api::ServerControl for Server {
    fn status(&self) -> Status {
        Self::status(self)
    }

    fn command(&self, command: Command) -> api::CommandFuture<'_> {
        Box::pin(Self::command(self, command))
    }
}

/// Handles requests of the admin socket.
pub struct Handler(pub Arc<Server>);

impl admin::Handler for Handler {
    async fn status(&self) -> Status {
        self.0.status()
    }

    async fn reload(&self) -> ReloadOutcome {
        self.0.reload_all().await
    }

    async fn command(&self, command: Command) -> Result<CommandOutcome, String> {
        self.0.command(command).await
    }

    async fn accept(&self, zone: Option<String>) -> Result<Vec<AcceptedZone>, String> {
        self.0.accept(zone).await
    }

    async fn token(&self, request: TokenRequest) -> Result<TokenOutcome, String> {
        if self.0.is_handed_over() && *lock(&self.0.state) != ServerState::Starting {
            return Err(ENDING.to_owned());
        }
        let credentials = Arc::clone(&self.0.credentials);
        let handled = tokio::task::spawn_blocking(move || credentials.handle(request)).await;
        handled.map_err(|error| format!("internal error: {error}"))?
    }

    fn sockets(&self) -> io::Result<Vec<SharedSocket>> {
        if *lock(&self.0.state) == ServerState::Starting {
            return Err(io::Error::other(STARTING));
        }
        if self.0.notify.is_watched() {
            return Err(io::Error::other(
                "a service manager supervises this server, and would report its end as a failure: \
                 use `systemctl restart dunlin`, which loses no query, because systemd keeps the \
                 sockets",
            ));
        }
        match &lock(&self.0.shared)[..] {
            [] => Err(io::Error::other("the server is about to end: start without --hot-restart")),
            shared => {
                let offered =
                    shared.iter().map(SharedSocket::try_clone).collect::<io::Result<_>>()?;
                self.0.is_offered.store(true, Ordering::Relaxed);
                // The new process waits until the store is closed.
                if let Some(store) = self.0.store.get() {
                    drop(store.desk.close());
                }
                Ok(offered)
            }
        }
    }

    fn lock(&self) -> io::Result<Option<OwnedFd>> {
        self.0.lock.as_ref().map(DataLock::share).transpose()
    }

    fn resume(&self) {
        if let Some(store) = self.0.store.get() {
            drop(store.desk.open());
        }
        self.0.restore_steering();
    }

    async fn hand_off(&self, _new_process: NewProcess) -> Vec<Connection> {
        // It stays ready, because the new process is: no probe may fail now.
        self.0.handed_over.notify_one();
        lock(&self.0.bypass).end();
        self.0.rest.start_stop();
        let threads = mem::take(&mut *lock(&self.0.threads));
        let Some(threads) = threads else { return Vec::new() };
        let connections = tokio::task::spawn_blocking(move || threads.hand_over()).await;
        let connection = |HandedConnection { stream, peer, client, header_due, inbox }| {
            Connection { fd: stream, peer, client, header_due, inbox }
        };
        connections.unwrap_or_default().into_iter().map(connection).collect()
    }
}

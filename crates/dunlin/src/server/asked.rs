//! The server as it is asked: over the admin socket, and by the API.
use super::{ENDING, STARTING, Server, lock};
use admin::{Command, Connection, Outcome, Reloaded, Shared, Successor, TokenDone, TokenRequest};
use control::status::{State, Status};
use plane::Handed;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Asked by the API: the same as over the admin socket.
impl api::Operator for Server {
    fn status(&self) -> Status {
        Self::status(self)
    }

    fn command(&self, command: Command) -> api::Told<'_> {
        Box::pin(Self::command(self, command))
    }
}

/// Asked over the admin socket.
pub struct Handler(pub Arc<Server>);

impl admin::Handler for Handler {
    async fn status(&self) -> Status {
        self.0.status()
    }

    async fn reload(&self) -> Reloaded {
        self.0.reload_all().await
    }

    async fn command(&self, command: Command) -> Result<Outcome, String> {
        self.0.command(command).await
    }

    async fn token(&self, request: TokenRequest) -> Result<TokenDone, String> {
        if self.0.is_given_away() && *lock(&self.0.state) != State::Starting {
            return Err(ENDING.to_owned());
        }
        let credentials = Arc::clone(&self.0.credentials);
        let handled = tokio::task::spawn_blocking(move || credentials.handle(request)).await;
        handled.map_err(|error| format!("a defect: {error}"))?
    }

    fn sockets(&self) -> io::Result<Vec<Shared>> {
        if *lock(&self.0.state) == State::Starting {
            return Err(io::Error::other(STARTING));
        }
        if self.0.notify.is_watched() {
            return Err(io::Error::other(
                "a service manager watches this server, and would take its end for the end of the \
                 service: `systemctl restart dunlin` loses no question either, as systemd keeps \
                 the sockets meanwhile",
            ));
        }
        match &lock(&self.0.shared)[..] {
            [] => Err(io::Error::other("the server is about to end: start without --take-over")),
            shared => {
                let offered = shared.iter().map(Shared::try_clone).collect::<io::Result<_>>()?;
                self.0.is_offered.store(true, Ordering::Relaxed);
                // The successor waits for it.
                if let Some(store) = self.0.store.get() {
                    drop(store.desk.close());
                }
                Ok(offered)
            }
        }
    }

    fn go_on(&self) {
        if let Some(store) = self.0.store.get() {
            drop(store.desk.open());
        }
        self.0.go_on();
    }

    async fn hand_over(&self, _successor: Successor) -> Vec<Connection> {
        // It stays ready, for the successor is: who asked just now is not to be sent away.
        self.0.given_away.notify_one();
        lock(&self.0.bypass).end();
        self.0.rest.begin_to_stop();
        let threads = mem::take(&mut *lock(&self.0.threads));
        let Some(threads) = threads else { return Vec::new() };
        let given = tokio::task::spawn_blocking(move || threads.hand_over()).await;
        let connection = |Handed { stream, peer, client, header_due, inbox }| Connection {
            fd: stream,
            peer,
            client,
            header_due,
            inbox,
        };
        given.unwrap_or_default().into_iter().map(connection).collect()
    }
}

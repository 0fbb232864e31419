//! What a server does for its clients.
use crate::message::{AcceptedZone, ReloadOutcome};
use crate::{Connection, NewProcess, SharedSocket};
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::sync::Mutex;
use zone_manager::command::{Command, CommandOutcome, TokenOutcome, TokenRequest};
use zone_manager::status::Status;

/// Handles requests to a server.
pub trait Handler: Send + Sync + 'static {
    /// The status.
    fn status(&self) -> impl Future<Output = Status> + Send;

    /// Reloads config and zones.
    fn reload(&self) -> impl Future<Output = ReloadOutcome> + Send;

    /// Runs a command on the threads that answer queries, and waits for it.
    ///
    /// # Errors
    /// Why it failed, and what to do.
    fn command(
        &self,
        command: Command,
    ) -> impl Future<Output = Result<CommandOutcome, String>> + Send;

    /// Serves the held content of a zone, or of all zones.
    ///
    /// # Errors
    /// Why it failed, and what to do.
    fn accept(
        &self,
        zone: Option<String>,
    ) -> impl Future<Output = Result<Vec<AcceptedZone>, String>> + Send;

    /// Creates, lists or revokes credentials of the API.
    ///
    /// # Errors
    /// Why it failed, and what to do.
    fn token(
        &self,
        request: TokenRequest,
    ) -> impl Future<Output = Result<TokenOutcome, String>> + Send;

    /// A second descriptor of each listening socket; several of one address in the order in which
    /// they were bound. They are still served here, but must not change until
    /// [`resume`](Self::resume): the new process has their list.
    ///
    /// # Errors
    /// No descriptor is left.
    fn sockets(&self) -> io::Result<Vec<SharedSocket>>;

    /// A second descriptor of the lock of `[server] data_dir`, if there is one, shared with the new
    /// process.
    ///
    /// # Errors
    /// No descriptor is left.
    fn lock(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }

    /// The hot restart failed: continue as before, except for what it did to the sockets.
    fn resume(&self);

    /// The new process serves all sockets. Drains, stops, and returns the open connections. There
    /// is no way back.
    fn hand_off(&self, new_process: NewProcess) -> impl Future<Output = Vec<Connection>> + Send;
}

/// State shared by the tasks of all clients.
pub struct AdminState<H> {
    pub handler: Arc<H>,
    /// The version of this binary.
    pub version: String,
    /// Held by the hot restart in progress.
    pub restarting: Mutex<()>,
}

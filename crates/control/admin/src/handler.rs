//! What a server does for its clients.
use crate::{Connection, NewProcess, SharedKeeper, SharedSocket};
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio::sync::Mutex;

/// Handles requests to a server.
pub trait Handler: Send + Sync + 'static {
    /// Serves HTTP on a connection of this user, who may manage the server.
    fn http(&self, stream: UnixStream, uid: u32) -> impl Future<Output = ()> + Send;

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

    /// A second descriptor of the socket to the keeper of announced routes, if there is one.
    ///
    /// # Errors
    /// No descriptor is left.
    fn keeper(&self) -> io::Result<Option<SharedKeeper>> {
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

//! The keys of a fleet in etcd: their layout, and one way to follow them.
//!
//! Keys that are read must continue the history that this server knows, or have been accepted by an
//! operator. Whether keys are followed is reported in one way.
#![forbid(unsafe_code)]

mod follow;
mod history;
pub mod keys;
pub mod limits;
mod report;

pub use follow::{FollowedKeys, Follower};
pub use history::{History, ORIGIN, Position, replica_folder, set_back};
pub use keys::Keys;
pub use report::{LinkReport, LinkState, words_of_site};

use etcd_link::{Connection, ConnectionSettings};
use server_status::Member;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;
use std::{io, thread};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Where etcd is, and how to log in.
#[derive(Clone, Debug, Default)]
pub struct EtcdSettings {
    /// The URLs of its members: at least one.
    pub endpoints: Vec<String>,
    /// The prefix of all keys.
    pub prefix: String,
    /// The CA that signed the members' certificates; `None`: none is accepted.
    pub ca: Option<PathBuf>,
    /// The client's certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The user, and the file with its password.
    pub user: Option<(String, PathBuf)>,
    /// The description of this server for the others; its name must be unique.
    pub member: Member,
    /// Whether this server may write. If not, its user in etcd need not be able to.
    pub may_write: bool,
    /// Distinguishes this server from another one with its name: the same in all settings of a
    /// server.
    pub own: OwnLease,
    /// The site that this etcd is of, if it is another one: then this server only reads, and is no
    /// member. `None`: its own.
    pub site: Option<String>,
}

/// The lease of this server's key as a member, whether the key is there or not.
#[derive(Clone, Debug, Default)]
pub struct OwnLease(Arc<AtomicI64>);

impl OwnLease {
    /// This is the lease now.
    pub fn set(&self, lease: i64) {
        self.0.store(lease, Relaxed);
    }

    /// Whether it is this one.
    pub fn is(&self, lease: i64) -> bool {
        lease != 0 && self.0.load(Relaxed) == lease
    }

    /// The lease; `None`: this server has not joined yet.
    pub fn get(&self) -> Option<i64> {
        Some(self.0.load(Relaxed)).filter(|lease| *lease != 0)
    }
}

/// A connection to etcd, and the thread that runs the tasks of its users. Records have one, and
/// all the rest has another: a revoked token must not wait for a full list of records.
pub struct EtcdLink {
    /// The layout of the keys.
    pub keys: Keys,
    /// The requests.
    pub connection: Connection,
    /// Runs the tasks.
    pub runtime: Handle,
    /// The name of this server, and what tells it from another one.
    pub server: (String, OwnLease),
    /// Whether this server may write.
    pub may_write: bool,
    /// Ends the thread of the runtime.
    _end: oneshot::Sender<()>,
}

impl EtcdLink {
    /// Starts the thread of all but the records.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(settings: EtcdSettings) -> io::Result<Arc<Self>> {
        Self::start_named(settings, "etcd-documents")
    }

    /// Starts a thread of this name.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_named(settings: EtcdSettings, name: &str) -> io::Result<Arc<Self>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        thread::Builder::new().name(name.into()).spawn(move || {
            // It ends when the sender is dropped.
            let _ = runtime.block_on(ended);
        })?;
        let EtcdSettings { endpoints, ca, identity, user, .. } = settings;
        let (keys, may_write) = (Keys::new(&settings.prefix), settings.may_write);
        let server = (settings.member.name, settings.own);
        let connection = Connection::new(ConnectionSettings { endpoints, ca, identity, user });
        Ok(Arc::new(Self { keys, connection, runtime: handle, server, may_write, _end: end }))
    }

    /// Waits for a future; `None`: it takes longer than this.
    pub fn wait<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        self.runtime.block_on(async { timeout(limit, future).await.ok() })
    }

    /// Runs a task until it ends or is dropped.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(self.runtime.spawn(task))
    }
}

/// A task of a link. Dropping it ends it.
#[derive(Debug)]
pub struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

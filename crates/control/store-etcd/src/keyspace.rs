//! The keyspace under the prefix: one way to follow keys of etcd.
//!
//! Whatever a server knows of etcd is followed by [`FollowedKeys`]: they read where etcd is, check
//! that this continues the known history, list the keys at one revision, and watch them from there.
//! After an error they begin again, with the next member of etcd. What the keys mean is up to each
//! [`Follower`].
mod history;
mod report;

pub use history::{History, Position, set_back, values};
pub use report::{LinkReport, LinkState, LoggedCauses, Retry, words_of_site};

use crate::EtcdSettings;
use crate::connection::{Connection, RequestError};
use crate::events::Events;
use crate::keys::Keys;
use crate::limits::{PAGE_KEYS, RECONNECT_MAX};
use crate::members::OwnLease;
use etcd_client::{EventType, GetOptions, GetResponse, KeyValue, WatchResponse};
use std::convert::Infallible;
use std::future::{Future, pending};
use std::sync::Arc;
use std::{io, thread};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A connection to etcd, and the thread that runs the tasks of its users. Records have one, and
/// all the rest has another: a revoked token must not wait for a full list of records.
pub struct EtcdLink {
    pub(crate) keys: Keys,
    pub(crate) connection: Connection,
    pub(crate) runtime: Handle,
    /// The name of this server, and what tells it from another one.
    pub(crate) server: (String, OwnLease),
    /// Whether this server may write.
    pub(crate) may_write: bool,
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
    pub(crate) fn start_named(settings: EtcdSettings, name: &str) -> io::Result<Arc<Self>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        thread::Builder::new().name(name.into()).spawn(move || {
            // It ends when the sender is dropped.
            let _ = runtime.block_on(ended);
        })?;
        let (keys, may_write) = (Keys::new(&settings.prefix), settings.may_write);
        let server = (settings.member.name.clone(), settings.own.clone());
        let connection = Connection::new(settings);
        Ok(Arc::new(Self { keys, connection, runtime: handle, server, may_write, _end: end }))
    }
}

/// What follows keys of etcd.
pub trait Follower: Send {
    /// Whether clients wait for it: then each failed attempt is a fault. Otherwise a fault lasts.
    const IS_AWAITED: bool;

    /// A list begins: the keys that are taken now are all there are.
    fn begin(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Takes in a key that was listed, put or deleted.
    fn take(
        &mut self,
        _: &KeyValue,
        _is_put: bool,
    ) -> impl Future<Output = Result<(), RequestError>> + Send {
        async { Ok(()) }
    }

    /// The list is complete, as it is at this position. `is_replaced`: there was nothing before, or
    /// an operator has accepted that it does not continue that.
    fn listed(
        &mut self,
        _: &Position,
        _is_replaced: bool,
    ) -> impl Future<Output = Result<(), RequestError>> + Send {
        async { Ok(()) }
    }

    /// All changes of a message were taken.
    fn changed(&mut self) {}

    /// Lists the keys with these prefixes at a position.
    fn list(
        &mut self,
        link: &EtcdLink,
        prefixes: &[String],
        at: &Position,
        is_replaced: bool,
    ) -> impl Future<Output = Result<(), RequestError>> + Send {
        async move {
            self.begin().await;
            for prefix in prefixes {
                let mut pages = Pages::new(prefix, at.revision);
                while let Some(page) = pages.next(&link.connection).await? {
                    for kv in page.kvs() {
                        self.take(kv, true).await?;
                    }
                }
            }
            self.listed(at, is_replaced).await
        }
    }

    /// Takes in the changes of a message.
    fn apply(
        &mut self,
        message: &WatchResponse,
    ) -> impl Future<Output = Result<(), RequestError>> + Send {
        async move {
            for event in message.events() {
                if let Some(kv) = event.kv() {
                    self.take(kv, event.event_type() == EventType::Put).await?;
                }
            }
            self.changed();
            Ok(())
        }
    }

    /// Returns once it has something else to do. Nothing is lost if the future is dropped.
    fn due(&mut self) -> impl Future<Output = ()> + Send {
        pending()
    }

    /// Does what is due, at the begin of a watch and after each change, too. Returns whether
    /// everything has to be listed again.
    fn work(&mut self) -> impl Future<Output = Result<bool, RequestError>> + Send {
        async { Ok(false) }
    }

    /// The keys are followed no more. `is_new`: that is a fault of a cause that was not reported.
    fn ended(&mut self, why: &str, is_new: bool) -> impl Future<Output = ()> + Send;
}

/// The keys that are followed.
pub struct FollowedKeys {
    pub link: Arc<EtcdLink>,
    pub prefixes: Vec<String>,
    /// The known state of their history.
    pub history: History,
    /// Where it is said whether they are followed.
    pub report: Arc<LinkReport>,
}

impl FollowedKeys {
    /// Follows them until it is aborted.
    pub async fn follow<F: Follower>(mut self, mut follower: F) {
        let mut retry = Retry::new(RECONNECT_MAX);
        loop {
            let began = Instant::now();
            let Err(error) = self.follow_once(&mut follower).await;
            let is_lasting = retry.is_lasting(began);
            let is_new = self.report.ended(&error, is_lasting, F::IS_AWAITED);
            follower.ended(error.why(), is_new).await;
            retry.pause(began).await;
        }
    }

    async fn follow_once<F: Follower>(
        &mut self,
        follower: &mut F,
    ) -> Result<Infallible, RequestError> {
        let link = Arc::clone(&self.link);
        let (endpoint, _) = link.connection.client().await?;
        let at = self.list(follower).await?;
        self.report.follows(&link.connection.endpoint());
        let Err(ended) = self.watch(follower, at + 1).await;
        link.connection.leave(endpoint);
        Err(ended)
    }

    /// Lists them, and returns the revision of etcd.
    async fn list<F: Follower>(&mut self, follower: &mut F) -> Result<i64, RequestError> {
        let at = Position::read(&self.link).await?;
        self.history.check(&at)?;
        let is_replaced = self.history.is_replaced(&at);
        follower.list(&self.link, &self.prefixes, &at, is_replaced).await?;
        let revision = at.revision;
        self.history.join(at);
        Ok(revision)
    }

    async fn watch<F: Follower>(
        &mut self,
        follower: &mut F,
        from: i64,
    ) -> Result<Infallible, RequestError> {
        let mut events = Events::start(&self.link.connection, &self.prefixes, from).await?;
        loop {
            if follower.work().await? {
                self.list(follower).await?;
            }
            tokio::select! {
                message = events.next() => {
                    let message = message?;
                    self.history.reach(&message);
                    follower.apply(&message).await?;
                }
                () = follower.due() => {}
            }
        }
    }
}

/// The keys of a prefix as they are at a revision of etcd, in pages.
pub struct Pages {
    at: i64,
    end: Vec<u8>,
    /// The first key of the next page; `None`: there is none.
    from: Option<Vec<u8>>,
    /// Keys of a page.
    pub limit: i64,
}

impl Pages {
    /// All keys of a prefix, which may end with a slash.
    pub fn new(prefix: &str, at: i64) -> Self {
        let end = [prefix.trim_end_matches('/'), "0"].concat().into_bytes();
        Self { at, end, from: Some(prefix.as_bytes().to_vec()), limit: PAGE_KEYS }
    }

    /// Begins at this key.
    #[must_use]
    pub fn from(self, key: String) -> Self {
        Self { from: Some(key.into_bytes()), ..self }
    }

    /// The next page. A page is smaller if its answer would be longer than a message may be.
    ///
    /// # Errors
    /// As [`Connection::get`].
    pub async fn next(
        &mut self,
        connection: &Connection,
    ) -> Result<Option<GetResponse>, RequestError> {
        let Some(from) = self.from.take() else { return Ok(None) };
        loop {
            let options = GetOptions::new().with_range(self.end.as_slice());
            let options = options.with_limit(self.limit).with_revision(self.at);
            match connection.get(from.as_slice(), options).await {
                Err(RequestError::Refused(_)) if self.limit > 1 => self.limit /= 2,
                page => {
                    let page = page?;
                    let last = page.kvs().last().filter(|_| page.more());
                    self.from = last.map(|last| [last.key(), &[0]].concat());
                    return Ok(Some(page));
                }
            }
        }
    }
}

//! One way to follow keys of etcd.
//!
//! Whatever a server knows of etcd is followed by [`FollowedKeys`]: they read where etcd is, check
//! that this continues the known history, list the keys at one revision, and watch them from there.
//! After an error they begin again, with the next member of etcd. What the keys mean is up to each
//! [`Follower`].
use crate::EtcdLink;
use crate::history::{History, Position};
use crate::limits::RECONNECT_MAX;
use crate::report::LinkReport;
use etcd_client::{EventType, KeyValue, WatchResponse};
use etcd_link::{Events, Pages, RequestError, Retry};
use std::convert::Infallible;
use std::future::{Future, pending};
use std::sync::Arc;
use tokio::time::Instant;

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
    link: Arc<EtcdLink>,
    prefixes: Vec<String>,
    /// The known state of their history.
    history: History,
    /// Reports whether they are followed.
    report: Arc<LinkReport>,
}

impl FollowedKeys {
    /// Keys with these prefixes, with what is known of their history.
    pub fn new(
        link: &Arc<EtcdLink>,
        prefixes: Vec<String>,
        history: History,
        report: &Arc<LinkReport>,
    ) -> Self {
        Self { link: Arc::clone(link), prefixes, history, report: Arc::clone(report) }
    }

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

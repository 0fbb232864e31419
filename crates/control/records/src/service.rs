//! The record service: its interface and its thread.
use crate::health::Health;
use crate::limits::LIVE_WAITERS_MAX;
use crate::mirror::Mirror;
use crate::queue::{QueueGuard, WriteQueue, WriteRequest, ZoneRequest};
use crate::shared::{Published, SharedService, refused};
use crate::views::KnownViews;
use crate::writer::Writer;
use crate::{
    Batch, Fleet, PlannedWrite, Reader, Refused, Revision, Store, StoreError, StoreHealth, View,
    WriteContext, WriteResult,
};
use std::collections::HashMap;
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use store::ZoneList;
use tokio::sync::watch;
use wire::NameBuf;
use zone_manager::{
    Answer, HoldPolicy, Lane, Promise, Source, SourceKind, SourceSettings, UpdateSender,
    ZonePublisher, answer,
};

/// The name of the writer thread.
pub const WRITER_THREAD: &str = "records";

/// A snapshot to restore. A damaged store requires reading it twice.
pub trait SnapshotSource: Read + Seek + Send {}

impl<S: Read + Seek + Send> SnapshotSource for S {}

/// A store and how to open it: the source of its zones.
pub struct StoreSource {
    /// The store. It need not be open.
    pub store: Box<dyn Store>,
    /// The servers that share it; `None`: it is of this server alone.
    pub fleet: Option<Arc<dyn Fleet>>,
    /// Whether to wait for another process to release its files.
    pub waits: bool,
    /// The file for the names of its zones; `None`: no list.
    pub list: Option<PathBuf>,
    /// Whether writes are taken.
    pub may_write: bool,
    /// Of another site: what is served of it. `None`: all zones, and they are of this site.
    pub mirror: Option<Mirror>,
    /// The views that clients may have.
    pub views: KnownViews,
}

/// A handle on the service; clones share it.
#[derive(Clone)]
pub struct RecordService(pub(crate) Arc<SharedService>);

/// The thread of a service; dropping it ends it.
pub struct ServiceThreads {
    shared: Arc<SharedService>,
    thread: Option<JoinHandle<()>>,
}

/// Opens the store, passes its zones to the zone manager, waits until they are published, and
/// starts to take requests. A zone that cannot be read answers SERVFAIL (invariant I10). If the
/// store cannot be opened, all listed zones do, and opening is retried.
impl Source for StoreSource {
    /// An error: the thread could not be started.
    type Started = io::Result<(RecordService, ServiceThreads)>;

    fn settings(&self) -> SourceSettings {
        SourceSettings {
            name: self.mirror.as_ref().map_or_else(|| WRITER_THREAD.to_owned(), Mirror::source),
            kind: if self.mirror.is_some() { SourceKind::Site } else { SourceKind::Store },
            lane: Lane::Normal,
            hold: HoldPolicy::Never,
        }
    }

    fn start(self, updates: UpdateSender) -> Self::Started {
        let name = self.settings().name;
        let (shared, mut writer) = self.open(updates);
        let service = Arc::clone(&shared);
        let run = move || {
            let _taker = QueueGuard(&service.queue);
            writer.run();
        };
        let thread = thread::Builder::new().name(name).spawn(run)?;
        let serving = ServiceThreads { shared: Arc::clone(&shared), thread: Some(thread) };
        Ok((RecordService(shared), serving))
    }
}

impl StoreSource {
    /// Opens the store and publishes its zones.
    pub(crate) fn open(self, updates: UpdateSender) -> (Arc<SharedService>, Writer) {
        let Self { store, fleet, waits, list, may_write, mirror, views } = self;
        let shared = Arc::new(SharedService {
            publisher: updates.publisher(),
            reader: store.reader(),
            queue: WriteQueue::default(),
            published: watch::Sender::default(),
            health: Health::default(),
            fleet,
            views,
            may_write,
            mirror,
        });
        let location = shared.mirror.as_ref().and_then(|mirror| mirror.location.as_deref());
        location.into_iter().for_each(|location| updates.set_location(location));
        let mut writer = Writer::new(Arc::clone(&shared), updates, store, ZoneList::new(list));
        writer.start(waits);
        shared.publisher.wait(writer.published());
        (shared, writer)
    }
}

impl RecordService {
    /// Starts a store without a list that no other process uses.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn start(
        publisher: &ZonePublisher,
        store: Box<dyn Store>,
    ) -> io::Result<(Self, ServiceThreads)> {
        publisher.start_source(StoreSource {
            store,
            fleet: None,
            waits: false,
            list: None,
            may_write: true,
            mirror: None,
            views: KnownViews::default(),
        })
    }

    fn ask<T>(
        &self,
        request: impl FnOnce(Promise<T, Refused>) -> WriteRequest,
    ) -> Answer<T, Refused> {
        let (promise, answer) = answer();
        match self.0.queue.put(request(promise)) {
            Ok(()) => answer,
            Err(why) => Answer::answered(Err(why)),
        }
    }

    /// As [`Self::ask`], for a write.
    fn ask_write<T>(
        &self,
        request: impl FnOnce(Promise<T, Refused>) -> WriteRequest,
    ) -> Answer<T, Refused> {
        match self.0.may_write {
            true => self.ask(request),
            false => Answer::answered(Err(Refused::ReadOnly)),
        }
    }

    /// Writes a batch; answers once it is durable.
    pub fn write(&self, batch: Batch) -> Answer<WriteResult, Refused> {
        self.ask_write(|promise| WriteRequest::Zone(Box::new(ZoneRequest::Write(batch)), promise))
    }

    /// Writes what a plan makes of a zone when its turn comes; answers once it is durable.
    pub fn write_planned(
        &self,
        zone: NameBuf,
        plan: Arc<dyn PlannedWrite>,
        context: WriteContext,
    ) -> Answer<WriteResult, Refused> {
        let batch = Batch { zone, edits: Vec::new(), context };
        let request = Box::new(ZoneRequest::Planned(plan, batch));
        self.ask_write(|promise| WriteRequest::Zone(request, promise))
    }

    /// Creates a zone from the edits of a batch, which need NS records. Adds an SOA if there is
    /// none. An existing zone with exactly this content stays as it is.
    pub fn create_zone(&self, batch: Batch) -> Answer<WriteResult, Refused> {
        self.ask_write(|promise| WriteRequest::Zone(Box::new(ZoneRequest::Create(batch)), promise))
    }

    /// Deletes a zone.
    pub fn delete_zone(
        &self,
        zone: NameBuf,
        context: WriteContext,
    ) -> Answer<WriteResult, Refused> {
        self.ask_write(|promise| {
            WriteRequest::Zone(Box::new(ZoneRequest::Delete(zone, context)), promise)
        })
    }

    /// Replaces the store's content by a snapshot, or changes nothing. Writes wait meanwhile; DNS
    /// answers continue. The files of a damaged store are moved aside, unless the write has a
    /// condition, which cannot be checked then.
    pub fn restore(
        &self,
        from: Box<dyn SnapshotSource>,
        context: WriteContext,
    ) -> Answer<WriteResult, Refused> {
        self.ask_write(|promise| WriteRequest::Restore(from, context, promise))
    }

    /// Accepts what the shared store has, although it is older than what this server has, or
    /// another one.
    pub fn adopt(&self) -> Answer<WriteResult, Refused> {
        self.ask(WriteRequest::Adopt)
    }

    /// Makes the newest form that of the store: older versions cannot use it any more.
    pub fn upgrade(&self) -> Answer<(), Refused> {
        self.ask_write(WriteRequest::Upgrade)
    }

    /// The health of the store.
    pub fn health(&self) -> StoreHealth {
        self.0.health.now()
    }

    /// Whether a small write would be accepted now, as far as known.
    ///
    /// # Errors
    /// Why it would be refused.
    pub fn writable(&self) -> Result<(), Refused> {
        match self.0.health.write_refusal() {
            Some(why) => Err(why),
            None => self.0.reader.writable().map_err(refused),
        }
    }

    /// Reads from the store unless it has failed. An error triggers a check of the store.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&dyn Reader) -> Result<T, StoreError>,
    ) -> Result<T, Refused> {
        if let Some(why) = self.0.health.read_refusal() {
            return Err(why);
        }
        read(&*self.0.reader).map_err(|why| {
            if !matches!(why, StoreError::Closed) {
                self.0.queue.doubt();
            }
            refused(why)
        })
    }

    /// Clients may have these views from now on; [`Self::settle`] lays their sets over the zones.
    pub fn set_views(&self, views: HashMap<View, compile::View>) {
        self.0.views.set(views);
    }

    /// Determines the owners of zones again after the config has changed. Retries a failed store at
    /// once.
    pub fn settle(&self) -> Answer<(), Refused> {
        self.ask(WriteRequest::Settle)
    }

    /// Releases the store's files for the new process of a hot restart. Refuses writes from now on.
    pub fn close(&self) -> Answer<(), Refused> {
        self.ask(WriteRequest::Close)
    }

    /// Opens the files again after the hot restart failed.
    pub fn open(&self) -> Answer<(), Refused> {
        self.ask(WriteRequest::Open)
    }

    /// Whether the writer thread panicked. The served zones stay.
    pub fn has_failed(&self) -> bool {
        self.0.queue.has_failed()
    }

    /// Answers once a revision is live on every worker; waits for it to be written.
    ///
    /// # Errors
    /// The service ends, or too many wait.
    pub fn wait_live(
        &self,
        revision: Revision,
    ) -> impl Future<Output = Result<(), Refused>> + Send + use<> {
        let (shared, mut published) = (Arc::clone(&self.0), self.0.published.subscribe());
        async move {
            if shared.published.receiver_count() > LIVE_WAITERS_MAX {
                return Err(Refused::Busy);
            }
            let is_over = |now: &Published| now.revision >= revision || now.has_ended;
            let now = *published.wait_for(is_over).await.map_err(|_| Refused::Stopping)?;
            if now.revision < revision {
                return Err(Refused::Stopping);
            }
            Ok(shared.publisher.wait_live(now.sequence).await?)
        }
    }

    /// Whether this server takes writes.
    pub fn may_write(&self) -> bool {
        self.0.may_write
    }

    /// The servers that share the store; `None`: it is of this server alone.
    pub fn fleet(&self) -> Option<&dyn Fleet> {
        self.0.fleet.as_deref()
    }
}

impl ServiceThreads {
    /// Finishes queued requests, and ends.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the record service panicked; accepted writes are on disk");
        }
        // The writer ends first, so that waiters for its revisions are answered.
        self.shared.published.send_modify(|published| published.has_ended = true);
    }
}

impl Drop for ServiceThreads {
    fn drop(&mut self) {
        self.end();
    }
}

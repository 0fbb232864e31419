//! The zone manager: everything that is answered goes through it.
//!
//! Sources send updates through an [`UpdateSender`]. One thread applies them to the catalog, which
//! knows the owner of each zone, and publishes the image by one pointer. Workers load it at their
//! next burst. This thread frees old images once no worker uses them.
#![forbid(unsafe_code)]

mod aliases;
mod answer;
mod catalog;
mod choose;
mod defaults;
mod edits;
mod epoch;
mod filter;
mod health;
mod hidden;
pub mod hold;
mod judge;
pub mod limits;
mod manager;
mod puts;
mod queue;
mod ramps;
mod sender;
pub mod shares;
mod shown;
mod source;
pub mod validate;

pub use answer::{Answer, Promise, Stopped, answer, block_on};
pub use catalog::{Catalog, CatalogZone};
pub use defaults::DefaultCheck;
pub use epoch::Epoch;
pub use health::{CheckNames, HealthTable, HealthTarget, TargetUse, ZoneKey};
pub use hidden::HiddenZones;
pub use model::{
    Change, Edit, MemberClass, Policy, Precondition, RECORDS_MAX, SetRules, SetValue, is_check_name,
};
pub use queue::{QueueFull, Sequence};
pub use ramps::WallClock;
pub use sender::UpdateSender;
pub use source::{
    Applied, HoldPolicy, Lane, Refusal, Source, SourceKind, SourceSettings, SyncOutcome, Synced,
    Target, ZoneOwner,
};

use compile::{Image, View};
use hold::{Acceptance, HeldZones};
use image::HashKey;
use manager::Manager;
use model::JudgedSet;
use queue::{Action, EndGuard, SourceId, UpdateQueue};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;
use sync::{Publisher, Reader, ReadersFull};
use wire::{Name, Rtype};

/// State shared by all handles.
struct Shared {
    queue: UpdateQueue,
    publisher: Mutex<Publisher<Image>>,
    published: Mutex<SystemTime>,
    catalog: Catalog,
    holds: HeldZones,
    health: Arc<HealthTable>,
}

impl Shared {
    fn publisher(&self) -> MutexGuard<'_, Publisher<Image>> {
        // A panic under the lock happens before or after a complete step.
        self.publisher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes an image; only the thread of the zone manager does. Returns its generation.
    fn publish(&self, image: Image) -> u64 {
        let generation = self.publisher().publish(image);
        *self.published.lock().unwrap_or_else(PoisonError::into_inner) = SystemTime::now();
        generation
    }
}

/// A handle on the zone manager; clones share it.
#[derive(Clone)]
pub struct ZonePublisher(Arc<Shared>);

/// The zone manager's thread; it stops when this is dropped.
pub struct PublisherThread {
    publisher: ZonePublisher,
    thread: Option<JoinHandle<()>>,
}

impl ZonePublisher {
    /// Starts the thread with a first image.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(image: Image) -> io::Result<(Self, PublisherThread)> {
        let since_1970 = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self::start_with_clock(image, Arc::new(move || since_1970().unwrap_or_default()))
    }

    /// As [`start`](Self::start), with weights that change by another clock than the system's.
    ///
    /// # Errors
    /// As there.
    pub fn start_with_clock(image: Image, clock: WallClock) -> io::Result<(Self, PublisherThread)> {
        let publisher = Mutex::new(Publisher::new(image));
        let published = Mutex::new(SystemTime::now());
        let ((queue, receiver), catalog) = (UpdateQueue::new(), Catalog::default());
        let holds = HeldZones::default();
        let health = Arc::default();
        let shared = Arc::new(Shared { queue, publisher, published, catalog, holds, health });
        let mut manager = Manager::new(Arc::clone(&shared), receiver, clock);
        let ended = Arc::clone(&shared);
        let run = move || {
            let _end = EndGuard(&ended.queue);
            manager.run();
        };
        let thread = thread::Builder::new().name("control".into()).spawn(run)?;
        let publisher = Self(shared);
        let running = PublisherThread { publisher: publisher.clone(), thread: Some(thread) };
        Ok((publisher, running))
    }

    /// Registers a source, and starts it.
    pub fn start_source<S: Source>(&self, source: S) -> S::Started {
        let settings = source.settings();
        let id = self.0.catalog.register(&settings);
        source.start(UpdateSender::new(Arc::clone(&self.0), id, settings.lane))
    }

    /// A reader of published images, for one worker.
    ///
    /// # Errors
    /// There are too many readers.
    pub fn reader(&self) -> Result<Reader<Image>, ReadersFull> {
        self.0.publisher().reader()
    }

    /// The newest image.
    pub fn image(&self) -> Image {
        self.0.publisher().newest().clone()
    }

    /// The key of all hashes.
    pub fn key(&self) -> Arc<HashKey> {
        Arc::clone(self.0.publisher().newest().key())
    }

    /// The owners of all zones.
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// The sequence of the last update.
    pub fn last(&self) -> Sequence {
        self.0.queue.last()
    }

    /// Waits until an update is applied or refused, and published. Returns its generation, or
    /// `None` if the thread stopped before.
    pub fn wait(&self, sequence: Sequence) -> Option<u64> {
        block_on(self.0.queue.published(sequence))
    }

    /// Answers once an update is live: every worker serves it or a later one.
    pub fn wait_live(&self, sequence: Sequence) -> Answer<()> {
        let (promise, answer) = answer();
        self.when_live(sequence, move |is_live| {
            if is_live {
                promise.give(());
            }
        });
        answer
    }

    /// Calls back on the zone manager's thread once an update is live; false: the thread ended
    /// before.
    pub fn when_live(&self, _: Sequence, then: impl FnOnce(bool) + Send + 'static) {
        // The queue is in order, so this covers all earlier updates.
        self.0.queue.put(
            (SourceId(usize::MAX), Lane::Normal),
            Action::WhenLive(Box::new(then)),
            None,
        );
    }

    /// The targets of checks that published sets name.
    pub fn health(&self) -> &HealthTable {
        &self.0.health
    }

    /// Reports the health of targets, before all updates of sources. `None` forgets one. Answers
    /// once it is published.
    pub fn report_health(
        &self,
        verdicts: Vec<(HealthTarget, Option<MemberClass>)>,
    ) -> Answer<Sequence> {
        let (promise, answer) = answer();
        let health = (SourceId(usize::MAX), Lane::Urgent);
        self.0.queue.put(health, Action::Health(verdicts, promise), None);
        answer
    }

    /// Sets the checks of zones, each for the sets of addresses in its zone that name none: of any
    /// source. A check that sets name already stays with them.
    pub fn set_default_checks(&self, all: Vec<DefaultCheck>) {
        let health = (SourceId(usize::MAX), Lane::Urgent);
        self.0.queue.put(health, Action::Defaults(all), None);
    }

    /// Names sets of which this address of a check, or of all checks, is the last living member, or
    /// the last one that is not drained. Only some of many are named.
    pub fn last_member_of(&self, address: IpAddr, check: Option<&str>) -> Answer<Vec<String>> {
        let (promise, answer) = answer();
        let action = Action::LastMember(address, check.map(Box::from), promise);
        self.0.queue.put((SourceId(usize::MAX), Lane::Urgent), action, None);
        answer
    }

    /// Tells what became of the members of a set with rules that clients of a view get; `None`:
    /// there is none. Names are in lower case.
    pub fn judged(
        &self,
        zone: Name<'_>,
        (view, name): (View, Name<'_>),
        rtype: Rtype,
    ) -> Answer<Option<JudgedSet>> {
        let (promise, answer) = answer();
        let relative = (view, validate::relative(name, zone).into());
        let action = Action::Judged(zone.as_bytes().into(), relative, rtype, promise);
        self.0.queue.put((SourceId(usize::MAX), Lane::Urgent), action, None);
        answer
    }

    /// Accepts held content: of a zone, or of a layer as [`HeldZones::all`] names it.
    pub fn accept(&self, held: &str) -> Answer<Acceptance> {
        let (promise, answer) = answer();
        match self.0.catalog.state().held(held) {
            Some((source, target)) => {
                let action = Action::Accept(target, promise);
                self.0.queue.put((source, Lane::Normal), action, None);
            }
            None => promise.give(self.0.holds.accept(held)),
        }
        answer
    }

    /// The generation of the newest image, and the time of its publication.
    pub fn published(&self) -> (u64, SystemTime) {
        let when = *self.0.published.lock().unwrap_or_else(PoisonError::into_inner);
        (self.0.publisher().generation(), when)
    }

    /// Whether the thread panicked; the published image stays.
    pub fn has_failed(&self) -> bool {
        self.0.queue.progress.borrow().has_ended && !self.0.queue.is_closed()
    }

    /// The held zones and hosts files.
    pub fn holds(&self) -> &HeldZones {
        &self.0.holds
    }

    /// Whether no reader can read an image older than this generation any more.
    pub fn is_live(&self, generation: u64) -> bool {
        self.0.publisher().is_live(generation)
    }
}

impl PublisherThread {
    /// Applies queued updates, and stops.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.publisher.0.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the zone manager panicked; the last published zones stay served");
        }
    }
}

impl Drop for PublisherThread {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;

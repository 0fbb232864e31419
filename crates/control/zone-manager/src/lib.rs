//! Applies all changes of zones: queue, validate, compile, publish.
//!
//! Sources put changes into a queue. One thread takes all queued changes, applies them to the
//! image, and publishes it by one pointer. Workers load it at their next burst. This thread frees
//! old images once no worker uses them.
#![forbid(unsafe_code)]

pub mod command;
pub mod connection_limiter;
pub mod files;
pub mod hold;
pub mod limits;
pub mod lock;
pub mod status;
mod update_queue;

pub use update_queue::{Sequence, UpdateQueueFull};

use compile::{Image, Zone};
use hold::HeldZones;
use model::Change;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;
use sync::{Publisher, Reader, ReadersFull};
use update_queue::{QueueReceiver, UpdateQueue, ZoneUpdate};
use wire::Name;

/// State shared by all handles.
struct Shared {
    queue: UpdateQueue,
    publisher: Mutex<Publisher<Image>>,
    published: Mutex<SystemTime>,
    holds: HeldZones,
}

impl Shared {
    fn publisher(&self) -> MutexGuard<'_, Publisher<Image>> {
        // A panic under the lock happens before or after a complete step.
        self.publisher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle on the publisher; clones share it.
#[derive(Clone)]
pub struct ZonePublisher(Arc<Shared>);

/// The publisher's thread; it stops when this is dropped.
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
        let publisher = Mutex::new(Publisher::new(image));
        let published = Mutex::new(SystemTime::now());
        let (queue, holds) = (UpdateQueue::default(), HeldZones::default());
        let publisher = Self(Arc::new(Shared { queue, publisher, published, holds }));
        let shared = Arc::clone(&publisher.0);
        let thread = thread::Builder::new().name("control".into()).spawn(move || run(&shared))?;
        let running = PublisherThread { publisher: publisher.clone(), thread: Some(thread) };
        Ok((publisher, running))
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

    /// Queues a change of a record set; it replaces a queued change of the same set.
    ///
    /// # Errors
    /// The queue is full: try again later.
    pub fn put(&self, change: Change) -> Result<Sequence, UpdateQueueFull> {
        self.0.queue.put(change)
    }

    /// Queues a whole zone, which replaces the one with its origin.
    ///
    /// # Errors
    /// As [`ZonePublisher::put`].
    pub fn put_zone(&self, zone: Zone) -> Result<Sequence, UpdateQueueFull> {
        self.0.queue.put_zone(zone)
    }

    /// Queues the removal of a zone, if it exists.
    ///
    /// # Errors
    /// As [`ZonePublisher::put`].
    pub fn remove_zone(&self, origin: Name<'_>) -> Result<Sequence, UpdateQueueFull> {
        self.0.queue.remove_zone(origin)
    }

    /// The sequence of the last queued update.
    pub fn last(&self) -> Sequence {
        self.0.queue.last()
    }

    /// Queues the zones of all hosts files, the first with priority, to replace the current ones.
    /// Forwarding of these names is decided again.
    ///
    /// # Errors
    /// As [`ZonePublisher::put`].
    pub fn put_hosts(&self, hosts: Vec<Arc<Zone>>) -> Result<Sequence, UpdateQueueFull> {
        self.0.queue.put_hosts(hosts)
    }

    /// Waits until the update is applied or refused, and published. Returns its generation, or
    /// `None` if the thread stopped before.
    pub fn wait(&self, sequence: Sequence) -> Option<u64> {
        self.0.queue.wait(sequence)
    }

    /// The generation of the newest image, and the time of its publication.
    pub fn published(&self) -> (u64, SystemTime) {
        let when = *self.0.published.lock().unwrap_or_else(PoisonError::into_inner);
        (self.0.publisher().generation(), when)
    }

    /// Whether the thread panicked; the published image stays.
    pub fn has_failed(&self) -> bool {
        self.0.queue.has_failed()
    }

    /// The held zones. Sources ask here before they publish content that may be incomplete.
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
            tracing::error!("the publisher thread panicked; the last published zones stay served");
        }
    }
}

impl Drop for PublisherThread {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(shared: &Shared) {
    let _taker = QueueReceiver(&shared.queue);
    let mut retired = 0;
    while let Some(updates) = shared.queue.take(retired > 0) {
        if !updates.is_empty() {
            let mut image = shared.publisher().newest().clone();
            updates.into_iter().for_each(|update| apply(&mut image, update));
            let generation = shared.publisher().publish(image);
            *shared.published.lock().unwrap_or_else(PoisonError::into_inner) = SystemTime::now();
            shared.queue.done(generation);
        }
        retired = shared.publisher().collect();
    }
}

fn apply(image: &mut Image, update: ZoneUpdate) {
    match update {
        ZoneUpdate::Zone(zone) => image.put_zone(Arc::new(*zone)),
        ZoneUpdate::Removed(origin) => image.remove_zone(origin.as_name()),
        ZoneUpdate::Hosts(hosts) => image.set_hosts(hosts),
        ZoneUpdate::Changes(changes) => {
            let Some(first) = changes.first() else { return };
            let origin = first.zone.as_name();
            let Some(zone) = image.zone(origin) else {
                let count = changes.len();
                tracing::warn!(zone = %origin, count, "changes refused: there is no such zone");
                return;
            };
            let mut zone = Zone::clone(zone);
            for change in &changes {
                apply_change(&mut zone, change, origin);
            }
            image.put_zone(Arc::new(zone));
        }
    }
}

/// A refused change does not modify the zone.
fn apply_change(zone: &mut Zone, change: &Change, origin: Name<'_>) {
    let records: Vec<&[u8]> =
        change.set.as_ref().map(|set| set.records().collect()).unwrap_or_default();
    let set = change.set.as_ref().map(|set| (set.ttl(), &records[..]));
    if let Err(why) = zone.change(change.name.as_name(), change.rtype, set) {
        tracing::warn!(zone = %origin, rtype = %change.rtype, "change refused: {why}");
    }
}

#[cfg(test)]
mod tests;

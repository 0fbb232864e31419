//! The desk as its callers have it, and its threads.
use crate::clerk::Clerk;
use crate::live::Live;
use crate::pending::{Pending, Promise, pending};
use crate::queue::{Queue, Request, Taker};
use crate::{Batch, Owner, Reader, Refused, Revision, Store, StoreError, Written};
use compile::Zone;
use control::Control;
use image::HashKey;
use std::io::{self, Read};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::SystemTime;
use wire::{Name, NameBuf};

/// The name of the thread that writes.
pub const DESK_THREAD: &str = "records";

/// Who else has zones.
pub trait Others: Send + Sync + 'static {
    /// Who says what a zone holds, if that is not the store.
    fn owner(&self, origin: Name<'_>) -> Option<Owner>;

    /// Whether the server itself has a zone of this name, where nobody else has one.
    fn is_built_in(&self, origin: Name<'_>) -> bool;

    /// What is answered where the store has no zone any more.
    fn instead(&self, origin: Name<'_>, key: &Arc<HashKey>) -> Option<Zone>;
}

/// Nobody else has any.
pub struct NoOthers;

impl Others for NoOthers {
    fn owner(&self, _: Name<'_>) -> Option<Owner> {
        None
    }

    fn is_built_in(&self, _: Name<'_>) -> bool {
        false
    }

    fn instead(&self, _: Name<'_>, _: &Arc<HashKey>) -> Option<Zone> {
        None
    }
}

/// What handles share.
pub(crate) struct Shared {
    pub control: Control,
    pub others: Arc<dyn Others>,
    pub reader: Arc<dyn Reader>,
    pub queue: Queue,
    pub live: Live,
}

impl Shared {
    /// The zone as it is answered, if it is built in: neither the store's nor the config's. One
    /// that the store had a moment ago may still be answered, and is not.
    pub fn built_in(&self, origin: Name<'_>) -> Option<Arc<Zone>> {
        let image = self.control.image();
        let is_hosts = || origin == Name::ROOT;
        image.zone(origin).filter(|_| is_hosts() || self.others.is_built_in(origin)).cloned()
    }
}

/// A handle on the desk. Clones are handles on the same one.
#[derive(Clone)]
pub struct Desk(pub(crate) Arc<Shared>);

/// The threads of a desk; they end when told or dropped.
pub struct Serving {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Desk {
    /// Gives the zones of a store to `control`, waits until they are published, and starts to
    /// take requests. A zone that cannot be read answers SERVFAIL (invariant I10).
    ///
    /// # Errors
    /// When the store cannot be read at all, or no thread be started.
    pub fn start(
        control: Control,
        store: Box<dyn Store>,
        others: Arc<dyn Others>,
    ) -> io::Result<(Self, Serving)> {
        let reader = store.reader();
        let shared =
            Shared { control, others, reader, queue: Queue::default(), live: Live::default() };
        let shared = Arc::new(shared);
        let mut clerk = Clerk::new(Arc::clone(&shared), store).map_err(io::Error::other)?;
        shared.control.wait(clerk.publish_all());
        let (desk, live) = (Arc::clone(&shared), Arc::clone(&shared));
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            thread::Builder::new().name(name.into()).spawn(run)
        };
        let mut serving = Serving { shared: Arc::clone(&shared), threads: Vec::new() };
        let run = move || {
            let _taker = Taker(&desk.queue);
            clerk.run();
        };
        serving.threads.push(spawn(DESK_THREAD, Box::new(run))?);
        let run = move || live.live.run(&live.control);
        serving.threads.push(spawn("records-live", Box::new(run))?);
        Ok((Self(shared), serving))
    }

    fn ask<T>(&self, request: impl FnOnce(Promise<T>) -> Request) -> Pending<T> {
        let (promise, pending) = pending();
        match self.0.queue.put(request(promise)) {
            Ok(()) => pending,
            Err(why) => Pending::answered(Err(why)),
        }
    }

    /// Writes a batch. It is answered once no crash can undo it.
    pub fn write(&self, batch: Batch) -> Pending<Written> {
        self.ask(|promise| Request::Write(batch, promise))
    }

    /// Makes a zone that holds what the edits of a batch put: name servers at least. It gets an
    /// SOA unless it brings one.
    pub fn create_zone(&self, batch: Batch) -> Pending<Written> {
        self.ask(|promise| Request::Create(batch, promise))
    }

    /// Takes a zone away with all it holds.
    pub fn delete_zone(&self, zone: NameBuf, by: Arc<str>, when: SystemTime) -> Pending<Written> {
        self.ask(|promise| Request::Delete(zone, by, when, promise))
    }

    /// Takes what a snapshot holds for all that is in the store, or does nothing. Writes wait
    /// meanwhile; answers go on.
    pub fn restore(
        &self,
        from: Box<dyn Read + Send>,
        by: Arc<str>,
        when: SystemTime,
    ) -> Pending<Written> {
        self.ask(|promise| Request::Restore(from, by, when, promise))
    }

    /// Asks anew whose zones are whose, after the config has changed.
    pub fn settle(&self) -> Pending<()> {
        self.ask(Request::Settle)
    }

    /// Gives the files of the store back, for a successor: writes are refused from now on.
    pub fn close(&self) -> Pending<()> {
        self.ask(Request::Close)
    }

    /// Has the files again, since the successor did not come.
    pub fn open(&self) -> Pending<()> {
        self.ask(Request::Open)
    }

    /// Whether the thread that writes has ended by itself: what is answered stays as it is.
    pub fn has_failed(&self) -> bool {
        self.0.queue.has_failed()
    }

    /// Answers once every worker serves a revision, or must before it reads anything again. One
    /// that is not yet written is waited for.
    pub fn wait_live(&self, revision: Revision) -> Pending<()> {
        self.0.live.wait(revision)
    }
}

impl Serving {
    /// Does what waits, and ends.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.queue.close();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("the desk panicked; what was written is on the disk");
            }
            // The desk is the first to end: who waits for it to be live is told then.
            self.shared.live.end();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}

/// Why nothing was written, as it is told.
pub(crate) fn refused(why: StoreError) -> Refused {
    match why {
        StoreError::Full => Refused::Full,
        StoreError::Closed => Refused::Stopping,
        StoreError::Failed(why) => Refused::Failed(why.into()),
    }
}

//! The desk: a thread that takes all that waits, has it brought to the disk as one group, and gives
//! the zones to `control`.
use crate::limits::{GROUP_EDITS_MAX, MAILBOX_PATIENCE, ZONES_MAX};
use crate::live::Live;
use crate::pending::{Pending, Promise, pending};
use crate::prepare;
use crate::queue::{Queue, Request, Taker};
use crate::zones::{Head, Heads, key};
use crate::{
    Action, Batch, Expect, Owner, Prepared, Reader, Refused, Restoring, Revision, SetKey, Store,
    StoreError, Written, codec,
};
use compile::Zone;
use control::{Control, MailboxFull, Ticket};
use image::HashKey;
use std::collections::HashMap;
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

    /// What is answered where the store has no zone any more.
    fn instead(&self, origin: Name<'_>, key: &Arc<HashKey>) -> Option<Zone>;
}

/// What handles share.
pub(crate) struct Shared {
    pub control: Control,
    pub others: Arc<dyn Others>,
    pub reader: Arc<dyn Reader>,
    queue: Queue,
    live: Live,
}

impl Shared {
    /// The zone as it is answered, if it is built in: neither the store's nor the config's. One
    /// that the store had a moment ago may still be answered, and is not.
    pub fn built_in(&self, origin: Name<'_>) -> Option<Arc<Zone>> {
        let image = self.control.image();
        let is_hosts = || origin == Name::ROOT;
        let is_built_in = || self.others.instead(origin, image.key()).is_some();
        image.zone(origin).filter(|_| is_hosts() || is_built_in()).cloned()
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
        if let Some(ticket) = clerk.publish_all() {
            shared.control.wait(ticket);
        }
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

/// What is written together.
#[derive(Default)]
struct Group {
    writes: Vec<Prepared>,
    answers: Vec<(Revision, Promise<Written>)>,
    /// The zones that are touched, as they were before; nothing: there was none.
    touched: HashMap<Box<[u8]>, Option<Head>>,
    /// When its sets were written, by zone and set, of so many of its writes: looked up rarely.
    written: HashMap<(Box<[u8]>, Vec<u8>), Revision>,
    noted: usize,
    edits: usize,
}

impl Group {
    /// Notes when the sets of all its writes were written.
    fn note_written(&mut self) {
        for write in &self.writes[self.noted..] {
            let at = key(write.zone.as_name());
            for change in write.changes().map_or(&[][..], |(_, changes)| changes) {
                let mut of = Vec::new();
                codec::set_key(&mut of, &change.name, change.view, change.rtype);
                self.written.insert((at.clone(), of), write.revision);
            }
        }
        self.noted = self.writes.len();
    }
}

/// What the thread has.
struct Clerk {
    shared: Arc<Shared>,
    store: Box<dyn Store>,
    heads: Heads,
    key: Arc<HashKey>,
    /// The last that was given to a write.
    revision: Revision,
    group: Group,
}

impl Clerk {
    fn new(shared: Arc<Shared>, store: Box<dyn Store>) -> Result<Self, StoreError> {
        let key = Arc::clone(shared.control.image().key());
        let (heads, revision) = (Heads::new(), Revision::NONE);
        let mut clerk = Self { shared, store, heads, key, revision, group: Group::default() };
        clerk.load()?;
        Ok(clerk)
    }

    /// Reads all zones of the store.
    fn load(&mut self) -> Result<(), StoreError> {
        self.heads.clear();
        let reader = &*self.shared.reader;
        self.revision = reader.revision()?;
        for stored in reader.zones()? {
            let origin = stored.origin.as_name();
            let head = match Head::load(reader, origin, &self.key) {
                Ok(head) => head,
                Err(why) => {
                    tracing::error!(zone = %origin, "zone of the store answers SERVFAIL: {why}");
                    let zone = Zone::unloaded(Arc::clone(&self.key), origin);
                    Some(Head { zone, revision: stored.revision })
                }
            };
            self.heads.extend(head.map(|head| (key(origin), head)));
        }
        Ok(())
    }

    fn run(&mut self) {
        let mut is_tidy = false;
        while let Some(requests) = self.shared.queue.take(is_tidy) {
            for request in requests {
                self.take(request);
                if self.group.edits >= GROUP_EDITS_MAX {
                    self.commit();
                }
            }
            self.commit();
            is_tidy = !self.store.tidy().unwrap_or_else(|why| {
                tracing::warn!("housekeeping of the store: {why}");
                false
            });
        }
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Write(batch, promise) => match self.write(batch) {
                Ok(revision) => self.group.answers.push((revision, promise)),
                Err(why) => promise.answer(Err(why)),
            },
            Request::Create(batch, promise) => match self.create(batch) {
                Ok(revision) => self.group.answers.push((revision, promise)),
                Err(why) => promise.answer(Err(why)),
            },
            Request::Delete(zone, by, when, promise) => match self.delete(&zone, by, when) {
                Ok(revision) => self.group.answers.push((revision, promise)),
                Err(why) => promise.answer(Err(why)),
            },
            Request::Restore(mut from, by, when, promise) => {
                self.commit();
                promise.answer(self.restore(&mut *from, by, when));
            }
            Request::Settle(promise) => {
                self.commit();
                self.publish_all();
                promise.answer(Ok(()));
            }
            Request::Close(promise) => {
                self.commit();
                self.store.close();
                promise.answer(Ok(()));
            }
            Request::Open(promise) => promise.answer(self.store.open().map_err(refused)),
        }
    }

    /// Whether a zone may be written here.
    fn check_owner(&self, origin: Name<'_>) -> Result<(), Refused> {
        match self.shared.others.owner(origin) {
            Some(owner) => Err(Refused::NotTheOwner { owner }),
            None => Ok(()),
        }
    }

    fn write(&mut self, mut batch: Batch) -> Result<Revision, Refused> {
        let zone = batch.zone.clone();
        let origin = zone.as_name();
        let at = key(origin);
        self.check_owner(origin)?;
        let Some(head) = self.heads.get_mut(&at) else {
            let owner = Refused::NotTheOwner { owner: Owner::BuiltIn };
            let is_built_in = self.shared.built_in(origin).is_some();
            return Err(if is_built_in { owner } else { Refused::NoSuchZone });
        };
        self.group.touched.entry(at.clone()).or_insert_with(|| Some(head.clone()));
        if batch.edits.iter().any(|edit| edit.expect != Expect::Anything) {
            self.group.note_written();
        }
        let (group, reader) = (&self.group, &self.shared.reader);
        let last_written = |set: &SetKey| match codec::key_of(set) {
            None => Ok(Revision::NONE),
            Some(of) => match group.written.get(&(at.clone(), of)) {
                Some(revision) => Ok(*revision),
                None => reader
                    .set(set)
                    .map_err(refused)
                    .map(|set| set.map_or(Revision::NONE, |set| set.0)),
            },
        };
        let changes = prepare::change(head, &mut batch, &last_written)?;
        let revision = self.revision.next();
        head.revision = revision;
        self.push(&batch.zone, batch.by, batch.when, Action::Change(changes));
        Ok(revision)
    }

    fn create(&mut self, batch: Batch) -> Result<Revision, Refused> {
        let origin = batch.zone.as_name();
        let at = key(origin);
        self.check_owner(origin)?;
        if self.heads.contains_key(&at) {
            return Err(Refused::ZoneExists);
        }
        if self.heads.len() >= ZONES_MAX {
            return Err(Refused::ZONES);
        }
        let revision = self.revision.next();
        let (head, changes) = prepare::create(&batch, revision, &self.key)?;
        self.group.touched.entry(at.clone()).or_insert(None);
        self.heads.insert(at, head);
        self.push(&batch.zone, batch.by, batch.when, Action::Create(changes));
        Ok(revision)
    }

    fn delete(
        &mut self,
        zone: &NameBuf,
        by: Arc<str>,
        when: SystemTime,
    ) -> Result<Revision, Refused> {
        self.check_owner(zone.as_name())?;
        let at = key(zone.as_name());
        let Some(head) = self.heads.remove(&at) else { return Err(Refused::NoSuchZone) };
        self.group.touched.entry(at).or_insert(Some(head));
        self.push(zone, by, when, Action::Delete);
        Ok(self.revision)
    }

    fn push(&mut self, zone: &NameBuf, by: Arc<str>, when: SystemTime, action: Action) {
        self.revision = self.revision.next();
        let mut zone = zone.clone();
        zone.make_lowercase();
        let write = Prepared { zone, revision: self.revision, when, by, action };
        self.group.edits += 1 + write.changes().map_or(0, |(_, changes)| changes.len());
        self.group.writes.push(write);
    }

    /// Brings the group to the disk, then to control, and answers.
    fn commit(&mut self) {
        let group = std::mem::take(&mut self.group);
        let Some(first) = group.writes.first() else { return };
        let before = first.revision.0 - 1;
        if let Err(why) = self.store.commit(&group.writes) {
            tracing::error!(writes = group.writes.len(), "writes refused: {why}");
            self.revision = Revision(before);
            for (at, head) in group.touched {
                match head {
                    Some(head) => drop(self.heads.insert(at, head)),
                    None => drop(self.heads.remove(&at)),
                }
            }
            let why = refused(why);
            group.answers.into_iter().for_each(|(_, promise)| promise.answer(Err(why.clone())));
            return;
        }
        let touched: Vec<_> = group.touched.into_keys().collect();
        let tickets = touched.iter().filter_map(|at| self.publish(at));
        let Some(ticket) = tickets.max() else { return };
        self.shared.live.give(self.revision, ticket);
        for (revision, promise) in group.answers {
            promise.answer(Ok(Written { revision, ticket }));
        }
    }

    /// Gives all zones to control, but for those that somebody else has. The ticket of the last.
    fn publish_all(&mut self) -> Option<Ticket> {
        let all: Vec<_> = self.heads.keys().cloned().collect();
        let ticket = all.iter().filter_map(|at| self.publish(at)).max();
        if let Some(ticket) = ticket {
            self.shared.live.give(self.revision, ticket);
        }
        ticket
    }

    /// Has a zone answered as it is now. Nothing: it is somebody else's.
    fn publish(&mut self, at: &[u8]) -> Option<Ticket> {
        let origin = Name::parse(at).ok()?;
        if self.shared.others.owner(origin).is_some() {
            return None;
        }
        let zone = match self.heads.get_mut(at) {
            Some(head) => {
                head.set_serial();
                Some(head.zone.clone())
            }
            None => self.shared.others.instead(origin, &self.key),
        };
        let control = &self.shared.control;
        loop {
            let put = match &zone {
                Some(zone) => control.put_zone(zone.clone()),
                None => control.remove_zone(origin),
            };
            match put {
                Ok(ticket) => return Some(ticket),
                Err(MailboxFull) => thread::sleep(MAILBOX_PATIENCE),
            }
        }
    }

    fn restore(
        &mut self,
        from: &mut dyn Read,
        by: Arc<str>,
        when: SystemTime,
    ) -> Result<Written, Refused> {
        let restoring = Restoring { revision: self.revision.next(), when, by };
        self.store.restore(from, &restoring).map_err(refused)?;
        let before: Vec<_> = self.heads.keys().cloned().collect();
        self.load().map_err(refused)?;
        let gone = before.iter().filter(|at| !self.heads.contains_key(*at));
        let gone: Vec<_> = gone.cloned().collect();
        let removed = gone.iter().filter_map(|at| self.publish(at)).max();
        let ticket = self.publish_all().max(removed);
        let ticket = ticket.ok_or_else(|| Refused::Failed("the snapshot holds no zone".into()))?;
        self.shared.live.give(self.revision, ticket);
        Ok(Written { revision: self.revision, ticket })
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

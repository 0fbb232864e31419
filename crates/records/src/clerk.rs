//! The thread of the desk: it takes all that waits, has it brought to the disk as one group, and
//! gives the zones to `control`.
use crate::desk::{Shared, refused};
use crate::limits::{GROUP_EDITS_MAX, MAILBOX_PATIENCE, ZONES_MAX};
use crate::pending::Promise;
use crate::prepare;
use crate::queue::Request;
use crate::zones::{Head, Heads, key};
use crate::{
    Action, Batch, Expect, Owner, Prepared, Refused, Restoring, Revision, SetKey, Store,
    StoreError, Written, codec,
};
use compile::Zone;
use control::{MailboxFull, Ticket};
use image::HashKey;
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;
use wire::{Name, NameBuf, Rtype};

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
pub struct Clerk {
    shared: Arc<Shared>,
    store: Box<dyn Store>,
    heads: Heads,
    key: Arc<HashKey>,
    /// The last that was given to a write.
    revision: Revision,
    /// Whether the disk may hold other than the heads: something failed, or a successor had it.
    is_unsure: bool,
    group: Group,
}

impl Clerk {
    /// Reads all zones of a store.
    pub fn new(shared: Arc<Shared>, store: Box<dyn Store>) -> Result<Self, StoreError> {
        let key = Arc::clone(shared.control.image().key());
        let (heads, revision, group) = (Heads::new(), Revision::NONE, Group::default());
        let mut clerk = Self { shared, store, heads, key, revision, is_unsure: false, group };
        clerk.load()?;
        Ok(clerk)
    }

    /// Reads all zones of the store, or leaves all as it was.
    fn load(&mut self) -> Result<(), StoreError> {
        let reader = &*self.shared.reader;
        let revision = reader.revision()?;
        let mut heads = Heads::new();
        for stored in reader.zones()? {
            let origin = stored.origin.as_name();
            let head = Head::load(reader, &stored, &self.key).unwrap_or_else(|why| {
                tracing::error!(zone = %origin, "zone of the store answers SERVFAIL: {why}");
                let zone = Zone::unloaded(Arc::clone(&self.key), origin);
                Head { zone, revision: stored.revision }
            });
            heads.insert(key(origin), head);
        }
        (self.heads, self.revision) = (heads, revision);
        Ok(())
    }

    /// Reads all zones of the store anew, and has them answered as they are there.
    fn load_again(&mut self) -> Result<Ticket, StoreError> {
        let before: Vec<_> = self.heads.keys().cloned().collect();
        self.load()?;
        for at in &before {
            if !self.heads.contains_key(at) {
                self.publish(at);
            }
        }
        Ok(self.publish_all())
    }

    /// What failed may be on the disk all the same: before anything more is put upon it, what is
    /// answered is what is there.
    fn make_sure(&mut self) -> Result<(), Refused> {
        if !self.is_unsure {
            return Ok(());
        }
        let newest = self.store.newest().map_err(refused)?;
        if newest != self.revision {
            tracing::warn!(%newest, known = %self.revision, "the store is read anew");
            self.load_again().map_err(refused)?;
        }
        self.is_unsure = false;
        Ok(())
    }

    /// Does what is asked until the queue ends.
    pub fn run(&mut self) {
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
            Request::Write(batch, promise) => {
                let written = self.write(batch);
                self.promised(written, promise);
            }
            Request::Create(batch, promise) => {
                let created = self.create(batch);
                self.promised(created, promise);
            }
            Request::Delete(zone, by, when, promise) => {
                let deleted = self.delete(zone, by, when);
                self.promised(deleted, promise);
            }
            Request::Restore(mut from, by, when, promise) => {
                self.commit();
                let restored = self.restore(&mut *from, by, when);
                match &restored {
                    Ok(done) => tracing::info!(revision = %done.revision, "snapshot restored"),
                    Err(why) => tracing::error!("a snapshot was not restored: {why}"),
                }
                promise.answer(restored);
            }
            Request::Settle(promise) => {
                self.commit();
                self.publish_all();
                promise.answer(Ok(()));
            }
            Request::Close(promise) => {
                self.commit();
                self.store.close();
                self.is_unsure = true;
                promise.answer(Ok(()));
            }
            Request::Open(promise) => {
                let opened = self.store.open().map_err(refused).and_then(|()| self.make_sure());
                if let Err(why) = &opened {
                    tracing::error!("the store is not there again, and cannot be written: {why}");
                }
                promise.answer(opened);
            }
        }
    }

    /// What is to be written is answered once it is on the disk; what is not, at once.
    fn promised(&mut self, taken: Result<Revision, Refused>, promise: Promise<Written>) {
        match taken {
            Ok(revision) => self.group.answers.push((revision, promise)),
            Err(why) => promise.answer(Err(why)),
        }
    }

    /// Whether a zone may be written here, and now.
    fn check(&mut self, origin: Name<'_>) -> Result<(), Refused> {
        self.make_sure()?;
        match self.shared.others.owner(origin) {
            Some(owner) => Err(Refused::NotTheOwner { owner }),
            None => Ok(()),
        }
    }

    fn write(&mut self, mut batch: Batch) -> Result<Revision, Refused> {
        let zone = batch.zone.clone();
        let origin = zone.as_name();
        let at = key(origin);
        self.check(origin)?;
        let Some(head) = self.heads.get_mut(&at) else {
            let owner = Refused::NotTheOwner { owner: Owner::BuiltIn };
            let is_built_in = self.shared.built_in(origin).is_some();
            return Err(if is_built_in { owner } else { Refused::NoSuchZone });
        };
        let before = (!self.group.touched.contains_key(&at)).then(|| head.clone());
        if batch.edits.iter().any(|edit| edit.expect != Expect::Anything) {
            self.group.note_written();
        }
        let (group, reader, of_zone) = (&self.group, &self.shared.reader, head.revision);
        let last_written = |set: &SetKey| match codec::key_of(set) {
            // Every write to the zone changes its serial.
            Some(_) if set.rtype == Rtype::SOA => Ok(of_zone),
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
        head.revision = self.revision.next();
        if before.is_some() {
            self.group.touched.insert(at, before);
        }
        Ok(self.push(zone, batch.by, batch.when, Action::Change(changes)))
    }

    fn create(&mut self, mut batch: Batch) -> Result<Revision, Refused> {
        let origin = batch.zone.as_name();
        let at = key(origin);
        self.check(origin)?;
        if self.heads.contains_key(&at) {
            return Err(Refused::ZoneExists);
        }
        if self.heads.len() >= ZONES_MAX {
            return Err(Refused::ZONES);
        }
        let (head, changes) = prepare::create(&mut batch, self.revision.next(), &self.key)?;
        self.group.touched.entry(at.clone()).or_insert(None);
        self.heads.insert(at, head);
        Ok(self.push(batch.zone, batch.by, batch.when, Action::Create(changes)))
    }

    fn delete(
        &mut self,
        zone: NameBuf,
        by: Arc<str>,
        when: SystemTime,
    ) -> Result<Revision, Refused> {
        self.check(zone.as_name())?;
        let at = key(zone.as_name());
        let Some(head) = self.heads.remove(&at) else { return Err(Refused::NoSuchZone) };
        self.group.touched.entry(at).or_insert(Some(head));
        Ok(self.push(zone, by, when, Action::Delete))
    }

    /// Takes a write into the group, as the next revision.
    fn push(
        &mut self,
        mut zone: NameBuf,
        by: Arc<str>,
        when: SystemTime,
        action: Action,
    ) -> Revision {
        self.revision = self.revision.next();
        zone.make_lowercase();
        let write = Prepared { zone, revision: self.revision, when, by, action };
        self.group.edits += 1 + write.changes().map_or(0, |(_, changes)| changes.len());
        self.group.writes.push(write);
        self.revision
    }

    /// Brings the group to the disk, then to control, and answers.
    fn commit(&mut self) {
        let group = std::mem::take(&mut self.group);
        let Some(first) = group.writes.first() else { return };
        let (before, count) = (first.revision.0 - 1, group.writes.len());
        if let Err(why) = self.store.commit(group.writes) {
            tracing::error!(writes = count, "writes refused: {why}");
            self.is_unsure = true;
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
        group.touched.keys().for_each(|at| self.publish(at));
        let ticket = self.published();
        for (revision, promise) in group.answers {
            promise.answer(Ok(Written { revision, ticket }));
        }
    }

    /// Gives all zones to control, but for those that somebody else has.
    pub fn publish_all(&mut self) -> Ticket {
        let all: Vec<_> = self.heads.keys().cloned().collect();
        all.iter().for_each(|at| self.publish(at));
        self.published()
    }

    /// All that was written so far is with control, though nothing of it need be answered: somebody
    /// else may have its zones by now.
    fn published(&self) -> Ticket {
        let ticket = self.shared.control.last();
        self.shared.live.give(self.revision, ticket);
        ticket
    }

    /// Has a zone answered as it is now, unless it is somebody else's.
    fn publish(&mut self, at: &[u8]) {
        let Ok(origin) = Name::parse(at) else { return };
        if self.shared.others.owner(origin).is_some() {
            return;
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
                Ok(_) => return,
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
        let newest = self.store.newest().map_err(refused)?;
        let restoring = Restoring { revision: newest.max(self.revision).next(), when, by };
        self.is_unsure = true;
        self.store.restore(from, &restoring).map_err(refused)?;
        let ticket = self.load_again().map_err(refused)?;
        self.is_unsure = false;
        Ok(Written { revision: self.revision, ticket })
    }
}

//! The writer thread: takes all queued requests, commits them as one group, and passes the zones to
//! the zone manager.
mod outage;

use crate::limits::{GROUP_EDITS_MAX, RETRY_FIRST, ZONES_MAX};
use crate::live::LiveRevisions;
use crate::pending::Promise;
use crate::prepare;
use crate::queue::WriteRequest;
use crate::serial::{SerialStamp, offset_after};
use crate::shared::{SharedService, refused};
use crate::zone_list::ZoneList;
use crate::zones::{ZoneHead, ZoneHeads, key};
use crate::{
    Action, Batch, Edit, Precondition, PreparedWrite, Reader, Refused, Revision, SetKey, Store,
    StoreError, WriteContext, WriteResult, ZoneOwner, codec,
};
use image::HashKey;
use outage::RetryTimer;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use wire::{Name, NameBuf, Rtype};
use zone_manager::{Sequence, UpdateSender};

/// The result of a request once its group is durable.
struct RequestResult {
    /// As in [`WriteResult`].
    revision: Revision,
    zone: Revision,
}

impl RequestResult {
    /// The last write of a zone.
    fn of_zone(revision: Revision) -> Self {
        Self { revision, zone: revision }
    }
}

/// Writes that are committed together.
#[derive(Default)]
struct WriteGroup {
    writes: Vec<PreparedWrite>,
    answers: Vec<(RequestResult, Promise<WriteResult>)>,
    /// The touched zones before the group; `None`: they did not exist.
    touched: HashMap<Box<[u8]>, Option<ZoneHead>>,
    /// Revisions of sets written by the group, by zone and set; filled on demand.
    written: HashMap<(Box<[u8]>, Vec<u8>), Revision>,
    noted: usize,
    edits: usize,
}

impl WriteGroup {
    /// Fills `written` from all writes.
    fn note_written(&mut self) {
        for write in &self.writes[self.noted..] {
            let at = key(write.zone.as_name());
            for change in write.changes() {
                let mut of = Vec::new();
                codec::set_key(&mut of, &change.name, change.view, change.rtype);
                self.written.insert((at.clone(), of), write.revision);
            }
        }
        self.noted = self.writes.len();
    }

    /// The last revision of a set. Call `note_written` first.
    fn last_written(
        &self,
        reader: &dyn Reader,
        (at, of_zone): (&[u8], Revision),
        set: &SetKey,
    ) -> Result<Revision, Refused> {
        let Some(of) = codec::key_of(set) else { return Ok(Revision::NONE) };
        // Every write to the zone changes its serial.
        if set.rtype == Rtype::SOA {
            return Ok(of_zone);
        }
        if let Some(revision) = self.written.get(&(Box::from(at), of)) {
            return Ok(*revision);
        }
        Ok(reader.set(set).map_err(refused)?.map_or(Revision::NONE, |(revision, _)| revision))
    }
}

/// The state of the thread.
pub struct Writer {
    shared: Arc<SharedService>,
    updates: UpdateSender,
    store: Box<dyn Store>,
    list: ZoneList,
    heads: ZoneHeads,
    key: Arc<HashKey>,
    /// The last assigned revision.
    revision: Revision,
    /// The largest known revision while the store was never read.
    revision_known: Revision,
    /// Whether the heads were read from the store; otherwise they are the zones of the list.
    is_loaded: bool,
    /// Whether the disk may differ from the heads: after an error, or after another process had it.
    is_unsure: bool,
    /// Whether the new process of a hot restart has the files.
    is_given_away: bool,
    /// Whether the disk refused the last group.
    is_refusing: bool,
    /// When to try the store again; `None`: it works, or is given away.
    retry: Option<RetryTimer>,
    /// When to check failed writes on disk, unless a write comes first.
    check_at: Option<Instant>,
    group: WriteGroup,
}

impl Writer {
    /// Call [`Writer::start`] next.
    pub fn new(
        shared: Arc<SharedService>,
        updates: UpdateSender,
        store: Box<dyn Store>,
        list: ZoneList,
    ) -> Self {
        let key = shared.publisher.key();
        Self {
            shared,
            updates,
            store,
            list,
            heads: ZoneHeads::new(),
            key,
            revision: Revision::NONE,
            revision_known: Revision::NONE,
            is_loaded: false,
            is_unsure: false,
            is_given_away: false,
            is_refusing: false,
            retry: None,
            check_at: None,
            group: WriteGroup::default(),
        }
    }

    /// Handles requests until the queue ends.
    pub fn run(&mut self) {
        let mut is_tidy = false;
        loop {
            let until = if is_tidy { self.next_task() } else { Some(Instant::now()) };
            let Some(requests) = self.shared.queue.take(until) else { break };
            for request in requests {
                self.take(request);
                if self.group.edits >= GROUP_EDITS_MAX {
                    self.commit();
                }
            }
            self.commit();
            self.look();
            self.keep_list();
            is_tidy = self.is_unsure || !self.tidy();
        }
        self.write_list_if(self.list.due().is_some());
    }

    /// Does some maintenance; returns whether there is more.
    fn tidy(&mut self) -> bool {
        self.store.tidy().unwrap_or_else(|why| {
            // A full disk is reported when writes fail.
            if !matches!(why, StoreError::Full) {
                tracing::warn!("housekeeping of the store: {why}");
            }
            // `try_again` logs a change.
            let _ = self.try_again();
            false
        })
    }

    fn take(&mut self, request: WriteRequest) {
        match request {
            WriteRequest::Write(batch, promise) => {
                let written = self.write(batch);
                self.promised(written, promise);
            }
            WriteRequest::Create(batch, promise) => {
                let created = self.create(batch);
                self.promised(created, promise);
            }
            WriteRequest::Delete(zone, context, promise) => {
                let deleted = self.delete(zone, &context);
                self.promised(deleted, promise);
            }
            WriteRequest::Restore(mut from, context, promise) => {
                self.commit();
                let restored = self.restore(&mut *from, &context);
                match &restored {
                    Ok(done) => tracing::info!(revision = %done.revision, "snapshot restored"),
                    Err(why) => tracing::error!("a snapshot was not restored: {why}"),
                }
                promise.answer(restored);
            }
            WriteRequest::Settle(promise) => {
                self.commit();
                if self.retry.is_some() {
                    // `try_again` logs a change; requests that need the store get the error.
                    let _ = self.try_again();
                }
                self.publish_all();
                promise.answer(Ok(()));
            }
            WriteRequest::Close(promise) => {
                self.commit();
                self.give_away();
                promise.answer(Ok(()));
            }
            WriteRequest::Open(promise) => promise.answer(self.take_back()),
        }
    }

    /// Answers a write once it is durable, and a refusal at once.
    fn promised(&mut self, taken: Result<RequestResult, Refused>, promise: Promise<WriteResult>) {
        match taken {
            Ok(outcome) => self.group.answers.push((outcome, promise)),
            Err(why) => promise.answer(Err(why)),
        }
    }

    /// Whether a zone can be written now.
    fn check(&mut self, origin: Name<'_>) -> Result<(), Refused> {
        self.make_sure()?;
        match self.shared.ownership.owner(origin) {
            Some(owner) => Err(Refused::NotTheOwner { owner }),
            None => Ok(()),
        }
    }

    /// Applies a batch. A batch that changes nothing is answered with its group too, because it may
    /// depend on the group's writes.
    fn write(&mut self, mut batch: Batch) -> Result<RequestResult, Refused> {
        let zone = batch.zone.clone();
        let origin = zone.as_name();
        let at = key(origin);
        self.check(origin)?;
        let Some(head) = self.heads.get_mut(&at) else {
            let owner = Refused::NotTheOwner { owner: ZoneOwner::BuiltIn };
            let is_built_in = self.shared.built_in(origin).is_some();
            return Err(if is_built_in { owner } else { Refused::NoSuchZone });
        };
        expected(&batch.context.expect, head.stamp.revision)?;
        let before = (!self.group.touched.contains_key(&at)).then(|| head.clone());
        if batch.edits.iter().any(|edit| edit.expect != Precondition::Anything) {
            self.group.note_written();
        }
        let (reader, of_zone) = (&*self.shared.reader, head.stamp.revision);
        let group = &self.group;
        let last = |set: &SetKey| group.last_written(reader, (&at, of_zone), set);
        let changes = prepare::change(head, &mut batch, &last)?;
        if changes.is_empty() {
            return self.unchanged(&batch, of_zone);
        }
        let (revision, SerialStamp { offset, .. }) = (self.revision.next(), head.stamp);
        let raised = prepare::given_serial(&changes)
            .map(|given| offset_after(revision, offset, given, Some(head.stamp.serial())))
            .filter(|raised| *raised != offset);
        head.stamp = SerialStamp { revision, offset: raised.unwrap_or(offset) };
        if before.is_some() {
            self.group.touched.insert(at, before);
        }
        Ok(self.push(zone, &batch.context, raised, Action::Change(changes)))
    }

    /// The result of a batch that changes nothing.
    fn unchanged(&mut self, batch: &Batch, zone: Revision) -> Result<RequestResult, Refused> {
        let [Edit { name, rtype, view, put: Some(_), .. }] = &batch.edits[..] else {
            return Ok(RequestResult::of_zone(zone));
        };
        self.group.note_written();
        let (name, rtype, view) = (name.clone(), *rtype, *view);
        let set = SetKey { zone: batch.zone.clone(), name, rtype, view };
        let at = key(batch.zone.as_name());
        let revision = self.group.last_written(&*self.shared.reader, (&at, zone), &set)?;
        Ok(RequestResult { revision, zone })
    }

    /// Creates a zone. An existing zone with exactly this content stays.
    fn create(&mut self, mut batch: Batch) -> Result<RequestResult, Refused> {
        let zone = batch.zone.clone();
        let at = key(zone.as_name());
        self.check(zone.as_name())?;
        let head = self.heads.get(&at);
        expected(&batch.context.expect, head.map_or(Revision::NONE, |head| head.stamp.revision))?;
        if let Some(head) = head {
            return match head.zone.serial().is_some() && prepare::is_made(head, &mut batch)? {
                true => Ok(RequestResult::of_zone(head.stamp.revision)),
                false => Err(Refused::ZoneExists),
            };
        }
        if self.heads.len() >= ZONES_MAX {
            return Err(Refused::ZONES);
        }
        let (head, changes) = prepare::create(&mut batch, self.revision.next(), &self.key)?;
        let offset = Some(head.stamp.offset).filter(|offset| *offset != 0);
        self.group.touched.entry(at.clone()).or_insert(None);
        self.heads.insert(at, head);
        Ok(self.push(zone, &batch.context, offset, Action::Create(changes)))
    }

    fn delete(&mut self, zone: NameBuf, context: &WriteContext) -> Result<RequestResult, Refused> {
        self.check(zone.as_name())?;
        let at = key(zone.as_name());
        let Some(head) = self.heads.get(&at) else { return Err(Refused::NoSuchZone) };
        expected(&context.expect, head.stamp.revision)?;
        let mut gone = prepare::deletion(&head.zone);
        if head.zone.serial().is_none() {
            // The zone exists but could not be loaded.
            let stored = self.shared.reader.zone(zone.as_name()).map_err(refused)?;
            gone.count = stored.map_or(0, |stored| stored.sets);
        }
        let head = self.heads.remove(&at);
        self.group.touched.entry(at).or_insert(head);
        Ok(self.push(zone, context, None, Action::Delete(gone)))
    }

    /// Adds a write to the group, with the next revision.
    fn push(
        &mut self,
        mut zone: NameBuf,
        context: &WriteContext,
        offset: Option<u32>,
        action: Action,
    ) -> RequestResult {
        self.revision = self.revision.next();
        zone.make_lowercase();
        let (by, when, reason) = (Arc::clone(&context.by), context.when, context.kept_reason());
        let write =
            PreparedWrite { zone, revision: self.revision, when, by, offset, reason, action };
        self.group.edits += 1 + write.journaled().2.len();
        self.group.writes.push(write);
        RequestResult::of_zone(self.revision)
    }

    /// Commits the group, publishes it, and answers.
    fn commit(&mut self) {
        let group = std::mem::take(&mut self.group);
        let Some(first) = group.writes.first() else {
            return answer(group.answers, self.shared.publisher.last());
        };
        let (before, count) = (first.revision.0 - 1, group.writes.len());
        if let Err(why) = self.store.commit(group.writes) {
            if !self.is_refusing {
                tracing::error!(writes = count, "writes are refused: {why}");
            }
            (self.is_unsure, self.is_refusing) = (true, true);
            self.check_at = Some(Instant::now() + RETRY_FIRST);
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
        if std::mem::take(&mut self.is_refusing) {
            tracing::info!("writes are accepted again");
        }
        for (at, before) in &group.touched {
            self.shared.health.written(at);
            if before.is_some() != self.heads.contains_key(at) {
                self.list.changed(self.heads.len(), Instant::now());
            }
            self.publish(at);
        }
        self.keep_list();
        let sequence = self.published();
        answer(group.answers, sequence);
    }

    /// Passes all zones to the zone manager.
    fn publish_all(&mut self) -> Sequence {
        let all: Vec<_> = self.heads.keys().cloned().collect();
        all.iter().for_each(|at| self.publish(at));
        self.published()
    }

    /// The sequence by which everything written so far is published, even if zones have another
    /// owner by now.
    pub fn published(&self) -> Sequence {
        let sequence = self.shared.publisher.last();
        LiveRevisions::give(&self.shared, self.revision, sequence);
        sequence
    }

    /// Passes a zone to the zone manager.
    fn publish(&mut self, at: &[u8]) {
        let Ok(origin) = Name::parse(at) else { return };
        match self.heads.get_mut(at) {
            Some(head) => {
                head.set_serial();
                self.updates.put_zone(head.zone.clone())
            }
            None => self.updates.remove_zone(origin),
        };
    }
}

/// Checks a condition against the last revision of a zone.
fn expected(expect: &Precondition, is: Revision) -> Result<(), Refused> {
    let is_met = match expect {
        Precondition::Anything => true,
        Precondition::Absent => is == Revision::NONE,
        Precondition::Present => is != Revision::NONE,
        Precondition::At(revision) => is != Revision::NONE && is == *revision,
        // A condition on a set.
        Precondition::Equal(_) => false,
    };
    if is_met { Ok(()) } else { Err(Refused::ZoneConflict { is }) }
}

/// Answers requests of a durable group, published at this sequence.
fn answer(answers: Vec<(RequestResult, Promise<WriteResult>)>, sequence: Sequence) {
    for (RequestResult { revision, zone }, promise) in answers {
        promise.answer(Ok(WriteResult { revision, zone, sequence }));
    }
}

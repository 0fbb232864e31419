//! The writer thread: takes all queued requests, commits them as one group, and passes the zones to
//! the zone manager.
mod follow;
mod group;
mod outage;
#[cfg(test)]
mod simulation;

use crate::limits::{GROUP_EDITS_MAX, RETRY_FIRST};
use crate::lint;
use crate::prepare;
use crate::queue::{WriteRequest, ZoneRequest};
use crate::shared::{SharedService, refused};
use crate::zones::{ZoneHeads, key};
use crate::{
    Action, Batch, Edit, Form, PlannedWrite, Precondition, PreparedWrite, Refused, Revision,
    SetKey, Store, StoreError, View, Watch, WriteContext, WriteResult, ZoneOwner,
};
use group::{RequestResult, WriteGroup};
use image::HashKey;
use outage::RetryTimer;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;
use store::ZoneList;
use store::limits::ZONES_MAX;
use store::serial::{SerialStamp, offset_after};
use wire::{Name, NameBuf};
use zone_manager::{Promise, Sequence, UpdateSender};

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
    /// The newest revision that is reported to the fleet once it is live.
    reported: Option<Revision>,
    /// The largest known revision while the store was never read.
    revision_known: Revision,
    /// Whether the heads were read from the store; otherwise they are the zones of the list.
    is_loaded: bool,
    /// Whether the content of the store was replaced since.
    is_replaced: bool,
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
    /// The commits of other writers, if there may be any.
    watch: Option<Box<dyn Watch>>,
    /// A random number of this writer, and that of its last commit: they identify its commits.
    number: u64,
    commits: u64,
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
            reported: None,
            revision_known: Revision::NONE,
            is_loaded: false,
            is_replaced: false,
            is_unsure: false,
            is_given_away: false,
            is_refusing: false,
            retry: None,
            check_at: None,
            group: WriteGroup::default(),
            watch: None,
            number: RandomState::new().hash_one(0),
            commits: 0,
        }
    }

    /// Handles requests until the queue ends.
    pub fn run(&mut self) {
        let mut is_tidy = false;
        loop {
            let until = if is_tidy { self.next_task() } else { Some(Instant::now()) };
            let Some(requests) = self.shared.queue.take(until) else { break };
            self.follow();
            for request in requests {
                self.take(request);
                if self.group.edits >= GROUP_EDITS_MAX {
                    self.commit();
                }
            }
            self.commit();
            self.shared.health.form(self.store.form());
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
            WriteRequest::Zone(request, promise) => self.take_zone(*request, promise),
            WriteRequest::Restore(mut from, context, promise) => {
                self.commit();
                let restored = self.restore(&mut *from, &context);
                match &restored {
                    Ok(done) => tracing::info!(revision = %done.revision, "snapshot restored"),
                    Err(why) => tracing::error!("a snapshot was not restored: {why}"),
                }
                self.check_soon(restored.is_err());
                promise.answer(restored);
            }
            WriteRequest::Adopt(promise) => {
                self.commit();
                let adopted = self.adopt();
                match &adopted {
                    Ok(done) => tracing::info!(revision = %done.revision, "shared store adopted"),
                    Err(why) => tracing::error!("the shared store was not adopted: {why}"),
                }
                self.check_soon(adopted.is_err());
                promise.answer(adopted);
            }
            WriteRequest::Upgrade(promise) => {
                self.commit();
                promise.answer(self.upgrade());
            }
            WriteRequest::Settle(promise) => {
                self.commit();
                if self.retry.is_some() {
                    // `try_again` logs a change; requests that need the store get the error.
                    let _ = self.try_again();
                }
                self.heads.values_mut().for_each(|head| head.lay_known(&self.shared.views));
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

    /// Reads the store again soon if a request left it unsure.
    fn check_soon(&mut self, has_failed: bool) {
        if has_failed && self.is_unsure {
            self.check_at.get_or_insert(Instant::now() + RETRY_FIRST);
        }
    }

    /// Adds a change to the group. Answers it once it is durable, and a refusal at once.
    fn take_zone(&mut self, request: ZoneRequest, promise: Promise<WriteResult, Refused>) {
        // Checking an unsure store can begin a watch.
        let again = (self.watch.is_some() || self.is_unsure).then(|| request.clone());
        let taken = self.check_form(request.edits()).and_then(|()| match request {
            ZoneRequest::Write(batch) => self.write(batch),
            ZoneRequest::Planned(plan, batch) => self.write_planned(&*plan, batch),
            ZoneRequest::Create(batch) => self.create(batch),
            ZoneRequest::Delete(zone, context) => self.delete(zone, &context),
        });
        match taken {
            Ok(outcome) => {
                self.group.answers.push((outcome, promise));
                self.group.requests.extend(again);
            }
            Err(why) => promise.answer(Err(why)),
        }
    }

    /// Whether the store has a form that holds what edits write.
    fn check_form(&self, edits: &[Edit]) -> Result<(), Refused> {
        let forms = edits
            .iter()
            .filter_map(|edit| Some(Form::of(edit.view, edit.rtype, &edit.put.as_ref()?.policy)));
        let needed = forms.max().unwrap_or(Form::OLDEST);
        self.store.form().check_need(needed).map_err(|why| {
            self.shared.health.refused_form();
            Refused::Form(why.into())
        })
    }

    /// Makes the newest form that of the store.
    fn upgrade(&mut self) -> Result<(), Refused> {
        self.make_sure()?;
        let before = self.store.form();
        let upgraded = self.store.upgrade().map_err(refused);
        let form = self.store.form();
        self.shared.health.form(form);
        match &upgraded {
            Ok(()) => tracing::warn!(%before, %form, "the form of the store was raised"),
            Err(why) => tracing::error!(%form, "the form of the store was not raised: {why}"),
        }
        upgraded
    }

    /// Whether a zone can be written now.
    fn check(&mut self, origin: Name<'_>) -> Result<(), Refused> {
        self.make_sure()?;
        match self.shared.foreign_owner(origin) {
            Some(owner) => Err(Refused::NotTheOwner { owner }),
            None => Ok(()),
        }
    }

    /// Applies what a plan makes of its zone.
    fn write_planned(
        &mut self,
        plan: &dyn PlannedWrite,
        mut batch: Batch,
    ) -> Result<RequestResult, Refused> {
        self.check(batch.zone.as_name())?;
        let known = self.heads.get(&key(batch.zone.as_name()));
        // Otherwise the write is refused.
        if let Some(head) = known.filter(|head| head.zone.serial().is_some()) {
            batch.edits = plan.edits(&head.zone)?;
            self.check_form(&batch.edits)?;
        }
        self.write(batch)
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
        self.shared.check_targets(origin, &batch.edits)?;
        let before = (!self.group.touched.contains_key(&at)).then(|| head.clone());
        if batch.edits.iter().any(|edit| edit.expect != Precondition::Anything) {
            self.group.note_written();
        }
        let (reader, of_zone) = (&*self.shared.reader, head.stamp.revision);
        let group = &self.group;
        let last = |set: &SetKey| group.last_written(reader, (&at, of_zone), set);
        let (changes, mut warnings) = prepare::change(head, &mut batch, &last, &self.shared.views)?;
        let of_all = batch.edits.iter().filter(|edit| edit.view == View::DEFAULT);
        let edited = of_all.map(|edit| (edit.name.as_name(), edit.rtype));
        warnings.extend(lint::of_sets(&head.zone, edited));
        if changes.is_empty() {
            return Ok(self.unchanged(&batch, of_zone)?.warned(warnings));
        }
        let (revision, SerialStamp { offset, .. }) = (self.revision.next(), head.stamp);
        let raised = prepare::given_serial(&changes)
            .map(|given| offset_after(revision, offset, given, Some(head.stamp.serial())))
            .filter(|raised| *raised != offset);
        head.stamp = SerialStamp { revision, offset: raised.unwrap_or(offset) };
        if before.is_some() {
            self.group.touched.insert(at, before);
        }
        Ok(self.push(zone, &batch.context, raised, Action::Change(changes)).warned(warnings))
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
        Ok(RequestResult { revision, ..RequestResult::of_zone(zone) })
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
        self.shared.check_targets(zone.as_name(), &batch.edits)?;
        let (head, changes) =
            prepare::create(&mut batch, self.revision.next(), &self.key, &self.shared.views)?;
        let offset = Some(head.stamp.offset).filter(|offset| *offset != 0);
        let warnings = lint::of_changes(&head.zone, &changes);
        self.group.touched.entry(at.clone()).or_insert(None);
        self.heads.insert(at, head);
        Ok(self.push(zone, &batch.context, offset, Action::Create(changes)).warned(warnings))
    }

    fn delete(&mut self, zone: NameBuf, context: &WriteContext) -> Result<RequestResult, Refused> {
        self.check(zone.as_name())?;
        let at = key(zone.as_name());
        let Some(head) = self.heads.get(&at) else { return Err(Refused::NoSuchZone) };
        expected(&context.expect, head.stamp.revision)?;
        let mut gone = prepare::deletion(head);
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

    /// Passes all zones to the zone manager.
    fn publish_all(&mut self) -> Sequence {
        let all: Vec<_> = self.heads.keys().cloned().collect();
        all.iter().for_each(|at| self.publish(at));
        self.published()
    }

    /// The sequence by which everything written so far is published, even if zones have another
    /// owner by now.
    pub fn published(&mut self) -> Sequence {
        let (sequence, revision) = (self.shared.publisher.last(), self.revision);
        self.shared.published.send_modify(|published| {
            (published.revision, published.sequence) = (revision, sequence);
        });
        // A new store has no write yet; that is reported, too.
        let is_new = self.reported.is_none_or(|reported| revision > reported)
            && self.shared.health.read_refusal().is_none();
        if let Some(fleet) = self.shared.fleet.clone().filter(|_| is_new) {
            self.reported = Some(revision);
            self.shared.publisher.when_live(sequence, move |is_live| {
                if is_live {
                    fleet.serves(revision);
                }
            });
        }
        sequence
    }

    /// Passes a zone to the zone manager.
    fn publish(&mut self, at: &[u8]) {
        let Ok(origin) = Name::parse(at) else { return };
        match self.heads.get_mut(at) {
            Some(head) => {
                head.set_serial();
                // It is not judged. If it is refused, the zone has another home, and the status of
                // the sites says so.
                drop(self.updates.sync_zone(head.zone.clone(), None));
            }
            None => {
                self.updates.remove_zone(origin);
            }
        }
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

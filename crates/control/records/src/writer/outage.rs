//! A store that cannot be opened, or fails later. Its zones are served as last read, or answer
//! SERVFAIL, and the store is tried again (invariant I11).
use super::{Writer, expected};
use crate::limits::{REPLACED_AHEAD, RETRY_COST, RETRY_FIRST, RETRY_MAX};
use crate::shared::refused;
use crate::zones::{ZoneHead, ZoneHeads, key};
use crate::{
    Precondition, Refused, RestoreInfo, Revision, SnapshotSource, StoreError, WriteContext,
    WriteResult,
};
use compile::Zone;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::ListedZones;
use store::serial::SerialStamp;
use wire::Name;

/// When to try a failed store again.
pub struct RetryTimer {
    /// The next try if no request arrives.
    at: Instant,
    /// The pause after that try.
    pause: Duration,
    /// The earliest try for a request; it is limited because a try may take long.
    with_request: Instant,
}

impl Writer {
    /// Opens the store, and reads its zones. If that fails, the listed zones answer SERVFAIL.
    pub fn start(&mut self, waits: bool) {
        let began = Instant::now();
        let ListedZones { mut zones, revision, fault } = self.list.read().unwrap_or_default();
        zones.extend(self.shared.mirror.iter().flat_map(|mirror| mirror.zones.clone()));
        for zone in &zones {
            let origin = zone.as_name();
            let unloaded = Zone::unloaded(Arc::clone(&self.key), origin);
            let stamp = SerialStamp { revision: Revision::NONE, offset: 0 };
            self.heads.insert(key(origin), ZoneHead::new(unloaded, stamp));
        }
        (self.revision_known, self.is_unsure) = (revision, true);
        let opened = if waits { self.store.open() } else { self.store.open_now() };
        let opened = opened.and_then(|()| self.read_anew());
        if opened.is_err() {
            self.shared.health.unread(self.heads.keys().cloned());
            self.publish_all();
            if let Some(fault) = fault {
                tracing::error!("zones of the store that are not listed are unknown: {fault}");
                self.shared.health.list(Some(fault));
            }
        }
        // `note` logs it; requests that need the store get the error.
        let _ = self.note(opened, began);
        self.keep_list();
    }

    /// Writes the list when it is due.
    pub(super) fn keep_list(&mut self) {
        let is_due = |due| due <= Instant::now();
        self.write_list_if(self.list.due().is_some_and(is_due));
    }

    pub(super) fn write_list_if(&mut self, is_due: bool) {
        // List only what is known to be in the store, and not while another process writes it.
        if !is_due || !self.is_loaded || self.is_given_away {
            return;
        }
        let zones = self.heads.keys().filter_map(|at| Name::parse(at).ok());
        let written = self.list.write(zones, self.revision, Instant::now());
        if let Err(why) = &written {
            tracing::warn!("the list of the store's zones cannot be written: {why}");
        }
        self.shared.health.list(written.err());
    }

    /// Reads all zones of the store, or changes nothing.
    fn load(&mut self) -> Result<(), StoreError> {
        let reader = Arc::clone(&self.shared.reader);
        let revision = reader.revision()?;
        let (mut heads, mut unreadable) = (ZoneHeads::new(), BTreeMap::new());
        for stored in reader.zones()? {
            let origin = stored.origin.as_name();
            if !self.shared.serves(origin) {
                continue;
            }
            let head = match ZoneHead::load(&*reader, &stored, &self.key, &self.shared.views) {
                Ok(head) => head,
                Err(why @ (StoreError::Damaged(_) | StoreError::Failed(_))) => {
                    tracing::error!(zone = %origin, "zone of the store answers SERVFAIL: {why}");
                    unreadable.insert(key(origin), why.to_string().into());
                    let zone = Zone::unloaded(Arc::clone(&self.key), origin);
                    // The error may affect all zones.
                    if reader.revision().is_err() {
                        self.store.close();
                        self.store.open_now()?;
                    }
                    ZoneHead::new(zone, stored.stamp)
                }
                Err(why) => return Err(why),
            };
            heads.insert(key(origin), head);
        }
        (self.heads, self.revision) = (heads, revision);
        (self.is_loaded, self.is_replaced) = (true, false);
        if let Some(fleet) = &self.shared.fleet {
            let all = self.heads.iter().map(|(at, head)| (at.clone(), head.digest(at)));
            fleet.digests().replace(revision, all);
        }
        self.watch_store()?;
        self.shared.health.read(unreadable);
        Ok(())
    }

    /// Reads all zones of the store again, and publishes them.
    fn load_again(&mut self) -> Result<(), StoreError> {
        let before: HashSet<_> = self.heads.keys().cloned().collect();
        self.load()?;
        for at in &before {
            if !self.heads.contains_key(at) {
                self.publish(at);
            }
        }
        self.publish_all();
        let is_listed = before.len() == self.heads.len()
            && self.heads.keys().all(|at| before.contains(at))
            && !self.list.is_faulty();
        if !is_listed {
            self.list.changed(self.heads.len(), Instant::now());
        }
        Ok(())
    }

    /// A failed write may be durable: reads the store again before the next write.
    pub(super) fn make_sure(&mut self) -> Result<(), Refused> {
        if !self.is_unsure {
            return Ok(());
        }
        let is_too_soon = |retry: &RetryTimer| Instant::now() < retry.with_request;
        match self.shared.health.write_refusal() {
            Some(why) if self.retry.as_ref().is_some_and(is_too_soon) => Err(why),
            _ => self.try_again(),
        }
    }

    /// Tries the store when due, or after a failed read.
    pub(super) fn look(&mut self) {
        let is_doubted = self.shared.queue.take_doubts();
        if self.is_given_away {
            return;
        }
        let now = Instant::now();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.retry.as_ref().map(|retry| retry.at)) {
            // `try_again` logs it; requests that need the store get the error.
            let _ = self.try_again();
        } else if is_doubted || is_due(self.check_at) {
            (self.is_unsure, self.check_at) = (true, None);
            let _ = self.make_sure();
        }
    }

    /// When the thread has work without a request.
    pub(super) fn next_task(&self) -> Option<Instant> {
        let retry = self.retry.as_ref().map(|retry| retry.at);
        let list = self.list.due().filter(|_| self.is_loaded && !self.is_given_away);
        let check = self.check_at.filter(|_| !self.is_given_away);
        [retry, check, list].into_iter().flatten().min()
    }

    /// Tries the store now.
    pub(super) fn try_again(&mut self) -> Result<(), Refused> {
        let began = Instant::now();
        let tried = self.read_anew();
        self.note(tried, began)
    }

    /// Opens the store, and reads its zones.
    fn read_anew(&mut self) -> Result<(), StoreError> {
        if self.retry.is_some() {
            // The files may have been replaced.
            self.store.close();
            self.store.open_now()?;
        }
        let newest = self.store.newest()?;
        if !self.is_loaded || self.is_replaced {
            return self.load_again();
        }
        // What a zone lacked may be there now.
        let is_whole = self.heads.values().all(|head| head.zone.serial().is_some());
        if newest == self.revision && !is_whole {
            return self.load_again();
        }
        if newest != self.revision {
            tracing::warn!(%newest, known = %self.revision, "the store is read again");
            return self.load_again();
        }
        // A lost watch begins again.
        if self.watch.is_some() { Ok(()) } else { self.watch_store() }
    }

    /// Records the result of a try; logs a change once.
    pub(super) fn note(
        &mut self,
        tried: Result<(), StoreError>,
        began: Instant,
    ) -> Result<(), Refused> {
        self.check_at = None;
        let Err(why) = tried else {
            (self.is_unsure, self.retry) = (false, None);
            if self.shared.health.recover() {
                let (zones, revision) = (self.heads.len(), self.revision);
                tracing::info!(zones, %revision, "the store can be used again");
                self.keep_list();
            }
            return Ok(());
        };
        self.is_unsure = true;
        if self.is_given_away {
            return Err(refused(why));
        }
        if self.shared.health.fail(&why) {
            let zones = self.heads.len();
            let answered = if self.is_loaded { "as they were" } else { "with SERVFAIL" };
            tracing::error!(
                zones,
                "the store cannot be used; its zones are answered {answered}, and it is retried \
                 until it can: {why}"
            );
        }
        let (now, before) = (Instant::now(), self.retry.take());
        let pause = before.map_or(RETRY_FIRST, |retry| (retry.pause * 2).min(RETRY_MAX));
        let with_request = now + (now - began) * RETRY_COST;
        self.retry = Some(RetryTimer { at: now + pause, pause, with_request });
        Err(self.shared.health.write_refusal().unwrap_or(Refused::Stopping))
    }

    /// Releases the store to another process, or takes it back.
    pub(super) fn give_away(&mut self) {
        self.store.close();
        (self.is_unsure, self.is_given_away, self.retry) = (true, true, None);
    }

    pub(super) fn take_back(&mut self) -> Result<(), Refused> {
        self.is_given_away = false;
        let began = Instant::now();
        let opened = self.store.open().and_then(|()| self.read_anew());
        self.note(opened, began)
    }

    /// Accepts what the shared store has.
    pub(super) fn adopt(&mut self) -> Result<WriteResult, Refused> {
        let began = Instant::now();
        if !self.store.adopt().map_err(refused)? {
            return Err(Refused::NotShared);
        }
        self.is_unsure = true;
        self.read_replaced(began)
    }

    /// Replaces the store's content by a snapshot. If the store is damaged, moves its files aside,
    /// but only without a condition, which could not be checked.
    pub(super) fn restore(
        &mut self,
        from: &mut dyn SnapshotSource,
        context: &WriteContext,
    ) -> Result<WriteResult, Refused> {
        let began = Instant::now();
        self.is_unsure = true;
        let opened = self.read_anew();
        if context.expect != Precondition::Anything {
            // The condition is about what is on disk.
            self.note(opened.clone(), began)?;
            let is_empty = self.heads.is_empty();
            expected(&context.expect, if is_empty { Revision::NONE } else { self.revision })?;
            self.is_unsure = true;
        }
        let known = self.revision.max(self.revision_known);
        let (by, when, reason) = (Arc::clone(&context.by), context.when, context.kept_reason());
        let mut write = RestoreInfo { revision: known.next(), when, by, reason };
        let restored = opened.and_then(|()| self.store.restore(from, &write));
        let restored = match restored {
            Err(StoreError::Damaged(why)) if context.expect == Precondition::Anything => {
                tracing::warn!("a snapshot replaces the store's damaged files: {why}");
                write.revision = Revision(known.0.saturating_add(REPLACED_AHEAD));
                let rewound = from.rewind().map_err(|why| StoreError::Failed(why.to_string()));
                rewound.and_then(|()| self.store.restore(from, &write))
            }
            restored => restored,
        };
        restored.map_err(refused)?;
        self.read_replaced(began)
    }

    /// Reads and publishes content that was replaced as a whole.
    fn read_replaced(&mut self, began: Instant) -> Result<WriteResult, Refused> {
        let read = self.load_again();
        self.note(read, began)?;
        self.keep_list();
        let revision = self.revision;
        let (zone, sequence, warnings) = (revision, self.published(), Vec::new());
        Ok(WriteResult { revision, zone, sequence, warnings })
    }
}

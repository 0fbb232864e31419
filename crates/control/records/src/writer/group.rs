//! Groups of writes: committed together, published or taken back.
use super::Writer;
use crate::limits::{CONFLICT_PAUSE_MAX, CONFLICTS_MAX, RETRY_FIRST};
use crate::queue::ZoneRequest;
use crate::shared::refused;
use crate::zones::{ZoneHead, key};
use crate::{
    Commit, CommitError, CommitId, PreparedWrite, Reader, Refused, Revision, SetKey, SetWarning,
    StoreError, WriteResult,
};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use store::codec;
use wire::Rtype;
use zone_manager::{Promise, Sequence};

/// The result of a request once its group is durable.
pub(super) struct RequestResult {
    /// As in [`WriteResult`].
    pub revision: Revision,
    pub zone: Revision,
    pub warnings: Vec<SetWarning>,
}

impl RequestResult {
    /// The last write of a zone.
    pub fn of_zone(revision: Revision) -> Self {
        Self { revision, zone: revision, warnings: Vec::new() }
    }

    /// Adds warnings about sets of the zone.
    pub fn warned(self, warnings: Vec<SetWarning>) -> Self {
        Self { warnings, ..self }
    }
}

/// Writes that are committed together.
#[derive(Default)]
pub(super) struct WriteGroup {
    pub writes: Vec<PreparedWrite>,
    pub answers: Vec<(RequestResult, Promise<WriteResult, Refused>)>,
    /// The requests of the answers, if another writer may commit first.
    pub requests: Vec<ZoneRequest>,
    /// The touched zones before the group; `None`: they did not exist.
    pub touched: HashMap<Box<[u8]>, Option<ZoneHead>>,
    /// Revisions of sets written by the group, by zone and set; filled on demand.
    written: HashMap<(Box<[u8]>, Vec<u8>), Revision>,
    noted: usize,
    pub edits: usize,
}

impl WriteGroup {
    /// Fills `written` from all writes.
    pub fn note_written(&mut self) {
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
    pub fn last_written(
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

impl Writer {
    /// Commits the group, publishes it, and answers. If another writer committed first, validates
    /// the requests against its commits and tries again.
    pub(super) fn commit(&mut self) {
        let until = Instant::now() + CONFLICTS_MAX;
        let (mut conflicts, mut pause) = (0_u64, CONFLICT_PAUSE_MAX / 64);
        loop {
            let mut group = std::mem::take(&mut self.group);
            let Err(newest) = self.commit_group(&mut group) else {
                let sequence = self.published();
                return answer(group.answers, sequence);
            };
            conflicts += 1;
            // The first try again is at once. Later, writers that meet give way to one another.
            let wait = if conflicts == 1 { Duration::ZERO } else { pause.mul_f64(fastrand::f64()) };
            pause = (pause * 2).min(CONFLICT_PAUSE_MAX);
            self.catch_up(newest, wait);
            let promises = group.answers.into_iter().map(|(_, promise)| promise);
            for (request, promise) in group.requests.into_iter().zip(promises) {
                self.take_zone(request, promise);
            }
            if Instant::now() >= until {
                break;
            }
        }
        let group = std::mem::take(&mut self.group);
        let why = format!(
            "other servers wrote first {conflicts} times in {} s: try again later, or write less \
             at the same time",
            CONFLICTS_MAX.as_secs()
        );
        self.undo(group, &Refused::Unreachable(why.into()));
    }

    /// Commits a group, and publishes or refuses it.
    ///
    /// # Errors
    /// Another writer has committed up to this revision.
    fn commit_group(&mut self, group: &mut WriteGroup) -> Result<(), Revision> {
        let writes = std::mem::take(&mut group.writes);
        if writes.is_empty() {
            return self.confirm(group);
        }
        self.commits += 1;
        let id = CommitId(u128::from(self.number) << 64 | u128::from(self.commits));
        let count = writes.len();
        let commit = Commit::new(id, writes);
        let base = commit.base;
        let error = match self.store.commit_and_look_up(commit) {
            Ok(_) => {
                self.committed(group);
                return Ok(());
            }
            Err(CommitError::Conflict { newest }) => {
                self.roll_back(std::mem::take(&mut group.touched), base);
                return Err(newest);
            }
            Err(error) => error,
        };
        let is_shared = self.watch.is_some();
        let why = not_committed(error, is_shared.then_some(id));
        if !self.is_refusing {
            tracing::error!(writes = count, "writes are refused: {why}");
        }
        self.is_refusing = true;
        if !is_shared {
            // The watch of a shared store brings what was committed after all.
            (self.is_unsure, self.check_at) = (true, Some(Instant::now() + RETRY_FIRST));
        }
        self.revision = base;
        self.undo(std::mem::take(group), &why);
        Ok(())
    }

    /// Confirms a group that changes nothing: another writer may have changed something.
    ///
    /// # Errors
    /// As [`Writer::commit_group`].
    fn confirm(&mut self, group: &mut WriteGroup) -> Result<(), Revision> {
        if self.watch.is_none() || group.answers.is_empty() {
            return Ok(());
        }
        match self.store.latest() {
            Ok(newest) if newest > self.revision => Err(newest),
            Ok(_) => Ok(()),
            Err(why) => {
                self.undo(std::mem::take(group), &refused(why));
                Ok(())
            }
        }
    }

    /// Publishes a durable group.
    fn committed(&mut self, group: &WriteGroup) {
        if std::mem::take(&mut self.is_refusing) {
            tracing::info!("writes are accepted again");
        }
        for (at, before) in &group.touched {
            self.publish_changed(at, before.is_some());
        }
        self.note_digests(group.touched.keys().map(|at| &**at));
        self.keep_list();
    }

    /// Notes the digests of zones with new content.
    pub(super) fn note_digests<'z>(&self, changed: impl Iterator<Item = &'z [u8]>) {
        let Some(fleet) = &self.shared.fleet else { return };
        let digest = |at: &'z [u8]| (at, self.heads.get(at).map(|head| head.digest(at)));
        fleet.digests().change(self.revision, changed.map(digest));
    }

    /// Publishes a zone with new content.
    pub(super) fn publish_changed(&mut self, at: &[u8], was_there: bool) {
        // A change leaves a zone unloaded that was so.
        if self.heads.get(at).is_none_or(|head| head.zone.serial().is_some()) {
            self.shared.health.written(at);
        }
        if was_there != self.heads.contains_key(at) {
            self.list.changed(self.heads.len(), Instant::now());
        }
        self.publish(at);
    }

    /// Refuses all requests of a group, which was not committed.
    fn undo(&mut self, group: WriteGroup, why: &Refused) {
        let first = group.writes.first().map(|write| Revision(write.revision.0 - 1));
        self.roll_back(group.touched, first.unwrap_or(self.revision));
        group.answers.into_iter().for_each(|(_, promise)| promise.answer(Err(why.clone())));
    }

    /// Puts back the zones that a group touched.
    fn roll_back(&mut self, touched: HashMap<Box<[u8]>, Option<ZoneHead>>, base: Revision) {
        self.revision = base;
        for (at, head) in touched {
            match head {
                Some(head) => drop(self.heads.insert(at, head)),
                None => drop(self.heads.remove(&at)),
            }
        }
    }
}

/// Why a group is refused. `shared`: the commit's identity in a store with other writers.
fn not_committed(error: CommitError, shared: Option<CommitId>) -> Refused {
    match (error, shared) {
        (CommitError::Conflict { .. }, _) => Refused::Busy,
        (CommitError::Unknown(why), Some(id)) => {
            Refused::UnknownOutcome { id, why: why.to_string().into() }
        }
        (CommitError::Unknown(StoreError::Failed(why)), None) => {
            let served = "is served once the disk works again";
            Refused::Failed(format!("{why}: it may be on the disk anyway, and {served}").into())
        }
        (CommitError::Refused(why) | CommitError::Unknown(why), _) => refused(why),
    }
}

/// Answers requests of a durable group, published at this sequence.
fn answer(answers: Vec<(RequestResult, Promise<WriteResult, Refused>)>, sequence: Sequence) {
    for (RequestResult { revision, zone, warnings }, promise) in answers {
        promise.answer(Ok(WriteResult { revision, zone, sequence, warnings }));
    }
}

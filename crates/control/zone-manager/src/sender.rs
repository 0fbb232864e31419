//! The handle by which a source changes the zone data.
use crate::answer::{Answer, Stopped, answer, block_on};
use crate::epoch::Epoch;
use crate::hidden::HiddenZones;
use crate::hold::Evidence;
use crate::queue::{Action, Judged, QueueFull, Sequence, SourceId, room, units};
use crate::source::{Applied, Lane, Synced, Target};
use crate::{Shared, ZonePublisher};
use compile::Zone;
use model::Change;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::{Name, NameBuf};

/// Sends the updates of one source, in order. Each sender has room for
/// [`NORMAL_ROOM`](crate::limits::NORMAL_ROOM) changes that are not applied yet; then it waits.
pub struct UpdateSender {
    pub(crate) shared: Arc<Shared>,
    id: SourceId,
    lane: Lane,
    room: Arc<Semaphore>,
}

impl UpdateSender {
    pub(crate) fn new(shared: Arc<Shared>, id: SourceId, lane: Lane) -> Self {
        Self { shared, id, lane, room: room(lane) }
    }

    /// Another sender of the same source, in the urgent lane, with room of its own. Its updates
    /// overtake those of this one.
    pub fn urgent(&self) -> Self {
        Self::new(Arc::clone(&self.shared), self.id, Lane::Urgent)
    }

    /// Members of this source's sets that name no location are here, a path that
    /// `image::Location` parses: for sets that answer the nearest. Before its first zone.
    pub fn set_location(&self, location: &str) {
        self.shared.catalog.state().sources[self.id.0].location = Some(location.into());
    }

    /// The zone manager.
    pub fn publisher(&self) -> ZonePublisher {
        ZonePublisher(Arc::clone(&self.shared))
    }

    /// Changes record sets; waits for room in the queue. The answer comes when they are published.
    ///
    /// # Errors
    /// The zone manager has ended.
    pub async fn apply(
        &self,
        target: Target,
        changes: Vec<Change>,
    ) -> Result<Answer<Applied>, Stopped> {
        let units = units(&changes, self.lane);
        let room = Arc::clone(&self.room).acquire_many_owned(units).await.map_err(|_| Stopped)?;
        Ok(self.send_changes(target, changes, room))
    }

    /// As [`UpdateSender::apply`], blocks this thread.
    ///
    /// # Errors
    /// As [`UpdateSender::apply`].
    pub fn apply_blocking(
        &self,
        target: Target,
        changes: Vec<Change>,
    ) -> Result<Answer<Applied>, Stopped> {
        block_on(self.apply(target, changes))
    }

    /// As [`UpdateSender::apply`], without waiting.
    ///
    /// # Errors
    /// The queue has no room for the changes.
    pub fn try_apply(
        &self,
        target: Target,
        changes: Vec<Change>,
    ) -> Result<Answer<Applied>, QueueFull> {
        let units = units(&changes, self.lane);
        let room = Arc::clone(&self.room).try_acquire_many_owned(units).map_err(|_| QueueFull)?;
        Ok(self.send_changes(target, changes, room))
    }

    fn send_changes(
        &self,
        target: Target,
        changes: Vec<Change>,
        room: OwnedSemaphorePermit,
    ) -> Answer<Applied> {
        let (promise, answer) = answer();
        self.send(Action::Apply(target, changes, promise), Some(room));
        answer
    }

    /// Starts a full sync. At its commit, everything that was not put is removed.
    pub fn full_sync(&mut self, target: Target) -> Epoch<'_> {
        Epoch::new(self, target)
    }

    /// The content of a target that is served for this source.
    pub fn content(&self, target: &Target) -> Option<Arc<Zone>> {
        self.shared.catalog.state().content(self.id, target)
    }

    /// What sources of lesser kinds have of these zones, which this source hides.
    pub fn hidden(&self, origins: Vec<NameBuf>) -> HiddenZones {
        HiddenZones::new(Arc::clone(&self.shared), self.id, origins)
    }

    /// Whether newer content of a target is held.
    pub fn is_held(&self, target: &Target) -> bool {
        let key = self.shared.catalog.state().hold_key(self.id, target);
        self.shared.holds.held(key).is_some()
    }

    /// A full sync with content that the source has compiled on its own thread; waits for room in
    /// the queue. `evidence`: how it came, for the zone manager to judge; `None`: it was believed
    /// before, such as a saved copy.
    pub fn sync(
        &self,
        target: Target,
        zone: impl Into<Arc<Zone>>,
        evidence: Option<Evidence>,
    ) -> Answer<Synced> {
        let room = block_on(Arc::clone(&self.room).acquire_owned()).ok();
        let judged = evidence.map_or(Judged::Believed, Judged::By);
        self.send_content((target, zone.into()), judged, room)
    }

    /// As [`UpdateSender::sync`], for a zone.
    pub fn sync_zone(
        &self,
        zone: impl Into<Arc<Zone>>,
        evidence: Option<Evidence>,
    ) -> Answer<Synced> {
        let zone = zone.into();
        self.sync(Target::Zone(zone.origin().into()), zone, evidence)
    }

    /// Replaces the content of a target by what the source lists.
    pub(crate) fn sync_list(&self, target: Target, zone: Zone) -> Answer<Synced> {
        self.send_content((target, zone.into()), Judged::Listed, None)
    }

    fn send_content(
        &self,
        (target, zone): (Target, Arc<Zone>),
        judged: Judged,
        room: Option<OwnedSemaphorePermit>,
    ) -> Answer<Synced> {
        let (promise, answer) = answer();
        self.send(Action::Replace(target, zone, judged, promise), room);
        answer
    }

    /// The files of the source's layers from now on, by their numbers; the first has priority.
    /// Those that stay keep their content.
    pub fn set_layers(&self, files: Vec<PathBuf>) -> Sequence {
        self.send(Action::Layers(files), None)
    }

    /// Ends the hold of a target: its newer content is gone, or invalid.
    pub fn drop_held(&self, target: &Target) {
        self.shared.holds.release(self.shared.catalog.state().hold_key(self.id, target));
    }

    /// Owns a zone before there is content. Until then it is that of a source of a lesser kind, or
    /// answers SERVFAIL (invariant I10). `file`: where its content comes from.
    pub fn claim(&self, origin: NameBuf, file: Option<PathBuf>) -> Sequence {
        self.send(Action::Claim(origin, file), None)
    }

    /// Gives up a zone or layer, with its content. A zone that it hid is served instead.
    pub fn remove(&self, target: Target) -> Sequence {
        self.send(Action::Remove(target), None)
    }

    /// As [`UpdateSender::remove`], for a zone.
    pub fn remove_zone(&self, origin: Name<'_>) -> Sequence {
        self.remove(Target::Zone(origin.into()))
    }

    fn send(&self, action: Action, room: Option<OwnedSemaphorePermit>) -> Sequence {
        self.shared.queue.put((self.id, self.lane), action, room)
    }
}

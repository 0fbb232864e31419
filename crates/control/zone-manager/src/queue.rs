//! The queue of updates. Each sender has room of its own, so no source can fill the queue of
//! another.
use crate::answer::Promise;
use crate::defaults::DefaultCheck;
use crate::health::HealthTarget;
use crate::hold::{Acceptance, Evidence};
use crate::limits::{CHANGE_UNIT_BYTES, NORMAL_ROOM, URGENT_ROOM};
use crate::source::{Applied, Lane, Synced, Target};
use compile::{View, Zone};
use model::{Change, JudgedSet, MemberClass};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use wire::{NameBuf, Rtype};

/// The sender has no more room: its updates were not applied yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the zone manager has not applied earlier changes yet; try again later")
    }
}

impl std::error::Error for QueueFull {}

/// The position of an update in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence(pub(crate) u64);

/// The number of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub(crate) usize);

/// How new content is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Judged {
    /// It is listed: by the names that it has, and those before.
    Listed,
    /// By what its source says.
    By(Evidence),
    /// It was believed before.
    Believed,
}

/// The work.
pub(crate) enum Action {
    /// Change record sets.
    Apply(Target, Vec<Change>, Promise<Applied>),
    /// Replace all content, unless it is not believed.
    Replace(Target, Arc<Zone>, Judged, Promise<Synced>),
    /// Own a zone, before there is content.
    Claim(NameBuf, Option<PathBuf>),
    /// Give up a zone or layer.
    Remove(Target),
    /// The files of all layers.
    Layers(Vec<PathBuf>),
    /// Publish held content.
    Accept(Target, Promise<Acceptance>),
    /// The health of targets; `None` forgets one.
    Health(Vec<(HealthTarget, Option<MemberClass>)>, Promise<Sequence>),
    /// The checks of zones.
    Defaults(Vec<DefaultCheck>),
    /// Name sets whose other members are all drained, besides this address of a check or of all.
    LastMember(IpAddr, Option<Box<str>>, Promise<Vec<String>>),
    /// Tells what became of the members of a set: of a zone, at a name of a view below it, of a
    /// type.
    Judged(Box<[u8]>, (View, Box<[u8]>), Rtype, Promise<Option<JudgedSet>>),
    /// Call back when everything queued before is live on every worker.
    WhenLive(Box<dyn FnOnce(bool) + Send>),
}

/// An update of a source.
pub(crate) struct Update {
    pub sequence: Sequence,
    pub source: SourceId,
    pub lane: Lane,
    pub action: Action,
    /// Its room in the queue; given back when it is applied.
    pub room: Option<OwnedSemaphorePermit>,
}

/// What the thread has done: all updates up to a sequence are published, in this generation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub done: Sequence,
    pub generation: u64,
    /// The thread has ended.
    pub has_ended: bool,
}

struct Tail {
    last: u64,
    /// `None`: closed.
    sender: Option<Sender<Update>>,
}

/// The sending end.
pub(crate) struct UpdateQueue {
    tail: Mutex<Tail>,
    pub progress: watch::Sender<Progress>,
}

impl UpdateQueue {
    pub fn new() -> (Self, Receiver<Update>) {
        let (sender, receiver) = channel();
        let tail = Mutex::new(Tail { last: 0, sender: Some(sender) });
        (Self { tail, progress: watch::Sender::new(Progress::default()) }, receiver)
    }

    /// Appends an update. If the thread has ended, drops it with its promise.
    pub fn put(
        &self,
        (source, lane): (SourceId, Lane),
        action: Action,
        room: Option<OwnedSemaphorePermit>,
    ) -> Sequence {
        // The sequence is in the order of the channel.
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.last += 1;
        let sequence = Sequence(tail.last);
        if let Some(sender) = &tail.sender {
            // The receiver is gone after a panic of the thread.
            let _ = sender.send(Update { sequence, source, lane, action, room });
        }
        sequence
    }

    /// The sequence of the last update.
    pub fn last(&self) -> Sequence {
        Sequence(self.tail.lock().unwrap_or_else(PoisonError::into_inner).last)
    }

    /// Refuses further updates; the thread ends after those in the queue.
    pub fn close(&self) {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).sender = None;
    }

    pub fn is_closed(&self) -> bool {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).sender.is_none()
    }

    /// Waits until an update is published. `None`: the thread ended before.
    pub async fn published(&self, sequence: Sequence) -> Option<u64> {
        let mut progress = self.progress.subscribe();
        let is_over = |now: &Progress| now.done >= sequence || now.has_ended;
        let now = *progress.wait_for(is_over).await.ok()?;
        (now.done >= sequence).then_some(now.generation)
    }
}

/// Tells waiters that the thread has ended, also after a panic.
pub(crate) struct EndGuard<'q>(pub &'q UpdateQueue);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.progress.send_modify(|progress| progress.has_ended = true);
    }
}

/// The room of a sender in a lane, in units.
pub(crate) fn room(lane: Lane) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(room_of(lane) as usize))
}

fn room_of(lane: Lane) -> u32 {
    match lane {
        Lane::Normal => NORMAL_ROOM,
        Lane::Urgent => URGENT_ROOM,
    }
}

/// The units that changes need: one each, and more for large ones. At most the whole room.
pub(crate) fn units(changes: &[Change], lane: Lane) -> u32 {
    let each = changes.iter().map(|change| {
        let data = match change {
            Change::Set(edit) | Change::Add(edit) | Change::Take(edit) => edit.put.as_ref(),
            Change::AddName(_) | Change::AddAddresses(_) | Change::RemoveName(_) => None,
        };
        let bytes: usize = data.iter().flat_map(|value| &value.data).map(|data| data.len()).sum();
        1 + bytes / CHANGE_UNIT_BYTES
    });
    u32::try_from(each.sum::<usize>()).unwrap_or(u32::MAX).min(room_of(lane))
}

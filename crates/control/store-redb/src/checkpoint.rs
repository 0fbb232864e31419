//! Writes that are in the log and not yet in the tree. A slow thread checkpoints many groups at a
//! time, because their changes are scattered, and a page changed by several is written once. A
//! waiting thread checkpoints at once.
use crate::limits::{CHECKPOINT_BYTES, CHECKPOINT_INTERVAL, HALF_BYTES};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use store::{PreparedWrite, StoreError};

/// Writes for the tree, and the sequence number of the newest log group among them; 0: none since
/// the store was opened.
pub type CheckpointBatch = (Vec<PreparedWrite>, u64);

#[derive(Default)]
struct CheckpointQueue {
    /// The writes of the current half of the log, and the time of the first. The other half is
    /// being checkpointed, or is done.
    waiting: Vec<PreparedWrite>,
    since: Option<Instant>,
    half: u64,
    /// Bytes used in the current half.
    end: u64,
    /// The sequence number of the newest group in the log.
    sequence: u64,
    /// Disk space that the tree may need for waiting and taken writes, in bytes.
    room: u64,
    room_taken: u64,
    /// Counters of writes: received, taken, and in the tree.
    received: u64,
    taken: u64,
    done: u64,
    /// Why a checkpoint failed. Nothing more is accepted until the store is opened again, which
    /// reads the log.
    failure: Option<StoreError>,
    is_ended: bool,
}

impl CheckpointQueue {
    fn is_due(&self) -> bool {
        let is_old = self.since.is_some_and(|since| since.elapsed() >= CHECKPOINT_INTERVAL);
        let is_enough = self.end >= CHECKPOINT_BYTES;
        !self.waiting.is_empty() && !self.is_busy() && (self.is_ended || is_old || is_enough)
    }

    /// Whether a checkpoint is running; only one runs at a time.
    fn is_busy(&self) -> bool {
        self.taken > self.done
    }

    fn outcome(&self) -> Result<(), StoreError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Takes all waiting writes. The next groups go to the other half, whose content is in the
    /// tree.
    fn take(&mut self) -> CheckpointBatch {
        (self.taken, self.room_taken, self.since) = (self.received, self.room, None);
        (self.half, self.end, self.room) = (1 - self.half, 0, 0);
        (mem::take(&mut self.waiting), self.sequence)
    }
}

/// Writes that are durable, or about to be, and not yet in the tree.
#[derive(Default)]
pub struct Checkpoints {
    queue: Mutex<CheckpointQueue>,
    changed: Condvar,
    /// Whether no thread waits for the checkpoint.
    pub is_slow: Arc<AtomicBool>,
}

impl Checkpoints {
    fn queue(&self) -> MutexGuard<'_, CheckpointQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'l>(&self, queue: MutexGuard<'l, CheckpointQueue>) -> MutexGuard<'l, CheckpointQueue> {
        self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the running checkpoint, at full speed.
    fn hurry<'l>(&self, queue: MutexGuard<'l, CheckpointQueue>) -> MutexGuard<'l, CheckpointQueue> {
        self.is_slow.store(false, Ordering::Relaxed);
        self.wait(queue)
    }

    /// Adds a group to the log: `lay_down` receives the half and its offset and returns the
    /// sequence number. Waits while there is no room for these bytes. The tree may need `room`
    /// bytes of disk space.
    pub fn log(
        &self,
        writes: Vec<PreparedWrite>,
        room: u64,
        bytes: u64,
        lay_down: impl FnOnce(u64, u64) -> Result<u64, StoreError>,
    ) -> Result<(), StoreError> {
        let mut queue = self.queue();
        while queue.failure.is_none() && queue.end + bytes > HALF_BYTES {
            // The thread takes a full half as soon as it can.
            queue = self.hurry(queue);
        }
        queue.outcome()?;
        // The half must not be taken until the group is written.
        queue.sequence = lay_down(queue.half, queue.end)?;
        queue.end += bytes;
        self.push(&mut queue, writes, room);
        Ok(())
    }

    /// Adds a group that is not in the log; it is durable once it is in the tree.
    pub fn put(&self, writes: Vec<PreparedWrite>, room: u64) {
        self.push(&mut self.queue(), writes, room);
    }

    fn push(&self, queue: &mut CheckpointQueue, writes: Vec<PreparedWrite>, room: u64) {
        let is_first = queue.since.is_none();
        queue.since.get_or_insert_with(Instant::now);
        queue.room += room;
        queue.waiting.extend(writes);
        queue.received += 1;
        if is_first || queue.is_due() {
            self.changed.notify_all();
        }
    }

    /// Disk space in bytes that the tree may need for pending writes.
    pub fn room(&self) -> u64 {
        let queue = self.queue();
        queue.room + queue.room_taken
    }

    /// Starts over: everything is in the tree, or the log will be read again.
    pub fn reset(&self) {
        let mut queue = self.queue();
        while queue.is_busy() {
            queue = self.hurry(queue);
        }
        let CheckpointQueue { received, is_ended, .. } = mem::take(&mut *queue);
        *queue = CheckpointQueue {
            received,
            taken: received,
            done: received,
            is_ended,
            ..CheckpointQueue::default()
        };
        self.changed.notify_all();
    }

    /// The next writes for the tree; `None`: the end.
    pub fn next(&self) -> Option<CheckpointBatch> {
        let mut queue = self.queue();
        while !queue.is_due() {
            if queue.is_ended && queue.waiting.is_empty() {
                return None;
            }
            let left = queue.since.map(|since| CHECKPOINT_INTERVAL.saturating_sub(since.elapsed()));
            queue = match left.filter(|_| !queue.is_busy()) {
                None => self.wait(queue),
                Some(left) => {
                    let waited = self.changed.wait_timeout(queue, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        self.is_slow.store(!queue.is_ended, Ordering::Relaxed);
        let taken = queue.take();
        // Waiters for room have some now.
        self.changed.notify_all();
        Some(taken)
    }

    pub fn done(&self, done: Result<(), StoreError>) {
        let mut queue = self.queue();
        (queue.done, queue.room_taken) = (queue.taken, 0);
        if let Err(why) = done {
            // Later writes are in the log, too.
            drop(queue.take());
            (queue.done, queue.room_taken, queue.failure) = (queue.taken, 0, Some(why));
        }
        self.is_slow.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Ends the thread after a checkpoint of all waiting writes.
    pub fn end(&self) {
        self.queue().is_ended = true;
        self.changed.notify_all();
    }

    /// Checkpoints all writes so far by `checkpoint`, which calls [`Checkpoints::done`].
    pub fn settle(&self, checkpoint: impl Fn(&CheckpointBatch)) -> Result<(), StoreError> {
        let mut queue = self.queue();
        let received = queue.received;
        while queue.done < received {
            if queue.is_busy() {
                queue = self.hurry(queue);
                continue;
            }
            let taken = queue.take();
            drop(queue);
            checkpoint(&taken);
            queue = self.queue();
        }
        queue.outcome()
    }
}

//! What is in the log and not yet in the tree, and how it gets there: many groups at a time, since
//! what they change lies anywhere, and a page that several change is written once. A thread does
//! that, slowly; whoever waits for it does it at once.
use crate::limits::{CHECKPOINT_INTERVAL, CHECKPOINT_NICENESS, CHECKPOINT_OCTETS, HALF_OCTETS};
use crate::shared::Shared;
use crate::{failed, write};
use records::{Prepared, StoreError};
use rustix::process::setpriority_process;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Default)]
struct Line {
    /// What the half holds that is written, and since when the first of them does. What the other
    /// one holds somebody brings into the tree, or has.
    waiting: Vec<Prepared>,
    since: Option<Instant>,
    half: u64,
    /// Octets of that half.
    end: u64,
    /// Octets of the disk that the tree may take for what is waiting, and for what was taken.
    room: u64,
    room_taken: u64,
    /// Groups that ever came, that somebody took, and that are in the tree.
    came: u64,
    taken: u64,
    done: u64,
    /// Why some could not be brought into the tree. Nothing more is taken until the store is opened
    /// again, which reads the log.
    failure: Option<StoreError>,
    is_ended: bool,
}

impl Line {
    fn is_due(&self) -> bool {
        let is_old = self.since.is_some_and(|since| since.elapsed() >= CHECKPOINT_INTERVAL);
        let is_enough = self.end >= CHECKPOINT_OCTETS;
        !self.waiting.is_empty() && !self.is_busy() && (self.is_ended || is_old || is_enough)
    }

    /// Whether somebody brings some into the tree: one at a time.
    fn is_busy(&self) -> bool {
        self.taken > self.done
    }

    fn outcome(&self) -> Result<(), StoreError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Takes all that waits. From now on the other half is written: what it held is in the tree.
    fn take(&mut self) -> Vec<Prepared> {
        (self.taken, self.room_taken, self.since) = (self.came, self.room, None);
        (self.half, self.end, self.room) = (1 - self.half, 0, 0);
        mem::take(&mut self.waiting)
    }
}

/// The writes that are durable, or are about to be, and not yet in the tree.
#[derive(Default)]
pub struct Checkpoints {
    line: Mutex<Line>,
    changed: Condvar,
    /// Whether nobody waits for what is brought into the tree.
    pub is_slow: Arc<AtomicBool>,
}

impl Checkpoints {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'l>(&self, line: MutexGuard<'l, Line>) -> MutexGuard<'l, Line> {
        self.changed.wait(line).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits without patience for who brings some into the tree.
    fn hurry<'l>(&self, line: MutexGuard<'l, Line>) -> MutexGuard<'l, Line> {
        self.is_slow.store(false, Ordering::Relaxed);
        self.wait(line)
    }

    /// Takes a group once it is laid down, by who gets the half and the place in it; waits while
    /// there is no room for so many octets. The tree may take `room` octets of the disk for it.
    pub fn log(
        &self,
        writes: Vec<Prepared>,
        room: u64,
        octets: u64,
        lay_down: impl FnOnce(u64, u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut line = self.line();
        while line.failure.is_none() && line.end + octets > HALF_OCTETS {
            // The thread takes a half that is full as soon as it can.
            line = self.hurry(line);
        }
        line.outcome()?;
        // Until it lies there nobody must take the half.
        lay_down(line.half, line.end)?;
        line.end += octets;
        self.push(&mut line, writes, room);
        Ok(())
    }

    /// Takes a group that is not in the log, which is safe once it is in the tree.
    pub fn put(&self, writes: Vec<Prepared>, room: u64) {
        self.push(&mut self.line(), writes, room);
    }

    fn push(&self, line: &mut Line, writes: Vec<Prepared>, room: u64) {
        let is_first = line.since.is_none();
        line.since.get_or_insert_with(Instant::now);
        line.room += room;
        line.waiting.extend(writes);
        line.came += 1;
        if is_first || line.is_due() {
            self.changed.notify_all();
        }
    }

    /// Octets of the disk that the tree may take for what is not there yet.
    pub fn room(&self) -> u64 {
        let line = self.line();
        line.room + line.room_taken
    }

    /// Begins anew: what came is in the tree, or the log is read again.
    pub fn reset(&self) {
        let mut line = self.line();
        while line.is_busy() {
            line = self.hurry(line);
        }
        let Line { came, is_ended, .. } = mem::take(&mut *line);
        *line = Line { came, taken: came, done: came, is_ended, ..Line::default() };
        self.changed.notify_all();
    }

    /// What the thread is to bring into the tree next; nothing: the end.
    fn next(&self) -> Option<Vec<Prepared>> {
        let mut line = self.line();
        while !line.is_due() {
            if line.is_ended && line.waiting.is_empty() {
                return None;
            }
            let left = line.since.map(|since| CHECKPOINT_INTERVAL.saturating_sub(since.elapsed()));
            line = match left.filter(|_| !line.is_busy()) {
                None => self.wait(line),
                Some(left) => {
                    let waited = self.changed.wait_timeout(line, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        self.is_slow.store(!line.is_ended, Ordering::Relaxed);
        let writes = line.take();
        // Who waited for room has some.
        self.changed.notify_all();
        Some(writes)
    }

    fn done(&self, done: Result<(), StoreError>) {
        let mut line = self.line();
        (line.done, line.room_taken) = (line.taken, 0);
        if let Err(why) = done {
            // What came meanwhile is in the log, too.
            drop(line.take());
            (line.done, line.room_taken, line.failure) = (line.taken, 0, Some(why));
        }
        self.is_slow.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Brings into the tree what waits, and no more: the thread ends.
    pub fn end(&self) {
        self.line().is_ended = true;
        self.changed.notify_all();
    }
}

/// Has all that came so far in the tree.
///
/// # Errors
/// What kept it from there.
pub fn settle(shared: &Shared) -> Result<(), StoreError> {
    let checkpoints = &shared.checkpoints;
    let mut line = checkpoints.line();
    let came = line.came;
    while line.done < came {
        if line.is_busy() {
            line = checkpoints.hurry(line);
            continue;
        }
        let writes = line.take();
        drop(line);
        bring(shared, &writes);
        line = checkpoints.line();
    }
    line.outcome()
}

fn bring(shared: &Shared, writes: &[Prepared]) {
    let commit = || shared.with(|opened| write::commit(&opened.database, writes));
    let done = catch_unwind(AssertUnwindSafe(commit));
    let done = done.unwrap_or_else(|_| Err(failed("a defect: what was written is in its log")));
    if let Err(why) = &done {
        tracing::error!(writes = writes.len(), "not brought from the log into the tree: {why}");
        shared.give_up();
    }
    shared.checkpoints.done(done);
}

/// What the thread does until the end.
pub fn run(shared: &Shared) {
    if let Err(why) = setpriority_process(None, CHECKPOINT_NICENESS) {
        tracing::debug!(%why, "checkpoints get as much of the CPUs as others");
    }
    while let Some(writes) = shared.checkpoints.next() {
        bring(shared, &writes);
    }
}

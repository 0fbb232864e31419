//! What is in the log and not yet in the tree, and the thread that brings it there: many groups at
//! a time, since what they change lies anywhere, and a page that several change is written once.
use crate::limits::{CHECKPOINT_INTERVAL, CHECKPOINT_NICENESS, CHECKPOINT_OCTETS, HALF_OCTETS};
use crate::shared::Shared;
use crate::write;
use records::{Prepared, StoreError};
use rustix::process::setpriority_process;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Default)]
struct Line {
    /// What the half holds that is written, and since when the first of them does; what the other
    /// one holds the thread has.
    waiting: Vec<Prepared>,
    since: Option<Instant>,
    half: u64,
    /// Octets of that half, and those that the tree may take for what it holds.
    end: u64,
    room: u64,
    /// Groups that ever came, that the thread took, and that are in the tree.
    came: u64,
    taken: u64,
    done: u64,
    /// Whether somebody waits for what is waiting.
    is_wanted: bool,
    /// Why some could not be brought into the tree. Nothing more is taken until the store is opened
    /// again, which reads the log.
    failure: Option<StoreError>,
    is_ended: bool,
}

impl Line {
    fn is_due(&self) -> bool {
        let is_old = self.since.is_some_and(|since| since.elapsed() >= CHECKPOINT_INTERVAL);
        let is_enough = self.end >= CHECKPOINT_OCTETS;
        !self.waiting.is_empty() && (self.is_wanted || self.is_ended || is_old || is_enough)
    }

    fn outcome(&self) -> Result<(), StoreError> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

/// The writes that are durable, or are about to be, and not yet in the tree.
#[derive(Default)]
pub struct Checkpoints {
    line: Mutex<Line>,
    changed: Condvar,
    /// Whether nobody waits for what the thread has.
    pub is_slow: Arc<AtomicBool>,
}

impl Checkpoints {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has what waits, and what the thread has, brought into the tree without delay.
    fn want(&self, line: &mut Line) {
        line.is_wanted = !line.waiting.is_empty();
        self.is_slow.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn wait_while<'l>(
        &self,
        line: MutexGuard<'l, Line>,
        is_so: impl FnMut(&mut Line) -> bool,
    ) -> MutexGuard<'l, Line> {
        self.changed.wait_while(line, is_so).unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a group once it is laid down, by who gets the half and the place in it; waits while
    /// there is no room for so many octets.
    pub fn log(
        &self,
        writes: Vec<Prepared>,
        octets: u64,
        lay_down: impl FnOnce(u64, u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut line = self.line();
        let is_full = |line: &mut Line| line.failure.is_none() && line.end + octets > HALF_OCTETS;
        if is_full(&mut line) {
            self.want(&mut line);
            line = self.wait_while(line, is_full);
        }
        line.outcome()?;
        // Until it lies there the thread must not take the half.
        lay_down(line.half, line.end)?;
        line.end += octets;
        self.push(line, writes);
        Ok(())
    }

    /// Takes a group that is not in the log, and waits until it is in the tree.
    pub fn file(&self, writes: Vec<Prepared>) -> Result<(), StoreError> {
        let line = self.line();
        line.outcome()?;
        self.push(line, writes);
        self.settle()
    }

    fn push(&self, mut line: MutexGuard<'_, Line>, writes: Vec<Prepared>) {
        let is_first = line.since.is_none();
        line.since.get_or_insert_with(Instant::now);
        line.room += writes.iter().map(write::room).sum::<u64>();
        line.waiting.extend(writes);
        line.came += 1;
        if is_first || line.is_due() {
            self.changed.notify_all();
        }
    }

    /// Waits until all that came so far is in the tree.
    ///
    /// # Errors
    /// What kept it from there.
    pub fn settle(&self) -> Result<(), StoreError> {
        let mut line = self.line();
        let came = line.came;
        if line.done < came {
            self.want(&mut line);
        }
        self.wait_while(line, |line| line.failure.is_none() && line.done < came).outcome()
    }

    /// Octets of the disk that the tree may take for what is not there yet.
    pub fn room(&self) -> u64 {
        self.line().room
    }

    /// Begins anew: what came is in the tree, or the log is read again.
    pub fn reset(&self) {
        let line = self.line();
        let mut line = self.wait_while(line, |line| line.taken > line.done);
        let Line { came, is_ended, .. } = mem::take(&mut *line);
        *line = Line { came, taken: came, done: came, is_ended, ..Line::default() };
    }

    /// What the thread is to bring into the tree next; nothing: the end.
    fn next(&self) -> Option<Vec<Prepared>> {
        let mut line = self.line();
        while !line.is_due() {
            if line.is_ended {
                return None;
            }
            let left = line.since.map(|since| CHECKPOINT_INTERVAL.saturating_sub(since.elapsed()));
            line = match left {
                None => self.changed.wait(line).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.changed.wait_timeout(line, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        self.is_slow.store(!line.is_wanted && !line.is_ended, Ordering::Relaxed);
        (line.taken, line.since, line.is_wanted) = (line.came, None, false);
        (line.half, line.end, line.room) = (1 - line.half, 0, 0);
        // Who waited for room has some.
        self.changed.notify_all();
        Some(mem::take(&mut line.waiting))
    }

    fn done(&self, done: Result<(), StoreError>) {
        let mut line = self.line();
        line.done = line.taken;
        if let Err(why) = done {
            line.failure = Some(why);
            line.waiting.clear();
        }
        self.changed.notify_all();
    }

    /// Brings into the tree what waits, and no more: the thread ends.
    pub fn end(&self) {
        self.line().is_ended = true;
        self.changed.notify_all();
    }
}

/// What the thread does until the end.
pub fn run(shared: &Shared) {
    if let Err(why) = setpriority_process(None, CHECKPOINT_NICENESS) {
        tracing::debug!(%why, "checkpoints get as much of the CPUs as others");
    }
    while let Some(writes) = shared.checkpoints.next() {
        let done = shared.with(|opened| write::commit(&opened.database, &writes));
        if let Err(why) = &done {
            tracing::error!(writes = writes.len(), "not brought from the log into the tree: {why}");
            shared.give_up();
        }
        shared.checkpoints.done(done);
    }
}

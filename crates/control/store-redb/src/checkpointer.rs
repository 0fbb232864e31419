//! Moves writes from the log into the tree.
use crate::checkpoint::CheckpointBatch;
use crate::limits::CHECKPOINT_NICENESS;
use crate::shared::SharedStore;
use crate::{failed, write};
use rustix::process::setpriority_process;
use std::panic::{AssertUnwindSafe, catch_unwind};
use store::StoreError;

/// Checkpoints all writes so far.
///
/// # Errors
/// Why the checkpoint failed.
pub fn settle(shared: &SharedStore) -> Result<(), StoreError> {
    shared.checkpoints.settle(|batch| checkpoint(shared, batch))
}

fn checkpoint(shared: &SharedStore, (writes, sequence): &CheckpointBatch) {
    let commit = || shared.with(|opened| write::commit(&opened.database, writes, *sequence));
    let done = catch_unwind(AssertUnwindSafe(commit));
    let done = done.unwrap_or_else(|_| Err(failed("a defect: what was written is in its log")));
    if let Err(why) = &done {
        tracing::error!(writes = writes.len(), "a checkpoint of the store failed: {why}");
        shared.give_up(why);
    }
    shared.checkpoints.done(done);
}

/// The thread's loop.
pub fn run(shared: &SharedStore) {
    if let Err(why) = setpriority_process(None, CHECKPOINT_NICENESS) {
        tracing::debug!(%why, "cannot lower the CPU priority of checkpoints");
    }
    while let Some(taken) = shared.checkpoints.next() {
        checkpoint(shared, &taken);
    }
}

//! A new start after a panic, which may have left the client half changed.
use super::{UpstreamClient, arm_timer};
use crate::peer_shards::ShardMessage;
use crate::waiters::PeerQuery;
use std::cell::Cell;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

thread_local! {
    /// Whether a panic has unwound through this thread's client.
    static IS_SUSPECT: Cell<bool> = const { Cell::new(false) };
}

/// Notes that the client may be half changed if a panic drops it. Code that returns forgets it,
/// so that it costs nothing there.
struct SuspectOnPanic;

impl Drop for SuspectOnPanic {
    fn drop(&mut self) {
        IS_SUSPECT.set(true);
    }
}

/// Runs code that changes the client; a panic in it makes the client suspect.
#[inline(always)]
pub(super) fn changing<T>(change: impl FnOnce() -> T) -> T {
    let suspect = SuspectOnPanic;
    let result = change();
    mem::forget(suspect);
    result
}

/// Runs code with a part that was taken out of the client; `restore` puts it back, also before a
/// panic continues.
pub(super) fn restoring<C, P>(
    client: &mut C,
    mut part: P,
    work: impl FnOnce(&mut C, &mut P),
    restore: impl FnOnce(&mut C, P),
) {
    let worked = catch_unwind(AssertUnwindSafe(|| work(client, &mut part)));
    restore(client, part);
    if let Err(panic) = worked {
        resume_unwind(panic);
    }
}

impl UpstreamClient {
    /// Whether a panic has left this thread's client half changed, so that it must
    /// [restart](Self::restart); true only once.
    pub fn take_suspicion() -> bool {
        IS_SUSPECT.take()
    }

    /// Starts again with an empty cache and new sockets. Waiting clients are answered by the next
    /// [`poll_deferred`](Self::poll_deferred), for which the descriptor becomes readable, and other
    /// shards send their queries themselves. Descriptor, commands, counters and drained servers
    /// stay.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn restart(&mut self) -> io::Result<()> {
        let mut old = mem::replace(self, Self::new(self.plan.clone())?);
        mem::swap(&mut self.epoll, &mut old.epoll);
        mem::swap(&mut self.timer, &mut old.timer);
        mem::swap(&mut self.status, &mut old.status);
        mem::swap(&mut self.receiver, &mut old.receiver);
        mem::swap(&mut self.peer_shards, &mut old.peer_shards);
        self.now = old.now;
        // An answer of another shard to an earlier query must not be taken for one to a new query.
        for (query, old) in self.queries.iter_mut().zip(&old.queries) {
            query.continue_serials(old);
        }
        for server in 0..self.servers() as u16 {
            let is_drained = old.with(|forwarder, _, _| forwarder.upstream(server).is_drained);
            self.with(|forwarder, _, _| forwarder.upstream(server).is_drained = is_drained);
        }
        if let Some(peer_shards) = &mut self.peer_shards {
            for PeerQuery { from, query_id } in old.waiters.all_peers() {
                peer_shards.send(from, &ShardMessage::Refusal(query_id));
            }
            peer_shards.wake();
        }
        self.abandoned = mem::take(&mut old.abandoned);
        self.abandoned.extend(mem::take(&mut old.waiters).into_clients());
        self.armed_at = Some(Duration::ZERO);
        arm_timer(&self.timer, Duration::ZERO)
    }
}

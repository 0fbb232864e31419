//! The bounded queue of write requests.
use crate::limits::{QUEUE_BYTES_MAX, QUEUE_EDITS_MAX, QUEUE_REQUESTS_MAX};
use crate::{Batch, Edit, PlannedWrite, Refused, SnapshotSource, WriteContext, WriteResult};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wire::NameBuf;
use zone_manager::Promise;

/// A change of one zone.
#[derive(Clone, Debug)]
pub enum ZoneRequest {
    /// Change sets of a zone.
    Write(Batch),
    /// Change sets of a zone as a plan says when its turn comes.
    Planned(Arc<dyn PlannedWrite>, Batch),
    /// Create a zone with these sets.
    Create(Batch),
    /// Delete a zone.
    Delete(NameBuf, WriteContext),
}

impl ZoneRequest {
    pub fn edits(&self) -> &[Edit] {
        match self {
            Self::Write(batch) | Self::Create(batch) => &batch.edits,
            Self::Planned(..) | Self::Delete(..) => &[],
        }
    }

    /// Memory of it in the queue, in bytes.
    fn weight(&self) -> usize {
        match self {
            Self::Planned(plan, _) => plan.weight(),
            other => other.edits().iter().map(bytes).sum(),
        }
    }
}

/// A request to the writer thread.
pub enum WriteRequest {
    /// Change a zone.
    Zone(Box<ZoneRequest>, Promise<WriteResult, Refused>),
    /// Accept what the shared store has.
    Adopt(Promise<WriteResult, Refused>),
    /// Make the newest form that of the store.
    Upgrade(Promise<(), Refused>),
    /// Restore everything from a snapshot.
    Restore(Box<dyn SnapshotSource>, WriteContext, Promise<WriteResult, Refused>),
    /// Determine the owners of zones again.
    Settle(Promise<(), Refused>),
    /// Release the store's files.
    Close(Promise<(), Refused>),
    /// Open the store's files again.
    Open(Promise<(), Refused>),
}

impl WriteRequest {
    /// Its edits that are known, and its memory in bytes.
    fn load(&self) -> (usize, usize) {
        match self {
            Self::Zone(request, _) => (request.edits().len(), request.weight()),
            _ => (0, 0),
        }
    }
}

/// Memory of a queued edit in bytes.
fn bytes(edit: &Edit) -> usize {
    let data = edit.put.iter().flat_map(|put| &put.data);
    size_of::<Edit>() + data.map(|data| size_of::<Box<[u8]>>() + data.len()).sum::<usize>()
}

#[derive(Default)]
struct QueueState {
    requests: Vec<WriteRequest>,
    edits: usize,
    bytes: usize,
    /// A read failed: check the store.
    has_doubts: bool,
    /// Another writer of the store has committed.
    is_woken: bool,
    is_closed: bool,
    has_failed: bool,
}

#[derive(Default)]
pub struct WriteQueue {
    inner: Mutex<QueueState>,
    arrived: Condvar,
}

impl WriteQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request. If refused, drops it with its promise.
    pub fn put(&self, request: WriteRequest) -> Result<(), Refused> {
        let (edits, bytes) = request.load();
        let mut inner = self.lock();
        if inner.is_closed {
            return Err(Refused::Stopping);
        }
        let (edits, bytes) = (inner.edits + edits, inner.bytes + bytes);
        let is_full = inner.requests.len() >= QUEUE_REQUESTS_MAX;
        if is_full || edits > QUEUE_EDITS_MAX || bytes > QUEUE_BYTES_MAX {
            return Err(Refused::Busy);
        }
        (inner.edits, inner.bytes) = (edits, bytes);
        inner.requests.push(request);
        drop(inner);
        self.arrived.notify_one();
        Ok(())
    }

    /// Wakes the thread to check the store after a failed read.
    pub fn doubt(&self) {
        self.lock().has_doubts = true;
        self.arrived.notify_one();
    }

    /// Wakes the thread without a request.
    pub fn wake(&self) {
        self.lock().is_woken = true;
        self.arrived.notify_one();
    }

    /// Whether a read failed since the last call.
    pub fn take_doubts(&self) -> bool {
        std::mem::take(&mut self.lock().has_doubts)
    }

    /// Takes all requests; `None` once the queue is closed and empty. Waits for a request, a failed
    /// read or [`WriteQueue::wake`] until the given time; with `None` without limit.
    pub fn take(&self, until: Option<Instant>) -> Option<Vec<WriteRequest>> {
        let mut inner = self.lock();
        let is_idle = |inner: &QueueState| {
            inner.requests.is_empty() && !inner.is_closed && !inner.has_doubts && !inner.is_woken
        };
        while is_idle(&inner) {
            let Some(until) = until else {
                inner = self.arrived.wait(inner).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.arrived.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if inner.requests.is_empty() && inner.is_closed {
            return None;
        }
        inner.is_woken = false;
        (inner.edits, inner.bytes) = (0, 0);
        Some(std::mem::take(&mut inner.requests))
    }

    /// Whether the thread ended without being asked to.
    pub fn has_failed(&self) -> bool {
        self.lock().has_failed
    }

    /// Closes the queue to new requests.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Drops all requests: the thread has ended.
    pub fn end(&self) {
        let mut inner = self.lock();
        inner.has_failed = !inner.is_closed;
        inner.is_closed = true;
        let left = std::mem::take(&mut inner.requests);
        drop(inner);
        drop(left);
    }
}

/// Held by the thread; dropping it ends the queue, also after a panic.
pub struct QueueGuard<'q>(pub &'q WriteQueue);

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

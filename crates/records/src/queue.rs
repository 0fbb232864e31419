//! What waits at the desk: bounded, taken all at once.
use crate::limits::{QUEUE_EDITS_MAX, QUEUE_OCTETS_MAX, QUEUE_REQUESTS_MAX};
use crate::pending::Promise;
use crate::{Batch, Edit, Refused, Written};
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use wire::NameBuf;

/// What somebody wants.
pub enum Request {
    /// Sets of a zone change.
    Write(Batch, Promise<Written>),
    /// A zone is made with these sets.
    Create(Batch, Promise<Written>),
    /// A zone goes.
    Delete(NameBuf, Arc<str>, SystemTime, Promise<Written>),
    /// All comes back from a snapshot.
    Restore(Box<dyn Read + Send>, Arc<str>, SystemTime, Promise<Written>),
    /// Whose zones are whose is asked anew.
    Settle(Promise<()>),
    /// The files are given back.
    Close(Promise<()>),
    /// The files are had again.
    Open(Promise<()>),
}

impl Request {
    fn edits(&self) -> &[Edit] {
        match self {
            Self::Write(batch, _) | Self::Create(batch, _) => &batch.edits,
            _ => &[],
        }
    }
}

/// Octets that an edit takes while it waits.
fn octets(edit: &Edit) -> usize {
    let data = edit.put.iter().flat_map(|put| &put.data);
    size_of::<Edit>() + data.map(|data| size_of::<Box<[u8]>>() + data.len()).sum::<usize>()
}

#[derive(Default)]
struct Inner {
    requests: Vec<Request>,
    edits: usize,
    octets: usize,
    is_closed: bool,
    has_failed: bool,
}

#[derive(Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    arrived: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a request behind the others. One that is refused is given up: so is its promise.
    pub fn put(&self, request: Request) -> Result<(), Refused> {
        let (edits, octets) =
            (request.edits().len(), request.edits().iter().map(octets).sum::<usize>());
        let mut inner = self.lock();
        if inner.is_closed {
            return Err(Refused::Stopping);
        }
        let (edits, octets) = (inner.edits + edits, inner.octets + octets);
        let is_full = inner.requests.len() >= QUEUE_REQUESTS_MAX;
        if is_full || edits > QUEUE_EDITS_MAX || octets > QUEUE_OCTETS_MAX {
            return Err(Refused::Busy);
        }
        (inner.edits, inner.octets) = (edits, octets);
        inner.requests.push(request);
        drop(inner);
        self.arrived.notify_one();
        Ok(())
    }

    /// Takes all that waits; nothing once it is closed and empty. Who is not to wait for more gets
    /// none where there are none.
    pub fn take(&self, waits: bool) -> Option<Vec<Request>> {
        let mut inner = self.lock();
        while inner.requests.is_empty() && !inner.is_closed && waits {
            inner = self.arrived.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        if inner.requests.is_empty() && inner.is_closed {
            return None;
        }
        (inner.edits, inner.octets) = (0, 0);
        Some(std::mem::take(&mut inner.requests))
    }

    /// Whether nobody takes anything out any more though nobody wanted that.
    pub fn has_failed(&self) -> bool {
        self.lock().has_failed
    }

    /// Takes no more.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Nobody takes anything out any more: what waits is given up.
    pub fn end(&self) {
        let mut inner = self.lock();
        inner.has_failed = !inner.is_closed;
        inner.is_closed = true;
        let left = std::mem::take(&mut inner.requests);
        drop(inner);
        drop(left);
    }
}

/// Held by the desk's thread: the queue ends with it, be it for a panic.
pub struct Taker<'q>(pub &'q Queue);

impl Drop for Taker<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

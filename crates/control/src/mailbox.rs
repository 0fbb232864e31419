//! The mailbox: what has to change, keyed by what it changes, so that the latest wins and a burst
//! of news about the same thing takes no more room than one.
use crate::limits::{COLLECT_INTERVAL, LETTERS_MAX};
use compile::Zone;
use model::Change;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use wire::{Name, NameBuf, Rtype};

/// There is no room for more changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxFull;

impl fmt::Display for MailboxFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{LETTERS_MAX} changes wait to be applied already; try again later")
    }
}

impl std::error::Error for MailboxFull {}

/// Stands for something put into the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What the loop takes out: all there is about one zone.
pub(crate) enum Letter {
    Zone(Box<Zone>),
    /// The zone of this origin goes.
    Removed(Box<NameBuf>),
    /// At least one, all of the same zone.
    Changes(Vec<Change>),
    /// What all hosts files say.
    Hosts(Vec<Arc<Zone>>),
}

/// What becomes of a zone as a whole.
enum Whole {
    Put(Box<Zone>),
    Removed(Box<NameBuf>),
    Hosts(Vec<Arc<Zone>>),
}

/// What waits for one zone. What becomes of the whole replaces what came before it; changes apply
/// to it.
#[derive(Default)]
struct Slot {
    whole: Option<Whole>,
    changes: HashMap<(Box<[u8]>, Rtype), Change>,
}

#[derive(Default)]
struct Inner {
    slots: HashMap<Box<[u8]>, Slot>,
    letters: usize,
    put: u64,
    taken: u64,
    /// The last ticket that is done, and the generation it was done with.
    done: (u64, u64),
    closed: bool,
    /// The loop has ended.
    ended: bool,
}

#[derive(Default)]
pub(crate) struct Mailbox {
    inner: Mutex<Inner>,
    arrived: Condvar,
    applied: Condvar,
}

fn key(name: Name<'_>) -> Box<[u8]> {
    name.octets().to_ascii_lowercase().into()
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, change: Change) -> Result<Ticket, MailboxFull> {
        let mut inner = self.lock();
        if inner.ended {
            return Ok(self.arrive(inner));
        }
        let full = inner.letters >= LETTERS_MAX;
        let slot = inner.slots.entry(key(change.zone.as_name())).or_default();
        let set = (key(change.name.as_name()), change.rtype);
        if full && !slot.changes.contains_key(&set) {
            return Err(MailboxFull);
        }
        let is_new = slot.changes.insert(set, change).is_none();
        inner.letters += usize::from(is_new);
        Ok(self.arrive(inner))
    }

    pub(crate) fn put_zone(&self, zone: Zone) -> Result<Ticket, MailboxFull> {
        let key = key(zone.origin());
        self.put_whole(key, Whole::Put(Box::new(zone)))
    }

    pub(crate) fn remove_zone(&self, origin: Name<'_>) -> Result<Ticket, MailboxFull> {
        self.put_whole(key(origin), Whole::Removed(Box::new(origin.into())))
    }

    pub(crate) fn put_hosts(&self, hosts: Vec<Arc<Zone>>) -> Result<Ticket, MailboxFull> {
        // Every name has an octet at least: no zone has this slot.
        self.put_whole(Box::default(), Whole::Hosts(hosts))
    }

    fn put_whole(&self, key: Box<[u8]>, whole: Whole) -> Result<Ticket, MailboxFull> {
        let mut inner = self.lock();
        if inner.ended {
            return Ok(self.arrive(inner));
        }
        if inner.letters >= LETTERS_MAX {
            return Err(MailboxFull);
        }
        let slot = inner.slots.entry(key).or_default();
        let before = slot.changes.len() + usize::from(slot.whole.is_some());
        *slot = Slot { whole: Some(whole), changes: HashMap::new() };
        inner.letters = inner.letters + 1 - before;
        Ok(self.arrive(inner))
    }

    fn arrive(&self, mut inner: MutexGuard<'_, Inner>) -> Ticket {
        inner.put += 1;
        let ticket = Ticket(inner.put);
        drop(inner);
        self.arrived.notify_one();
        ticket
    }

    pub(crate) fn last(&self) -> Ticket {
        Ticket(self.lock().put)
    }

    /// Waits for letters and takes all; nothing once it is closed and empty. With `impatient`
    /// set it gives up after a while and returns none.
    pub(crate) fn take(&self, impatient: bool) -> Option<Vec<Letter>> {
        let mut inner = self.lock();
        while inner.slots.is_empty() && !inner.closed {
            if !impatient {
                inner = self.arrived.wait(inner).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let waited = self.arrived.wait_timeout(inner, COLLECT_INTERVAL);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            inner = guard;
            if timeout.timed_out() {
                break;
            }
        }
        if inner.slots.is_empty() && inner.closed {
            return None;
        }
        inner.letters = 0;
        inner.taken = inner.put;
        let slots = std::mem::take(&mut inner.slots);
        drop(inner);
        Some(slots.into_values().flat_map(letters).collect())
    }

    /// What was taken is published.
    pub(crate) fn done(&self, generation: u64) {
        let mut inner = self.lock();
        inner.done = (inner.taken, generation);
        drop(inner);
        self.applied.notify_all();
    }

    pub(crate) fn wait(&self, ticket: Ticket) -> Option<u64> {
        let mut inner = self.lock();
        while inner.done.0 < ticket.0 {
            if inner.ended {
                return None;
            }
            inner = self.applied.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        Some(inner.done.1)
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    /// Whether nobody takes anything out any more though nobody wanted that.
    pub(crate) fn has_failed(&self) -> bool {
        let inner = self.lock();
        inner.ended && !inner.closed
    }

    /// Nobody takes anything out any more, be it for a panic: what is there and what still comes
    /// is lost, and nobody waits for it.
    fn end(&self) {
        let mut inner = self.lock();
        (inner.ended, inner.letters) = (true, 0);
        inner.slots.clear();
        drop(inner);
        self.applied.notify_all();
    }
}

/// Held by the loop: the mailbox ends with it.
pub(crate) struct Taker<'m>(pub(crate) &'m Mailbox);

impl Drop for Taker<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn letters(slot: Slot) -> impl Iterator<Item = Letter> {
    let zone = slot.whole.map(|whole| match whole {
        Whole::Put(zone) => Letter::Zone(zone),
        Whole::Removed(origin) => Letter::Removed(origin),
        Whole::Hosts(hosts) => Letter::Hosts(hosts),
    });
    let changes: Vec<Change> = slot.changes.into_values().collect();
    let changes = (!changes.is_empty()).then_some(Letter::Changes(changes));
    zone.into_iter().chain(changes)
}

//! What the desk asks of a store. It knows no DNS: validation is the desk's.
use crate::codec;
use crate::{JournalEntry, Kind, Revision, SetChange, SetKey, SetValue, View};
use std::fmt;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::SystemTime;
use wire::{Name, NameBuf, Rtype};

/// One write to a zone, validated: nothing is left to be decided.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The zone, in lower case.
    pub zone: NameBuf,
    /// Its place in the line of all writes: larger than that of what was prepared before it.
    pub revision: Revision,
    /// When it came.
    pub when: SystemTime,
    /// Who wants it.
    pub by: Arc<str>,
    /// What is to be done.
    pub action: Action,
}

/// What a write does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Makes the zone, with these sets.
    Create(Vec<SetChange>),
    /// Changes sets of the zone.
    Change(Vec<SetChange>),
    /// Takes the zone away with all its sets and its journal.
    Delete,
}

impl Prepared {
    /// What became of each set, and how the journal calls it; nothing for a zone that goes.
    pub fn changes(&self) -> Option<(Kind, &[SetChange])> {
        match &self.action {
            Action::Create(changes) => Some((Kind::Created, changes)),
            Action::Change(changes) => Some((Kind::Changed, changes)),
            Action::Delete => None,
        }
    }
}

/// A zone of the store.
#[derive(Clone, Debug)]
pub struct StoredZone {
    /// Its name, in lower case.
    pub origin: NameBuf,
    /// When it was last written.
    pub revision: Revision,
    /// How many sets it has.
    pub sets: u64,
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The newest write.
    pub revision: Revision,
    /// Zones, those too that somebody else has by now.
    pub zones: u64,
    /// Their record sets.
    pub sets: u64,
}

/// A set as it lies in the store.
#[derive(Clone, Copy, Debug)]
pub struct RawSet<'s> {
    /// Its name relative to the origin, in lower case, without a root.
    pub name: &'s [u8],
    /// Its type.
    pub rtype: Rtype,
    /// For whom it is.
    pub view: View,
    /// When it was last written.
    pub revision: Revision,
    /// What it holds.
    pub value: codec::Held<'s>,
}

/// What keeps a store from doing what it is asked.
#[derive(Clone, Debug)]
pub enum StoreError {
    /// The disk has no room.
    Full,
    /// It is closed, since a successor has it.
    Closed,
    /// What went wrong, with its place and what to do.
    Failed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the disk is full"),
            Self::Closed => f.write_str("the store is closed"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StoreError {}

/// The side of a store that writes. One thread has it.
pub trait Store: Send + 'static {
    /// Does all of this, or nothing: once it has returned, no crash undoes it.
    ///
    /// # Errors
    /// It was not done, as far as is known: before anything else is written, [`Store::newest`]
    /// tells what the disk has.
    fn commit(&mut self, writes: Vec<Prepared>) -> Result<(), StoreError>;

    /// The newest revision on the disk. What the disk failed is opened again for that.
    ///
    /// # Errors
    /// When it is closed, or still fails.
    fn newest(&mut self) -> Result<Revision, StoreError>;

    /// Does a bounded piece of housekeeping; says whether there is more.
    ///
    /// # Errors
    /// It is tried again later then.
    fn tidy(&mut self) -> Result<bool, StoreError>;

    /// Takes what a snapshot holds for all that is there, as one write of this revision, or does
    /// nothing. Whoever reads meanwhile sees what was there before.
    ///
    /// # Errors
    /// When the snapshot is cut off, damaged or of a newer version, or there is no room; else as
    /// [`Store::commit`].
    fn restore(&mut self, from: &mut dyn Read, write: &Restoring) -> Result<(), StoreError>;

    /// Gives the files back, so that another process can have them: all that is asked of it and
    /// its readers fails from now on.
    fn close(&mut self);

    /// Has the files again.
    ///
    /// # Errors
    /// Another process still has them, or they cannot be opened.
    fn open(&mut self) -> Result<(), StoreError>;

    /// The side that reads.
    fn reader(&self) -> Arc<dyn Reader>;
}

/// A restore, as the journal will tell of it.
#[derive(Clone, Debug)]
pub struct Restoring {
    /// The least revision it may have: larger than all there were.
    pub revision: Revision,
    /// When it came.
    pub when: SystemTime,
    /// Who wants it.
    pub by: Arc<str>,
}

/// The side of a store that reads: any number of threads, while it is written.
pub trait Reader: Send + Sync {
    /// How much there is, or was a second ago: who only watches waits for nobody who writes.
    ///
    /// # Errors
    /// When the store cannot be read; so below.
    fn held(&self) -> Result<Held, StoreError>;

    /// The newest revision. Who asks this, or anything below, is told of all that was answered
    /// before, and waits for it.
    fn revision(&self) -> Result<Revision, StoreError>;

    /// The zone of this origin.
    fn zone(&self, origin: Name<'_>) -> Result<Option<StoredZone>, StoreError>;

    /// All zones, in the order of their names.
    fn zones(&self) -> Result<Vec<StoredZone>, StoreError>;

    /// When a set was last written, and what it holds.
    fn set(&self, key: &SetKey) -> Result<Option<(Revision, SetValue)>, StoreError>;

    /// Shows the sets of a zone in canonical order, from behind one of them or from the first, as
    /// they were at one moment, until there are no more or it is told to stop. Returns what the
    /// zone was at that moment; nothing: there is none.
    fn scan(
        &self,
        origin: Name<'_>,
        after: Option<&SetKey>,
        each: &mut dyn FnMut(RawSet<'_>) -> ControlFlow<()>,
    ) -> Result<Option<StoredZone>, StoreError>;

    /// What the journal of a zone says, from behind a revision: at most so many entries, and fewer
    /// where they have more octets than `limits::JOURNAL_PAGE_OCTETS_MAX` together. Then the
    /// revision from behind which the journal is whole. Nothing: there is no such zone.
    fn journal(
        &self,
        origin: Name<'_>,
        after: Revision,
        limit: usize,
    ) -> Result<Option<(Vec<JournalEntry>, Revision)>, StoreError>;

    /// Writes all zones as they are at one moment, for [`Store::restore`].
    fn snapshot(&self, to: &mut dyn Write) -> Result<Revision, StoreError>;
}

//! The interface of stores. They know no DNS: `records` validates.
use crate::codec;
use crate::form::Form;
use crate::journal::{ChangeKind, JournalEntry, WrittenSet};
use crate::serial::SerialStamp;
use model::{Revision, SetKey, SetValue, View};
use std::fmt;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wire::{Name, NameBuf, Rtype};

/// A validated write to one zone.
#[derive(Clone, Debug)]
pub struct PreparedWrite {
    /// The zone, in lower case.
    pub zone: NameBuf,
    /// Its revision once it is committed: the writes of a [`Commit`] have those after its base.
    pub revision: Revision,
    /// The time of the request.
    pub when: SystemTime,
    /// The principal.
    pub by: Arc<str>,
    /// The zone's new serial offset; `None`: unchanged, or 0 for a new zone.
    pub offset: Option<u32>,
    /// The reason.
    pub reason: Option<Arc<str>>,
    /// The change.
    pub action: Action,
}

/// The change of a write.
#[derive(Clone, Debug)]
pub enum Action {
    /// Create the zone with these sets.
    Create(Vec<WrittenSet>),
    /// Change sets of the zone.
    Change(Vec<WrittenSet>),
    /// Delete the zone with all its sets. Its journal stays, within `limits::DELETED_ZONES_MAX` and
    /// `limits::DELETED_BYTES_MAX`.
    Delete(Deletion),
}

/// The journal entry of a deleted zone.
#[derive(Clone, Debug, Default)]
pub struct Deletion {
    /// The number of its sets.
    pub count: u64,
    /// Its sets, unless there are too many.
    pub changes: Vec<WrittenSet>,
}

impl PreparedWrite {
    /// The changes that the store applies; none for a deleted zone.
    pub fn changes(&self) -> &[WrittenSet] {
        match &self.action {
            Action::Create(changes) | Action::Change(changes) => changes,
            Action::Delete(_) => &[],
        }
    }

    /// The journal entry: kind, number of sets, and changes.
    pub fn journaled(&self) -> (ChangeKind, u64, &[WrittenSet]) {
        match &self.action {
            Action::Create(changes) => (ChangeKind::Created, changes.len() as u64, changes),
            Action::Change(changes) => (ChangeKind::Changed, changes.len() as u64, changes),
            Action::Delete(gone) => (ChangeKind::Deleted, gone.count, &gone.changes),
        }
    }

    /// The oldest form that can hold it.
    pub fn form(&self) -> Form {
        let changes = self.journaled().2.iter();
        let forms = changes.flat_map(|change| {
            let values = [&change.before, &change.after].into_iter().flatten();
            values.map(|value| Form::of(change.view, change.rtype, &value.policy))
        });
        forms.max().unwrap_or(Form::OLDEST)
    }

    /// Whether the zone is deleted.
    pub fn is_deletion(&self) -> bool {
        matches!(self.action, Action::Delete(_))
    }
}

/// Identifies a commit, so that its outcome can be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(pub u128);

/// 32 hexadecimal digits.
impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Writes that a store commits all or none.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Never used before.
    pub id: CommitId,
    /// The newest revision that the writer knows. The writes were validated against it.
    pub base: Revision,
    /// At least one; their revisions follow the base without gaps.
    pub writes: Vec<PreparedWrite>,
}

impl Commit {
    /// A commit of these writes on the revision before the first.
    pub fn new(id: CommitId, writes: Vec<PreparedWrite>) -> Self {
        let base = writes.first().map_or(0, |write| write.revision.0.saturating_sub(1));
        Self { id, base: Revision(base), writes }
    }

    /// The oldest form that can hold it.
    pub fn form(&self) -> Form {
        self.writes.iter().map(PreparedWrite::form).max().unwrap_or(Form::OLDEST)
    }

    /// The store's revision after the commit.
    pub fn revision(&self) -> Revision {
        self.writes.last().map_or(self.base, |write| write.revision)
    }
}

/// A commit of a store's only writer, which the last revision identifies.
impl From<Vec<PreparedWrite>> for Commit {
    fn from(writes: Vec<PreparedWrite>) -> Self {
        let last = writes.last().map_or(0, |write| write.revision.0);
        Self::new(CommitId(last.into()), writes)
    }
}

/// Why a commit did not succeed.
#[derive(Clone, Debug)]
pub enum CommitError {
    /// Another writer was first: nothing was written. Validate against the newest revision.
    Conflict {
        /// The store's newest revision.
        newest: Revision,
    },
    /// Nothing was written.
    Refused(StoreError),
    /// It may be durable, now or later. [`Store::outcome`] decides; never commit it again before.
    Unknown(StoreError),
}

/// Commits of other writers, in order. Those of this writer may be among them.
pub trait Watch: Send {
    /// The next commit after the last one, waiting for at most `patience`. `None`: there is none
    /// yet.
    ///
    /// # Errors
    /// Commits are missing: read the whole store, and watch again.
    fn next(&mut self, patience: Duration) -> Result<Option<Commit>, WatchLost>;
}

/// Why a watch cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchLost {
    /// It missed commits, or ended.
    Ended,
    /// The content of the store was replaced: it is another one, be its revision the same or not.
    Replaced,
}

/// Tells a writer that its watch has something. May be called by any thread, and must not wait.
pub type WatchWaker = Arc<dyn Fn() + Send + Sync>;

/// A zone of the store.
#[derive(Clone, Debug)]
pub struct StoredZone {
    /// Its name, in lower case.
    pub origin: NameBuf,
    /// Its last revision, and the offset of its serials.
    pub stamp: SerialStamp,
    /// The number of its sets.
    pub sets: u64,
}

/// The size of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// The newest revision.
    pub revision: Revision,
    /// Zones, with those that have another owner by now.
    pub zones: u64,
    /// Their record sets.
    pub sets: u64,
}

/// A set as stored.
#[derive(Clone, Copy, Debug)]
pub struct RawSet<'s> {
    /// Its name relative to the origin, in lower case, without a root.
    pub name: &'s [u8],
    /// Its type.
    pub rtype: Rtype,
    /// Its view.
    pub view: View,
    /// When it was last written.
    pub revision: Revision,
    /// Its content.
    pub value: codec::SetContent<'s>,
}

/// Errors of a store.
#[derive(Clone, Debug)]
pub enum StoreError {
    /// The disk is full.
    Full,
    /// Closed: the new process of a hot restart has it.
    Closed,
    /// A file is damaged: which, how, and what to do.
    Damaged(String),
    /// Another error, with its place and what to do.
    Failed(String),
    /// The shared store behind this one cannot be reached or does not accept writes, and why. What
    /// this server has of it can be read.
    Unreachable(String),
    /// The shared store behind this one has no space left; what to do.
    NoSpace(String),
    /// The store has a form in which this cannot be done; what to do.
    Form(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the disk is full"),
            Self::Closed => f.write_str("the store is closed"),
            Self::Damaged(why)
            | Self::Failed(why)
            | Self::Unreachable(why)
            | Self::NoSpace(why)
            | Self::Form(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StoreError {}

/// The writing side of a store, used by one thread.
pub trait Store: Send + 'static {
    /// Commits all writes or none, if the store's newest revision is the commit's base. Durable
    /// once it returns the new revision.
    ///
    /// # Errors
    /// As [`CommitError`] says.
    fn commit(&mut self, commit: Commit) -> Result<Revision, CommitError>;

    /// The revision after a commit whose outcome is unknown; `None`: it was not committed, and
    /// never will be. Ask before the next commit.
    ///
    /// # Errors
    /// The outcome cannot be determined now.
    fn outcome(&mut self, id: CommitId) -> Result<Option<Revision>, StoreError>;

    /// Commits, and looks the outcome up if it is unknown.
    ///
    /// # Errors
    /// As [`Store::commit`]; [`CommitError::Unknown`] if the outcome cannot be determined either.
    fn commit_and_look_up(&mut self, commit: Commit) -> Result<Revision, CommitError> {
        let id = commit.id;
        match self.commit(commit) {
            Err(CommitError::Unknown(why)) => match self.outcome(id) {
                Ok(Some(revision)) => Ok(revision),
                Ok(None) => Err(CommitError::Refused(why)),
                Err(_) => Err(CommitError::Unknown(why)),
            },
            done => done,
        }
    }

    /// Watches the commits of other writers after a revision. `None`: there are no other writers
    /// while this store is open.
    ///
    /// # Errors
    /// The store cannot be read.
    fn watch(
        &mut self,
        from: Revision,
        waker: WatchWaker,
    ) -> Result<Option<Box<dyn Watch>>, StoreError>;

    /// The newest durable revision. Opens the store again after an error.
    ///
    /// # Errors
    /// The store is closed, or still fails.
    fn newest(&mut self) -> Result<Revision, StoreError>;

    /// The newest revision that any writer has committed. A shared store asks for it, because what
    /// this server has may be older.
    ///
    /// # Errors
    /// As [`Store::newest`], or the shared store cannot be reached.
    fn latest(&mut self) -> Result<Revision, StoreError> {
        self.newest()
    }

    /// Does a bounded piece of maintenance; returns whether there is more.
    ///
    /// # Errors
    /// Try again later.
    fn tidy(&mut self) -> Result<bool, StoreError>;

    /// Replaces everything by a snapshot, as one write of this revision, or changes nothing.
    /// Readers see the old content meanwhile. Damaged files that could not be opened are moved
    /// aside.
    ///
    /// # Errors
    /// The snapshot is truncated, damaged or newer, the disk is full, or as [`Store::commit`].
    fn restore(&mut self, from: &mut dyn Read, write: &RestoreInfo) -> Result<(), StoreError>;

    /// Accepts what the shared store has, although it is older than what this server has, or
    /// another one: as one write, so that revisions and serials do not go back. `false`: the store
    /// is not shared.
    ///
    /// # Errors
    /// As [`Store::restore`].
    fn adopt(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// The form that it writes, as far as known.
    fn form(&self) -> Form {
        Form::NEWEST
    }

    /// Makes the newest form that of the store, as a whole or not at all, and durable. Older
    /// versions cannot use the store any more.
    ///
    /// # Errors
    /// As [`Store::commit`]; [`StoreError::Form`]: other servers do not know that form, and which.
    fn upgrade(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Releases the files for another process. The store and its readers fail from now on.
    fn close(&mut self);

    /// Opens the files again. Waits some seconds for another process to release them.
    ///
    /// # Errors
    /// Another process has them, or they cannot be opened.
    fn open(&mut self) -> Result<(), StoreError>;

    /// As [`Store::open`], without waiting.
    ///
    /// # Errors
    /// As [`Store::open`].
    fn open_now(&mut self) -> Result<(), StoreError> {
        self.open()
    }

    /// The side that reads.
    fn reader(&self) -> Arc<dyn Reader>;
}

/// The journal entry of a restore.
#[derive(Clone, Debug)]
pub struct RestoreInfo {
    /// Its least revision, above all earlier ones.
    pub revision: Revision,
    /// The time of the request.
    pub when: SystemTime,
    /// The principal.
    pub by: Arc<str>,
    /// The reason.
    pub reason: Option<Arc<str>>,
}

/// A part of the journal of a zone name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPart {
    /// Entries, the oldest first. If the zone was deleted and created again, entries from before
    /// are included.
    pub entries: Vec<JournalEntry>,
    /// The journal is complete after this revision; [`Revision::NONE`]: it is complete.
    pub whole_after: Revision,
    /// The newest entry there is.
    pub newest: Revision,
}

/// The reading side of a store, for any number of threads.
pub trait Reader: Send + Sync {
    /// The size of the store, up to a second old; never waits for the writer.
    ///
    /// # Errors
    /// The store cannot be read.
    fn held(&self) -> Result<StoreSize, StoreError>;

    /// Whether a small write would be accepted now, as far as known.
    ///
    /// # Errors
    /// [`StoreError::Full`] if the disk has less room than a write needs.
    fn writable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The newest revision. This and the methods below see all answered writes, and wait for them.
    fn revision(&self) -> Result<Revision, StoreError>;

    /// The zone of this origin.
    fn zone(&self, origin: Name<'_>) -> Result<Option<StoredZone>, StoreError>;

    /// Passes the zones after a name, or all, to `each` in canonical order, until it stops.
    fn scan_zones(
        &self,
        after: Option<Name<'_>>,
        each: &mut dyn FnMut(StoredZone) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// All zones, in canonical order of their names.
    fn zones(&self) -> Result<Vec<StoredZone>, StoreError> {
        let mut zones = Vec::new();
        self.scan_zones(None, &mut |zone| {
            zones.push(zone);
            ControlFlow::Continue(())
        })?;
        Ok(zones)
    }

    /// A set's last revision and content.
    fn set(&self, key: &SetKey) -> Result<Option<(Revision, SetValue)>, StoreError>;

    /// Passes the sets of a zone at one moment to `each` in canonical order, after a set or from
    /// the first, until it stops. Each comes with the zone of that moment, which is also returned;
    /// `None`: no such zone.
    fn scan(
        &self,
        origin: Name<'_>,
        after: Option<&SetKey>,
        each: &mut dyn FnMut(&StoredZone, RawSet<'_>) -> ControlFlow<()>,
    ) -> Result<Option<StoredZone>, StoreError>;

    /// Journal entries of a zone, or of a deleted one, after a revision: at most `max`, fewer above
    /// `limits::JOURNAL_PAGE_BYTES_MAX`. `None`: no such zone is known.
    fn journal(
        &self,
        origin: Name<'_>,
        after: Revision,
        limit: usize,
    ) -> Result<Option<JournalPart>, StoreError>;

    /// Writes all zones at one moment, for [`Store::restore`].
    fn snapshot(&self, to: &mut dyn Write) -> Result<Revision, StoreError>;
}

//! The entry of a write in a journal.
use model::{Revision, SetValue, View};
use std::time::SystemTime;
use wire::Rtype;

/// The kind of a journal entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The zone was created.
    Created,
    /// Sets of it changed.
    Changed,
    /// The zone was restored from a snapshot.
    Restored,
    /// The zone was deleted.
    Deleted,
}

/// One set before and after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenSet {
    /// Its name relative to the origin, in lower case, without a root.
    pub name: Box<[u8]>,
    /// Its type.
    pub rtype: Rtype,
    /// Its view.
    pub view: View,
    /// The earlier content; `None`: it did not exist. [`SetValue::UNKEPT`] if the journal does not
    /// store the data.
    pub before: Option<SetValue>,
    /// The new content; `None`: it was removed. Stored as `before`.
    pub after: Option<SetValue>,
}

/// One write to a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its revision.
    pub revision: Revision,
    /// The time of the request, to the millisecond.
    pub when: SystemTime,
    /// The principal.
    pub by: String,
    /// The reason, if the client gave one.
    pub reason: Option<String>,
    /// Its kind.
    pub kind: ChangeKind,
    /// The number of changed sets.
    pub count: u64,
    /// The change of each set; empty if there were too many.
    pub changes: Vec<WrittenSet>,
}

//! Writes zones of the store: validated, durable, live.
//!
//! Callers pass a [`Batch`] to the [`RecordService`]. One thread takes all queued batches and
//! validates them against the zones with all earlier writes. The [`Store`] commits them as one
//! group. Then the thread passes the zones to `zone-manager` and answers. The image is the copy in
//! memory.
#![forbid(unsafe_code)]

mod digest;
mod fleet;
mod health;
pub mod limits;
mod lint;
mod mirror;
mod prepare;
mod queue;
mod read;
mod service;
pub mod shadow;
mod shared;
mod types;
mod views;
mod wildcards;
mod writer;
mod zones;

pub use digest::{ZoneDigest, ZoneDigests, hash_of_origin};
pub use fleet::Fleet;
pub use health::StoreHealth;
pub use mirror::{Mirror, WriteDelay, source_of_site};
pub use model::{
    Choice, Edit, EditKind, InvalidEdit, MinUp, Policy, Precondition, Revision, SetKey, SetRules,
    SetValue, View,
};
pub use read::JournalPage;
pub use service::{RecordService, ServiceThreads, SnapshotSource, StoreSource, WRITER_THREAD};
pub use store::{
    Action, ChangeKind, Commit, CommitError, CommitId, Deletion, Form, JournalEntry, JournalPart,
    PreparedWrite, RawSet, Reader, RestoreInfo, Store, StoreError, StoreSize, StoredZone, Watch,
    WatchLost, WatchWaker, WrittenSet,
};
pub use types::{
    Batch, PlannedWrite, Refused, SetFilter, SetPage, SetWarning, StoredSet, WriteContext,
    WriteResult, ZoneInfo,
};
pub use views::KnownViews;
pub use wildcards::{Hiding, WriteRights};
pub use zone_manager::{Answer, Promise, ZoneOwner, answer};

#[cfg(test)]
extern crate self as records;
#[cfg(test)]
mod tests;

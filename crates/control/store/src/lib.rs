//! Stores of records: their interface, and the format of their content.
//!
//! [`Store`] and [`Reader`] are implemented by `store-redb` and `store-etcd`; `records` validates
//! and writes through them. [`codec`] has the bytes of sets and journal entries, [`snapshot`] those
//! of a whole store as a stream, [`form`] the number that says which bytes a version may write.
#![forbid(unsafe_code)]

pub mod codec;
pub mod form;
mod journal;
pub mod limits;
mod port;
mod salvage;
pub mod serial;
pub mod snapshot;
mod zone_list;

pub use form::Form;
pub use journal::{ChangeKind, JournalEntry, WrittenSet};
pub use model::{Policy, Revision, SetKey, SetRules, SetValue, View};
pub use port::{
    Action, Commit, CommitError, CommitId, Deletion, JournalPart, PreparedWrite, RawSet, Reader,
    RestoreInfo, Store, StoreError, StoreSize, StoredZone, Watch, WatchLost, WatchWaker,
};
pub use salvage::{SalvageReport, SalvageStore, SalvagedZone};
pub use zone_list::{ListedZones, ZONE_LIST, ZoneList, evidence_of_store};

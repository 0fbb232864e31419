//! The desk where zones of the store are written: validated, durable, live.
//!
//! Whoever wants a change brings a [`Batch`] to the [`Desk`]. One thread takes all that waits,
//! validates it against the zones as they will be, has the [`Store`] bring it to the disk as one
//! group, gives the zones to `control`, and answers. The image is the copy in memory.
#![forbid(unsafe_code)]

mod clerk;
pub mod codec;
mod desk;
pub mod limits;
mod live;
mod memory;
mod pending;
mod prepare;
mod queue;
mod read;
pub mod snapshot;
mod store;
mod types;
mod zones;

pub use desk::{DESK_THREAD, Desk, NoOthers, Others, Serving};
pub use memory::Memory;
pub use pending::Pending;
pub use read::Journal;
pub use store::{Action, Held, Prepared, RawSet, Reader, Restoring, Store, StoreError, StoredZone};
pub use types::{
    Batch, Edit, Expect, Filter, Invalid, JournalEntry, Kind, Owner, Page, Policy, Refused,
    Revision, SetChange, SetKey, SetValue, StoredSet, View, Written, ZoneInfo,
};

#[cfg(test)]
mod tests;

//! The members of a fleet: who is alive, what each serves, and who may withdraw its addresses.
//!
//! A server is a member by a key under a lease. Members compare what they have, tell each other
//! which revisions clients wait for, and count how many are withdrawn.
#![forbid(unsafe_code)]

mod digests;
pub mod limits;
mod members;
mod permits;
mod waits;

pub use members::{AddCopyStatus, EtcdFleet, Membership};
pub use permits::EtcdPermits;

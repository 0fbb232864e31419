//! Who may ask, and how much: access lists and rates.
//!
//! An [`Acl`] says of an address whether it is on the list. A [`RateTable`] remembers what each
//! client owes, in memory of a fixed size that all workers of a server share
//! (`docs/decisions/0006-limits.md`).
#![no_std]
#![forbid(unsafe_code)]

mod acl;
pub mod limits;
mod prefix;
mod rate;
mod table;

pub use acl::{Acl, Full, Rule};
pub use prefix::{Networks, NetworksError, Prefix, PrefixError};
pub use rate::{Rate, RateError};
pub use table::{Account, Charge, DebtSet, RateTable, TableKey};

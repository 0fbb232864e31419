//! Admission limits: access lists and rates.
//!
//! An [`Acl`] tells whether it lists an address. A [`RateTable`] stores the debt of each client, in
//! memory of a fixed size that all workers share (`docs/decisions/0006-rate-limits.md`).
#![no_std]
#![forbid(unsafe_code)]

mod acl;
pub mod limits;
mod prefix;
mod rate;
mod table;

pub use acl::{Acl, AclFull, AclRule};
pub use prefix::{Networks, NetworksError, Prefix, PrefixError};
pub use rate::{Rate, RateError};
pub use table::{Charge, ClientAccount, DebtSet, RateTable, TableKey};

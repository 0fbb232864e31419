//! Admission limits: access lists and rates.
//!
//! An [`Acl`] tells whether it lists an address. A [`RateTable`] stores the debt of each client, in
//! memory of a fixed size that all workers share (`docs/decisions/0006-rate-limits.md`). A
//! [`NetworkTable`] finds the network of a client (`docs/decisions/0072-networks.md`).
#![no_std]
#![forbid(unsafe_code)]

mod acl;
mod flatten;
pub mod limits;
mod network;
mod prefix;
mod rate;
mod table;

pub use acl::{Acl, AclFull, AclRule};
pub use network::{Bound, NetworkBounds, NetworkTable, RangeIndex};
pub use prefix::{Networks, NetworksError, Prefix, PrefixError};
pub use rate::{Rate, RateError};
pub use table::{Charge, ClientAccount, DebtSet, RateTable, TableKey};

//! Addresses that other servers have, too: the server announces them as long as it answers.
//!
//! An address is announced by a route in a kernel table of its own, which a routing daemon learns.
//! The route lies on a TUN device that is not persistent and whose descriptor a process of its own
//! holds, the keeper: when the descriptor is closed, for whatever reason, the kernel removes device
//! and route. No route outlives its server.
//!
//! [`Keeper`] is that process, [`Starter`] the one that starts it again, [`Link`] the server's end
//! of the socket to both. [`Verdict`] decides, [`Prober`] queries the server through its addresses.

mod keeper;
pub mod limits;
mod link;
mod message;
mod permits;
mod preconditions;
mod probe;
mod starter;
mod tun;
mod verdict;

pub use keeper::Keeper;
pub use link::{Link, PassedLink};
pub use message::{KeeperState, Report, VERSION, now};
pub use permits::{PermitRequest, PermitState, Permits};
pub use preconditions::{Finding, add_addresses, find_problems};
pub use probe::{ProbeTarget, Prober};
pub use starter::Starter;
pub use verdict::{Observed, Verdict};

use std::net::IpAddr;

/// The announced addresses, and their routing table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The addresses, each a prefix of all its bits.
    pub addresses: Vec<IpAddr>,
    /// The kernel table of the routes.
    pub table: u32,
}

/// The protocol of the routes (`rtm_protocol`), by which they are recognized.
pub const PROTOCOL: u8 = 153;

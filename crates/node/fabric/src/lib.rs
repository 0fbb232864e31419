//! `dunlin fabric`: traffic between the containers of this machine, by how far they are from each
//! other.
#![forbid(unsafe_code)]

mod addresses;
#[allow(missing_docs, reason = "doc comments are help texts there")]
pub mod cli;
mod containers;
pub mod limits;
mod metrics;
mod pods;
mod program;
mod report;
mod switch;
mod traffic;
mod watch;

pub use containers::{Container, OPT_IN, find};
pub use program::Watcher;
pub use report::{DistanceShare, Report, shares};
pub use traffic::{
    BUCKETS, Counters, Distance, Other, Pair, RoundTrips, SwitchCounts, Traffic, by_distance, pairs,
};

use cli::{Fabric, FabricAction};
use std::error::Error;
use std::process::ExitCode;

/// Does what the command line asks for.
///
/// # Errors
/// The kernel refuses, or the result cannot be written.
pub fn run(command: &Fabric) -> Result<ExitCode, Box<dyn Error>> {
    match &command.action {
        FabricAction::Watch(command) => watch::run(command, false),
        FabricAction::Top(command) => watch::run(command, true),
    }
}

#[cfg(test)]
mod tests {
    use crate::Container;

    /// A container of which only these matter.
    pub(crate) fn container(name: &str, interface: u32, cpus: &str) -> Container {
        Container {
            interface,
            wire: format!("veth{interface}"),
            name: name.into(),
            id: String::new(),
            addresses: Vec::new(),
            address: [2, 0, 0, 0, 0, interface as u8],
            gateway: [2, 0, 0, 0, 1, interface as u8],
            mtu: 1_500,
            cpus: cpu::CpuList::from_kernel(cpus).unwrap(),
            opts_in: false,
            is_pod: false,
            pod: None,
            is_permitted: false,
        }
    }
}

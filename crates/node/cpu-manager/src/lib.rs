//! Gives control groups (cgroup v2) exclusive CPUs, by a rule file and by requests of containers,
//! and keeps all other groups off these CPUs.
#![forbid(unsafe_code)]

mod claims;
mod events;
mod groups;
mod interrupts;
pub mod limits;
mod lock;
mod manager;
mod partitions;
mod pods;
mod restore;
mod rules;
mod state;

pub use claims::Claim;
pub use events::{Event, Summary};
pub use groups::{Groups, LiveGroups};
pub use lock::Lock;
pub use manager::Manager;
pub use pods::{exclusive_cpus, group_path};
pub use restore::uninstall;
pub use rules::{Interrupts, Policy, Rule, Rules};
pub use state::State;

use std::fmt;
use std::io;

/// An error: what failed, on what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// An error of the system on a file, with advice if the permission is missing.
    pub(crate) fn of(what: &str, place: impl fmt::Display, error: &io::Error) -> Self {
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                ": run it as root, outside of a container"
            }
            _ => "",
        };
        Self(format!("cannot {what} {place}: {error}{advice}"))
    }
}

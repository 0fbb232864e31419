//! Gives control groups (cgroup v2) CPUs of their own by a rule file, and keeps all others off
//! them.
#![forbid(unsafe_code)]

mod groups;
pub mod limits;
mod manager;
mod rules;
mod state;

pub use groups::{Groups, LiveGroups};
pub use manager::{Event, Manager, Summary, uninstall};
pub use rules::{Policy, Rule, Rules};
pub use state::{State, StateFault};

use std::fmt;
use std::io;

/// Why something could not be done: what failed, on what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// An error of the system on a file, with advice where the permission lacks.
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

//! The machine under measurement: two hosts on it, the kernel's counters, its properties, problems
//! that make results unreliable, and temporary settings.
#![forbid(unsafe_code)]

pub mod core_sets;
pub mod counters;
pub mod doctor;
pub mod hosts;
pub mod limits;
pub mod machine;
pub mod manifest;
mod mask;
pub mod namespace;
pub mod perf;
mod threads;
mod tool;
pub mod tune;

/// An error: the attempt, its object, the reason, and what to do.
pub type Result<T, E = String> = std::result::Result<T, E>;

/// Folder for the state of hosts and settings of this machine. Not below `/run/dunlin`, which a
/// service manager may remove together with the server that it belongs to.
pub const STATE: &str = "/run/dunlin-lab";

//! The data plane as the server runs it: its sockets and threads, where they run, what is asked of
//! them and what they count.
#![forbid(unsafe_code)]
// Code that is used only with features that are disabled in this build.
#![cfg_attr(not(feature = "xdp"), allow(dead_code))]

mod access_lists;
#[cfg(feature = "xdp")]
mod bypass;
#[cfg(not(feature = "xdp"))]
#[path = "absent/bypass.rs"]
mod bypass;
mod commands;
mod dpdk;
mod forward_table;
mod forwarding;
mod gather;
pub mod limits;
mod networks;
mod panics;
mod placement;
mod plane;
mod ports;
mod pulse;
mod server_files;
mod session;
mod settings;
mod sockets;
mod threads;

pub use access_lists::AccessLists;
pub use bypass::{Bypass, QueuePort};
pub use dpdk::{DpdkDevices, check as check_dpdk};
pub use forward_table::{ForwardChange, ForwardTable};
pub use gather::{log as log_counters, sum};
pub use networks::{KnownClients, Owner, ViewNumbers};
pub use placement::{CorePlanner, Placement, WorkerCpus, check as check_placement, place};
pub use plane::{DataPlane, ENDING, STARTING, ThreadSetup};
pub use server_files::ServerFiles;
pub use settings::{LastingState, settings_of_file};
pub use sockets::{Listening, OpenError, Sockets, raise_file_limit, reserve_files};
pub use threads::{first_alive, yield_to_workers};

//! The processes beside the server that hold the routes to announced addresses.
//!
//! Each is this program again, with a socket to the server as its standard input: a fork that goes
//! on without a new program would keep the server's memory and descriptors, and needs `unsafe`.
use crate::cli::AnycastProcess;
use anycast::{Announcement, Keeper, Starter};
use rustix::thread::CapabilitySet;
use std::error::Error;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

/// Takes the user of the config, keeps CAP_NET_ADMIN alone, and starts the keeper, again and again.
///
/// # Errors
/// Privileges cannot be dropped, or no process can be started.
pub fn start_keeper(command: &AnycastProcess) -> Result<ExitCode, Box<dyn Error>> {
    process::ignore_signals();
    let socket = socket()?;
    process::drop_to(&command.user, &command.group, CapabilitySet::NET_ADMIN)?;
    process::keep_only(CapabilitySet::NET_ADMIN, true)?;
    let announcement = announcement(command);
    let keeper = || announcer::own_command("anycast-keeper", &announcement);
    Starter::new(socket).run(keeper)?;
    Ok(ExitCode::SUCCESS)
}

/// Holds the routes until the server has ended.
///
/// # Errors
/// Capabilities cannot be dropped, or the socket fails.
pub fn keep_routes(command: &AnycastProcess) -> Result<ExitCode, Box<dyn Error>> {
    process::ignore_signals();
    process::keep_only(CapabilitySet::NET_ADMIN, false)?;
    Keeper::new(socket()?, announcement(command)).run()?;
    Ok(ExitCode::SUCCESS)
}

fn socket() -> io::Result<OwnedFd> {
    io::stdin().as_fd().try_clone_to_owned()
}

fn announcement(command: &AnycastProcess) -> Announcement {
    Announcement { addresses: command.addresses.clone(), table: command.table }
}

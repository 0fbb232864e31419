//! `dunlin lab`: measuring, and the machine that is measured on.
pub mod hosts;

use clap::{Args, Subcommand};
use std::error::Error;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct Lab {
    #[command(subcommand)]
    pub act: Act,
}

#[derive(Debug, Subcommand)]
pub enum Act {
    /// Makes two hosts of this machine, so that a server and its clients have a CPU each.
    ///
    /// Each host is a network namespace, with a wire between both. The server's is 10.99.0.1 and
    /// fd99::1; the clients' is 10.99.0.2 and fd99::2, and all of 10.98.0.0/16 and fd98::/64. What
    /// is measured on them compares servers; it says nothing of another machine.
    #[command(after_help = "Examples:\n  \
        dunlin lab hosts up\n  \
        dunlin lab hosts exec server -- dunlin serve -c dunlin.toml &\n  \
        dunlin lab hosts exec client -- dnsperf -s 10.99.0.1 -d queries\n  \
        dunlin lab hosts down --end")]
    Hosts(hosts::Hosts),
}

/// Does what the command line asks the lab for.
///
/// # Errors
/// What it could not do, and what would help.
pub fn run(command: &Lab) -> Result<ExitCode, Box<dyn Error>> {
    match &command.act {
        Act::Hosts(command) => hosts::run(command),
    }
}

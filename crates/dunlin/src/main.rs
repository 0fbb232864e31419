//! Dunlin: the binary. Config, subcommands, and the only match on the kind of port.
mod app;
mod check;
mod cli;
mod config;
mod diagnostic;
mod limits;
mod local;
mod log;
mod sockets;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Check(command) => check::run(&command),
    };
    done.unwrap_or_else(|error| {
        eprintln!("dunlin: {error}");
        ExitCode::FAILURE
    })
}

//! Dunlin: the binary. Config, subcommands, and the only match on the kind of port.
//!
//! A library as well, so that tests and benches measure what is served and nothing else.
pub mod app;
mod check;
mod cli;
mod config;
mod diagnostic;
mod human;
mod limits;
mod local;
mod log;
mod manual;
mod peer;
mod privileges;
mod report;
#[cfg(test)]
mod sample;
mod serve;
mod sockets;
mod status;
mod systemd;
mod top;
mod workers;
mod zones;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

/// Does what the command line asks for.
pub fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(command) => serve::run(&command),
        Command::Check(command) => check::run(&command).map_err(Into::into),
        Command::Status(command) => status::run(&command),
        Command::Top(command) => top::run(&command),
        Command::Manual(command) => manual::write(&command).map_err(Into::into),
        Command::Completions(command) => manual::complete(&command).map_err(Into::into),
    };
    done.unwrap_or_else(|error| {
        eprintln!("dunlin: {error}");
        ExitCode::FAILURE
    })
}

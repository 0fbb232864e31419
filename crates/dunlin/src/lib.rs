//! Dunlin: the binary. Config, subcommands, and the only match on the kind of port.
//!
//! A library as well, so that tests and benches measure what is served and nothing else.
pub mod abroad;
mod access;
pub mod app;
mod bypass;
mod check;
mod cli;
mod commands;
mod config;
mod diagnostic;
mod gather;
mod health;
mod human;
mod import;
mod kept;
mod lab;
mod limits;
mod live;
mod local;
mod log;
mod manual;
mod opened;
mod peer;
mod ports;
mod privileges;
mod reload;
mod remote;
mod rest;
#[cfg(test)]
mod sample;
mod serve;
mod server;
mod session;
pub mod settings;
mod sockets;
mod status;
mod store;
mod systemd;
mod threads;
mod tokens;
mod top;
mod trust;
mod upstreams;
mod workers;
mod zones;

use clap::Parser;
use cli::{Cli, Command};
use std::io;
use std::process::ExitCode;

/// Does what the command line asks for.
pub fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(command) => serve::run(&command),
        Command::Check(command) => check::run(&command).map_err(Into::into),
        Command::Reload(command) => reload::run(&command),
        Command::Status(command) => status::run(&command),
        Command::Top(command) => top::run(&command),
        Command::Cache(command) => kept::run(&command),
        Command::Upstream(command) => upstreams::run(&command),
        Command::Zones(command) => remote::zones::run(&command),
        Command::Records(command) => remote::records::run(&command),
        Command::Token(command) => tokens::run(&command),
        Command::Import(command) => import::run(&command),
        Command::Lab(command) => lab::run(&command),
        Command::Manual(command) => manual::write(&command).map_err(Into::into),
        Command::Completions(command) => manual::complete(&command).map_err(Into::into),
    };
    done.unwrap_or_else(|error| {
        // Who reads no further, as `head`, has seen enough.
        let is_cut_off = error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if !is_cut_off {
            eprintln!("dunlin: {error}");
        }
        ExitCode::FAILURE
    })
}

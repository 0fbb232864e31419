//! The command `dunlin`: the command line, and what runs behind each command.
#![forbid(unsafe_code)]

mod anycast_process;
mod check;
mod cli;
mod import;
mod lab;
mod limits;
mod manual;
mod parts;

use clap::{CommandFactory, FromArgMatches};
use cli::{Cli, Command};
use command_line::Output;
use parts::{cpus, fabric, scale};
use std::process::ExitCode;

/// Does what the command line asks for.
pub fn run() -> ExitCode {
    let matches = Cli::command().get_matches();
    let output = Output::of(&matches);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let done = match cli.command {
        Command::Serve(command) => server::run(command.options(), cpus::plan_workers),
        Command::Check(command) => check::run(&command).map_err(Into::into),
        Command::Reload(command) => client::reload::run(&command),
        Command::Status(command) => match command.probe {
            Some(probe) => client::probe::run(&command.local, probe),
            None => client::status::run(&command),
        },
        Command::Top(command) => client::top::run(&command),
        Command::Explain(command) => client::explain::run(&command),
        Command::Cache(command) => client::cache::run(&command),
        Command::Upstream(command) => client::upstreams::run(&command),
        Command::Anycast(command) => client::anycast::run(&command),
        Command::Checks(command) => client::checks::run(&command),
        Command::Fleet(command) => client::fleet::run(&command),
        Command::Sites(command) => client::sites::run(&command),
        Command::Store(command) => client::store::run(&command),
        Command::Health(command) => client::health::run(&command),
        Command::Drain(command) => client::health::set(&command, "drain"),
        Command::Restore(command) => client::health::set(&command, "auto"),
        Command::ForceDown(command) => client::health::set(&command, "force-down"),
        Command::ForceUp(command) => client::health::set(&command, "force-up"),
        Command::Zones(command) => client::remote::zones::run(&command, store_redb::salvage),
        Command::Records(command) => client::remote::records::run(&command),
        Command::Journal(command) => client::remote::journal::run(&command),
        Command::Token(command) => client::tokens::run(&command),
        Command::Cpus(command) => cpus::run(&command),
        Command::Fabric(command) => fabric::run(&command),
        Command::Scale(command) => scale::run(&command),
        Command::Import(command) => import::run(&command),
        Command::AnycastStarter(command) => anycast_process::start_keeper(&command),
        Command::AnycastKeeper(command) => anycast_process::keep_routes(&command),
        Command::Lab(command) => lab::run(&command),
        Command::Manual(command) => manual::write(&command).map_err(Into::into),
        Command::Completions(command) => manual::complete(&command).map_err(Into::into),
    };
    command_line::finish_as("dunlin", output, done)
}

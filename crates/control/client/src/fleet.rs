//! `dunlin fleet`: the store that many servers share.
use crate::cli::{self, FleetCommand, Output};
use crate::local::LocalClient;
use crate::remote::confirm;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Sends the command to the server and prints the result.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Fleet) -> Result<ExitCode, Box<dyn Error>> {
    let FleetCommand::Adopt(adopt) = &command.command;
    let what = "replace what the servers have by what etcd has: records that are not there are \
                lost";
    confirm(adopt.yes, what)?;
    let receipt = LocalClient::new(&adopt.server.socket)?.adopt()?;
    let mut out = io::stdout().lock();
    match adopt.server.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &receipt)?;
            writeln!(out)?;
        }
        Output::Text => writeln!(out, "etcd is adopted, as revision {}", receipt["revision"])?,
    }
    Ok(ExitCode::SUCCESS)
}

//! `dunlin anycast`: shows, withdraws and announces the addresses that other servers have, too.
use crate::cli::{self, AdminServer, AnycastCommand, Output};
use crate::limits::ANYCAST_POLL_INTERVAL;
use crate::local::LocalClient;
use crate::status_text::anycast_text;
use command_line::utc;
use server_status::AnycastStatus;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;

/// Sends the command to the server and prints the result. The exit status is 1 if the addresses are
/// not as the command wants them.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Anycast) -> Result<ExitCode, Box<dyn Error>> {
    match &command.command {
        AnycastCommand::Status(server) => {
            let status = LocalClient::new(&server.local)?.anycast()?;
            write(server, &status)?;
            Ok(if status.is_announced { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        AnycastCommand::Withdraw(cli::Withdraw { reason, wait, server }) => {
            set(server, Some(reason), *wait)
        }
        AnycastCommand::Announce(cli::Announce { wait, server }) => set(server, None, *wait),
    }
}

fn set(
    server: &AdminServer,
    reason: Option<&str>,
    waits: bool,
) -> Result<ExitCode, Box<dyn Error>> {
    let client = LocalClient::new(&server.local)?;
    let mut status = client.withdraw(reason)?;
    while waits && status.is_announced == reason.is_some() {
        thread::sleep(ANYCAST_POLL_INTERVAL);
        status = client.anycast()?;
    }
    write(server, &status)?;
    Ok(ExitCode::SUCCESS)
}

fn write(server: &AdminServer, status: &AnycastStatus) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    match server.output {
        Output::Json => serde_json::to_writer_pretty(&mut out, status)?,
        Output::Text => write!(
            out,
            "{}",
            anycast_text(status, &format!("since {}", utc(status.since_seconds)))
        )?,
    }
    Ok(writeln!(out)?)
}

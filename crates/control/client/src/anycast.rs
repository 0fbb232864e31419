//! `dunlin anycast`: shows, withdraws and announces the addresses that other servers have, too.
use crate::cli::{self, AdminServer, AnycastCommand, Output};
use crate::limits::ANYCAST_POLL_INTERVAL;
use crate::local::LocalClient;
use crate::status_text::anycast_text;
use command_line::utc;
use server_status::{AnycastStatus, seconds};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use std::time::SystemTime;

/// Sends the command to the server and prints the result. The exit status is 1 if the addresses are
/// not as the command wants them.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Anycast) -> Result<ExitCode, Box<dyn Error>> {
    match &command.command {
        AnycastCommand::Status(cli::AnycastShow { follow: true, server }) => follow(server),
        AnycastCommand::Status(cli::AnycastShow { server, .. }) => {
            let status = LocalClient::new(&server.local)?.anycast()?;
            write(server, &status)?;
            Ok(if status.is_announced { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        AnycastCommand::Withdraw(cli::Withdraw { reason, wait, force, server }) => {
            set(server, Some(reason), *wait, *force)
        }
        AnycastCommand::Announce(cli::Announce { wait, server }) => set(server, None, *wait, false),
    }
}

/// Prints a line for each change, until it is ended or cannot write. A server that does not answer
/// announces nothing: what the line is for may have no other way to learn that.
fn follow(server: &AdminServer) -> Result<ExitCode, Box<dyn Error>> {
    let client = LocalClient::new(&server.local)?;
    let mut last: Option<AnycastStatus> = None;
    loop {
        let status = client.anycast_now().unwrap_or_else(|why| AnycastStatus {
            is_announced: false,
            reason: Some(why.to_string()),
            since_seconds: seconds(SystemTime::now()),
            ..last.clone().unwrap_or_default()
        });
        if last.as_ref().is_none_or(|last| is_changed(last, &status)) {
            write_line(server, &status)?;
        }
        last = Some(status);
        thread::sleep(ANYCAST_POLL_INTERVAL);
    }
}

fn is_changed(last: &AnycastStatus, new: &AnycastStatus) -> bool {
    let parts = |status: &AnycastStatus| {
        let AnycastStatus { addresses, is_announced, reason, fault, .. } = status.clone();
        (addresses, is_announced, reason, fault)
    };
    parts(last) != parts(new)
}

fn write_line(server: &AdminServer, status: &AnycastStatus) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    match server.output {
        Output::Json => serde_json::to_writer(&mut out, status)?,
        Output::Text => out.write_all(text(status).as_bytes())?,
    }
    writeln!(out)?;
    Ok(out.flush()?)
}

fn text(status: &AnycastStatus) -> String {
    anycast_text(status, &format!("since {}", utc(status.since_seconds)))
}

fn set(
    server: &AdminServer,
    reason: Option<&str>,
    waits: bool,
    is_forced: bool,
) -> Result<ExitCode, Box<dyn Error>> {
    let client = LocalClient::new(&server.local)?;
    let mut status = client.withdraw(reason, is_forced)?;
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
        Output::Text => out.write_all(text(status).as_bytes())?,
    }
    Ok(writeln!(out)?)
}

//! `dunlin upstream`: lists, drains and restores upstream servers.
use crate::cli::{self, Output, UpstreamCommand};
use crate::local::LocalClient;
use command_line::{Side, align, count, plain};
use server_status::{Status, UpstreamState, unanswered_suffixes};
use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Sends the command to the server and prints the result.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Upstream) -> Result<ExitCode, Box<dyn Error>> {
    let mut out = io::stdout().lock();
    match &command.command {
        UpstreamCommand::List(server) => {
            let status = LocalClient::new(&server.local)?.status()?;
            match server.output {
                Output::Json => write_json(&mut out, &status.upstreams)?,
                Output::Text if status.upstreams.is_empty() => {
                    writeln!(out, "no upstreams: [forward] has no rule with servers")?;
                }
                Output::Text => write_upstreams(&mut out, &status)?,
            }
        }
        UpstreamCommand::Drain(one) => set(&mut out, one, true)?,
        UpstreamCommand::Restore(one) => set(&mut out, one, false)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write_json(out: &mut impl Write, value: &impl serde::Serialize) -> Result<(), Box<dyn Error>> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(writeln!(out)?)
}

fn set(out: &mut impl Write, one: &cli::OneServer, drained: bool) -> Result<(), Box<dyn Error>> {
    let cli::OneServer { name, server } = one;
    let client = LocalClient::new(&server.local)?;
    let suffixes = client.drain(name, drained)?;
    let status = client.status()?;
    let all_drained = all_drained(&status, &suffixes);
    if server.output == Output::Json {
        let result = serde_json::json!({
            "server": name, "drained": drained, "suffixes": suffixes, "all_drained": all_drained,
        });
        return write_json(out, &result);
    }
    let state = if drained { "drained" } else { "restored" };
    writeln!(out, "{} is {state}, for {}", plain(name), plain(&suffixes.join(", ")))?;
    for suffix in all_drained {
        let suffix = plain(&suffix);
        writeln!(out, "every server of {suffix} is drained: all are queried as if none were")?;
    }
    Ok(())
}

/// The suffixes whose servers are all drained.
fn all_drained(status: &Status, suffixes: &[String]) -> BTreeSet<String> {
    let left: BTreeSet<&String> = status
        .upstreams
        .iter()
        .filter(|upstream| upstream.state != UpstreamState::Drained)
        .map(|upstream| &upstream.suffix)
        .collect();
    suffixes.iter().filter(|suffix| !left.contains(suffix)).cloned().collect()
}

/// Writes the table of upstream servers.
///
/// # Errors
/// The output cannot be written.
pub fn write_upstreams(out: &mut impl Write, status: &Status) -> io::Result<()> {
    if status.upstreams.is_empty() {
        return Ok(());
    }
    let head = ["FORWARD", "SERVER", "STATE", "RTT", "SENT", "ANSWERED", "REFUSED", "LATE"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(status.upstreams.iter().map(|upstream| {
        let took = upstream.round_trip_seconds.map(command_line::short);
        [
            plain(&upstream.suffix),
            plain(&upstream.server),
            upstream.state.name().to_owned(),
            took.unwrap_or_else(|| "-".into()),
            count(upstream.sent),
            count(upstream.answered),
            count(upstream.refused),
            count(upstream.late),
        ]
    }));
    use Side::{Left, Right};
    writeln!(out)?;
    for line in align([Left, Left, Left, Right, Right, Right, Right, Right], &rows) {
        writeln!(out, "{line}")?;
    }
    for upstream in &status.upstreams {
        if let Some(fault) = &upstream.fault {
            writeln!(out, "{}: {}", plain(&upstream.server), plain(fault))?;
        }
    }
    for suffix in unanswered_suffixes(status) {
        writeln!(out, "no server answers for {}", plain(suffix))?;
    }
    let mismatched: u64 = status.upstreams.iter().map(|upstream| upstream.mismatched).sum();
    match mismatched {
        0 => Ok(()),
        _ => writeln!(out, "{} messages matched no query", count(mismatched)),
    }
}

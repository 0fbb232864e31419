//! `dunlin upstream`: the servers that others' names are asked of, and whether they are to be.
use crate::cli::{self, Output, UpstreamAct};
use crate::human::plain;
use crate::status;
use admin::{Client, Command, Outcome};
use control::status::{Status, UpstreamState};
use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Asks the server, and tells what came of it.
///
/// # Errors
/// When the server cannot be reached or refuses, or the result not be written.
pub fn run(command: &cli::Upstream) -> Result<ExitCode, Box<dyn Error>> {
    let mut out = io::stdout().lock();
    match &command.act {
        UpstreamAct::List(server) => {
            let status = Client::connect(&server.socket)?.status()?;
            match server.output {
                Output::Json => write_json(&mut out, &status.upstreams)?,
                Output::Text if status.upstreams.is_empty() => {
                    writeln!(out, "nobody else is asked: [forward] has no rule with servers")?;
                }
                Output::Text => status::write_upstreams(&mut out, &status)?,
            }
        }
        UpstreamAct::Drain(one) => set(&mut out, one, true)?,
        UpstreamAct::Restore(one) => set(&mut out, one, false)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write_json(out: &mut impl Write, told: &impl serde::Serialize) -> Result<(), Box<dyn Error>> {
    serde_json::to_writer_pretty(&mut *out, told)?;
    Ok(writeln!(out)?)
}

fn set(out: &mut impl Write, one: &cli::OneServer, drained: bool) -> Result<(), Box<dyn Error>> {
    let cli::OneServer { name, server } = one;
    let command = Command::Drain { server: name.clone(), drained };
    let suffixes = match Client::connect(&server.socket)?.command(command)? {
        Outcome::Drained(suffixes) => suffixes,
        other => return Err(format!("it did something else: {other:?}").into()),
    };
    let status = Client::connect(&server.socket)?.status()?;
    let bare = all_drained(&status, &suffixes);
    if server.output == Output::Json {
        let told = serde_json::json!({
            "server": name, "drained": drained, "suffixes": suffixes, "all_drained": bare,
        });
        return write_json(out, &told);
    }
    let act = if drained { "drained" } else { "asked again" };
    writeln!(out, "{} is {act}, for {}", plain(name), plain(&suffixes.join(", ")))?;
    for suffix in bare {
        let suffix = plain(&suffix);
        writeln!(out, "every server of {suffix} is drained now: they are asked as if none was")?;
    }
    Ok(())
}

/// Those of some suffixes that have no server left.
fn all_drained(status: &Status, suffixes: &[String]) -> BTreeSet<String> {
    let left: BTreeSet<&String> = status
        .upstreams
        .iter()
        .filter(|upstream| upstream.state != UpstreamState::Drained)
        .map(|upstream| &upstream.suffix)
        .collect();
    suffixes.iter().filter(|suffix| !left.contains(suffix)).cloned().collect()
}

//! `dunlin reload`: has a running server read its config and zones again.
use crate::cli::{self, Output};
use admin::Reloaded;
use control::status::{ZoneState, ZoneStatus};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Asks the server and tells what became of it; the exit status says whether all is well.
///
/// # Errors
/// When the server cannot be reached, or the result not be written.
pub fn run(command: &cli::Reload) -> Result<ExitCode, Box<dyn Error>> {
    let reloaded = admin::Client::connect(&command.socket)?.reload()?;
    // A zone that is not in order does not keep the config from holding, but is to be told.
    let zones = admin::Client::connect(&command.socket)?.status()?.zones;
    let behind: Vec<ZoneStatus> =
        zones.into_iter().filter(|zone| zone.state != ZoneState::Current).collect();
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => {
            let told = serde_json::json!({ "reloaded": reloaded, "behind": behind });
            serde_json::to_writer_pretty(&mut out, &told)?;
            writeln!(out)?;
        }
        Output::Text => write(&mut out, &reloaded, &behind)?,
    }
    let fine = matches!(reloaded, Reloaded::Taken { .. }) && behind.is_empty();
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(out: &mut impl Write, reloaded: &Reloaded, behind: &[ZoneStatus]) -> io::Result<()> {
    match reloaded {
        Reloaded::Taken { restart_needed } => {
            writeln!(out, "reloaded")?;
            for key in restart_needed {
                writeln!(out, "{key} waits for a restart, or for `dunlin serve --take-over`")?;
            }
        }
        Reloaded::Refused { errors } => {
            errors.iter().try_for_each(|error| writeln!(out, "{error}"))?;
            writeln!(out, "config refused; what held before goes on")?;
        }
    }
    for ZoneStatus { name, state, errors, .. } in behind {
        writeln!(out, "zone {name} is {}:", state.name())?;
        errors.iter().try_for_each(|error| writeln!(out, "  {error}"))?;
    }
    Ok(())
}

//! `dunlin zones accept`: serves held zone files.
use crate::cli::{self, Output};
use crate::local::LocalClient;
use command_line::{count, plain};
use server_status::command::AcceptedZone;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Accepts held zones and prints the result. The exit status is 0 if every accepted zone is served.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::AcceptZone) -> Result<ExitCode, Box<dyn Error>> {
    let cli::AcceptZone { zone, all: _, server } = command;
    let accepted = LocalClient::new(&server.local)?.accept(zone.as_deref())?;
    let mut out = io::stdout().lock();
    match server.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &serde_json::json!({ "accepted": accepted }))?;
            writeln!(out)?;
        }
        Output::Text => write(&mut out, &accepted)?,
    }
    let is_done = accepted.iter().all(|zone| zone.waits.is_none());
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(out: &mut impl Write, accepted: &[AcceptedZone]) -> io::Result<()> {
    if accepted.is_empty() {
        writeln!(out, "no zone is held")?;
    }
    for AcceptedZone { zone, had, has, serial, waits } in accepted {
        let kind = if zone.ends_with('.') { "zone" } else { "hosts file" };
        let zone = format!("{kind} {}", plain(zone));
        match waits {
            Some(why) => writeln!(out, "{zone} is not served from its file: {}", plain(why))?,
            None => {
                let serial = serial.map_or_else(String::new, |serial| format!(", serial {serial}"));
                let (has, had) = (count(*has), count(*had));
                writeln!(
                    out,
                    "{zone} is served from its file: {has} names (before {had}){serial}"
                )?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_accepted_zone_has_a_line_with_its_result() {
        let text = |accepted: &[AcceptedZone]| {
            let mut out = Vec::new();
            write(&mut out, accepted).expect("a Vec takes all");
            String::from_utf8(out).expect("UTF-8")
        };
        let zone = |waits: Option<&str>| AcceptedZone {
            zone: "a.test.".into(),
            had: 2_000,
            has: 12,
            serial: Some(7),
            waits: waits.map(str::to_owned),
        };
        assert_eq!(
            text(&[zone(None), zone(Some("the file is being written"))]),
            "zone a.test. is served from its file: 12 names (before 2,000), serial 7\n\
             zone a.test. is not served from its file: the file is being written\n"
        );
        assert_eq!(text(&[]), "no zone is held\n");
    }
}

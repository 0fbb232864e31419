//! `dunlin reload`: reloads the config and zones of a running server, and prints the changes.
use crate::cli::{self, Output};
use crate::limits::STATUS_ZONES_MAX;
use crate::local::LocalClient;
use crate::status_text;
use command_line::{plain, plural};
use server_status::command::{ReloadOutcome, ZoneChange};
use server_status::{ZoneState, ZoneStatus};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Reloads the server and prints the result. The exit status is 0 if the server accepted the config
/// and every zone file.
///
/// # Errors
/// The server cannot be reached, or the result cannot be written.
pub fn run(command: &cli::Reload) -> Result<ExitCode, Box<dyn Error>> {
    let server = LocalClient::new(&command.local)?;
    let reloaded = server.reload(command.accept)?;
    // The config takes effect despite faulty zone files, so the result must show them.
    let zones = server.status()?.zones;
    let count = zones.len();
    let mut behind: Vec<ZoneStatus> =
        zones.into_iter().filter(|zone| !serves_its_file(zone)).collect();
    if matches!(reloaded, ReloadOutcome::NotNow { .. }) {
        // They are not loaded yet, or not any more.
        behind.clear();
    }
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => {
            let result = serde_json::json!({ "reloaded": reloaded, "behind": behind });
            serde_json::to_writer_pretty(&mut out, &result)?;
            writeln!(out)?;
        }
        Output::Text => write(&mut out, &reloaded, count, &behind)?,
    }
    let fine = matches!(reloaded, ReloadOutcome::Applied { .. }) && behind.is_empty();
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the server serves the current content of the zone's file.
fn serves_its_file(zone: &ZoneStatus) -> bool {
    zone.state == ZoneState::Current && zone.writing_seconds.is_none()
}

fn write(
    out: &mut impl Write,
    reloaded: &ReloadOutcome,
    count: usize,
    behind: &[ZoneStatus],
) -> io::Result<()> {
    match reloaded {
        ReloadOutcome::Applied { changed, zones, restart_needed } => {
            let config = match &changed[..] {
                [] if !restart_needed.is_empty() => "what changed needs a restart".to_owned(),
                [] => "no config key changed".to_owned(),
                keys => format!("changed: {}", plain(&keys.join(", "))),
            };
            let files = plural(count, "zone file");
            writeln!(out, "reloaded; {config}; read {files}")?;
            for change in zones.iter().take(STATUS_ZONES_MAX) {
                writeln!(out, "{}", change_line(change))?;
            }
            if let more @ 1.. = zones.len().saturating_sub(STATUS_ZONES_MAX) {
                writeln!(out, "and {} more changed", plural(more, "zone"))?;
            }
            for key in restart_needed {
                let key = plain(key);
                writeln!(out, "{key} needs a restart, or `dunlin serve --hot-restart`")?;
            }
        }
        ReloadOutcome::Refused { errors } => {
            errors.iter().try_for_each(|error| writeln!(out, "{}", plain(error)))?;
            writeln!(out, "config refused; the previous config stays in effect")?;
        }
        ReloadOutcome::Held { reason, .. } => writeln!(out, "held: {}", plain(reason))?,
        ReloadOutcome::NotNow { reason } => writeln!(out, "not reloaded: {}", plain(reason))?,
    }
    for zone in behind.iter().take(STATUS_ZONES_MAX) {
        writeln!(out, "zone {} is {}:", plain(&zone.name), zone.state.name())?;
        if let Some(line) = status_text::writing(zone) {
            writeln!(out, "  {line}")?;
        }
        if let Some(line) = status_text::held(zone) {
            writeln!(out, "  {line}")?;
        }
        zone.errors.iter().try_for_each(|error| writeln!(out, "  {}", plain(error)))?;
    }
    if let more @ 1.. = behind.len().saturating_sub(STATUS_ZONES_MAX) {
        writeln!(out, "and {} more: `dunlin status --zones` lists all", plural(more, "zone"))?;
    }
    Ok(())
}

fn change_line(change: &ZoneChange) -> String {
    match change {
        ZoneChange::Added { zone } => format!("zone {} is new", plain(zone)),
        ZoneChange::Removed { zone } => format!("zone {} is removed", plain(zone)),
        ZoneChange::Changed { zone, serials, records } => {
            let serial = |serial: Option<u32>| {
                serial.map_or_else(|| "none".to_owned(), |serial| serial.to_string())
            };
            let (old, new) = (serial(serials.0), serial(serials.1));
            let (before, now) = (command_line::count(records.0), command_line::count(records.1));
            let zone = plain(zone);
            format!("zone {zone} has serial {new} (before {old}), {now} records (before {before})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str, state: ZoneState, serial: Option<u32>, records: u64) -> ZoneStatus {
        ZoneStatus { name: name.into(), state, serial, records, ..ZoneStatus::default() }
    }

    fn text(reloaded: &ReloadOutcome, count: usize, behind: &[ZoneStatus]) -> String {
        let mut out = Vec::new();
        write(&mut out, reloaded, count, behind).expect("a Vec takes all");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn changes_and_faulty_zones_are_listed() {
        use ZoneState::{Current, Unloaded};
        let now = [
            zone("a.", Current, Some(2), 6),
            ZoneStatus { errors: vec!["f:1:1: no".into()], ..zone("new.", Unloaded, None, 0) },
        ];
        let reloaded = ReloadOutcome::Applied {
            changed: vec!["log.level".into(), "acl.query".into()],
            zones: vec![
                ZoneChange::Changed {
                    zone: "a.".into(),
                    serials: (Some(1), Some(2)),
                    records: (5, 6),
                },
                ZoneChange::Added { zone: "new.".into() },
                ZoneChange::Removed { zone: "gone.".into() },
            ],
            restart_needed: vec!["server.listen".into()],
        };
        let expected = "\
            reloaded; changed: log.level, acl.query; read 3 zone files\n\
            zone a. has serial 2 (before 1), 6 records (before 5)\n\
            zone new. is new\n\
            zone gone. is removed\n\
            server.listen needs a restart, or `dunlin serve --hot-restart`\n\
            zone new. is unloaded:\n  f:1:1: no\n";
        assert_eq!(text(&reloaded, 3, &now[1..]), expected);
    }

    #[test]
    fn held_and_impossible_reloads_have_one_line() {
        let reason = "the config removes 40 of 42 zones".to_owned();
        let held = ReloadOutcome::Held { had: 42, has: 2, reason: reason.clone() };
        assert_eq!(text(&held, 42, &[]), format!("held: {reason}\n"));
        let not_now = ReloadOutcome::NotNow { reason: "the server is starting".into() };
        assert_eq!(text(&not_now, 42, &[]), "not reloaded: the server is starting\n");
    }

    #[test]
    fn key_that_needs_a_restart_is_not_reported_as_unchanged() {
        let restart_needed = vec!["server.listen".to_owned()];
        let (changed, zones) = (Vec::new(), Vec::new());
        let reloaded = ReloadOutcome::Applied { changed, zones, restart_needed };
        let expected = "reloaded; what changed needs a restart; read 1 zone file\n\
                        server.listen needs a restart, or `dunlin serve --hot-restart`\n";
        assert_eq!(text(&reloaded, 1, &[]), expected);
    }

    #[test]
    fn unchanged_config_is_reported_and_long_lists_are_cut() {
        let none = Vec::new;
        let same =
            ReloadOutcome::Applied { changed: none(), zones: Vec::new(), restart_needed: none() };
        let expected = "reloaded; no config key changed; read 1 zone file\n";
        assert_eq!(text(&same, 1, &[]), expected);
        let many: Vec<_> =
            (0..1_041).map(|n| zone(&format!("z{n}."), ZoneState::Behind, None, 0)).collect();
        let zones = many.iter().map(|zone| ZoneChange::Added { zone: zone.name.clone() }).collect();
        let text = text(
            &ReloadOutcome::Applied { changed: none(), zones, restart_needed: none() },
            0,
            &many,
        );
        assert!(text.contains("and 1,001 zones more changed"), "{text}");
        assert!(text.contains("and 1,001 zones more: `dunlin status --zones`"), "{text}");
        assert_eq!(text.lines().count(), 1 + 2 * (STATUS_ZONES_MAX + 1));
    }
}

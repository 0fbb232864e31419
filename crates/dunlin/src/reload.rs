//! `dunlin reload`: has a running server read its config and zones again, and tells what is another
//! than before.
use crate::cli::{self, Output};
use crate::human::{self, plain, plural};
use crate::limits::STATUS_ZONES_MAX;
use admin::{Reloaded, ZoneChange};
use control::status::{ZoneState, ZoneStatus};
use std::collections::HashMap;
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
    let count = zones.len();
    let behind: Vec<ZoneStatus> =
        zones.into_iter().filter(|zone| zone.state != ZoneState::Current).collect();
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => {
            let told = serde_json::json!({ "reloaded": reloaded, "behind": behind });
            serde_json::to_writer_pretty(&mut out, &told)?;
            writeln!(out)?;
        }
        Output::Text => write(&mut out, &reloaded, count, &behind)?,
    }
    let fine = matches!(reloaded, Reloaded::Taken { .. }) && behind.is_empty();
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is another with the zones than before.
pub fn compare(before: &[ZoneStatus], now: &[ZoneStatus]) -> Vec<ZoneChange> {
    let mut old: HashMap<&str, &ZoneStatus> =
        before.iter().map(|zone| (zone.name.as_str(), zone)).collect();
    let mut changes = Vec::new();
    for new in now {
        let zone = new.name.clone();
        match old.remove(new.name.as_str()) {
            None => changes.push(ZoneChange::Added { zone }),
            Some(old) if (old.serial, old.records) != (new.serial, new.records) => {
                let (serials, records) = ((old.serial, new.serial), (old.records, new.records));
                changes.push(ZoneChange::Changed { zone, serials, records });
            }
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|zone| old.contains_key(zone.name.as_str()));
    changes.extend(gone.map(|zone| ZoneChange::Removed { zone: zone.name.clone() }));
    changes
}

fn write(
    out: &mut impl Write,
    reloaded: &Reloaded,
    count: usize,
    behind: &[ZoneStatus],
) -> io::Result<()> {
    match reloaded {
        Reloaded::Taken { changed, zones, restart_needed } => {
            let config = match &changed[..] {
                [] => "no key of the config has changed".to_owned(),
                keys => format!("changed: {}", plain(&keys.join(", "))),
            };
            let files = plural(count, "zone file");
            writeln!(out, "reloaded; {config}; {files} read again")?;
            for change in zones.iter().take(STATUS_ZONES_MAX) {
                writeln!(out, "{}", story(change))?;
            }
            if let more @ 1.. = zones.len().saturating_sub(STATUS_ZONES_MAX) {
                writeln!(out, "and {} more changed", plural(more, "zone"))?;
            }
            for key in restart_needed {
                let key = plain(key);
                writeln!(out, "{key} waits for a restart, or for `dunlin serve --take-over`")?;
            }
        }
        Reloaded::Refused { errors } => {
            errors.iter().try_for_each(|error| writeln!(out, "{}", plain(error)))?;
            writeln!(out, "config refused; what held before goes on")?;
        }
    }
    for ZoneStatus { name, state, errors, .. } in behind.iter().take(STATUS_ZONES_MAX) {
        writeln!(out, "zone {} is {}:", plain(name), state.name())?;
        errors.iter().try_for_each(|error| writeln!(out, "  {}", plain(error)))?;
    }
    if let more @ 1.. = behind.len().saturating_sub(STATUS_ZONES_MAX) {
        writeln!(out, "and {} more: `dunlin status --zones` lists all", plural(more, "zone"))?;
    }
    Ok(())
}

/// A change in a line.
fn story(change: &ZoneChange) -> String {
    match change {
        ZoneChange::Added { zone } => format!("zone {} is new", plain(zone)),
        ZoneChange::Removed { zone } => format!("zone {} is no more", plain(zone)),
        ZoneChange::Changed { zone, serials, records } => {
            let serial = |serial: Option<u32>| {
                serial.map_or_else(|| "none".to_owned(), |serial| serial.to_string())
            };
            let (old, new) = (serial(serials.0), serial(serials.1));
            let (before, now) = (human::count(records.0), human::count(records.1));
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

    fn told(reloaded: &Reloaded, count: usize, behind: &[ZoneStatus]) -> String {
        let mut out = Vec::new();
        write(&mut out, reloaded, count, behind).expect("a Vec takes all");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn what_is_another_than_before_is_told() {
        use ZoneState::{Current, Unloaded};
        let before = [
            zone("a.", Current, Some(1), 5),
            zone("gone.", Current, Some(1), 5),
            zone("same.", Current, Some(1), 5),
        ];
        let now = [
            zone("a.", Current, Some(2), 6),
            zone("same.", Current, Some(1), 5),
            ZoneStatus { errors: vec!["f:1:1: no".into()], ..zone("new.", Unloaded, None, 0) },
        ];
        let reloaded = Reloaded::Taken {
            changed: vec!["log.level".into(), "acl.query".into()],
            zones: compare(&before, &now),
            restart_needed: vec!["server.listen".into()],
        };
        let expected = "\
            reloaded; changed: log.level, acl.query; 3 zone files read again\n\
            zone a. has serial 2 (before 1), 6 records (before 5)\n\
            zone new. is new\n\
            zone gone. is no more\n\
            server.listen waits for a restart, or for `dunlin serve --take-over`\n\
            zone new. is unloaded:\n  f:1:1: no\n";
        assert_eq!(told(&reloaded, 3, &now[2..]), expected);
    }

    #[test]
    fn nothing_new_is_told_too_and_many_are_counted() {
        let none = Vec::new;
        let same = Reloaded::Taken { changed: none(), zones: Vec::new(), restart_needed: none() };
        let expected = "reloaded; no key of the config has changed; 1 zone file read again\n";
        assert_eq!(told(&same, 1, &[]), expected);
        let many: Vec<_> =
            (0..1_041).map(|n| zone(&format!("z{n}."), ZoneState::Behind, None, 0)).collect();
        let zones = compare(&[], &many);
        let told =
            told(&Reloaded::Taken { changed: none(), zones, restart_needed: none() }, 0, &many);
        assert!(told.contains("and 1,001 zones more changed"), "{told}");
        assert!(told.contains("and 1,001 zones more: `dunlin status --zones`"), "{told}");
        assert_eq!(told.lines().count(), 1 + 2 * (STATUS_ZONES_MAX + 1));
    }
}

//! `dunlin check`: all that is wrong with configs and the zone files they name, and what is legal
//! there but hardly meant.
use crate::cli::{Check, Output};
use crate::config::{Config, Hosts, Zone};
use crate::diagnostic::Diagnostic;
use crate::{trust, zones};
use image::HashKey;
use model::Rule;
use serde::Serialize;
use source_file::{lint, load, load_hosts, saved};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// What was found.
#[derive(Debug, Default, Serialize)]
struct Report {
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    zones: Vec<Loaded>,
    hosts: Vec<LoadedHosts>,
}

/// A zone without an error.
#[derive(Debug, Serialize)]
struct Loaded {
    name: String,
    file: String,
    records: u64,
    serial: Option<u32>,
}

/// A hosts file without an error.
#[derive(Debug, Serialize)]
struct LoadedHosts {
    file: String,
    names: u64,
}

/// Checks all files and tells the result; the exit status says whether all is well.
///
/// # Errors
/// When the result cannot be written.
pub fn run(command: &Check) -> io::Result<ExitCode> {
    let mut report = Report::default();
    for file in &command.files {
        report.config(file);
    }
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &report)?;
            writeln!(out)?;
        }
        Output::Text => report.write(&mut out)?,
    }
    let warned = command.strict && !report.warnings.is_empty();
    Ok(if report.errors.is_empty() && !warned { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Report {
    fn config(&mut self, file: &Path) {
        match Config::load(Some(file)) {
            Ok(config) => {
                let has_names = config.zones.len() + config.forwards.len() > 0;
                if !has_names && config.hosts.files.is_empty() {
                    let wrong =
                        Diagnostic::of_file(file, "names no zone, so it refuses what it is asked");
                    let help = Some("add a section [[zone]] with its name and its file".into());
                    self.warnings.push(Diagnostic { help, ..wrong });
                }
                self.errors.extend(trust::load(&config).err());
                let copies = config.server.data_dir.as_deref().map(zones::copies);
                config.zones.iter().for_each(|zone| self.zone(zone, copies.as_deref()));
                self.hosts(&config.hosts);
            }
            Err(errors) => self.errors.extend(errors),
        }
    }

    fn hosts(&mut self, hosts: &Hosts) {
        // As for zones.
        let key = Arc::new(HashKey::new([1; image::HASH_KEY_WORDS]));
        for file in &hosts.files {
            match load_hosts(file, 0, &key, None) {
                Ok((_, names)) => {
                    self.hosts.push(LoadedHosts { file: file.display().to_string(), names });
                }
                Err(failure) => self.errors.extend(failure.errors.iter().map(Diagnostic::from)),
            }
        }
    }

    fn zone(&mut self, zone: &Zone, copies: Option<&Path>) {
        // Nothing is served from it: any key will do.
        let key = Arc::new(HashKey::new([1; image::HASH_KEY_WORDS]));
        let origin = zone.name.as_name();
        match load(&zone.file, origin, &key, None) {
            Ok((loaded, summary)) => {
                let before = self.warnings.len();
                self.warnings.extend(summary.warnings.iter().map(Diagnostic::from));
                self.warnings.extend(lint(&zone.file, &loaded).iter().map(Diagnostic::from));
                self.warnings.extend(copies.and_then(|copies| serial(zone, &loaded, copies)));
                self.warnings[before..]
                    .sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
                self.zones.push(Loaded {
                    name: origin.to_string(),
                    file: zone.file.display().to_string(),
                    records: summary.records,
                    serial: loaded.serial(),
                });
            }
            Err(failure) => self.errors.extend(failure.errors.iter().map(Diagnostic::from)),
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for error in &self.errors {
            writeln!(out, "{error} [{}, {}]", error.rule, error.source)?;
        }
        for warning in &self.warnings {
            let place = warning.place();
            let Diagnostic { rule, source, .. } = warning;
            writeln!(out, "{place}: warning: {} [{rule}, {source}]", warning.story())?;
        }
        for Loaded { name, file, records, .. } in &self.zones {
            writeln!(out, "{file}: {name} is in order, {records} records")?;
        }
        for LoadedHosts { file, names } in &self.hosts {
            writeln!(out, "{file}: a hosts file in order, {names} names")?;
        }
        let count = |count: usize, what: &str| match count {
            0 => None,
            1 => Some(format!("1 {what}")),
            count => Some(format!("{count} {what}s")),
        };
        let counts = [count(self.errors.len(), "error"), count(self.warnings.len(), "warning")];
        match counts.into_iter().flatten().collect::<Vec<_>>().join(", ") {
            counts if counts.is_empty() => Ok(()),
            counts => writeln!(out, "{counts}"),
        }
    }
}

/// What is to be said of a zone's serial beside that of the copy saved when it was last served:
/// who transfers the zone learns of a change by a greater one (RFC 1982 §3.2).
fn serial(zone: &Zone, new: &compile::Zone, copies: &Path) -> Option<Diagnostic> {
    if saved::is_current(copies, new) {
        return None;
    }
    // A copy that cannot be read is the server's matter.
    let (old, _) = saved::read(copies, new.origin(), new.names().key()).ok()??;
    let (old, new) = (old.serial()?, new.serial()?);
    if new.wrapping_sub(old).wrapping_sub(1) < 1 << 31 {
        return None;
    }
    let message = match new == old {
        true => format!("the zone has changed, but its serial is {old} as before"),
        false => format!("the serial {new} does not come after {old}, which was served last"),
    };
    let help = Some(format!(
        "secondaries take the change for none: write at least {}",
        old.wrapping_add(1)
    ));
    Some(Diagnostic { help, ..Diagnostic::of_file(&zone.file, message).by(Rule::SERIAL) })
}

impl From<&zonefile::Error> for Diagnostic {
    fn from(error: &zonefile::Error) -> Self {
        let place = error.place();
        Self {
            line: place.line,
            column: place.column,
            help: error.help.clone(),
            ..Self::of_file(place.file, error.what.clone()).by(error.rule)
        }
    }
}

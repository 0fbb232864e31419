//! `dunlin check`: every error of configs and of the zone files they name.
use crate::cli::{Check, Output};
use crate::config::{Config, Zone};
use crate::diagnostic::Diagnostic;
use image::HashKey;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// What was found.
#[derive(Debug, Default, Serialize)]
struct Report {
    errors: Vec<Diagnostic>,
    zones: Vec<Loaded>,
}

/// A zone without an error.
#[derive(Debug, Serialize)]
struct Loaded {
    name: String,
    file: String,
    records: u64,
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
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Report {
    fn config(&mut self, file: &Path) {
        match Config::load(Some(file)) {
            Ok(config) => config.zones.iter().for_each(|zone| self.zone(zone)),
            Err(errors) => self.errors.extend(errors),
        }
    }

    fn zone(&mut self, zone: &Zone) {
        // Nothing is served from it: any key will do.
        let key = Arc::new(HashKey::new([1; image::HASH_KEY_WORDS]));
        match source_file::load(&zone.file, zone.name.as_name(), &key, None) {
            Ok((_, summary)) => self.zones.push(Loaded {
                name: zone.name.as_name().to_string(),
                file: zone.file.display().to_string(),
                records: summary.records,
            }),
            Err(failure) => self.errors.extend(failure.errors.iter().map(Diagnostic::from)),
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for error in &self.errors {
            writeln!(out, "{error}")?;
        }
        for Loaded { name, file, records } in &self.zones {
            writeln!(out, "{file}: {name} is in order, {records} records")?;
        }
        match self.errors.len() {
            0 => Ok(()),
            1 => writeln!(out, "1 error"),
            count => writeln!(out, "{count} errors"),
        }
    }
}

impl From<&zonefile::Error> for Diagnostic {
    fn from(error: &zonefile::Error) -> Self {
        let place = error.place();
        Self {
            file: place.file.into(),
            line: place.line,
            column: place.column,
            message: error.what.clone(),
            help: error.help.clone(),
        }
    }
}

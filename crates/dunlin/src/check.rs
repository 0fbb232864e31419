//! `dunlin check`: all that is wrong with configs and the zone files they name, and what is legal
//! there but hardly meant.
use crate::cli::{Check, Output};
use command_line::{Paint, plural, utc};
use compile::View;
use config::{Config, Diagnostic, Hosts, StoreKind, Zone, ZoneView, trust};
use image::HashKey;
use serde::Serialize;
use server::data_folder::existing;
use source_file::{
    VERIFIED_MAX, ViewFile, ZoneFile, check_serial, check_signatures, lint, load_hosts,
    load_with_views, saved, seconds_now,
};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// What was found.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// Files that were checked.
    files: usize,
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
    /// Of a signed zone.
    signatures: Option<Signatures>,
}

/// The signatures of a zone.
#[derive(Debug, Serialize)]
struct Signatures {
    /// Record sets that need one.
    sets: usize,
    /// Those whose signature was verified; a sample of more than 10,000.
    verified: usize,
    /// When the first set loses its last signature, in seconds since 1970.
    expires_seconds: Option<i64>,
}

impl Signatures {
    fn describe(&self) -> String {
        let Self { sets, verified, expires_seconds } = *self;
        let until = expires_seconds.map(|at| format!(", valid until {}", utc(at as f64)));
        let sets = plural(sets, "signed record set");
        format!("; {sets}, {verified} verified{}", until.unwrap_or_default())
    }
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
    for file in command.config.iter().chain(&command.files) {
        report.config(file);
    }
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &report)?;
            writeln!(out)?;
        }
        Output::Text => report.write(&mut out, command.quiet, Paint::of_stdout())?,
    }
    let warned = command.strict && !report.warnings.is_empty();
    Ok(if report.errors.is_empty() && !warned { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Report {
    fn config(&mut self, file: &Path) {
        self.files += 1;
        match Config::load(Some(file)) {
            Ok(config) => {
                let has_names =
                    config.zones.len() + config.secondaries.len() + config.forwards.len() > 0;
                let has_store = config.store.kind != StoreKind::None;
                if !has_names && !has_store && config.hosts.files.is_empty() {
                    let wrong =
                        Diagnostic::of_file(file, "names no zone, so every query is refused");
                    let help = Some("add a section [[zone]] with its name and its file".into());
                    self.warnings.push(Diagnostic { help, ..wrong });
                }
                self.errors.extend(trust::load(&config).err());
                let startup = startup_check::check_startup(&config);
                self.errors.extend(startup.errors);
                self.warnings.extend(startup.warnings);
                let folder = config.server.data_dir.as_deref().map(existing);
                let copies = folder.as_deref().map(saved::folder);
                config.zones.iter().for_each(|zone| self.zone(zone, copies.as_deref()));
                self.hosts(&config.hosts);
            }
            Err(errors) => self.errors.extend(errors),
        }
    }

    fn hosts(&mut self, hosts: &Hosts) {
        // As for zones.
        let key = Arc::new(HashKey::new([1; image::HASH_KEY_WORDS]));
        self.files += hosts.files.len();
        for file in &hosts.files {
            match load_hosts(file, 0, &key, None) {
                Ok(source_file::LoadedHosts { names, cut_off, .. }) => {
                    self.warnings.extend(cut_off.as_ref().map(Diagnostic::from));
                    self.hosts.push(LoadedHosts { file: file.display().to_string(), names });
                }
                Err(failure) => self.errors.extend(failure.errors.iter().map(Diagnostic::from)),
            }
        }
    }

    fn zone(&mut self, zone: &Zone, copies: Option<&Path>) {
        self.files += 1;
        // Nothing is served from it: any key will do.
        let key = Arc::new(HashKey::new([1; image::HASH_KEY_WORDS]));
        let origin = zone.name.as_name();
        let of_view = |(n, of): (u8, &ZoneView)| ViewFile { view: View(n), file: of.file.clone() };
        let views: Vec<ViewFile> = (1..).zip(&zone.views).map(of_view).collect();
        self.files += views.len();
        let files = ZoneFile { origin: zone.name.clone(), file: zone.file.clone(), views };
        match load_with_views(&files, &key, None) {
            Ok((loaded, summary)) => {
                let before = self.warnings.len();
                let found = summary.warnings.iter().chain(&summary.cut_off);
                self.warnings.extend(found.map(Diagnostic::from));
                self.warnings.extend(lint(&zone.file, &loaded).iter().map(Diagnostic::from));
                self.warnings.extend(copies.and_then(|copies| serial(zone, &loaded, copies)));
                let signatures = self.signatures(&zone.file, &loaded);
                self.warnings[before..]
                    .sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
                self.zones.push(Loaded {
                    name: origin.to_string(),
                    file: zone.file.display().to_string(),
                    records: summary.records,
                    serial: loaded.serial(),
                    signatures,
                });
            }
            Err(failure) => self.errors.extend(failure.errors.iter().map(Diagnostic::from)),
        }
    }

    fn signatures(&mut self, file: &Path, zone: &compile::Zone) -> Option<Signatures> {
        let found = check_signatures(file, zone, seconds_now(), VERIFIED_MAX)?;
        self.warnings.extend(found.warnings.iter().map(Diagnostic::from));
        let expires_seconds = found.span.map(|span| span.expires_seconds);
        Some(Signatures { sets: found.sets, verified: found.verified, expires_seconds })
    }

    fn write(&self, out: &mut impl Write, quiet: bool, paint: Paint) -> io::Result<()> {
        for error in &self.errors {
            let place = paint.red(&error.place());
            writeln!(out, "{place}: {} [{}, {}]", error.story(), error.rule, error.source)?;
        }
        for warning in &self.warnings {
            let (place, word) = (warning.place(), paint.yellow("warning"));
            let Diagnostic { rule, source, .. } = warning;
            writeln!(out, "{place}: {word}: {} [{rule}, {source}]", warning.story())?;
        }
        if quiet {
            return Ok(());
        }
        for Loaded { name, file, records, signatures, .. } in &self.zones {
            let signatures = signatures.as_ref().map(Signatures::describe).unwrap_or_default();
            writeln!(out, "{file}: {name} is in order, {records} records{signatures}")?;
        }
        for LoadedHosts { file, names } in &self.hosts {
            writeln!(out, "{file}: a hosts file in order, {names} names")?;
        }
        let errors = plural(self.errors.len(), "error");
        let warnings = plural(self.warnings.len(), "warning");
        writeln!(out, "{errors}, {warnings} in {}", plural(self.files, "file"))
    }
}

/// What is to be said of a zone's serial beside that of the copy saved when it was last served.
fn serial(zone: &Zone, new: &compile::Zone, copies: &Path) -> Option<Diagnostic> {
    // A copy that cannot be read is the server's matter.
    let old = saved::differing(copies, new)?;
    check_serial(&zone.file, old.serial()?, new.serial()?).as_ref().map(Diagnostic::from)
}

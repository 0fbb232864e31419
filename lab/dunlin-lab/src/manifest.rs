//! `dunlin-lab manifest`: what this machine is, and in what two machines differ.
use clap::{Args, Subcommand};
use command_line::Output;
use command_line::{Side, align, plain};
use lab_host::machine::Machine;
use lab_host::manifest::{self, Difference, ManifestOptions, Software, diff, leaves};
use serde_json::Value;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Manifest {
    #[command(subcommand)]
    pub act: Option<Act>,
    #[command(flatten)]
    pub looked: ManifestArgs,
    /// Include the identity: host name, link addresses, the whole kernel command line.
    #[arg(long)]
    pub identify: bool,
    /// Write the manifest as text or as JSON; `diff` reads JSON.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// The parts of the machine to read.
#[derive(Args, Debug)]
pub struct ManifestArgs {
    /// A network device; may be given several times. Default: all devices that are up and have a
    /// link; if none has, all that are up.
    #[arg(long = "device", value_name = "DEVICE")]
    pub devices: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum Act {
    /// Show the differences between two manifests. Exit status 1 means that results of the two
    /// machines are not comparable.
    ///
    /// Irrelevant differences, such as the load, are shown last.
    #[command(after_help = "Examples:\n  \
        dunlin-lab manifest diff yesterday.json today.json\n  \
        dunlin-lab manifest diff -o json a b | jq '.[] | select(.matters).path'")]
    Diff(Diff),
}

#[derive(Args, Debug)]
pub struct Diff {
    /// First manifest, as `dunlin-lab manifest -o json` wrote it; or results that contain one, of
    /// `dunlin-lab load -o json` or `dunlin-lab compare --json`.
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The other.
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// Write the result as text or as JSON.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Does it.
///
/// # Errors
/// A device is not there, or a file is not a manifest.
pub fn run(command: &Manifest) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(Act::Diff(diff)) = &command.act {
        return compare(diff);
    }
    let look =
        ManifestOptions { devices: command.looked.devices.clone(), identify: command.identify };
    let manifest = manifest::Manifest::take(&Machine::this(), &look, software())?;
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&manifest)?)?,
        Output::Text => {
            let shown = leaves(&manifest).into_iter().filter(|(_, value)| !value.is_empty());
            let rows: Vec<_> = shown.map(|(path, value)| [path, plain(&value)]).collect();
            for line in align([Side::Left; 2], &rows) {
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// This program.
pub fn software() -> Software {
    Software {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("DUNLIN_COMMIT").unwrap_or("unknown").into(),
        rustc: env!("DUNLIN_RUSTC").into(),
        profile: env!("DUNLIN_PROFILE").into(),
        target_cpu: env!("DUNLIN_TARGET_CPU").into(),
    }
}

/// One that was written as JSON, by itself or with results: in the first line of a load's, in a
/// comparison's under its name.
///
/// # Errors
/// The file is none.
pub fn read(path: &Path) -> Result<manifest::Manifest, String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| told(&error))?;
    let first = text.lines().next().unwrap_or_default();
    let whole = [first, &text].into_iter().find_map(|text| serde_json::from_str(text).ok());
    let held = whole.as_ref().and_then(|whole: &Value| {
        let of_load = whole.get("machine");
        of_load.or_else(|| whole.get("manifest").filter(|manifest| manifest.is_object()))
    });
    let text = held.map_or(text, Value::to_string);
    manifest::Manifest::parse(&text).map_err(|error| told(&error))
}

fn compare(command: &Diff) -> Result<ExitCode, Box<dyn Error>> {
    let differ = diff(&read(&command.a)?, &read(&command.b)?);
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&differ)?)?,
        Output::Text => {
            let (matter, harmless): (Vec<_>, Vec<_>) = differ.iter().partition(|d| d.matters);
            write_differences(&mut out, "What matters is alike.", "These matter:", &matter)?;
            write_differences(&mut out, "", "These do not matter:", &harmless)?;
        }
    }
    let may_not = differ.iter().any(|difference| difference.matters);
    Ok(if may_not { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn write_differences(
    out: &mut impl Write,
    without: &str,
    with: &str,
    differ: &[&Difference],
) -> io::Result<()> {
    if differ.is_empty() {
        return if without.is_empty() { Ok(()) } else { writeln!(out, "{without}") };
    }
    writeln!(out, "{with}")?;
    let shown = |value: &Option<String>| plain(value.as_deref().unwrap_or("-"));
    let row = |d: &&Difference| [d.path.clone(), shown(&d.a), "→".into(), shown(&d.b)];
    let rows: Vec<_> = differ.iter().map(row).collect();
    for line in align([Side::Left; 4], &rows) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

//! `dunlin-lab doctor`: whether a figure that is taken here and now would be worth believing.
use super::manifest::{ManifestArgs, read, software};
use clap::Args;
use command_line::Output;
use command_line::plain;
use lab_host::doctor::{Finding, Purpose, Severity, judge};
use lab_host::machine::Machine;
use lab_host::manifest::{Manifest, ManifestOptions};
use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args, Debug)]
pub struct Doctor {
    /// CPUs of the server's threads, one per thread: check these CPUs, and whether they receive the
    /// packets.
    #[arg(long, value_name = "CPUS")]
    pub cpus: Option<cpu::CpuList>,
    #[command(flatten)]
    pub looked: ManifestArgs,
    /// Check a manifest that `dunlin-lab manifest -o json` wrote, instead of this machine.
    #[arg(long, value_name = "FILE", conflicts_with = "devices")]
    pub manifest: Option<PathBuf>,
    /// Write the result as text or as JSON.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Does it.
///
/// # Errors
/// A device is not there, or the file is not a manifest.
pub fn run(command: &Doctor) -> Result<ExitCode, Box<dyn Error>> {
    let manifest = match &command.manifest {
        Some(path) => read(path)?,
        None => {
            let look = ManifestOptions { devices: command.looked.devices.clone(), identify: false };
            Manifest::take(&Machine::this(), &look, software())?
        }
    };
    let found = judge(&manifest, &Purpose { cpus: command.cpus.clone() });
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?,
        Output::Text if found.is_empty() => writeln!(out, "Nothing is wrong with this machine.")?,
        Output::Text => found.iter().try_for_each(|finding| write_finding(&mut out, finding))?,
    }
    let is_invalid = found.iter().any(|finding| finding.severity == Severity::Invalid);
    Ok(if is_invalid { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn write_finding(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    writeln!(out, "{:<9}{}", finding.severity.name(), plain(&finding.what))?;
    writeln!(out, "   why   {}", plain(&finding.why))?;
    writeln!(out, "   do    {}", plain(&finding.remedy))
}

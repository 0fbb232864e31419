//! `dunlin cpus topology`: the machine, and the time between its CPUs.
use crate::cli::{Output, ShowTopology};
use crate::matrix::{self, Measured};
use crate::{draw, machine, write_json};
use cpu::CpuList;
use cpu_topology::measure::{self, Pair};
use cpu_topology::usage::{self, User};
use cpu_topology::{Relation, Topology};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// All there is.
#[derive(Serialize)]
struct Report {
    machine: Topology,
    /// Who uses which CPUs; none of a saved machine.
    users: Vec<User>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
}

/// Reads, measures if asked, and shows.
///
/// # Errors
/// The machine cannot be read, saved or measured, or the result cannot be written.
pub fn run(command: &ShowTopology) -> Result<ExitCode, Box<dyn Error>> {
    let machine = machine(command.sysfs.as_deref())?;
    let mut out = io::stdout().lock();
    if let Some(dir) = &command.save {
        cpu_topology::save(&machine, dir)
            .map_err(|error| format!("cannot save into {}: {error}", dir.display()))?;
        writeln!(out, "saved; show it by `dunlin cpus topology --sysfs {}`", dir.display())?;
        return Ok(ExitCode::SUCCESS);
    }
    let users = if command.sysfs.is_none() { usage::users() } else { Vec::new() };
    let measured = if command.measure { Some(measure(command, &machine)?) } else { None };
    let report = Report { machine, users, measured };
    match (command.output, &report.measured) {
        (Output::Json, _) => write_json(&mut out, &report)?,
        (Output::Text, Some(measured)) => matrix::write(&mut out, measured)?,
        (Output::Text, None) => draw::write(&mut out, &report.machine, &report.users)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(command: &ShowTopology, machine: &Topology) -> Result<Measured, Box<dyn Error>> {
    let allowed = machine.allowed.clone().unwrap_or_default();
    let cpus = command.cpus.clone().unwrap_or_else(|| allowed.clone());
    let other = cpus.difference(&allowed);
    if !other.is_empty() {
        let what = format!("--cpus: this process may not use CPU {other}; it may use {allowed}");
        return Err(what.into());
    }
    let pairs = measure_pairs(machine, &cpus, command.samples as usize)?;
    let medians = measure::class_medians(&pairs);
    let classes = Relation::ALL.map(|class| (class, medians.get(&class).copied()));
    Ok(Measured {
        cpus: cpus.iter().collect(),
        disagreements: measure::disagreements(&pairs),
        classes: classes.into(),
        pairs,
    })
}

fn measure_pairs(machine: &Topology, cpus: &CpuList, samples: usize) -> io::Result<Vec<Pair>> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} pairs, {eta} left");
    let bar = ProgressBar::new(0);
    if let Ok(style) = style {
        bar.set_style(style);
    }
    let pairs = measure::measure(machine, cpus, samples, |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    pairs
}

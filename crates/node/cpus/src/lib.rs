//! `dunlin cpus`: what the machine looks like, and which CPUs a request gets.
#![forbid(unsafe_code)]

#[allow(missing_docs, reason = "doc comments are help texts there")]
pub mod cli;
mod containers;
mod draw;
mod event_queue;
pub mod limits;
mod manage;
mod matrix;
mod metrics;
mod plan;
mod pod_events;
mod topology;
mod workers;

pub use workers::plan_workers;

use cli::{Cpus, CpusAct};
use cpu_topology::{ReadError, Topology};
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Does what the command line asks for.
///
/// # Errors
/// The machine cannot be read, the request cannot be met, or the result cannot be written.
pub fn run(command: &Cpus) -> Result<ExitCode, Box<dyn Error>> {
    match &command.act {
        CpusAct::Topology(command) => topology::run(command),
        CpusAct::Plan(command) => plan::run(command),
        CpusAct::Manage(command) => manage::run(command),
        CpusAct::Uninstall(command) => manage::undo(command),
    }
}

/// This machine, or a saved one.
fn machine(sysfs: Option<&Path>) -> Result<Topology, ReadError> {
    sysfs.map_or_else(cpu_topology::read, cpu_topology::read_saved)
}

fn write_json(out: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

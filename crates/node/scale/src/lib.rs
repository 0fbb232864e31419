//! `dunlin scale`: how many replicas DNS has.
#![forbid(unsafe_code)]

mod check;
#[allow(missing_docs, reason = "doc comments are help texts there")]
pub mod cli;
pub mod limits;
mod run;
mod simulate;

use cli::{Scale, ScaleAct};
use scale_rules::{Dialect, Params};
use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

/// Does what the command line asks for.
///
/// # Errors
/// The parameters or the trace are refused, or the result cannot be written.
pub fn run(command: &Scale) -> Result<ExitCode, Box<dyn Error>> {
    match &command.act {
        None => run::run(&command.run),
        Some(ScaleAct::Status(command)) => run::show(command),
        Some(ScaleAct::Simulate(command)) => simulate::run(command),
        Some(ScaleAct::Check(command)) => check::run(command),
    }
}

/// Reads parameters from a file, or from standard input as `-`.
fn read_params(path: &Path, dialect: Dialect) -> Result<Params, String> {
    let name =
        if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
    let text = read_bounded(path).map_err(|error| format!("{name}: {error}"))?;
    Params::from_file(&text, dialect).map_err(|error| format!("{name}: {error}"))
}

/// The text of a file of parameters, and a little more where it is too long.
fn read_bounded(path: &Path) -> io::Result<String> {
    let most = 2 * scale_rules::limits::PARAMS_BYTES_MAX as u64;
    let mut text = String::new();
    let mut input: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    };
    input.by_ref().take(most).read_to_string(&mut text)?;
    Ok(text)
}

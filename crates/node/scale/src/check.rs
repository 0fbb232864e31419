//! `dunlin scale check`: parameters and targets without a cluster.
use crate::cli::{Check, CheckPolicy, Output};
use crate::read_params;
use scale_rules::target::{Target, parse};
use scale_rules::{Dialect, Params};
use serde::Serialize;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// What is written.
#[derive(Serialize)]
struct Answer {
    valid: bool,
    mode: Option<&'static str>,
    targets: Vec<Target>,
    errors: Vec<String>,
}

/// Checks and tells. Exit status 1 says that something is refused.
///
/// # Errors
/// The answer cannot be written.
pub fn run(command: &Check) -> Result<ExitCode, Box<dyn Error>> {
    let dialect = match (command.policy, command.strict) {
        (Some(CheckPolicy::Cpa), _) => Dialect::Cpa,
        (None, true) => Dialect::Strict,
        (None, false) => Dialect::Lenient,
    };
    let mut errors = Vec::new();
    let mut keep = |error: String| errors.push(command_line::plain(&error));
    let params = command.params.as_ref().and_then(|path| {
        let params = read_params(path, dialect).and_then(|params| {
            in_cluster(params, dialect).map_err(|error| format!("{}: {error}", path.display()))
        });
        params.map_err(&mut keep).ok()
    });
    let targets = command.target.as_ref().and_then(|text| {
        parse(text, dialect).map_err(|error| format!("--target: {error}")).map_err(&mut keep).ok()
    });
    let answer = Answer {
        valid: errors.is_empty(),
        mode: params.as_ref().map(Params::mode),
        targets: targets.unwrap_or_default(),
        errors,
    };
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &answer)?;
            writeln!(out)?;
        }
        Output::Text => {
            if let Some(mode) = answer.mode {
                writeln!(out, "parameters of the mode {mode} are valid")?;
            }
            for target in &answer.targets {
                writeln!(out, "{target} is a target")?;
            }
            for error in &answer.errors {
                eprintln!("dunlin: {error}");
            }
        }
    }
    Ok(if answer.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Refuses modes that no cluster runs.
pub fn in_cluster(params: Params, dialect: Dialect) -> Result<Params, String> {
    let mode = params.mode();
    match &params {
        Params::Linear(_) | Params::Ladder(_) => Ok(params),
        Params::Load(_) if dialect != Dialect::Cpa => Ok(params),
        Params::Load(_) => {
            Err(format!("{mode}: the cluster-proportional-autoscaler knows linear and ladder only"))
        }
        Params::Eks(_) | Params::Hpa(_) => {
            Err(format!("{mode}: this mode is for simulations; expected linear, ladder or load"))
        }
    }
}

//! `dunlin scale simulate`: the same decisions with the clock of a trace.
use crate::cli::{Policy, Simulate};
use crate::read_params;
use scale_rules::limits::TRACE_LINE_BYTES_MAX;
use scale_rules::load::{Floor, Load};
use scale_rules::rivals::{Eks, Hpa};
use scale_rules::trace::Reader;
use scale_rules::{Dialect, Params, Scaler};
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::ExitCode;

/// Decides for each line, and writes a line for each.
///
/// # Errors
/// The parameters do not fit the policy, or a line is refused: lines before it have been decided.
pub fn run(command: &Simulate) -> Result<ExitCode, Box<dyn Error>> {
    let dialect = match (command.policy, command.strict) {
        (Some(Policy::Cpa), _) => Dialect::Cpa,
        (_, true) => Dialect::Strict,
        (_, false) => Dialect::Lenient,
    };
    let params = read_params(&command.params, dialect)?;
    let mut scaler = Scaler::new(fit(command.policy, params)?);
    let mut reader = Reader::new(command.replicas);
    let mut input: Box<dyn BufRead> = match command.trace == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(BufReader::new(
            File::open(&command.trace)
                .map_err(|error| format!("{}: {error}", command.trace.display()))?,
        )),
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut line = Vec::new();
    for number in 1.. {
        let place = || format!("{}:{number}", command.trace.display());
        line.clear();
        // One byte more than the maximum tells a line that is too long.
        let most = TRACE_LINE_BYTES_MAX as u64 + 1;
        input.by_ref().take(most).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            break;
        }
        if line.len() > TRACE_LINE_BYTES_MAX {
            let text = format!("{}: more than {TRACE_LINE_BYTES_MAX} bytes in a line", place());
            return Err(text.into());
        }
        let text = str::from_utf8(&line).map_err(|error| format!("{}: {error}", place()))?;
        if text.trim().is_empty() {
            continue;
        }
        let seen = reader.line(text).map_err(|error| format!("{}: {error}", place()))?;
        let decision = scaler.decide(&seen);
        reader.set_replicas(decision.replicas);
        serde_json::to_writer(&mut out, &decision)?;
        writeln!(out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The parameters as the policy takes them: `eks` and `hpa` need none of their own, `linear` and
/// `ladder` are also the floor of `load`.
fn fit(policy: Option<Policy>, params: Params) -> Result<Params, String> {
    let Some(policy) = policy else { return Ok(params) };
    let mode = params.mode();
    let fitted = match (policy, params) {
        (Policy::Linear, Params::Load(load)) => match load.floor {
            Some(Floor::Linear(linear)) => Some(Params::Linear(linear)),
            _ => None,
        },
        (Policy::Ladder, Params::Load(load)) => match load.floor {
            Some(Floor::Ladder(ladder)) => Some(Params::Ladder(ladder)),
            _ => None,
        },
        (Policy::Eks, Params::Eks(eks)) => Some(Params::Eks(eks)),
        (Policy::Eks, Params::Load(load)) => Some(Params::Eks(eks(&load))),
        (Policy::Eks, Params::Linear(_) | Params::Ladder(_)) => Some(Params::Eks(Eks::default())),
        (Policy::Hpa, Params::Hpa(hpa)) => Some(Params::Hpa(hpa)),
        (Policy::Hpa, Params::Load(load)) => Some(Params::Hpa(hpa(&load))),
        (Policy::Linear | Policy::Cpa, params @ Params::Linear(_))
        | (Policy::Ladder | Policy::Cpa, params @ Params::Ladder(_))
        | (Policy::Load, params @ Params::Load(_)) => Some(params),
        _ => None,
    };
    let name = match policy {
        Policy::Cpa => "the policy cpa needs linear or ladder",
        Policy::Hpa => "the policy hpa needs load or hpa, which name the capacity",
        Policy::Linear => "the policy linear needs linear, or load with that floor",
        Policy::Ladder => "the policy ladder needs ladder, or load with that floor",
        Policy::Load => "the policy load needs load",
        Policy::Eks => "the policy eks needs eks, or the parameters of another policy",
    };
    fitted.ok_or_else(|| format!("--params holds {mode}; {name}"))
}

fn eks(load: &Load) -> Eks {
    Eks { min: load.min, max: load.max, ..Eks::default() }
}

fn hpa(load: &Load) -> Hpa {
    Hpa { capacity: load.capacity, min: load.min, max: load.max, ..Hpa::default() }
}

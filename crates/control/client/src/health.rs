//! `dunlin health`, `drain`, `restore`, `force-down` and `force-up`: the health of addresses.
use crate::cli::{self, Output};
use crate::local::LocalClient;
use crate::remote::client::CommandResult;
use crate::remote::confirm;
use command_line::{Side, align, plain, plural};
use health::{HealthReport, TargetReport};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;

/// Targets per request.
const PAGE: usize = api::limits::PAGE_MAX;

/// Shows the targets of checks.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Health) -> CommandResult<ExitCode> {
    let cli::Health { server, .. } = command;
    let body = all_pages(&LocalClient::new(&server.local)?, command)?;
    let mut out = io::stdout().lock();
    if server.output == Output::Json {
        serde_json::to_writer_pretty(&mut out, &body)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let report: HealthReport = serde_json::from_value(body)
        .map_err(|why| format!("the server sent something else than its health: {why}"))?;
    write_report(&mut out, &report)?;
    Ok(ExitCode::SUCCESS)
}

/// The targets of all pages, up to the limit, in the form of one page.
fn all_pages(client: &LocalClient, command: &cli::Health) -> CommandResult<Value> {
    let cli::Health { name, check, state, limit, server: _ } = command;
    let filters = [("name", name), ("check", check), ("state", state)];
    let filters = filters.into_iter().filter_map(|(key, value)| Some((key, value.clone()?)));
    let filters: Vec<_> = filters.collect();
    let (mut targets, mut after) = (Vec::new(), None);
    loop {
        let left = limit.map_or(PAGE, |limit| (limit - targets.len()).min(PAGE));
        let mut parameters = filters.clone();
        parameters.push(("limit", left.to_string()));
        parameters.extend(after.map(|after| ("after", after)));
        let mut page = client.health(&parameters)?;
        if let Value::Array(more) = page["targets"].take() {
            targets.extend(more);
        }
        after = page["next"].as_str().map(str::to_owned);
        if after.is_none() || limit.is_some_and(|limit| targets.len() >= limit) {
            page["targets"] = targets.into();
            return Ok(page);
        }
    }
}

fn write_report(out: &mut impl Write, report: &HealthReport) -> io::Result<()> {
    let head = ["ADDRESS", "CHECK", "STATE", "SINCE", "NEXT", "SETS", "REASON"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(report.targets.iter().map(row));
    use Side::{Left, Right};
    for line in align([Left, Left, Left, Left, Right, Right, Left], &rows) {
        writeln!(out, "{line}")?;
    }
    if report.has_more {
        writeln!(out, "there are more: a larger --limit shows them")?;
    }
    if report.not_taken > 0 {
        let more = plural(report.not_taken, "address");
        writeln!(out, "{more} more are not probed: there are too many for this server")?;
    }
    if report.open_sets > 0 {
        let sets = plural(report.open_sets, "record set");
        writeln!(
            out,
            "too few addresses of {sets} are up, so addresses that are down are answered"
        )?;
    }
    if report.suspects_itself {
        writeln!(out, "all addresses that are up fail now: is the network of this host down?")?;
    }
    if let Some(why) = &report.not_saved {
        writeln!(out, "states are not saved: {}", plain(why))?;
    }
    Ok(())
}

fn row(target: &TargetReport) -> [String; 7] {
    let since = i64::try_from(target.since_seconds).ok().filter(|seconds| *seconds > 0);
    let since = since.and_then(|seconds| Timestamp::from_second(seconds).ok());
    let (state, reason) = match &target.operator {
        None => {
            let reason = target.reason.clone().or_else(|| target.warning.clone());
            let reason = disagreement(target).or(reason);
            (target.state.clone(), reason.unwrap_or_default())
        }
        Some(set) => {
            let why = if set.why.is_empty() { String::new() } else { format!(": {}", set.why) };
            (format!("{} ({})", set.state.word(), target.state), format!("by {}{why}", set.by))
        }
    };
    let next = target.next_probe_seconds.map(|seconds| format!("{seconds}s"));
    [
        target.address.to_string(),
        plain(&target.check),
        state,
        since.map_or_else(|| "-".into(), |since| since.to_string()),
        next.unwrap_or_else(|| "-".into()),
        target.sets.to_string(),
        plain(&reason),
    ]
}

/// What each server that probes a target says; `None`: all say the same.
fn disagreement(target: &TargetReport) -> Option<String> {
    target.vantages.iter().find(|vantage| vantage.state != target.state)?;
    let each = target.vantages.iter().map(|vantage| {
        let reason = vantage.reason.as_ref().map(|why| format!(" ({why})"));
        format!("{}: {}{}", vantage.server, vantage.state, reason.unwrap_or_default())
    });
    Some(each.collect::<Vec<_>>().join(", "))
}

/// Sets the state of an address: `drain`, `force-down`, `force-up`, or `auto` to restore it.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn set(command: &cli::Endpoint, state: &str) -> CommandResult<ExitCode> {
    let cli::Endpoint { address, check, reason, yes, any, server } = command;
    let client = LocalClient::new(&server.local)?;
    let body = |even_last: bool| {
        json!({
            "state": state, "check": check, "even_last": even_last, "any": any,
            "reason": reason.as_deref().unwrap_or_default(),
        })
    };
    let told: Value = match client.set_endpoint(*address, body(*yes)) {
        Ok(told) => told,
        Err(why) if why.is_conflict() => {
            confirm(false, &why.to_string())?;
            client.set_endpoint(*address, body(true))?
        }
        Err(why) => return Err(why.into()),
    };
    let mut out = io::stdout().lock();
    match server.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &told)?;
            writeln!(out)?;
        }
        Output::Text => {
            let check = check.as_ref().map(|check| format!(" for the check {check}"));
            let check = check.unwrap_or_default();
            match state {
                "auto" => writeln!(out, "{address} follows its checks again{check}")?,
                state => writeln!(out, "{address} is set to {state}{check}")?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

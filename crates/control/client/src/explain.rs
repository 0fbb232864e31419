//! `dunlin explain`: why a client gets an answer.
use crate::cli::{self, Output};
use crate::local::LocalClient;
use command_line::{Side, align, plain, utc};
use server_status::explain::{ExplainedMember, ExplainedSet, Explanation};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Sends the query to the server and prints the explanation.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Explain) -> Result<ExitCode, Box<dyn Error>> {
    let client = LocalClient::new(&command.server.local)?;
    let explanation = client.explain(
        (&command.name, &command.rtype),
        command.client,
        command.location.as_deref(),
    )?;
    let mut out = io::stdout().lock();
    match command.server.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &explanation)?;
            writeln!(out)?;
        }
        Output::Text => write_text(&mut out, &explanation)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write_text(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    let Explanation { name, rtype, client, rcode, answer, sets, .. } = explanation;
    write!(out, "{} {} for {client}", plain(name), plain(rtype))?;
    let Explanation { network, view, location, denied, zone, .. } = explanation;
    for (what, of) in [("in network", network), ("in view", view), ("at", location)] {
        if let Some(of) = of {
            write!(out, " {what} {}", plain(of))?;
        }
    }
    writeln!(out, ": {rcode}")?;
    if *denied {
        writeln!(out, "the network denies the name")?;
    } else if zone.is_none() {
        writeln!(out, "no zone has the name: it is forwarded, or refused")?;
    }
    for record in answer {
        let (name, data) = (plain(&record.name), plain(&record.data));
        writeln!(out, "  {name} {} {} {data}", record.ttl, plain(&record.rtype))?;
    }
    sets.iter().try_for_each(|set| write_set(out, set))
}

fn write_set(out: &mut impl Write, set: &ExplainedSet) -> io::Result<()> {
    let ExplainedSet { name, rtype, policy, order, max, members } = set;
    let max = max.map_or_else(String::new, |max| format!(", max {max}"));
    let rules = format!("policy {}, order {}{max}", plain(policy), plain(order));
    writeln!(out, "\n{} {}: {rules}", plain(name), plain(rtype))?;
    let head = ["MEMBER", "STATE", "TIER", "WEIGHT", "LOCATION", "LEFT OUT BY"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(members.iter().map(row));
    let sides = [Side::Left, Side::Left, Side::Right, Side::Right, Side::Left, Side::Left];
    align(sides, &rows).iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn row(member: &ExplainedMember) -> [String; 6] {
    let ExplainedMember { data, state, tier, weight, ramp, location, dropped } = member;
    let weight = match ramp {
        Some(ramp) => {
            format!("{weight} ({} to {} at {})", ramp.from, ramp.to, utc(ramp.end_seconds as f64))
        }
        None => weight.to_string(),
    };
    let text = |text: &Option<String>| text.as_deref().map_or_else(String::new, plain);
    [plain(data), text(state), tier.to_string(), weight, text(location), text(dropped)]
}

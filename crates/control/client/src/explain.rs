//! `dunlin explain`: why a client gets an answer.
use crate::cli::{self, Output};
use crate::local::LocalClient;
use command_line::{Side, align, plain, utc};
use server_status::command::{CachedAnswer, ThreadCacheEntry};
use server_status::explain::{
    ExplainedForward, ExplainedMember, ExplainedSet, ExplainedSubnet, Explanation,
};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Sends the query to the server and prints the explanation.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Explain) -> Result<ExitCode, Box<dyn Error>> {
    let client = LocalClient::new(&command.server.local)?;
    let address = command.client.to_string();
    let mut parameters =
        vec![("name", &*command.name), ("type", &*command.rtype), ("client", &*address)];
    parameters.extend(command.ecs.as_deref().map(|ecs| ("ecs", ecs)));
    parameters.extend(command.location.as_deref().map(|path| ("location", path)));
    let explanation = client.explain(&parameters)?;
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
    let Explanation { subnet, rule, forward, .. } = explanation;
    for (what, of) in [("in network", network), ("in view", view), ("at", location)] {
        if let Some(of) = of {
            write!(out, " {what} {}", plain(of))?;
        }
    }
    writeln!(out, ": {}", rcode.as_deref().map_or_else(|| "forwarded".to_owned(), plain))?;
    if let Some(ExplainedSubnet { subnet, is_trusted, scope }) = subnet {
        let scope =
            scope.map_or_else(String::new, |scope| format!(", the answer holds for /{scope}"));
        let counts =
            if *is_trusted { "counts" } else { "is ignored: [ecs] trust lacks the client" };
        writeln!(out, "client subnet {}: it {counts}{scope}", plain(subnet))?;
    }
    if let Some(rule) = rule {
        writeln!(out, "rule of the network: {}", plain(rule))?;
    }
    match forward {
        Some(forward) => write_forward(out, forward)?,
        None if zone.is_none() && !denied => writeln!(out, "no zone has the name")?,
        None => {}
    }
    for record in answer {
        let (name, data) = (plain(&record.name), plain(&record.data));
        writeln!(out, "  {name} {} {} {data}", record.ttl, plain(&record.rtype))?;
    }
    sets.iter().try_for_each(|set| write_set(out, set))
}

/// Who is asked, and what is cached.
fn write_forward(out: &mut impl Write, forward: &ExplainedForward) -> io::Result<()> {
    let ExplainedForward { name, suffix, servers, cached } = forward;
    let servers: Vec<String> = servers.iter().map(|server| plain(server)).collect();
    let (name, suffix) = (plain(name), plain(suffix));
    writeln!(out, "{name} is forwarded by the rule {suffix} to {}", servers.join(", "))?;
    if cached.is_empty() {
        writeln!(out, "no thread has cached it")?;
    }
    for ThreadCacheEntry { thread, answers, .. } in cached {
        for CachedAnswer { rcode, records, age, ttl, .. } in answers {
            let (thread, rcode) = (plain(thread), plain(rcode));
            writeln!(out, "cached by {thread}: {rcode}, {records} records, {age} of {ttl} s")?;
        }
    }
    Ok(())
}

fn write_set(out: &mut impl Write, set: &ExplainedSet) -> io::Result<()> {
    let ExplainedSet { name, rtype, view, alias, policy, order, max, members } = set;
    let max = max.map_or_else(String::new, |max| format!(", max {max}"));
    let of = |what: &str, of: &Option<String>| {
        of.as_deref().map_or_else(String::new, |of| format!(", {what} {}", plain(of)))
    };
    let (view, alias) = (of("of the view", view), of("addresses of", alias));
    let rules = format!("policy {}, order {}{max}{view}{alias}", plain(policy), plain(order));
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

//! `dunlin fleet`: the servers that share a store.
use crate::cli::{self, Adopt, FleetCommand, Output, Retire};
use crate::local::LocalClient;
use crate::remote::client::CommandResult;
use crate::remote::confirm;
use command_line::{Side, align, count, plain, plural, span};
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;

/// Sends the command to the server and prints the result.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Fleet) -> CommandResult<ExitCode> {
    match &command.command {
        Some(FleetCommand::Adopt(command)) => adopt(command),
        Some(FleetCommand::Retire(command)) => retire(command),
        None => show(&command.server),
    }
}

fn show(server: &cli::AdminServer) -> CommandResult<ExitCode> {
    let fleet = LocalClient::new(&server.local)?.fleet()?;
    let mut out = io::stdout().lock();
    match server.output {
        Output::Json => write_json(&mut out, &fleet)?,
        Output::Text => out.write_all(text(&fleet).as_bytes())?,
    }
    let is_right = fleet["fault"].is_null() && fleet["difference"].is_null();
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The form that a member says it knows.
fn form(number: u64) -> String {
    if number == 0 { "-".into() } else { number.to_string() }
}

/// The members as a table, and what is wrong.
fn text(fleet: &Value) -> String {
    let words = |value: &Value| match value {
        Value::Array(words) => {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).map(plain).collect();
            words.join(" ")
        }
        value => plain(value.as_str().unwrap_or_default()),
    };
    let head =
        ["NAME", "REVISION", "BEHIND", "AGE", "ROLES", "ADDRESSES", "VERSION", "FORM", "LOCATION"];
    let members = || fleet["members"].as_array().into_iter().flatten();
    let newest = members().filter_map(|member| member["form"].as_u64()).max().unwrap_or_default();
    let may_rise = fleet["form"].as_u64().is_some_and(|form| form < newest);
    let mut rows = vec![head.map(str::to_owned)];
    let mut faults = Vec::new();
    for member in members() {
        let number = |key: &str| member[key].as_u64().unwrap_or_default();
        let name = words(&member["name"]);
        if let Some(ahead) = member["clock_ahead_seconds"].as_i64() {
            let how = if ahead > 0 { "ahead" } else { "behind" };
            let seconds = span(ahead.unsigned_abs() as f64);
            faults.push(format!(
                "the clock of {name} is {seconds} {how}: synchronize it, for example by chrony\n"
            ));
        }
        if may_rise && number("form") < newest {
            faults.push(format!(
                "{name} does not know form {newest}, and holds back `dunlin store upgrade`\n"
            ));
        }
        rows.push([
            name,
            number("revision").to_string(),
            count(number("behind")),
            span(number("age_seconds") as f64),
            words(&member["roles"]),
            words(&member["addresses"]),
            words(&member["version"]),
            form(number("form")),
            words(&member["location"]),
        ]);
    }
    if let Some(fault) = fleet["fault"].as_str() {
        faults.push(format!("this server is not a member: {}\n", plain(fault)));
    }
    if let Some(difference) = fleet["difference"].as_str() {
        faults.push(format!("{}\n", plain(difference)));
    }
    let sides = [
        Side::Left,
        Side::Right,
        Side::Right,
        Side::Right,
        Side::Left,
        Side::Left,
        Side::Left,
        Side::Right,
        Side::Left,
    ];
    let lines = align(sides, &rows).into_iter().map(|line| line + "\n");
    lines.chain(faults).collect()
}

fn adopt(command: &Adopt) -> CommandResult<ExitCode> {
    let what = "replace the servers' records with those in etcd: records that are not in etcd are \
                lost";
    confirm(command.yes, what)?;
    let receipt = LocalClient::new(&command.server.local)?.adopt()?;
    let mut out = io::stdout().lock();
    match command.server.output {
        Output::Json => write_json(&mut out, &receipt)?,
        Output::Text => writeln!(out, "etcd is adopted, as revision {}", receipt["revision"])?,
    }
    Ok(ExitCode::SUCCESS)
}

fn retire(command: &Retire) -> CommandResult<ExitCode> {
    let (client, name) = (LocalClient::new(&command.server.local)?, &command.cluster);
    let content = |part: &Value| {
        let number = |key: &str| part[key].as_u64().unwrap_or_default() as usize;
        let (services, objects) = (number("services"), number("objects"));
        format!("{} ({} in all)", plural(services, "service"), plural(objects, "object"))
    };
    let part = client.cluster(name)?;
    // What is refused anyway is not asked for.
    if part["leader"].is_null() && part["objects"].as_u64() > Some(0) {
        let name = plain(name);
        let what = format!("remove the cluster {name} with its {} from etcd", content(&part));
        confirm(command.yes, &what)?;
    }
    let retired = client.retire(name)?;
    let mut out = io::stdout().lock();
    match command.server.output {
        Output::Json => write_json(&mut out, &retired)?,
        Output::Text => {
            writeln!(
                out,
                "the cluster {} is retired: {} are gone",
                plain(name),
                content(&retired)
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_json(out: &mut impl Write, value: &Value) -> CommandResult<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(writeln!(out)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_a_table_and_faults_follow() {
        let member = |name: &str, revision: u64, behind: u64| {
            json!({
                "name": name, "revision": revision, "behind": behind, "age_seconds": 3_700,
                "roles": ["dns", "api"], "addresses": ["192.0.2.1:53"], "version": "0.1.0",
                "location": "here\u{1b}[0m", "form": 6,
            })
        };
        let mut late = member("b", 7, 1_000);
        late["form"] = json!(5);
        late["clock_ahead_seconds"] = json!(-180);
        let members = [member("a", 1_007, 0), late];
        let (fault, difference) = ("the name", "b is");
        let fleet = json!({
            "members": members, "fault": fault, "difference": difference, "form": 5
        });
        let text = text(&fleet);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("NAME"), "{text}");
        assert!(lines[2].starts_with('b') && lines[2].contains("1,000"), "{text}");
        assert!(lines[1].contains("dns api") && !text.contains('\u{1b}'), "{text}");
        assert!(lines[3].starts_with("the clock of b is") && lines[3].contains("behind"), "{text}");
        assert_eq!(lines[4], "b does not know form 6, and holds back `dunlin store upgrade`");
        assert_eq!(lines[5..], ["this server is not a member: the name", "b is"]);
    }
}

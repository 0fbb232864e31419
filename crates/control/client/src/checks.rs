//! `dunlin checks`: the checks that addresses are probed by.
use crate::cli::{self, ChecksCommand, Output};
use crate::local::LocalClient;
use crate::remote::client::CommandResult;
use command_line::{Side, align, plain};
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::process::ExitCode;

/// Keys whose values are numbers, if they look like one.
const NUMBERS: [&str; 5] = ["port", "rise", "fall", "jitter", "status"];

/// Lists, sets or deletes checks.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Checks) -> CommandResult<ExitCode> {
    let mut out = io::stdout().lock();
    match &command.command {
        ChecksCommand::List(server) => {
            let body = LocalClient::new(&server.local)?.checks()?;
            match server.output {
                Output::Json => json(&mut out, &body)?,
                Output::Text => write_checks(&mut out, &body)?,
            }
        }
        ChecksCommand::Set { name, keys, server } => {
            let keys = keys.iter().map(|pair| key(pair)).collect::<Result<_, _>>()?;
            let body = LocalClient::new(&server.local)?.put_check(name, Value::Object(keys))?;
            match server.output {
                Output::Json => json(&mut out, &body)?,
                Output::Text => writeln!(out, "the check {} is set", plain(name))?,
            }
        }
        ChecksCommand::Delete { name, server } => {
            LocalClient::new(&server.local)?.delete_check(name)?;
            match server.output {
                Output::Json => json(&mut out, &serde_json::json!({ "deleted": name }))?,
                Output::Text => writeln!(out, "the check {} is deleted", plain(name))?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn json(out: &mut impl Write, body: &Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, body)?;
    writeln!(out)
}

/// A key and its value, as JSON has it.
fn key(pair: &str) -> Result<(String, Value), String> {
    let Some((key, value)) = pair.split_once('=') else {
        return Err(format!("{:?} is not a key and its value: write KEY=VALUE", plain(pair)));
    };
    let value = match value.parse::<u64>() {
        Ok(number) if NUMBERS.contains(&key) => number.into(),
        _ if key == "tls" => value.parse().map_or_else(|_| value.into(), Value::Bool),
        _ => value.into(),
    };
    Ok((key.to_owned(), value))
}

fn write_checks(out: &mut impl Write, body: &Value) -> CommandResult<()> {
    let checks = body["checks"].as_array().ok_or("the server sent something else than checks")?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut rows = vec![["CHECK", "DEFINED IN", "KEYS"].map(str::to_owned)];
    for check in checks {
        let none = Map::new();
        let keys = check["keys"].as_object().unwrap_or(&none);
        // An empty text is the default of its key.
        let keys = keys.iter().map(|(key, value)| (key, text(value)));
        let keys = keys.filter(|(_, value)| !value.is_empty());
        let keys: Vec<_> = keys.map(|(key, value)| format!("{key}={}", plain(&value))).collect();
        rows.push([plain(&text(&check["check"])), text(&check["defined_in"]), keys.join(" ")]);
    }
    for line in align([Side::Left; 3], &rows) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

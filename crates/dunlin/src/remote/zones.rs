//! `dunlin zones`.
use super::client::{Anyhow, Ask, Remote, part};
use super::{confirm, snapshot, write_json};
use crate::cli::{self, Api, Output, ZonesAct};
use crate::human::{Side, align, count, plain, plural};
use hyper::Method;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;

/// Zones that are asked for at a time.
const PAGE: usize = api::limits::PAGE_MAX;

/// Asks the server, and tells what came of it.
///
/// # Errors
/// When the server cannot be reached or refuses, or the result not be written.
pub fn run(command: &cli::Zones) -> Anyhow<ExitCode> {
    match &command.act {
        ZonesAct::List(server) => list(server)?,
        ZonesAct::Show(one) => {
            let ask = Ask::new(Method::GET, path(&one.zone));
            let zone = Remote::new(&one.server)?.ask(ask)?.body;
            match one.server.output {
                Output::Json => write_json(&zone)?,
                Output::Text => write_zones(&mut io::stdout().lock(), &[zone])?,
            }
        }
        ZonesAct::Create(create) => {
            let mut ask = Ask::new(Method::PUT, format!("{}?wait=live", path(&create.zone)));
            ask.body = Some(json!({ "nameservers": create.nameservers }));
            tell(&create.server, ask, "made")?;
        }
        ZonesAct::Delete(delete) => {
            let one = &delete.zone;
            let there = Remote::new(&one.server)?.ask(Ask::new(Method::GET, path(&one.zone)))?.body;
            if there["owner"] == "store" {
                let sets = there["rrsets"].as_u64().unwrap_or_default() as usize;
                let (zone, sets) = (plain(&one.zone), plural(sets, "record set"));
                confirm(delete.yes, &format!("delete {zone} and its {sets}"))?;
            }
            let ask = Ask::new(Method::DELETE, format!("{}?wait=live", path(&one.zone)));
            tell(&one.server, ask, "deleted")?;
        }
        ZonesAct::Snapshot(take) => snapshot::take(take)?,
        ZonesAct::Restore(restore) => snapshot::restore(restore)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The path of a zone.
pub fn path(zone: &str) -> String {
    format!("/v1/zones/{}", part(zone))
}

fn tell(server: &Api, ask: Ask<'_>, done: &str) -> Anyhow<()> {
    let receipt = Remote::new(server)?.ask(ask)?.body;
    match server.output {
        Output::Json => write_json(&receipt)?,
        Output::Text => {
            let mut out = io::stdout().lock();
            writeln!(out, "{done}, and live as revision {}", receipt["revision"])?;
        }
    }
    Ok(())
}

fn list(server: &Api) -> Anyhow<()> {
    let remote = Remote::new(server)?;
    let mut zones = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/v1/zones?limit={PAGE}{after}");
        let mut page = remote.ask(Ask::new(Method::GET, path))?.body;
        if let Value::Array(more) = page["zones"].take() {
            zones.extend(more);
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", part(next)),
            None => break,
        }
    }
    match server.output {
        Output::Json => write_json(&json!({ "zones": zones }))?,
        Output::Text => write_zones(&mut io::stdout().lock(), &zones)?,
    }
    Ok(())
}

fn write_zones(out: &mut impl Write, zones: &[Value]) -> io::Result<()> {
    let head = ["ZONE", "OWNER", "SERIAL", "REVISION", "RECORD SETS"];
    let mut rows = vec![head.map(str::to_owned)];
    let number = |value: &Value| value.as_u64().map_or("-".to_owned(), |number| number.to_string());
    for zone in zones {
        let name = plain(zone["name"].as_str().unwrap_or_default());
        let owner = match zone["file"].as_str() {
            Some(file) => plain(file),
            None => plain(zone["owner"].as_str().unwrap_or_default()),
        };
        let sets = zone["rrsets"].as_u64().map_or("-".to_owned(), count);
        rows.push([name, owner, number(&zone["serial"]), number(&zone["revision"]), sets]);
    }
    use Side::{Left, Right};
    for line in align([Left, Left, Right, Right, Right], &rows) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_a_table() {
        let zones = [
            json!({ "name": "a.", "owner": "store", "serial": 7, "revision": 7, "rrsets": 12_345 }),
            json!({ "name": "b.", "owner": "file", "file": "/b.zone", "serial": null }),
        ];
        let mut out = Vec::new();
        write_zones(&mut out, &zones).expect("a Vec takes all");
        let lines = String::from_utf8(out).expect("text");
        let lines: Vec<Vec<&str>> =
            lines.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1][..4], ["a.", "store", "7", "7"]);
        assert_eq!(lines[2], ["b.", "/b.zone", "-", "-", "-"]);
    }
}

//! `dunlin zones`: lists, creates, deletes and accepts zones.
use super::client::{ApiClient, ApiRequest, ApiResponse, CommandResult, path_segment};
use super::{all_zones, byte_bar, condition, confirm, query, snapshot, write_json};
use crate::cli::{self, Api, CreateZone, Output, ZonesCommand};
use crate::local::LocalClient;
use command_line::{Side, align, count, plain, plural};
use hyper::Method;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;
use store::SalvageStore;
use wire::NameBuf;

/// Sends the command to the server and prints the result. `salvage_store` reads a damaged store
/// without a server: this crate knows no kind of store.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Zones, salvage_store: SalvageStore) -> CommandResult<ExitCode> {
    match &command.command {
        ZonesCommand::List(server) => list(server)?,
        ZonesCommand::Show(one) => {
            let request = ApiRequest::new(Method::GET, zone_path(&one.zone));
            let zone = ApiClient::new(&one.server)?.request(request)?.body;
            match one.server.output {
                Output::Json => write_json(&zone)?,
                Output::Text => write_zones(&mut io::stdout().lock(), &[zone])?,
            }
        }
        ZonesCommand::Create(create) => {
            let query = query(create.reason.as_ref());
            let mut request =
                ApiRequest::new(Method::PUT, format!("{}?{query}", zone_path(&create.zone)));
            let servers = name_servers(create)?;
            if read_name(&create.zone)?.as_name().is_root() {
                let what = "create the root zone: every name that is in no other zone becomes \
                            NXDOMAIN, and nothing is forwarded any more";
                confirm(create.yes, what)?;
            }
            request.body = Some(json!({ "nameservers": servers }));
            write(&create.server, request, "created")?;
        }
        ZonesCommand::Delete(delete) => {
            let one = &delete.zone;
            let ApiResponse { body: there, tag } = ApiClient::new(&one.server)?
                .request(ApiRequest::new(Method::GET, zone_path(&one.zone)))?;
            if there["owner"] == "store" {
                let sets = there["rrsets"].as_u64().unwrap_or_default() as usize;
                let (zone, sets) = (plain(&one.zone), plural(sets, "record set"));
                confirm(delete.yes, &format!("delete {zone} and its {sets}"))?;
            }
            let query = query(delete.options.reason.as_ref());
            let mut request =
                ApiRequest::new(Method::DELETE, format!("{}?{query}", zone_path(&one.zone)));
            request.fields = condition(&delete.options, tag);
            write(&one.server, request, "deleted")?;
        }
        ZonesCommand::Accept(accept) => return crate::accept::run(accept),
        ZonesCommand::Dump(dump) => {
            let bar = byte_bar(None);
            let each = |len| bar.inc(len as u64);
            let mut out = io::stdout().lock();
            LocalClient::new(&dump.local)?.dump(&dump.zone, &mut out, each)?;
            bar.finish_and_clear();
        }
        ZonesCommand::Snapshot(take) => snapshot::take(take)?,
        ZonesCommand::Restore(restore) => snapshot::restore(restore)?,
        ZonesCommand::Salvage(salvage) => snapshot::salvage(salvage, salvage_store)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The name servers of a new zone, as absolute names.
fn name_servers(create: &CreateZone) -> Result<Vec<String>, String> {
    let servers = create.nameservers.iter();
    servers.map(|text| Ok(read_name(text)?.to_string())).collect()
}

/// The path of a zone in the API.
pub fn zone_path(zone: &str) -> String {
    format!("/v1/zones/{}", path_segment(zone))
}

/// Reads an absolute name.
///
/// # Errors
/// The text is not a domain name.
pub fn read_name(text: &str) -> Result<NameBuf, String> {
    zonefile::read_name(text).map_err(|fault| format!("{text:?} {fault}"))
}

fn write(server: &Api, request: ApiRequest<'_>, done: &str) -> CommandResult<()> {
    let receipt = ApiClient::new(server)?.request(request)?.body;
    super::warn(&receipt);
    match server.output {
        Output::Json => write_json(&receipt)?,
        Output::Text => {
            let mut out = io::stdout().lock();
            writeln!(out, "{done}, and live as revision {}", receipt["revision"])?;
        }
    }
    Ok(())
}

fn list(server: &Api) -> CommandResult<()> {
    let zones = all_zones(&ApiClient::new(server)?)?;
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
    fn zones_are_listed_as_a_table() {
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

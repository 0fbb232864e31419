//! `dunlin journal revert`: undoes a write, as far as nothing has changed since.
use super::super::all_zones;
use super::super::client::{ApiClient, ApiRequest, CommandResult};
use super::super::zones::zone_path;
use super::super::{condition, confirm, query, warn, write_json};
use super::write_changes;
use crate::cli::{Output, RevertWrite};
use command_line::{plain, plural};
use hyper::Method;
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;

/// Shows what a revert changes, and makes it. The exit status is 0 if all of the write was undone.
///
/// # Errors
/// The server cannot be reached or refuses, no zone has this revision, or the result cannot be
/// written.
pub fn run(revert: &RevertWrite) -> CommandResult<ExitCode> {
    let api = ApiClient::new(&revert.server)?;
    let zone = match &revert.zone {
        Some(zone) => zone.clone(),
        None => find_zone(&api, revert.revision)?,
    };
    let path = format!("{}/journal/{}/revert", zone_path(&zone), revert.revision);
    let mut result = post(&api, revert, format!("{path}?dry_run=true"))?;
    let is_text = revert.server.output == Output::Text;
    let mut out = io::stdout().lock();
    if is_text {
        write_changes(&mut out, &result["undone"])?;
    }
    let count = len(&result["undone"]);
    if count > 0 && !revert.dry_run {
        confirm(revert.yes, &format!("undo the change of {}", plural(count, "record set")))?;
        let query = query(revert.options.reason.as_ref());
        result = post(&api, revert, format!("{path}?{query}"))?;
        warn(&result);
    }
    match is_text {
        true => write_result(&mut out, &result, &zone)?,
        false => write_json(&result)?,
    }
    let is_done = len(&result["not_undone"]) == 0;
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn post(api: &ApiClient, revert: &RevertWrite, path: String) -> CommandResult<Value> {
    let mut request = ApiRequest::new(Method::POST, path);
    request.fields = condition(&revert.options, None);
    Ok(api.request(request)?.body)
}

fn len(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

/// The zone whose journal has this revision.
fn find_zone(api: &ApiClient, revision: u64) -> CommandResult<String> {
    let before = revision.saturating_sub(1);
    for zone in all_zones(api)? {
        // A zone was written for the last time at its revision.
        let is_possible = zone["revision"].as_u64().is_some_and(|newest| newest >= revision);
        let Some(name) = zone["name"].as_str().filter(|_| is_possible) else { continue };
        let path = format!("{}/journal?limit=1&after={}", zone_path(name), before);
        // A journal that no longer reaches back so far does not have it.
        let Ok(page) = api.request(ApiRequest::new(Method::GET, path)) else { continue };
        if page.body["entries"][0]["revision"] == revision {
            return Ok(name.to_owned());
        }
    }
    let why = format!(
        "no journal has a write of revision {revision}: `dunlin journal ZONE` lists those of a zone"
    );
    Err(why.into())
}

fn write_result(out: &mut impl Write, result: &Value, zone: &str) -> io::Result<()> {
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let sets = plural(len(&result["undone"]), "record set");
    let zone = plain(zone);
    match result["revision"].as_u64() {
        Some(revision) => {
            writeln!(out, "{sets} of {zone} undone, and live as revision {revision}")?
        }
        None => writeln!(out, "{sets} of {zone} to undo, none changed")?,
    }
    for set in result["not_undone"].as_array().into_iter().flatten() {
        let why = match (set["why"].as_str(), set["revision"].as_u64()) {
            (Some("not-recorded"), _) => {
                "the journal does not record its content before".to_owned()
            }
            (_, Some(revision)) => format!("changed since, at revision {revision}"),
            (_, None) => "deleted since".to_owned(),
        };
        writeln!(out, "not undone: {} {}: {why}", text(&set["name"]), text(&set["type"]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn result_lists_what_was_not_undone_and_why() {
        let set = |name: &str, why: &str, revision: Option<u64>| {
            let rtype = "A";
            json!({ "name": name, "type": rtype, "why": why, "revision": revision })
        };
        let result = json!({
            "revision": 9, "live": true, "undone": [{ "name": "a.", "type": "A" }],
            "not_undone": [
                set("b.", "changed-since", Some(8)), set("c.", "changed-since", None),
                set("d.", "not-recorded", Some(7)),
            ]
        });
        let mut out = Vec::new();
        write_result(&mut out, &result, "example.org").expect("a Vec takes all");
        let expected = "1 record set of example.org undone, and live as revision 9\n\
            not undone: b. A: changed since, at revision 8\n\
            not undone: c. A: deleted since\n\
            not undone: d. A: the journal does not record its content before\n";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}

//! `dunlin journal`: shows and follows the journal of a zone, and undoes writes.
mod revert;

use super::client::{ApiClient, ApiError, ApiRequest, CommandResult};
use super::rules::{self, rules_of};
use super::zones::zone_path;
use crate::cli::{self, JournalCommand, Output};
use crate::limits::JOURNAL_INTERVAL;
use command_line::{plain, plural, utc};
use hyper::{Method, StatusCode};
use serde_json::Value;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;

/// Entries per request.
const PAGE: usize = api::limits::PAGE_MAX;

/// Prints the journal. With `--follow` it prints new entries, and waits for a server that restarts.
///
/// # Errors
/// The server cannot be reached at first, refuses, or has no journal back to `--since`; or the
/// result cannot be written.
pub fn run(command: &cli::Journal) -> CommandResult<ExitCode> {
    let zone = match (&command.command, &command.zone) {
        (Some(JournalCommand::Revert(revert)), _) => return revert::run(revert),
        (None, zone) => zone.as_deref().unwrap_or_default(),
    };
    let remote = ApiClient::new(&command.server)?;
    let mut after = command.since;
    let (mut has_begun, mut is_unreachable) = (false, false);
    loop {
        let page = match page(&remote, zone, after) {
            Ok(page) => page,
            Err(why) if command.follow && has_begun && is_temporary(&*why) => {
                if !is_unreachable {
                    eprintln!("{why}; waiting for the server");
                }
                is_unreachable = true;
                thread::sleep(JOURNAL_INTERVAL);
                continue;
            }
            Err(why) => return Err(with_help(why, zone)),
        };
        if is_unreachable {
            eprintln!("the server answers again");
        }
        let whole_after = page["whole_after"].as_u64().unwrap_or_default();
        if !has_begun && after.is_none() && whole_after > 0 {
            eprintln!("the journal begins at revision {whole_after}: older entries are deleted");
        }
        (has_begun, is_unreachable) = (true, false);
        let entries = page["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        write(&mut io::stdout().lock(), command.server.output, entries)?;
        // Entries that the client may not read are not there.
        let last = entries.last().and_then(|entry| entry["revision"].as_u64());
        after = page["next"].as_u64().or(last).or(after);
        if page["next"].is_null() {
            if !command.follow {
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(JOURNAL_INTERVAL);
        }
    }
}

fn page(remote: &ApiClient, zone: &str, after: Option<u64>) -> CommandResult<Value> {
    let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
    let zone_path = format!("{}/journal?limit={PAGE}{after}", zone_path(zone));
    Ok(remote.request(ApiRequest::new(Method::GET, zone_path))?.body)
}

/// Whether a later request may succeed: no server answered, or it was too busy.
fn is_temporary(why: &(dyn Error + 'static)) -> bool {
    const LATER: [StatusCode; 2] = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
    why.downcast_ref::<ApiError>().is_none_or(|error| LATER.contains(&error.status))
}

/// Adds a remedy to the error for a journal that no longer reaches back to `--since`.
fn with_help(why: Box<dyn Error>, zone: &str) -> Box<dyn Error> {
    match why.downcast_ref::<ApiError>() {
        Some(error) if error.status == StatusCode::GONE => format!(
            "{why}: `dunlin records export {}` reports the current revision, for --since",
            plain(zone)
        )
        .into(),
        _ => why,
    }
}

fn write(out: &mut impl Write, output: Output, entries: &[Value]) -> io::Result<()> {
    for entry in entries {
        match output {
            Output::Json => writeln!(out, "{entry}")?,
            Output::Text => write_entry(out, entry)?,
        }
    }
    out.flush()
}

fn write_entry(out: &mut impl Write, entry: &Value) -> io::Result<()> {
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let number = |key: &str| entry[key].as_u64().unwrap_or_default();
    let when = utc(number("when_ms") as f64 / 1e3);
    let (by, kind) = (entry["by"].as_str().map_or("-".into(), plain), text(&entry["kind"]));
    write!(out, "revision {}  {when}  {by}  {kind}", number("revision"))?;
    match number("count") {
        0 => {}
        count => write!(out, ", {}", plural(count as usize, "record set"))?,
    }
    match entry["reason"].as_str() {
        Some(reason) => writeln!(out, "  \"{}\"", plain(reason))?,
        None => writeln!(out)?,
    }
    write_changes(out, &entry["changes"])
}

/// Writes changes of record sets as lines with `-` and `+`.
fn write_changes(out: &mut impl Write, changes: &Value) -> io::Result<()> {
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    for change in changes.as_array().into_iter().flatten() {
        let (name, rtype) = (text(&change["name"]), text(&change["type"]));
        for (sign, key, other) in [("-", "before", "after"), ("+", "after", "before")] {
            match change.get(key) {
                None => writeln!(out, "{sign} {name} {rtype} (data not recorded)")?,
                Some(held) => {
                    let is_same = |data: &Value| {
                        let other = &change[other];
                        let all = other["data"].as_array();
                        other["ttl"] == held["ttl"] && all.is_some_and(|all| all.contains(data))
                    };
                    let data = held["data"].as_array().into_iter().flatten();
                    for data in data.filter(|data| !is_same(data)) {
                        let data = text(data);
                        writeln!(out, "{sign} {name} {} {rtype} {data}", held["ttl"])?;
                    }
                    let rules = rules_of(held);
                    if !rules.is_empty() && rules != rules_of(&change[other]) {
                        let (ttl, rules) = (&held["ttl"], rules::text(&rules));
                        writeln!(out, "{sign} {name} {ttl} {rtype} with {rules}")?;
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(entry: Value) -> String {
        let mut out = Vec::new();
        write(&mut out, Output::Text, &[entry]).expect("a Vec takes all");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn entry_shows_deleted_and_added_records() {
        let held = |data: &[&str]| json!({ "ttl": 60, "data": data });
        let text = shown(json!({
            "revision": 12, "when_ms": 1_000, "by": "ci", "kind": "changed", "count": 2,
            "reason": "a\u{1b}b", "changes": [
                { "name": "www.a.", "type": "A", "before": held(&["192.0.2.1", "192.0.2.2"]),
                  "after": held(&["192.0.2.2", "192.0.2.3"]) },
                { "name": "old.a.", "type": "A", "before": held(&["192.0.2.9"]), "after": null },
            ]
        }));
        let (head, changes) = text.split_once('\n').expect("lines");
        assert!(head.starts_with("revision 12  1970-01-01"), "{head}");
        assert!(head.contains("  ci  changed, 2 record sets  \"a"), "{head}");
        assert!(!head.contains('\u{1b}'), "no control character: {head:?}");
        let expected =
            "- www.a. 60 A 192.0.2.1\n+ www.a. 60 A 192.0.2.3\n- old.a. 60 A 192.0.2.9\n";
        assert_eq!(changes, expected);
    }

    #[test]
    fn entry_shows_checks_tiers_and_comments() {
        let held = |rules: Value| {
            let mut held = json!({ "ttl": 60, "data": ["192.0.2.1"], "policy": "all" });
            held.as_object_mut().unwrap().extend(rules.as_object().unwrap().clone());
            held
        };
        let (plain, checked) = (held(json!({})), held(json!({ "check": "web", "comment": "x" })));
        let tiers = held(json!({ "members": [{ "data": "192.0.2.1", "tier": 1 }] }));
        let shown = |before: &Value, after: &Value| {
            let change = json!({ "name": "a.", "type": "A", "before": before, "after": after });
            let text = shown(json!({
                "revision": 1, "when_ms": 0, "by": "ci", "kind": "changed", "count": 1,
                "changes": [change]
            }));
            text.split_once('\n').expect("lines").1.to_owned()
        };
        let with = "a. 60 A with check web, comment \"x\"\n";
        assert_eq!(shown(&plain, &checked), format!("+ {with}"));
        assert_eq!(shown(&checked, &plain), format!("- {with}"));
        let tier = "+ a. 60 A with 192.0.2.1 tier 1\n";
        assert_eq!(shown(&checked, &tiers), format!("- {with}{tier}"));
        assert_eq!(shown(&Value::Null, &plain), "+ a. 60 A 192.0.2.1\n");
    }

    /// The reader may read neither its principal nor its sets.
    #[test]
    fn entry_without_principal_and_count_is_shown() {
        let text = shown(json!({
            "revision": 12, "when_ms": 0, "kind": "changed", "count": 0, "changes": []
        }));
        assert_eq!(text, "revision 12  1970-01-01 00:00:00 UTC  -  changed\n");
    }

    #[test]
    fn entry_without_data_shows_names() {
        let text = shown(json!({
            "revision": 12, "when_ms": 0, "by": "ci", "kind": "changed", "count": 1_001,
            "changes": [
                { "name": "new.a.", "type": "A", "before": null },
                { "name": "www.a.", "type": "A" },
            ]
        }));
        let expected = "+ new.a. A (data not recorded)\n- www.a. A (data not recorded)\n\
                        + www.a. A (data not recorded)\n";
        assert_eq!(text.split_once('\n').expect("lines").1, expected);
    }
}

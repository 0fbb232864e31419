//! `dunlin records`: lists and changes record sets. It shows each change, and makes it only if no
//! other client changed the set meanwhile.
use super::client::{ApiClient, ApiError, ApiRequest, ApiResponse, CommandResult, path_segment};
use super::difference::{
    Change, RecordSet, Sets, change_json, difference, given_serial, hold_reason, insert_listed,
    read_lines, read_zone_file, serial_after, write_changes,
};
use super::rules::{self, rules_of};
use super::zones::{read_name, zone_path};
use super::{byte_bar, condition, confirm, progress_bar, query, write_json};
use crate::cli::{
    self, ImportSets, ListSets, OneSet, Output, RecordsCommand, SetSet, WriteOptions, ZoneFormat,
};
use crate::limits::{CHANGES_AT_ONCE, COMPARED_LEN_MAX};
use command_line::{Side, align, plain, plural};
use hyper::header::{IF_MATCH, IF_NONE_MATCH};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use wire::{Name, NameBuf};

/// Record sets per request.
const PAGE: usize = api::limits::PAGE_MAX;

/// Rules about a record set that depend on other sets.
const DEPENDENT: [&str; 4] = ["glue", "lame", "target-alias", "target-missing"];

/// Sends the command to the server and prints the result.
///
/// # Errors
/// The server cannot be reached or refuses, or the result cannot be written.
pub fn run(command: &cli::Records) -> CommandResult<ExitCode> {
    match &command.command {
        RecordsCommand::List(list) => list_sets(list)?,
        RecordsCommand::Get(one) => {
            let path = path_of(one, &owner(one)?);
            let set =
                ApiClient::new(&one.server)?.request(ApiRequest::new(Method::GET, path))?.body;
            match one.server.output {
                Output::Json => write_json(&set)?,
                Output::Text => write_sets(&mut io::stdout().lock(), &[set])?,
            }
        }
        RecordsCommand::Set(set) => {
            let is_plain = set.tier.is_empty() && set.weight.is_empty() && set.location.is_empty();
            let mut put = match is_plain {
                true => json!({ "ttl": set.ttl, "data": set.data }),
                false => json!({ "ttl": set.ttl, "members": members(set) }),
            };
            if !set.tier.is_empty() {
                put["policy"] = json!("failover");
            }
            let min_up = set.min_up.as_ref().map(|text| match text.parse::<u16>() {
                Ok(number) => json!(number),
                Err(_) => json!(text),
            });
            let rules = [
                ("policy", set.policy.as_ref().map(|policy| json!(policy))),
                ("then", set.then.as_ref().map(|then| json!(then))),
                ("max", set.max.map(|max| json!(max))),
                ("check", set.check.as_ref().map(|check| json!(check))),
                ("min_up", min_up),
                ("fail", set.fail.as_ref().map(|fail| json!(fail))),
                ("comment", set.comment.as_ref().map(|comment| json!(comment))),
            ];
            for (key, value) in rules {
                if let Some(value) = value {
                    put[key] = value;
                }
            }
            change(&set.set, Some(put), &set.options, set.dry_run)?;
        }
        RecordsCommand::Delete(delete) => {
            change(&delete.set, None, &delete.options, delete.dry_run)?
        }
        RecordsCommand::Import(import) if import.stream => stream(import)?,
        RecordsCommand::Import(import) => import_sets(import)?,
        RecordsCommand::Export(export) => {
            let bar = progress_bar(None);
            let view = export.view.as_ref();
            let view = view.map(|view| format!("?view={}", path_segment(view)));
            let path = format!("{}/export{}", zone_path(&export.zone), view.unwrap_or_default());
            let mut out = io::stdout().lock();
            let each = |len| bar.inc(len as u64);
            let media = export.format.media();
            let tag = ApiClient::new(&export.server)?.download(path, media, &mut out, each)?;
            bar.finish_and_clear();
            if let Some(tag) = tag {
                eprintln!("exported as of revision {}", plain(tag.trim_matches('"')));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The members with their tiers, weights and locations, each once.
fn members(set: &SetSet) -> Vec<Value> {
    let mut members: Vec<Value> = set.data.iter().map(|data| json!({ "data": data })).collect();
    let mut say = |data: &str, key: &str, value: Value| {
        if let Some(member) = members.iter_mut().find(|member| member["data"] == data) {
            member[key] = value;
            return;
        }
        members.push(json!({ "data": data, key: value }));
    };
    set.tier.iter().for_each(|(tier, data)| say(data, "tier", json!(tier)));
    set.weight.iter().for_each(|(weight, data)| say(data, "weight", json!(weight)));
    set.location.iter().for_each(|(path, data)| say(data, "location", json!(path)));
    members
}

fn path_of(one: &OneSet, owner: &NameBuf) -> String {
    let (owner, rtype) = (path_segment(&owner.to_string()), path_segment(&one.rtype));
    let view = path_segment(one.view.as_deref().unwrap_or("default"));
    format!("{}/rrsets/{owner}/{rtype}?view={view}", zone_path(&one.zone))
}

/// The owner name of the command line. A name in the zone, or with a final dot, is absolute; others
/// are relative to the zone. `@` is the zone itself.
fn owner(one: &OneSet) -> Result<NameBuf, String> {
    let zone = read_name(&one.zone)?;
    if one.name == "@" {
        return Ok(zone);
    }
    let owner = read_name(&one.name)?;
    if one.name.ends_with('.') || owner.as_name().is_within(zone.as_name()) {
        return Ok(owner);
    }
    let labels = &owner.as_name().as_bytes()[..owner.as_name().len() - 1];
    NameBuf::joined(labels, zone.as_name()).map_err(|why| format!("{:?} in {zone} {why}", one.name))
}

fn list_sets(list: &ListSets) -> CommandResult<()> {
    let api = ApiClient::new(&list.server)?;
    let mut filter = format!("limit={PAGE}");
    let filters = [("prefix", &list.prefix), ("type", &list.rtype), ("view", &list.view)];
    for (key, value) in filters {
        if let Some(value) = value {
            filter += &format!("&{key}={}", path_segment(value));
        }
    }
    let mut sets = Vec::new();
    each_set(&api, &list.zone, &filter, |set| {
        sets.push(set);
        Ok(())
    })?;
    match list.server.output {
        Output::Json => write_json(&json!({ "rrsets": sets }))?,
        Output::Text => write_sets(&mut io::stdout().lock(), &sets)?,
    }
    Ok(())
}

/// Calls `each` with every record set of a zone that passes a filter.
fn each_set(
    api: &ApiClient,
    zone: &str,
    filter: &str,
    mut each: impl FnMut(Value) -> Result<(), String>,
) -> CommandResult<()> {
    let mut after = String::new();
    loop {
        let path = format!("{}/rrsets?{filter}{after}", zone_path(zone));
        let mut page = api.request(ApiRequest::new(Method::GET, path))?.body;
        if let Value::Array(more) = page["rrsets"].take() {
            more.into_iter().try_for_each(&mut each)?;
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(()),
        }
    }
}

fn write_sets(out: &mut impl Write, sets: &[Value]) -> io::Result<()> {
    let mut rows = vec![["NAME", "TTL", "TYPE", "DATA"].map(str::to_owned)];
    for set in sets {
        let text = |key: &str| plain(set[key].as_str().unwrap_or_default());
        let rules = rules_of(set);
        for (number, data) in set["data"].as_array().into_iter().flatten().enumerate() {
            let data = plain(data.as_str().unwrap_or_default()) + &rules::note(&rules, number);
            rows.push([text("name"), set["ttl"].to_string(), text("type"), data]);
        }
    }
    for line in align([Side::Left, Side::Right, Side::Left, Side::Left], &rows) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Writes or deletes one set, unless another client changed it since it was read.
fn change(
    one: &OneSet,
    put: Option<Value>,
    options: &WriteOptions,
    dry_run: bool,
) -> CommandResult<()> {
    let api = ApiClient::new(&one.server)?;
    let owner = owner(one)?;
    let path = path_of(one, &owner);
    let there = match api.request(ApiRequest::new(Method::GET, path.clone())) {
        Ok(response) => Some(response),
        Err(error) if has_status(&*error, StatusCode::NOT_FOUND) && put.is_some() => None,
        Err(error) => return Err(error),
    };
    check_revision(options, there.as_ref())?;
    let read = |value: &Value| read_set(&owner, &one.rtype, value);
    let before = there.as_ref().map(|response| read(&response.body)).transpose()?;
    let after = put.as_ref().map(read).transpose()?;
    let rtype = one.rtype.parse().map_err(|()| format!("{:?} is not a record type", one.rtype))?;
    let shown = Change { name: owner.to_string(), rtype, before, after };
    let is_text = one.server.output == Output::Text;
    let mut out = io::stdout().lock();
    if is_text {
        write_changes(&mut out, std::slice::from_ref(&shown))?;
    }
    if shown.before == shown.after {
        writeln!(out, "nothing to change")?;
        return Ok(());
    }
    if dry_run {
        return Ok(());
    }
    let method = if put.is_some() { Method::PUT } else { Method::DELETE };
    let mut request = ApiRequest::new(method, format!("{path}&{}", query(options.reason.as_ref())));
    request.body = put;
    request.fields.push(match there {
        Some(ApiResponse { tag: Some(tag), .. }) => (IF_MATCH.as_str(), tag),
        Some(_) => (IF_MATCH.as_str(), "*".to_owned()),
        None => (IF_NONE_MATCH.as_str(), "*".to_owned()),
    });
    let receipt = api.request(request)?.body;
    super::warn(&receipt);
    match is_text {
        true => match shadow(&receipt["shadowed_by"]) {
            None => writeln!(out, "live as revision {}", receipt["revision"])?,
            Some(shadow) => {
                let revision = &receipt["revision"];
                writeln!(out, "written as revision {revision}, not live: {shadow} hides it")?;
            }
        },
        false => write_json(&receipt)?,
    }
    Ok(())
}

/// The delegation, DNAME or deeper zone that hides a set.
fn shadow(value: &Value) -> Option<String> {
    let (kind, name) = (value["kind"].as_str()?, value["name"].as_str()?);
    Some(format!("the {} {}", plain(kind), plain(name)))
}

/// Checks the revision given by `--if-match` before anything is shown.
fn check_revision(options: &WriteOptions, there: Option<&ApiResponse>) -> Result<(), String> {
    let Some(expected) = options.if_match else { return Ok(()) };
    match there.and_then(|response| response.body["revision"].as_u64()) {
        Some(is) if is == expected => Ok(()),
        Some(is) => Err(format!("the record set is at revision {is}, not {expected}")),
        None => Err(format!("the record set does not exist, so not at revision {expected}")),
    }
}

fn has_status(error: &(dyn std::error::Error + 'static), status: StatusCode) -> bool {
    error.downcast_ref::<ApiError>().is_some_and(|error| error.status == status)
}

/// Reads a record set from JSON.
fn read_set(owner: &NameBuf, rtype: &str, value: &Value) -> CommandResult<RecordSet> {
    let name = owner.to_string();
    let data = match value["members"].as_array().filter(|_| value["data"].is_null()) {
        Some(members) => members.iter().map(|member| member["data"].clone()).collect(),
        None => value["data"].clone(),
    };
    let mut line = json!({ "name": name, "type": rtype, "ttl": value["ttl"], "data": data });
    rules_of(value).into_iter().for_each(|(key, value)| line[key] = value);
    let sets = read_lines(&mut line.to_string().as_bytes(), Name::ROOT)
        .map_err(|why| why.replacen("line 1: ", "", 1))?;
    sets.into_values().next().ok_or_else(|| "the record set has no data".into())
}

/// Writes the difference between a file and a zone.
fn import_sets(import: &ImportSets) -> CommandResult<()> {
    let api = ApiClient::new(&import.server)?;
    let origin = read_name(&import.zone)?;
    let (wanted, is_cut_off) = read_file(import, origin.as_name())?;
    let mut there = Sets::new();
    each_set(&api, &import.zone, &format!("limit={PAGE}"), |set| insert_listed(&mut there, set))?;
    let changes = difference(&there, &wanted, import.replace);
    let held = hold_reason(&there, &changes, is_cut_off).filter(|_| !import.accept_loss);
    let is_text = import.server.output == Output::Text;
    let mut out = io::stdout().lock();
    if is_text {
        write_changes(&mut out, &changes)?;
    }
    let zone = api.request(ApiRequest::new(Method::GET, zone_path(&import.zone)))?.body;
    let serial = preview_serial(&zone, &changes);
    if let (true, Some(serial), false) = (is_text, serial, changes.is_empty()) {
        let given = given_serial(&changes).map(|given| format!(" (the file has {given})"));
        let given = given.unwrap_or_default();
        writeln!(out, "serial {} becomes {serial}{given}", zone["serial"])?;
    }
    if let Some(why) = held {
        if !is_text {
            write_json(&json!({ "changes": changes.len(), "revision": null, "held": why }))?;
        }
        let why =
            format!("held, and nothing was changed: {why}; if that is meant, add --accept-loss");
        return Err(why.into());
    }
    if !changes.is_empty() && !import.dry_run {
        confirm(import.yes, &format!("change {}", plural(changes.len(), "record set")))?;
    }
    let mut written = Written::default();
    if !import.dry_run {
        written.send(&api, import, &changes)?;
    }
    let Written { revision, shadowed, warnings } = written;
    super::warn(&json!({ "warnings": warnings }));
    if !is_text {
        let changes = changes.len();
        let result = json!({ "changes": changes, "revision": revision, "serial": serial,
                             "shadowed": shadowed, "warnings": warnings });
        write_json(&result)?;
        return Ok(());
    }
    let sets = plural(changes.len(), "record set");
    match revision {
        Value::Null => writeln!(out, "{sets} to change, none changed")?,
        revision if shadowed.is_empty() => {
            writeln!(out, "{sets} changed, and live as revision {revision}")?;
        }
        revision => {
            writeln!(out, "{sets} changed as revision {revision}; DNS does not serve:")?;
            shadowed.iter().try_for_each(|set| writeln!(out, "{}", shadowed_line(set)))?;
        }
    }
    Ok(())
}

/// What the responses to the requests of an import say.
#[derive(Default)]
struct Written {
    revision: Value,
    shadowed: Vec<Value>,
    warnings: Vec<Value>,
}

impl Written {
    /// Sends the changes, in requests of a limited number.
    fn send(
        &mut self,
        api: &ApiClient,
        import: &ImportSets,
        changes: &[Change],
    ) -> CommandResult<()> {
        let bar = progress_bar(Some(changes.len() as u64));
        let query = query(import.options.reason.as_ref());
        let path = format!("{}/rrsets?{query}", zone_path(&import.zone));
        // With `--if-match`, each request continues from the revision of the one before.
        let mut seen = condition(&import.options, None);
        for some in changes.chunks(CHANGES_AT_ONCE) {
            let mut request = ApiRequest::new(Method::PATCH, path.clone());
            request.fields.clone_from(&seen);
            let body: Vec<_> = some.iter().map(change_json).collect();
            request.body = Some(json!({ "changes": body }));
            let changed = api.request(request).map_err(|error| {
                match has_status(&*error, StatusCode::PRECONDITION_FAILED) {
                    true => format!("{error}: another client wrote first; run it again").into(),
                    false => error,
                }
            });
            let mut changed = changed?;
            let warnings = changed.body["warnings"].as_array().cloned();
            self.warnings.extend(warnings.unwrap_or_default());
            self.shadowed.extend(hidden(&changed.body, some));
            self.revision = changed.body["revision"].take();
            if let (Some((_, seen)), Some(tag)) = (seen.first_mut(), changed.tag) {
                *seen = tag;
            }
            bar.inc(some.len() as u64);
        }
        bar.finish_and_clear();
        if changes.len() > CHANGES_AT_ONCE {
            // What a set names may have come with a later request.
            self.warnings.retain(|warning| !DEPENDENT.iter().any(|rule| warning["rule"] == *rule));
        }
        Ok(())
    }
}

/// The serial of the zone after the changes, if no other client writes meanwhile.
fn preview_serial(zone: &Value, changes: &[Change]) -> Option<u32> {
    let number = |field: &str| u32::try_from(zone[field].as_u64()?).ok();
    Some(serial_after(number("serial")?, number("next_serial")?, changes))
}

/// The sets of a PATCH that DNS does not serve, as far as the server names them.
fn hidden(receipt: &Value, changes: &[Change]) -> Vec<Value> {
    match (changes, &receipt["shadowed_by"]) {
        (_, Value::Null) => receipt["shadowed"].as_array().cloned().unwrap_or_default(),
        (changes, shadow) => {
            let put = changes.iter().find(|change| change.after.is_some());
            let shadowed = |set: &Change| {
                let rtype = set.rtype.to_string();
                json!({ "name": set.name, "type": rtype, "shadowed_by": shadow })
            };
            put.map(shadowed).into_iter().collect()
        }
    }
}

fn shadowed_line(set: &Value) -> String {
    let text = |field: &str| plain(set[field].as_str().unwrap_or_default());
    let shadow = shadow(&set["shadowed_by"]).unwrap_or_default();
    format!("  {} {}: {shadow} hides it", text("name"), text("type"))
}

fn format_of(import: &ImportSets) -> ZoneFormat {
    let end = import.file.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let by_name =
        if ["ndjson", "jsonl"].contains(&end) { ZoneFormat::Ndjson } else { ZoneFormat::Zone };
    import.format.unwrap_or(by_name)
}

/// Opens the file, or standard input. Also returns the length of a file.
fn open(import: &ImportSets) -> Result<(Box<dyn Read + Send + Sync>, Option<u64>), String> {
    if import.file == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let file = File::open(&import.file);
    let file = file.map_err(|why| format!("{}: {why}", import.file.display()))?;
    let len = file.metadata().ok().map(|found| found.len());
    Ok((Box::new(file), len))
}

/// Reads the file. Also returns whether it may have been cut off.
fn read_file(import: &ImportSets, origin: Name<'_>) -> Result<(Sets, bool), String> {
    let mut input = BufReader::new(open(import)?.0.take(COMPARED_LEN_MAX));
    let file = import.file.display();
    match format_of(import) {
        ZoneFormat::Ndjson => match read_lines(&mut input, origin) {
            Ok(sets) => Ok((sets, false)),
            Err(why) => Err(format!("{file}: {why}")),
        },
        ZoneFormat::Zone => match read_zone_file(&mut input, origin) {
            Ok((sets, cut_off)) => Ok((sets, cut_off.is_some())),
            Err(failure) => {
                let why = failure.errors.first().map_or_else(String::new, ToString::to_string);
                // Positions in a stream name it `-`.
                Err(format!("{file}{}", why.strip_prefix('-').unwrap_or(&why)))
            }
        },
    }
}

/// Sends a file without reading the zone first.
fn stream(import: &ImportSets) -> CommandResult<()> {
    let (file, len) = open(import)?;
    let bar = byte_bar(len);
    let accept_loss = if import.accept_loss { "&accept_loss=true" } else { "" };
    let query = query(import.options.reason.as_ref()) + accept_loss;
    let mut request =
        ApiRequest::new(Method::POST, format!("{}/import?{query}", zone_path(&import.zone)));
    request.fields = condition(&import.options, None);
    let shown = bar.clone();
    let each = move |len| shown.inc(len as u64);
    let sent =
        ApiClient::new(&import.server)?.upload(request, format_of(import).media(), file, each);
    bar.finish_and_clear();
    let receipt = sent?.body;
    super::warn(&receipt);
    match import.server.output {
        Output::Json => write_json(&receipt)?,
        Output::Text => {
            let (sets, records) = (&receipt["rrsets"], &receipt["records"]);
            let mut out = io::stdout().lock();
            match receipt["shadowed"].as_u64() {
                None => writeln!(out, "{sets} record sets, {records} records written, and live")?,
                Some(count) => writeln!(
                    out,
                    "{sets} record sets, {records} records written; DNS does not serve {} of the \
                     zone: they lie below a delegation, a DNAME or a deeper zone",
                    plural(count as usize, "record set")
                )?,
            }
        }
    }
    Ok(())
}

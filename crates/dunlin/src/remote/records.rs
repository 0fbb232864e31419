//! `dunlin records`: shown before they change, and changed only as they were seen.
use super::client::{Answer, Anyhow, Ask, Refusal, Remote, part};
use super::difference::{
    Change, Held, Sets, between, body, read_lines, read_zone_file, show, take_told,
};
use super::zones::path;
use super::{bar, confirm, write_json};
use crate::cli::{self, Form, ImportSets, ListSets, OneSet, Output, RecordsAct};
use crate::human::{Side, align, plain, plural};
use crate::limits::{CHANGES_AT_ONCE, COMPARED_LEN_MAX};
use hyper::header::{IF_MATCH, IF_NONE_MATCH};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::process::ExitCode;
use wire::{Name, NameBuf};

/// Record sets that are asked for at a time.
const PAGE: usize = api::limits::PAGE_MAX;

/// Asks the server, and tells what came of it.
///
/// # Errors
/// When the server cannot be reached or refuses, or the result not be written.
pub fn run(command: &cli::Records) -> Anyhow<ExitCode> {
    match &command.act {
        RecordsAct::List(list) => list_sets(list)?,
        RecordsAct::Get(one) => {
            let set = Remote::new(&one.server)?.ask(Ask::new(Method::GET, path_of(one)))?.body;
            match one.server.output {
                Output::Json => write_json(&set)?,
                Output::Text => write_sets(&mut io::stdout().lock(), &[set])?,
            }
        }
        RecordsAct::Set(set) => {
            let put = json!({ "ttl": set.ttl, "data": set.data });
            change(&set.set, Some(put), set.dry_run)?;
        }
        RecordsAct::Delete(delete) => change(&delete.set, None, delete.dry_run)?,
        RecordsAct::Import(import) if import.stream => stream(import)?,
        RecordsAct::Import(import) => import_sets(import)?,
        RecordsAct::Export(export) => {
            let bar = bar(None);
            let path = format!("{}/export", path(&export.zone));
            let mut out = io::stdout().lock();
            let each = |len| bar.inc(len as u64);
            Remote::new(&export.server)?.download(path, export.format.media(), &mut out, each)?;
            bar.finish_and_clear();
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn path_of(one: &OneSet) -> String {
    format!("{}/rrsets/{}/{}", path(&one.zone), part(&one.name), part(&one.rtype))
}

fn list_sets(list: &ListSets) -> Anyhow<()> {
    let remote = Remote::new(&list.server)?;
    let mut filter = format!("limit={PAGE}");
    for (key, value) in [("prefix", &list.prefix), ("type", &list.rtype)] {
        if let Some(value) = value {
            filter += &format!("&{key}={}", part(value));
        }
    }
    let mut sets = Vec::new();
    each_set(&remote, &list.zone, &filter, |set| {
        sets.push(set);
        Ok(())
    })?;
    match list.server.output {
        Output::Json => write_json(&json!({ "rrsets": sets }))?,
        Output::Text => write_sets(&mut io::stdout().lock(), &sets)?,
    }
    Ok(())
}

/// Shows all record sets of a zone that pass a filter.
fn each_set(
    remote: &Remote,
    zone: &str,
    filter: &str,
    mut each: impl FnMut(Value) -> Result<(), String>,
) -> Anyhow<()> {
    let mut after = String::new();
    loop {
        let path = format!("{}/rrsets?{filter}{after}", path(zone));
        let mut page = remote.ask(Ask::new(Method::GET, path))?.body;
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
        for data in set["data"].as_array().into_iter().flatten() {
            let data = plain(data.as_str().unwrap_or_default());
            rows.push([text("name"), set["ttl"].to_string(), text("type"), data]);
        }
    }
    for line in align([Side::Left, Side::Right, Side::Left, Side::Left], &rows) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Changes one set, if nobody else did since it was looked at.
fn change(one: &OneSet, put: Option<Value>, dry_run: bool) -> Anyhow<()> {
    let remote = Remote::new(&one.server)?;
    let there = match remote.ask(Ask::new(Method::GET, path_of(one))) {
        Ok(answer) => Some(answer),
        Err(error) if has_status(&*error, StatusCode::NOT_FOUND) && put.is_some() => None,
        Err(error) => return Err(error),
    };
    let origin = name(&one.zone)?;
    let read = |value: &Value| held(one, value, origin.as_name());
    let before = there.as_ref().map(|answer| read(&answer.body)).transpose()?;
    let after = put.as_ref().map(read).transpose()?;
    let rtype = one.rtype.parse().map_err(|()| format!("{:?} is no type", one.rtype))?;
    let shown = Change { name: one.name.clone(), rtype, before, after };
    let is_text = one.server.output == Output::Text;
    let mut out = io::stdout().lock();
    if is_text {
        show(&mut out, std::slice::from_ref(&shown))?;
    }
    if shown.before == shown.after {
        writeln!(out, "it is so already")?;
        return Ok(());
    }
    if dry_run {
        return Ok(());
    }
    let method = if put.is_some() { Method::PUT } else { Method::DELETE };
    let mut ask = Ask::new(method, format!("{}?wait=live", path_of(one)));
    ask.body = put;
    ask.fields.push(match there {
        Some(Answer { tag: Some(tag), .. }) => (IF_MATCH.as_str(), tag),
        Some(_) => (IF_MATCH.as_str(), "*".to_owned()),
        None => (IF_NONE_MATCH.as_str(), "*".to_owned()),
    });
    let receipt = remote.ask(ask)?.body;
    match is_text {
        true => writeln!(out, "live as revision {}", receipt["revision"])?,
        false => write_json(&receipt)?,
    }
    Ok(())
}

fn has_status(error: &(dyn std::error::Error + 'static), status: StatusCode) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == status)
}

fn name(text: &str) -> Result<NameBuf, String> {
    let read = NameBuf::from_text(text.as_bytes(), Name::ROOT);
    read.map_err(|why| format!("{text:?} is no name: {why}"))
}

/// What JSON says that a set holds.
fn held(one: &OneSet, value: &Value, origin: Name<'_>) -> Anyhow<Held> {
    let line =
        json!({ "name": one.name, "type": one.rtype, "ttl": value["ttl"], "data": value["data"] });
    let sets = read_lines(&mut line.to_string().as_bytes(), origin)
        .map_err(|why| why.replacen("line 1: ", "", 1))?;
    sets.into_values().next().ok_or_else(|| "there is no data".into())
}

/// Changes what is not yet as a file says.
fn import_sets(import: &ImportSets) -> Anyhow<()> {
    let remote = Remote::new(&import.server)?;
    let origin = name(&import.zone)?;
    let wanted = read_file(import, origin.as_name())?;
    let mut there = Sets::new();
    each_set(&remote, &import.zone, &format!("limit={PAGE}"), |set| {
        take_told(&mut there, set, origin.as_name())
    })?;
    let changes = between(&there, &wanted, import.replace);
    let is_text = import.server.output == Output::Text;
    let mut out = io::stdout().lock();
    if is_text {
        show(&mut out, &changes)?;
    }
    if !changes.is_empty() && !import.dry_run {
        confirm(import.yes, &format!("change {}", plural(changes.len(), "record set")))?;
    }
    let mut revision = Value::Null;
    let bar = bar(Some(changes.len() as u64));
    let path = format!("{}/rrsets?wait=live", path(&import.zone));
    for some in changes.chunks(CHANGES_AT_ONCE).filter(|_| !import.dry_run) {
        let mut ask = Ask::new(Method::PATCH, path.clone());
        ask.body = Some(json!({ "changes": some.iter().map(body).collect::<Vec<_>>() }));
        let changed = remote.ask(ask).map_err(|error| {
            match has_status(&*error, StatusCode::PRECONDITION_FAILED) {
                true => format!("{error}: somebody else was faster; look at it again").into(),
                false => error,
            }
        });
        revision = changed?.body["revision"].take();
        bar.inc(some.len() as u64);
    }
    bar.finish_and_clear();
    if !is_text {
        write_json(&json!({ "changes": changes.len(), "revision": revision }))?;
        return Ok(());
    }
    let told = plural(changes.len(), "record set");
    match revision {
        Value::Null => writeln!(out, "{told} to change, none changed")?,
        revision => writeln!(out, "{told} changed, and live as revision {revision}")?,
    }
    Ok(())
}

fn form(import: &ImportSets) -> Form {
    let end = import.file.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let by_name = if ["ndjson", "jsonl"].contains(&end) { Form::Ndjson } else { Form::Zone };
    import.format.unwrap_or(by_name)
}

fn open(import: &ImportSets) -> Result<File, String> {
    File::open(&import.file).map_err(|why| format!("{}: {why}", import.file.display()))
}

fn read_file(import: &ImportSets, origin: Name<'_>) -> Result<Sets, String> {
    let mut input = BufReader::new(open(import)?.take(COMPARED_LEN_MAX));
    let sets = match form(import) {
        Form::Ndjson => read_lines(&mut input, origin),
        Form::Zone => read_zone_file(&mut input, origin),
    };
    sets.map_err(|why| format!("{}: {why}", import.file.display()))
}

/// Sends a file as it is.
fn stream(import: &ImportSets) -> Anyhow<()> {
    let file = open(import)?;
    let bar = bar(file.metadata().ok().map(|found| found.len()));
    let to = (Method::POST, format!("{}/import?wait=live", path(&import.zone)));
    let shown = bar.clone();
    let each = move |len| shown.inc(len as u64);
    let sent = Remote::new(&import.server)?.upload(to, form(import).media(), file, each);
    bar.finish_and_clear();
    let told = sent?.body;
    match import.server.output {
        Output::Json => write_json(&told)?,
        Output::Text => {
            let (sets, records) = (&told["rrsets"], &told["records"]);
            let mut out = io::stdout().lock();
            writeln!(out, "{sets} record sets, {records} records written, and live")?;
        }
    }
    Ok(())
}

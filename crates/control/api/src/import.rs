//! Import of many record sets as a stream, written in batches of a thousand while the rest arrives.
use crate::body::{PathParams, media, piece, whole};
use crate::bulk::{Form, NDJSON, ZONE_FILE};
use crate::caller::Caller;
use crate::condition::{expected, tag};
use crate::description::{MatchCondition, Refusals, ZonePath};
use crate::limits::{
    DOUBTFUL_MAX, IMPORT_BATCH, IMPORT_BATCH_LEN, IMPORT_UNDER_WAY_MAX, IMPORTS_MAX, LINE_LEN_MAX,
    ZONE_FILE_LEN_MAX, ZONE_FILE_RECORDS_MAX, ZONE_FILE_WEIGHT,
};
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::receipt::{Wait, WaitQuery, WarningBody, wait_for, warnings, written};
use crate::state::{ApiState, blocking};
use crate::text::{SetBody, read_name, read_owner, read_type};
use crate::views::view_or_all;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use hyper::StatusCode;
use hyper::header::ETAG;
use model::{BrokenRule, read_value, read_view};
use records::{
    Batch, Edit, Policy, Precondition, Refused, Revision, SetKey, SetValue, SetWarning, View,
    WriteContext, WriteResult,
};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;
use utoipa::{IntoParams, ToSchema};
use wire::{Name, NameBuf};
use zone_manager::Answer;
use zone_manager::hold::{Arrival, Evidence, Verdict, judge};

/// How long the request waits for an import, the reason for it, and what it accepts.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ImportQuery {
    /// `live`: respond once every worker serves the write. `fleet`: once every server of the
    /// fleet does. Default: once it is on the disk.
    #[param(inline)]
    wait: Option<Wait>,
    /// The reason of the write, for the journal and the audit log.
    #[param(max_length = 255)]
    reason: Option<String>,
    /// The view of the sets of a zone file; each line of NDJSON names its own. Default: that of all
    /// clients.
    view: Option<String>,
    /// `true`: import a zone file that does not end with a newline, although its end may be
    /// missing.
    #[serde(default)]
    #[param(default = false)]
    accept_loss: bool,
}

/// The result of an import.
#[derive(Debug, Serialize, ToSchema)]
pub struct Imported {
    /// Record sets in the zone as sent, including those that were there before.
    rrsets: u64,
    /// Records in them.
    records: u64,
    /// The revision of the zone after the import; absent if nothing was sent.
    revision: Option<u64>,
    /// Whether every worker serves them. False if the request did not wait for that, or if DNS does
    /// not serve all sets of the zone.
    live: bool,
    /// If the request waited: record sets of the zone that DNS does not serve, by any author. They
    /// are at or below a delegation, below a DNAME, or in a deeper zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadowed: Option<u64>,
    /// Warnings of `dunlin check` about the sets of the import. They are written nevertheless.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    warnings: Vec<WarningBody>,
}

/// A set and its position.
struct LineEdit {
    edit: Edit,
    line: u64,
    /// Bytes of its line, if only the line is in memory.
    len: usize,
}

/// The sets of the next batch, and the batches in progress.
struct Import {
    state: ApiState,
    caller: Caller,
    zone: NameBuf,
    waiting: Vec<LineEdit>,
    /// Bytes of the lines in the next batch.
    waiting_len: usize,
    /// The keys of the next batch, each once.
    known: HashSet<(Box<[u8]>, View, u16)>,
    under_way: VecDeque<PendingBatch>,
    /// The author, the reason, and the condition of the next batch.
    context: WriteContext,
    /// The newest known revision of the zone.
    zone_revision: Revision,
    /// Sets that had a warning when they were written: what they name may have come later.
    doubtful: Vec<SetKey>,
    done: Imported,
}

/// A batch in progress.
struct PendingBatch {
    writing: Answer<WriteResult, Refused>,
    /// The line of each edit.
    lines: Vec<u64>,
    records: u64,
}

impl Import {
    fn new(state: ApiState, caller: Caller, zone: NameBuf, context: WriteContext) -> Self {
        let (shadowed, warnings) = (None, Vec::new());
        let done =
            Imported { rrsets: 0, records: 0, revision: None, live: false, shadowed, warnings };
        Self {
            state,
            caller,
            zone,
            waiting: Vec::new(),
            waiting_len: 0,
            known: HashSet::new(),
            under_way: VecDeque::new(),
            context,
            zone_revision: Revision::NONE,
            doubtful: Vec::new(),
            done,
        }
    }

    /// Whether the zone must change only by this import.
    fn is_conditional(&self) -> bool {
        self.context.expect != Precondition::Anything
    }

    /// Adds a set; writes the batch if it is full.
    async fn take(&mut self, placed: LineEdit) -> Result<(), Problem> {
        let Edit { name, rtype, view, .. } = &placed.edit;
        let key =
            SetKey { zone: self.zone.clone(), name: name.clone(), rtype: *rtype, view: *view };
        let allowed = self.caller.check_put(&key);
        allowed.map_err(|problem| problem.at_line(placed.line))?;
        let id = (name.as_name().as_bytes().to_ascii_lowercase().into(), *view, rtype.0);
        let is_full = self.waiting.len() >= IMPORT_BATCH || self.waiting_len >= IMPORT_BATCH_LEN;
        if is_full || self.known.contains(&id) {
            self.flush().await?;
        }
        self.known.insert(id);
        self.waiting_len += placed.len;
        self.waiting.push(placed);
        Ok(())
    }

    /// Submits the batch, and waits for the oldest one if too many are in progress.
    async fn flush(&mut self) -> Result<(), Problem> {
        // With a condition, each batch expects the revision of the one before it.
        let most = if self.is_conditional() { 1 } else { IMPORT_UNDER_WAY_MAX };
        while self.under_way.len() >= most {
            self.settle().await?;
        }
        if self.is_conditional() && self.zone_revision != Revision::NONE {
            self.context.expect = Precondition::At(self.zone_revision);
        }
        self.known.clear();
        self.waiting_len = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let count = |placed: &LineEdit| placed.edit.put.as_ref().map_or(0, |put| put.data.len());
        let records = waiting.iter().map(count).sum::<usize>() as u64;
        let (edits, lines): (Vec<_>, _) =
            waiting.into_iter().map(|placed| (placed.edit, placed.line)).unzip();
        self.caller.note_edits(&edits);
        let context = WriteContext { when: SystemTime::now(), ..self.context.clone() };
        let writing =
            self.state.records()?.write(Batch { zone: self.zone.clone(), edits, context });
        self.under_way.push_back(PendingBatch { writing, lines, records });
        Ok(())
    }

    /// Waits for the oldest batch.
    async fn settle(&mut self) -> Result<(), Problem> {
        let Some(PendingBatch { writing, lines, records }) = self.under_way.pop_front() else {
            return Ok(());
        };
        let mut line = 0;
        let done = written(writing, |edit, field| {
            line = lines.get(edit).copied().unwrap_or_default();
            plainly(edit, field)
        });
        match done.await {
            Ok(WriteResult { zone, warnings, .. }) => {
                let room = DOUBTFUL_MAX.saturating_sub(self.doubtful.len());
                let key = |SetWarning { name, rtype, .. }: SetWarning| SetKey {
                    zone: self.zone.clone(),
                    name,
                    rtype,
                    view: View::DEFAULT,
                };
                self.doubtful.extend(warnings.into_iter().take(room).map(key));
                self.done.rrsets += lines.len() as u64;
                self.done.records += records;
                self.zone_revision = zone;
                if !lines.is_empty() {
                    self.done.revision = Some(zone.0);
                    self.caller.note_revision(zone);
                }
                Ok(())
            }
            Err(problem) => Err(problem.at_line(line)),
        }
    }

    /// Waits for all batches.
    async fn finish(&mut self, wait: Option<Wait>) -> Result<(), Problem> {
        let is_unchecked = self.is_conditional()
            && self.zone_revision == Revision::NONE
            && self.under_way.is_empty();
        if !self.waiting.is_empty() || is_unchecked {
            self.flush().await?;
        }
        while !self.under_way.is_empty() {
            self.settle().await?;
        }
        if let (Some(revision), Some(wait)) = (self.done.revision, wait) {
            wait_for(&self.state, wait, Revision(revision)).await?;
            let zone = self.zone.clone();
            let count = self.state.read(move |records| Ok(records.count_shadowed(zone.as_name())));
            let shadowed = count.await?;
            self.done.live = shadowed == 0;
            self.done.shadowed = Some(shadowed).filter(|count| *count > 0);
        }
        self.warn().await
    }

    /// Checks the doubtful sets again, now that all are written.
    async fn warn(&mut self) -> Result<(), Problem> {
        let Some(revision) = self.done.revision.filter(|_| !self.doubtful.is_empty()) else {
            return Ok(());
        };
        // It is written: only the warnings depend on this.
        if wait_for(&self.state, Wait::Live, Revision(revision)).await.is_err() {
            return Ok(());
        }
        let (zone, sets) = (self.zone.clone(), std::mem::take(&mut self.doubtful));
        let found =
            self.state.read(move |records| Ok(records.warnings(zone.as_name(), &sets))).await?;
        self.done.warnings = warnings(&self.caller, &self.zone, found);
        Ok(())
    }

    /// Adds to an error which sets are on the disk.
    async fn give_up(mut self, problem: Problem) -> Problem {
        while !self.under_way.is_empty() {
            // The first error is reported.
            let _ = self.settle().await;
        }
        problem.written(self.done.rrsets)
    }
}

/// Replaces many record sets: `application/x-ndjson`, with a record set in each line like the
/// export, or `text/dns`, a zone file. Sets are written in batches of a thousand, each as a whole.
/// The first error ends the import; batches that were in progress may still be written. The problem
/// contains its line, and how many sets were written. With `If-Match`, each batch is written only
/// if the zone has changed only by the batches before it. A zone file that does not end with a
/// newline is not imported (409), unless `accept_loss` is set.
#[utoipa::path(
    post, path = "/v1/zones/{zone}/import", tag = "rrsets",
    params(
        ZonePath,
        ImportQuery,
        MatchCondition,
    ),
    request_body(content((String = "application/x-ndjson"), (String = "text/dns"))),
    responses(
        (status = 200, body = Imported, description = "Imported, on the disk",
            headers(("ETag" = String))),
        Refusals,
    )
)]
pub async fn import(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    crate::body::QueryParams(query): crate::body::QueryParams<ImportQuery>,
    request: Request,
) -> Result<Response, Problem> {
    let zone = read_name(&zone, "zone")?;
    caller.check_in(Verb::Write, zone.as_name())?;
    let ImportQuery { wait, reason, view, accept_loss } = query;
    let view = view_or_all(view.as_deref(), "view")?;
    let waiting = WaitQuery { wait, reason };
    let context = waiting.context(&caller, expected(request.headers())?)?;
    let form = Form::of(&media(request.headers()));
    let form = form.ok_or_else(|| Problem::media(&[NDJSON, ZONE_FILE]))?;
    let _turn = Arc::clone(&state.imports).try_acquire_owned().map_err(|_| {
        Problem::later("busy", format!("{IMPORTS_MAX} imports are in progress: try again later"))
    })?;
    let mut import = Import::new(state, caller, zone, context);
    let taken = match form {
        Form::Ndjson => lines(&mut import, request.into_body()).await,
        Form::ZoneFile => zone_file(&mut import, request.into_body(), (view, accept_loss)).await,
    };
    let done = match taken {
        Ok(()) => import.finish(wait).await,
        wrong => wrong,
    };
    match done {
        Ok(()) if import.zone_revision == Revision::NONE => {
            Ok(axum::Json(import.done).into_response())
        }
        Ok(()) => {
            let tag = tag(import.zone_revision);
            Ok(([(ETAG, tag)], axum::Json(import.done)).into_response())
        }
        Err(problem) => Err(import.give_up(problem).await),
    }
}

/// Reads a body line by line as it arrives.
async fn lines(import: &mut Import, mut body: Body) -> Result<(), Problem> {
    // There is no end of a line before `seen`.
    let (mut rest, mut line, mut seen) = (BytesMut::new(), 0, 0);
    loop {
        while let Some(end) = rest[seen..].iter().position(|byte| *byte == b'\n') {
            line += 1;
            let end = seen + end;
            take_line(import, &rest.split_to(end + 1)[..end], line).await?;
            seen = 0;
        }
        seen = rest.len();
        if rest.len() > LINE_LEN_MAX {
            let what = format!("a line has {LINE_LEN_MAX} bytes at most");
            let problem = Problem::invalid("line", BrokenRule::LIMIT, what);
            return Err(problem.at_line(line + 1));
        }
        match piece(&mut body).await.map_err(|problem| problem.at_line(line + 1))? {
            Some(data) => rest.extend_from_slice(&data),
            None => return take_line(import, &rest, line + 1).await,
        }
    }
}

async fn take_line(import: &mut Import, text: &[u8], line: u64) -> Result<(), Problem> {
    if text.trim_ascii().is_empty() {
        return Ok(());
    }
    let edit = read_line(text, import.zone.as_name());
    let edit = edit.map_err(|problem| problem.at_line(line))?;
    import.take(LineEdit { edit, line, len: text.len() }).await
}

fn read_line(text: &[u8], origin: Name<'_>) -> Result<Edit, Problem> {
    let set: SetBody = serde_json::from_slice(text)
        .map_err(|why| Problem::unreadable("line", format!("is not a record set: {why}")))?;
    let name = read_owner(&set.name, origin, "name")?;
    let rtype = read_type(&set.rtype, "type")?;
    let view = read_view(&set.view, "view")?;
    let value = read_value(&set.value(), rtype, "")?;
    Ok(Edit { view, ..Edit::put(name, rtype, value) })
}

/// Reads a zone file. Its sets are complete only at its end.
async fn zone_file(
    import: &mut Import,
    body: Body,
    (view, accept_loss): (View, bool),
) -> Result<(), Problem> {
    let read = whole(&import.state, body, ZONE_FILE_LEN_MAX, ZONE_FILE_WEIGHT);
    // The reserved memory covers the sets too.
    let (text, _room) = read.await?;
    let zone = import.zone.clone();
    let gathered = blocking(move || gather(&text, zone.as_name(), accept_loss)).await??;
    for mut placed in gathered {
        placed.edit.view = view;
        import.take(placed).await?;
    }
    Ok(())
}

/// Whether a zone file that may have been cut off is imported, by the rule for zone files. What was
/// sent joins what the zone has, so no set is lost.
fn is_held(cut_off: Option<&zonefile::Error>) -> bool {
    let (arrival, is_cut) = (Arrival::InPlace, cut_off.is_some());
    judge(&Evidence { arrival, is_cut, had: Some(0), has: 0 }) == Verdict::Hold
}

/// The record sets of a zone file, in the order of their first records.
fn gather(mut text: &[u8], origin: Name<'_>, accept_loss: bool) -> Result<Vec<LineEdit>, Problem> {
    let mut sets: Vec<LineEdit> = Vec::new();
    let mut known: HashMap<(Box<[u8]>, u16), usize> = HashMap::new();
    let mut count = 0;
    let read = zonefile::read_stream(&mut text, origin, &mut |record| {
        count += 1;
        if count > ZONE_FILE_RECORDS_MAX {
            return Err(format!(
                "more than {ZONE_FILE_RECORDS_MAX} records: send them in parts, or as {NDJSON}"
            ));
        }
        let id = (record.owner.as_bytes().to_ascii_lowercase().into(), record.rtype.0);
        let number = *known.entry(id).or_insert_with(|| {
            let value = SetValue { ttl: record.ttl, policy: Policy::All, data: Vec::new() };
            let edit = Edit::put(record.owner.into(), record.rtype, value);
            sets.push(LineEdit { edit, line: record.place.line, len: 0 });
            sets.len() - 1
        });
        if let Some(value) = &mut sets[number].edit.put {
            // Records of one set have one TTL (RFC 2181 §5.2): the shortest.
            value.ttl = value.ttl.min(record.ttl);
            value.data.push(record.rdata.into());
        }
        Ok(())
    });
    match read {
        Ok(summary) if !accept_loss && is_held(summary.cut_off.as_ref()) => {
            let line = summary.cut_off.map_or(0, |cut_off| cut_off.place().line);
            let detail = "the zone file does not end with a newline, so its end may be missing; if \
                          it is complete, send it with `?accept_loss=true`";
            Err(Problem::new(StatusCode::CONFLICT, "held", detail).at_line(line))
        }
        Ok(_) => Ok(sets),
        Err(failure) => {
            let Some(error) = failure.errors.first() else {
                return Err(Problem::unreadable("body", "is not a zone file"));
            };
            let place = error.place();
            let help = error.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
            let what = format!("column {}: {}{help}", place.column, error.what);
            Err(Problem::invalid("line", error.rule, what).at_line(place.line))
        }
    }
}

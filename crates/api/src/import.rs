//! Many record sets as a stream, written a thousand at a time while the rest is on its way.
use crate::body::{At, media, piece, whole};
use crate::bulk::{Form, NDJSON, ZONE_FILE};
use crate::caller::Caller;
use crate::limits::{
    IMPORT_BATCH, IMPORT_BATCH_LEN, IMPORT_UNDER_WAY_MAX, IMPORTS_MAX, LINE_LEN_MAX,
    ZONE_FILE_LEN_MAX, ZONE_FILE_RECORDS_MAX, ZONE_FILE_WEIGHT,
};
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::routes::{Desk, Wait, WaitQuery, blocking, wait_live, written};
use crate::text::{SetBody, read_name, read_type, read_value};
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use bytes::BytesMut;
use model::Rule;
use records::{Batch, Edit, Pending, Policy, Revision, SetKey, SetValue, Written};
use serde::Serialize;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;
use utoipa::ToSchema;
use wire::{Name, NameBuf};

/// What was imported.
#[derive(Debug, Serialize, ToSchema)]
pub struct Imported {
    /// Record sets that were written.
    rrsets: u64,
    /// Records in them.
    records: u64,
    /// The place of the last of them in the line of all writes; nothing: there were none.
    revision: Option<u64>,
    /// Whether every worker serves them: false, where nobody waited for that.
    live: bool,
}

/// A set and where it stands.
struct Placed {
    edit: Edit,
    line: u64,
    /// Octets of its line, if that is all there is of it in memory.
    len: usize,
}

/// The sets that wait to be written, and the batches on their way to the disk.
struct Import {
    desk: Desk,
    caller: Caller,
    zone: NameBuf,
    waiting: Vec<Placed>,
    /// Octets of their lines.
    waiting_len: usize,
    /// Which sets wait: a batch has each once.
    known: HashSet<(Box<[u8]>, u16)>,
    under_way: VecDeque<UnderWay>,
    done: Imported,
}

/// A batch on its way to the disk.
struct UnderWay {
    writing: Pending<Written>,
    /// The line of each edit.
    lines: Vec<u64>,
    records: u64,
}

impl Import {
    fn new(desk: Desk, caller: Caller, zone: NameBuf) -> Self {
        let done = Imported { rrsets: 0, records: 0, revision: None, live: false };
        let (waiting, known, under_way) = (Vec::new(), HashSet::new(), VecDeque::new());
        Self { desk, caller, zone, waiting, waiting_len: 0, known, under_way, done }
    }

    /// Takes a set; writes those that wait when they are enough.
    async fn take(&mut self, placed: Placed) -> Result<(), Problem> {
        let Edit { name, rtype, view, .. } = &placed.edit;
        let key =
            SetKey { zone: self.zone.clone(), name: name.clone(), rtype: *rtype, view: *view };
        let allowed = self.caller.check(Verb::Write, &key);
        allowed.map_err(|problem| problem.at_line(placed.line))?;
        let id = (name.as_name().octets().to_ascii_lowercase().into(), rtype.0);
        let is_full = self.waiting.len() >= IMPORT_BATCH || self.waiting_len >= IMPORT_BATCH_LEN;
        if is_full || self.known.contains(&id) {
            self.flush().await?;
        }
        self.known.insert(id);
        self.waiting_len += placed.len;
        self.waiting.push(placed);
        Ok(())
    }

    /// Sends what waits on its way, and waits for the oldest if too many are on it.
    async fn flush(&mut self) -> Result<(), Problem> {
        if self.under_way.len() >= IMPORT_UNDER_WAY_MAX {
            self.settle().await?;
        }
        self.known.clear();
        self.waiting_len = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let count = |placed: &Placed| placed.edit.put.as_ref().map_or(0, |put| put.data.len());
        let records = waiting.iter().map(count).sum::<usize>() as u64;
        let (edits, lines) = waiting.into_iter().map(|placed| (placed.edit, placed.line)).unzip();
        let (zone, by, when) = (self.zone.clone(), self.caller.name(), SystemTime::now());
        let writing = self.desk.records()?.write(Batch { zone, edits, by, when });
        self.under_way.push_back(UnderWay { writing, lines, records });
        Ok(())
    }

    /// Waits for the oldest batch.
    async fn settle(&mut self) -> Result<(), Problem> {
        let Some(UnderWay { writing, lines, records }) = self.under_way.pop_front() else {
            return Ok(());
        };
        let mut line = 0;
        let done = written(writing, |edit, field| {
            line = lines.get(edit).copied().unwrap_or_default();
            plainly(edit, field)
        });
        match done.await {
            Ok(revision) => {
                self.done.rrsets += lines.len() as u64;
                self.done.records += records;
                self.done.revision = Some(revision.0);
                Ok(())
            }
            Err(problem) => Err(problem.at_line(line)),
        }
    }

    /// Waits for all of it.
    async fn finish(&mut self, wait: Option<Wait>) -> Result<(), Problem> {
        if !self.waiting.is_empty() {
            self.flush().await?;
        }
        while !self.under_way.is_empty() {
            self.settle().await?;
        }
        if let (Some(revision), Some(Wait::Live)) = (self.done.revision, wait) {
            wait_live(&self.desk, Revision(revision)).await?;
            self.done.live = true;
        }
        Ok(())
    }

    /// Tells which of what was sent is on the disk, though the import ends here.
    async fn give_up(mut self, problem: Problem) -> Problem {
        while !self.under_way.is_empty() {
            // The first thing that is wrong is told.
            let _ = self.settle().await;
        }
        problem.written(self.done.rrsets)
    }
}

/// Writes many record sets, whatever they held: `application/x-ndjson`, a record set a line as
/// the export gives it, or `text/dns`, a zone file. They are written a thousand at a time, each
/// thousand whole. The first that is wrong ends it; what was on its way behind it may be written
/// all the same. The problem tells its line, and how many sets were written in all.
#[utoipa::path(
    post, path = "/v1/zones/{zone}/import", tag = "rrsets",
    params(
        ("zone" = String, Path, description = "The zone's name"),
        WaitQuery,
    ),
    request_body(content((String = "application/x-ndjson"), (String = "text/dns"))),
    responses(
        (status = 200, body = Imported),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn import(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    At(zone): At<String>,
    crate::body::Ask(query): crate::body::Ask<WaitQuery>,
    request: Request,
) -> Result<axum::Json<Imported>, Problem> {
    let zone = read_name(&zone, "zone")?;
    caller.check_in(Verb::Write, zone.as_name())?;
    let form = Form::of(&media(request.headers()));
    let form = form.ok_or_else(|| Problem::media(&[NDJSON, ZONE_FILE]))?;
    let _turn = Arc::clone(&desk.imports).try_acquire_owned().map_err(|_| {
        Problem::later("busy", format!("{IMPORTS_MAX} imports are under way: come later"))
    })?;
    let mut import = Import::new(desk, caller, zone);
    let taken = match form {
        Form::Ndjson => lines(&mut import, request.into_body()).await,
        Form::ZoneFile => zone_file(&mut import, request.into_body()).await,
    };
    let done = match taken {
        Ok(()) => import.finish(query.wait).await,
        wrong => wrong,
    };
    match done {
        Ok(()) => Ok(axum::Json(import.done)),
        Err(problem) => Err(import.give_up(problem).await),
    }
}

/// Takes a body line by line as it comes.
async fn lines(import: &mut Import, mut body: Body) -> Result<(), Problem> {
    // Up to `seen` there is no end of a line.
    let (mut rest, mut line, mut seen) = (BytesMut::new(), 0, 0);
    loop {
        while let Some(end) = rest[seen..].iter().position(|octet| *octet == b'\n') {
            line += 1;
            let end = seen + end;
            take_line(import, &rest.split_to(end + 1)[..end], line).await?;
            seen = 0;
        }
        seen = rest.len();
        if rest.len() > LINE_LEN_MAX {
            let what = format!("a line has {LINE_LEN_MAX} octets at most");
            let problem = Problem::invalid("line", Rule::LIMIT, what);
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
    import.take(Placed { edit, line, len: text.len() }).await
}

fn read_line(text: &[u8], origin: Name<'_>) -> Result<Edit, Problem> {
    let set: SetBody = serde_json::from_slice(text)
        .map_err(|why| Problem::unreadable("line", format!("is no record set: {why}")))?;
    let (name, rtype) = (read_name(&set.name, "name")?, read_type(&set.rtype, "type")?);
    let value = read_value(&set.value(), rtype, origin, "")?;
    Ok(Edit::put(name, rtype, value))
}

/// Takes a zone file, whose sets are put together before any is written.
async fn zone_file(import: &mut Import, body: Body) -> Result<(), Problem> {
    let read = whole(&import.desk, body, ZONE_FILE_LEN_MAX, ZONE_FILE_WEIGHT);
    // The room is what the sets take, too.
    let (text, _room) = read.await?;
    let zone = import.zone.clone();
    for placed in blocking(move || gather(&text, zone.as_name())).await?? {
        import.take(placed).await?;
    }
    Ok(())
}

/// The record sets of a zone file, in the order in which they begin.
fn gather(mut text: &[u8], origin: Name<'_>) -> Result<Vec<Placed>, Problem> {
    let mut sets: Vec<Placed> = Vec::new();
    let mut known: HashMap<(Box<[u8]>, u16), usize> = HashMap::new();
    let mut count = 0;
    let read = zonefile::read_stream(&mut text, origin, &mut |record| {
        count += 1;
        if count > ZONE_FILE_RECORDS_MAX {
            return Err(format!(
                "more than {ZONE_FILE_RECORDS_MAX} records: send them in parts, or as {NDJSON}"
            ));
        }
        let id = (record.owner.octets().to_ascii_lowercase().into(), record.rtype.0);
        let number = *known.entry(id).or_insert_with(|| {
            let value = SetValue { ttl: record.ttl, policy: Policy::All, data: Vec::new() };
            let edit = Edit::put(record.owner.into(), record.rtype, value);
            sets.push(Placed { edit, line: record.place.line, len: 0 });
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
        Ok(_) => Ok(sets),
        Err(failure) => {
            let Some(error) = failure.errors.first() else {
                return Err(Problem::unreadable("body", "is no zone file"));
            };
            let place = error.place();
            let help = error.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
            let what = format!("column {}: {}{help}", place.column, error.what);
            Err(Problem::invalid("line", error.rule, what).at_line(place.line))
        }
    }
}

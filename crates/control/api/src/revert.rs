//! `/v1/zones/{zone}/journal/{revision}/revert`: undoes a write, as far as nothing has changed
//! since.
use crate::body::{PathParams, QueryParams};
use crate::caller::Caller;
use crate::condition::{expected, tag};
use crate::description::{MatchCondition, Refusals};
use crate::endpoints::check_known;
use crate::journal::{JournalChange, describe_change};
use crate::limits::REVERT_TRIES_MAX;
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::receipt::{Wait, WaitQuery, WarningBody, wait_for, warnings, written};
use crate::state::ApiState;
use crate::text::read_name;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use hyper::header::ETAG;
use hyper::{HeaderMap, StatusCode};
use records::{
    Batch, ChangeKind, Edit, EditKind, JournalEntry, Precondition, RecordService, Refused,
    Revision, SetKey, SetValue, StoredSet, WriteContext, WriteResult, WrittenSet,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wire::{NameBuf, Rtype};

/// The path of a write to a zone.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct EntryPath {
    /// The zone's name, absolute, with or without the final dot.
    #[param(min_length = 1, max_length = 1020)]
    zone: String,
    /// The revision of the write.
    #[param(minimum = 1)]
    revision: u64,
}

/// How long the request waits for the revert, the reason for it, and whether it is made.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RevertQuery {
    /// `live`: respond once every worker serves the write. `fleet`: once every server of the
    /// fleet does. Default: once it is on the disk.
    #[param(inline)]
    wait: Option<Wait>,
    /// The reason of the write, for the journal and the audit log. Default: `revert of revision`
    /// and the number.
    #[param(max_length = 255)]
    reason: Option<String>,
    /// `true`: say what would be undone, and change nothing.
    #[serde(default)]
    #[param(default = false)]
    dry_run: bool,
}

/// The result of a revert.
#[derive(Debug, Serialize, ToSchema)]
pub struct Reverted {
    /// The revision of the revert; absent if nothing was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// Whether every worker serves it. False if the request did not wait for that.
    live: bool,
    /// The record sets that have their content from before the write again, or would have it; each
    /// with its content before and after the revert.
    undone: Vec<JournalChange>,
    /// The record sets of the write that stay as they are.
    not_undone: Vec<NotUndone>,
    /// What `dunlin check` would warn of in the changed sets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<WarningBody>,
}

/// A record set that stays as it is.
#[derive(Debug, Serialize, ToSchema)]
struct NotUndone {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    /// Why.
    why: WhyNot,
    /// The revision of its last write; absent if it does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
}

/// Why a record set is not reverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum WhyNot {
    /// It was written again since.
    ChangedSince,
    /// The journal does not have its content from before, because the write was too large.
    NotRecorded,
}

/// The plan of a revert.
#[derive(Default)]
struct Plan {
    edits: Vec<Edit>,
    /// The changes that the edits undo.
    undone: Vec<WrittenSet>,
    not_undone: Vec<NotUndone>,
}

/// Undo a write: each of its record sets gets its content from before the write again, all in one
/// atomic write. A set that was written again since stays as it is and is listed, unless it has
/// that content already; so is one whose content from before the journal does not have. It needs
/// the grant to write every record set of the write.
#[utoipa::path(
    post, path = "/v1/zones/{zone}/journal/{revision}/revert", tag = "zones",
    params(
        EntryPath,
        RevertQuery,
        MatchCondition,
    ),
    responses(
        (status = 200, body = Reverted, description = "Undone as far as possible, on the disk",
            headers(("ETag" = String))),
        Refusals,
    )
)]
pub async fn revert(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(EntryPath { zone, revision }): PathParams<EntryPath>,
    QueryParams(query): QueryParams<RevertQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let zone = read_name(&zone, "zone")?;
    caller.check_in(Verb::Write, zone.as_name())?;
    let RevertQuery { wait, reason, dry_run } = query;
    let reason = reason.or_else(|| Some(format!("revert of revision {revision}")));
    let context = WaitQuery { wait, reason }.context(&caller, expected(&headers)?)?;
    let entry = entry(&state, &zone, revision).await?;
    for change in &entry.changes {
        check_may_undo(&caller, &zone, change)?;
    }
    let (plan, done) = write(&state, &caller, (&zone, &entry), &context, dry_run).await?;
    let mut told = Reverted {
        revision: done.as_ref().map(|done| done.revision.0),
        live: false,
        undone: plan.undone.iter().filter_map(|it| describe_change(it, &zone, &caller)).collect(),
        not_undone: plan.not_undone,
        warnings: Vec::new(),
    };
    let Some(WriteResult { revision, zone: of_zone, warnings: found, .. }) = done else {
        return Ok(axum::Json(told).into_response());
    };
    told.warnings = warnings(&caller, &zone, found);
    caller.note_revision(revision);
    if let Some(wait) = wait {
        wait_for(&state, wait, revision).await?;
        told.live = true;
    }
    Ok(([(ETAG, tag(of_zone))], axum::Json(told)).into_response())
}

/// The write of this revision.
async fn entry(state: &ApiState, zone: &NameBuf, revision: u64) -> Result<JournalEntry, Problem> {
    let missing = || {
        let detail = format!("the journal of {zone} has no write of revision {revision}");
        Problem::missing(detail).of_field("revision")
    };
    let before = revision.checked_sub(1).filter(|_| revision <= i64::MAX as u64);
    let before = Revision(before.ok_or_else(missing)?);
    let origin = zone.clone();
    let page =
        state.read(move |records| records.journal(origin.as_name(), Some(before), 1)).await?;
    let found = page.entries.into_iter().next().filter(|entry| entry.revision.0 == revision);
    let entry = found.ok_or_else(missing)?;
    let detail = match entry.kind {
        ChangeKind::Changed if !entry.changes.is_empty() => return Ok(entry),
        ChangeKind::Changed => {
            "the journal has only the number of its record sets: restore a snapshot instead"
        }
        ChangeKind::Created => "it created the zone: delete the zone instead",
        ChangeKind::Deleted => "it deleted the zone: restore a snapshot instead",
        ChangeKind::Restored => "it restored a snapshot: restore another one instead",
    };
    Err(Problem::new(StatusCode::CONFLICT, "not-undoable", detail).of_field("revision"))
}

fn key_of(zone: &NameBuf, change: &WrittenSet) -> Result<SetKey, Problem> {
    let name = NameBuf::joined(&change.name, zone.as_name());
    let name = name.map_err(|why| Problem::unreadable("revision", why.to_string()))?;
    Ok(SetKey { zone: zone.clone(), name, rtype: change.rtype, view: change.view })
}

/// Refuses unless the caller may put back what was before.
fn check_may_undo(caller: &Caller, zone: &NameBuf, change: &WrittenSet) -> Result<(), Problem> {
    let key = key_of(zone, change)?;
    match change.before {
        Some(_) => caller.check_put(&key),
        None => caller.check(Verb::Write, &key),
    }
}

/// Plans the revert and writes it. Plans again if another client wrote meanwhile.
async fn write(
    state: &ApiState,
    caller: &Caller,
    (zone, entry): (&NameBuf, &JournalEntry),
    context: &WriteContext,
    dry_run: bool,
) -> Result<(Plan, Option<WriteResult>), Problem> {
    let mut tries = 0;
    loop {
        let (of_zone, of_entry) = (zone.clone(), entry.clone());
        let plan = state.read(move |records| plan(records, &of_zone, &of_entry)).await?;
        if dry_run || plan.edits.is_empty() {
            return Ok((plan, None));
        }
        if tries == 0 {
            caller.note_edits(&plan.edits);
        }
        for value in plan.edits.iter().filter_map(|edit| edit.put.as_ref()) {
            check_known(state, value, "")?;
        }
        let edits = plan.edits.clone();
        let batch = Batch { zone: zone.clone(), edits, context: context.clone() };
        let again = tries < REVERT_TRIES_MAX && context.expect == Precondition::Anything;
        match written(state.records()?.write(batch), plainly).await {
            Ok(written) => return Ok((plan, Some(written))),
            Err(why) if again && why.status() == StatusCode::PRECONDITION_FAILED => tries += 1,
            Err(why) => return Err(why),
        }
    }
}

/// Decides about each set of a write. Each edit holds only for the set as it was read.
fn plan(records: &RecordService, zone: &NameBuf, entry: &JournalEntry) -> Result<Plan, Refused> {
    let mut plan = Plan::default();
    for change in &entry.changes {
        let Ok(name) = NameBuf::joined(&change.name, zone.as_name()) else { continue };
        let WrittenSet { rtype, view, .. } = *change;
        let key = SetKey { zone: zone.clone(), name, rtype, view };
        let now = records.set(&key)?;
        if is_undone(change, now.as_ref()) {
            continue;
        }
        let why = match &change.before {
            _ if !is_unchanged(change, now.as_ref(), entry.revision) => WhyNot::ChangedSince,
            Some(before) if !before.is_kept() => WhyNot::NotRecorded,
            before => {
                let expect = match &now {
                    Some(now) => Precondition::At(now.revision),
                    None => Precondition::Absent,
                };
                let (name, put) = (key.name, before.clone());
                plan.edits.push(Edit { name, rtype, view, expect, kind: EditKind::Replace, put });
                let (before, after) = (change.after.clone(), change.before.clone());
                plan.undone.push(WrittenSet { before, after, ..change.clone() });
                continue;
            }
        };
        let (name, rtype) = (key.name.to_string(), rtype.to_string());
        let revision = now.map(|now| now.revision.0);
        plan.not_undone.push(NotUndone { name, rtype, why, revision });
    }
    Ok(plan)
}

/// Whether a set has its content from before the write again.
fn is_undone(change: &WrittenSet, now: Option<&StoredSet>) -> bool {
    match (&change.before, now) {
        (None, None) => true,
        (Some(before), Some(now)) if change.rtype == Rtype::SOA => {
            without_serial(before) == without_serial(&now.value)
        }
        (Some(before), Some(now)) => *before == now.value,
        _ => false,
    }
}

/// Whether a set is as the write left it.
fn is_unchanged(change: &WrittenSet, now: Option<&StoredSet>, written: Revision) -> bool {
    match (&change.after, now) {
        (None, None) => true,
        (Some(after), Some(now)) if change.rtype == Rtype::SOA => {
            // Its revision and its serial are those of the zone.
            without_serial(after) == without_serial(&now.value)
        }
        (Some(_), Some(now)) => now.revision == written,
        _ => false,
    }
}

/// An SOA without its serial, which begins 20 bytes before its end.
fn without_serial(value: &SetValue) -> SetValue {
    let mut value = value.clone();
    for data in &mut value.data {
        if let Some(numbers) = data.last_chunk_mut::<20>() {
            numbers[..4].fill(0);
        }
    }
    value
}

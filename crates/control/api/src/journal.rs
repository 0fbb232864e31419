//! `/v1/zones/{zone}/journal`: who changed what, and when.
use crate::body::{PathParams, QueryParams, page_limit};
use crate::caller::Caller;
use crate::description::{Refusals, ZonePath};
use crate::principal::Verb;
use crate::problem::Problem;
use crate::state::ApiState;
use crate::text::{ValueBody, read_name, write_value};
use axum::extract::{Extension, State};
use records::{ChangeKind, JournalEntry, Revision, SetChange, SetKey, SetValue};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;
use utoipa::{IntoParams, ToSchema};
use wire::NameBuf;

/// Which entries.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct JournalQuery {
    /// Only what was written after this revision. Where the journal does not reach back to it any
    /// more, it is 410; without it, all that is kept is told.
    after: Option<u64>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
}

/// A part of a zone's journal.
#[derive(Debug, Serialize, ToSchema)]
pub struct JournalPage {
    /// The oldest first.
    entries: Vec<EntryBody>,
    /// What `after` is for the next page; nothing: there are no more. A page may have fewer entries
    /// than were asked for, and still not be the last.
    next: Option<u64>,
    /// From behind this revision nothing is missing; what was before it may be gone. 0: nothing is
    /// missing at all.
    whole_after: u64,
}

/// One write.
#[derive(Debug, Serialize, ToSchema)]
struct EntryBody {
    /// Its place in the line of all writes.
    revision: u64,
    /// When it came, in milliseconds since 1970.
    when_ms: u64,
    /// The principal who wanted it.
    by: String,
    /// Why, where the client said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What it was.
    kind: KindBody,
    /// How many record sets it changed.
    count: u64,
    /// What `changes` tells: of a write of more than 1000 sets, or much data, not their data.
    detail: DetailBody,
    /// What became of each that the caller may read.
    changes: Vec<JournalChange>,
}

/// How much of a write is kept.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum DetailBody {
    /// What each set held before and after.
    Data,
    /// Which sets there were, and whether they were there before and after.
    Names,
    /// How many sets there were.
    Count,
}

/// What a write was.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum KindBody {
    /// The zone was made.
    Created,
    /// Record sets changed.
    Changed,
    /// All came back from a snapshot.
    Restored,
    /// The zone was deleted, with all it held.
    Deleted,
}

/// What became of a record set.
#[derive(Debug, Serialize, ToSchema)]
struct JournalChange {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    /// What it held; null: it was not there. It is missing where the set was there and its data is
    /// not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ValueBody>, required = false)]
    before: Option<Option<ValueBody>>,
    /// What it holds; null: it is gone. It is missing where the set is there and its data is not
    /// kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ValueBody>, required = false)]
    after: Option<Option<ValueBody>>,
}

/// What was written to a zone, the oldest first. The journal of a zone that was deleted is kept for
/// a while, and goes on if the zone is made again.
#[utoipa::path(
    get, path = "/v1/zones/{zone}/journal", tag = "zones",
    params(ZonePath, JournalQuery),
    responses(
        (status = 200, body = JournalPage, description = "A page of the journal"),
        Refusals,
    )
)]
pub async fn list_journal(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    QueryParams(query): QueryParams<JournalQuery>,
) -> Result<axum::Json<JournalPage>, Problem> {
    let zone = read_name(&zone, "zone")?;
    caller.check_in(Verb::Read, zone.as_name())?;
    let limit = page_limit(query.limit)?;
    let after = query.after.map(Revision);
    if after.is_some_and(|after| after.0 > i64::MAX as u64) {
        return Err(Problem::unreadable("after", "is no revision: it is larger than any can be"));
    }
    let origin = zone.clone();
    let journal = state.read(move |records| records.journal(origin.as_name(), after, limit));
    let journal = journal.await?;
    let next = journal.entries.last().filter(|_| journal.more).map(|entry| entry.revision.0);
    let entries = journal.entries.into_iter().map(|entry| describe(entry, &zone, &caller));
    let whole_after = journal.whole_after.0;
    Ok(axum::Json(JournalPage { entries: entries.collect(), next, whole_after }))
}

fn describe(entry: JournalEntry, zone: &NameBuf, caller: &Caller) -> EntryBody {
    let since = entry.when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let changes = entry.changes.iter().filter_map(|change| tell(change, zone, caller));
    let values = || entry.changes.iter().flat_map(|change| [&change.before, &change.after]);
    let detail = match () {
        () if entry.changes.is_empty() && entry.count > 0 => DetailBody::Count,
        () if values().flatten().all(SetValue::is_kept) => DetailBody::Data,
        () => DetailBody::Names,
    };
    EntryBody {
        revision: entry.revision.0,
        when_ms: since.as_millis() as u64,
        kind: match entry.kind {
            ChangeKind::Created => KindBody::Created,
            ChangeKind::Changed => KindBody::Changed,
            ChangeKind::Restored => KindBody::Restored,
            ChangeKind::Deleted => KindBody::Deleted,
        },
        reason: entry.reason,
        count: entry.count,
        detail,
        changes: changes.collect(),
        by: entry.by,
    }
}

/// A change, if it is one that the caller may read.
fn tell(change: &SetChange, zone: &NameBuf, caller: &Caller) -> Option<JournalChange> {
    let SetChange { name, rtype, view, before, after } = change;
    let name = NameBuf::joined(name, zone.as_name()).ok()?;
    let key = SetKey { zone: zone.clone(), name, rtype: *rtype, view: *view };
    let held = |value: &Option<SetValue>| match value {
        None => Some(None),
        Some(value) => value.is_kept().then(|| Some(write_value(*rtype, value))),
    };
    caller.may(Verb::Read, &key).then(|| JournalChange {
        name: key.name.to_string(),
        rtype: rtype.to_string(),
        before: held(before),
        after: held(after),
    })
}

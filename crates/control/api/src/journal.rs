//! `/v1/zones/{zone}/journal`: the author, time and content of each write.
use crate::body::{PathParams, QueryParams, page_limit};
use crate::caller::Caller;
use crate::description::{Refusals, ZonePath};
use crate::principal::Verb;
use crate::problem::Problem;
use crate::state::ApiState;
use crate::text::read_name;
use axum::extract::{Extension, State};
use model::{ValueBody, write_value};
use records::{ChangeKind, JournalEntry, Revision, SetKey, SetValue, View, WrittenSet};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;
use utoipa::{IntoParams, ToSchema};
use wire::NameBuf;

/// Query parameters of the journal.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct JournalQuery {
    /// Only entries after this revision; 410 if the journal no longer reaches back to it. Without
    /// it: all entries.
    after: Option<u64>,
    /// Maximum number of entries.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
}

/// A part of a zone's journal.
#[derive(Debug, Serialize, ToSchema)]
pub struct JournalPage {
    /// The oldest first. Only writes that changed a set that the caller may read.
    entries: Vec<EntryBody>,
    /// The value of `after` for the next page; absent on the last page. A page may have fewer
    /// entries than `limit` and not be the last one.
    next: Option<u64>,
    /// The journal is complete after this revision; 0: it is complete.
    whole_after: u64,
}

/// One write.
#[derive(Debug, Serialize, ToSchema)]
struct EntryBody {
    /// The revision of the write.
    revision: u64,
    /// The time of the write, in milliseconds since 1970.
    when_ms: u64,
    /// The principal that sent the write; absent if the caller may not read the whole zone, and
    /// the changed sets are not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// The reason, if the client gave one; absent if the caller may not read all changed sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The kind of write.
    kind: KindBody,
    /// The number of changed record sets that the caller may read; 0 if that is not known.
    count: u64,
    /// The detail of `changes`: a write of more than 1000 sets, or of much data, keeps no data.
    detail: DetailBody,
    /// The changes of the sets that the caller may read.
    changes: Vec<JournalChange>,
}

/// How much of a write is kept.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum DetailBody {
    /// The content of each set before and after.
    Data,
    /// The names of the sets, and whether they existed before and after.
    Names,
    /// The number of sets.
    Count,
}

/// The kind of a write.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum KindBody {
    /// The zone was created.
    Created,
    /// Record sets changed.
    Changed,
    /// The store was restored from a snapshot.
    Restored,
    /// The zone was deleted with all its sets.
    Deleted,
}

/// The change of a record set.
#[derive(Debug, Serialize, ToSchema)]
pub struct JournalChange {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    /// The view; absent: that of all clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    view: Option<String>,
    /// The content before; null: the set did not exist. Absent if it existed and its data is not
    /// kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ValueBody>, required = false)]
    before: Option<Option<ValueBody>>,
    /// The content after; null: the set was deleted. Absent if it exists and its data is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ValueBody>, required = false)]
    after: Option<Option<ValueBody>>,
}

/// The writes to a zone, the oldest first. The journal of a deleted zone is kept for a while, and
/// continues if the zone is created again.
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
        return Err(Problem::unreadable(
            "after",
            "is not a revision: it is larger than any can be",
        ));
    }
    let origin = zone.clone();
    let journal = state.read(move |records| records.journal(origin.as_name(), after, limit));
    let journal = journal.await?;
    let next = journal.entries.last().filter(|_| journal.more).map(|entry| entry.revision.0);
    let entries = journal.entries.into_iter().filter_map(|entry| describe(entry, &zone, &caller));
    let whole_after = journal.whole_after.0;
    Ok(axum::Json(JournalPage { entries: entries.collect(), next, whole_after }))
}

/// What the caller may read of a write; `None`: it may read none of the changed sets.
fn describe(entry: JournalEntry, zone: &NameBuf, caller: &Caller) -> Option<EntryBody> {
    let since = entry.when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let tell = |change| describe_change(change, zone, caller);
    let changes: Vec<_> = entry.changes.iter().filter_map(tell).collect();
    let values = || entry.changes.iter().flat_map(|change| [&change.before, &change.after]);
    let detail = match () {
        () if entry.changes.is_empty() && entry.count > 0 => DetailBody::Count,
        () if values().flatten().all(SetValue::is_kept) => DetailBody::Data,
        () => DetailBody::Names,
    };
    let may_all = caller.may_all_of(Verb::Read, zone.as_name());
    let is_whole = may_all || detail != DetailBody::Count && changes.len() == entry.changes.len();
    // Without the names of the sets, one of them may be the caller's.
    if !is_whole && changes.is_empty() && detail != DetailBody::Count {
        return None;
    }
    Some(EntryBody {
        revision: entry.revision.0,
        when_ms: since.as_millis() as u64,
        kind: match entry.kind {
            ChangeKind::Created => KindBody::Created,
            ChangeKind::Changed => KindBody::Changed,
            ChangeKind::Restored => KindBody::Restored,
            ChangeKind::Deleted => KindBody::Deleted,
        },
        by: (is_whole || !changes.is_empty()).then_some(entry.by),
        reason: entry.reason.filter(|_| is_whole),
        count: if is_whole { entry.count } else { changes.len() as u64 },
        detail,
        changes,
    })
}

/// A change, if the caller may read it.
pub fn describe_change(
    change: &WrittenSet,
    zone: &NameBuf,
    caller: &Caller,
) -> Option<JournalChange> {
    let WrittenSet { name, rtype, view, before, after } = change;
    let name = NameBuf::joined(name, zone.as_name()).ok()?;
    let key = SetKey { zone: zone.clone(), name, rtype: *rtype, view: *view };
    let held = |value: &Option<SetValue>| match value {
        None => Some(None),
        Some(value) => value.is_kept().then(|| {
            let view = view.word().to_owned();
            Some(ValueBody { view, ..write_value(*rtype, value) })
        }),
    };
    caller.may(Verb::Read, &key).then(|| JournalChange {
        name: key.name.to_string(),
        rtype: rtype.to_string(),
        view: Some(view.word().to_owned()).filter(|_| *view != View::DEFAULT),
        before: held(before),
        after: held(after),
    })
}

//! `/v1/zones/{zone}/journal`: who changed what, and when.
use crate::body::{Ask, At};
use crate::caller::Caller;
use crate::principal::Verb;
use crate::problem::Problem;
use crate::routes::{Desk, read};
use crate::text::{ValueBody, read_name, write_value};
use crate::zones::page_limit;
use axum::extract::{Extension, State};
use records::{JournalEntry, Kind, Revision, SetChange, SetKey};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;
use utoipa::{IntoParams, ToSchema};
use wire::NameBuf;

/// Which entries.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct JournalQuery {
    /// Only what was written after this revision.
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
    /// From behind this revision nothing is missing; what was before it may be gone.
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
    /// What it was.
    kind: KindBody,
    /// How many record sets it changed.
    count: u64,
    /// What became of each that the caller may read; empty, where there were too many to keep.
    changes: Vec<ChangeTold>,
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
}

/// What became of a record set.
#[derive(Debug, Serialize, ToSchema)]
struct ChangeTold {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    /// What it held; null: it was not there.
    before: Option<ValueBody>,
    /// What it holds; null: it is gone.
    after: Option<ValueBody>,
}

/// What was written to a zone, the oldest first.
#[utoipa::path(
    get, path = "/v1/zones/{zone}/journal", tag = "zones",
    params(("zone" = String, Path, description = "The zone's name"), JournalQuery),
    responses(
        (status = 200, body = JournalPage),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_journal(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    At(zone): At<String>,
    Ask(query): Ask<JournalQuery>,
) -> Result<axum::Json<JournalPage>, Problem> {
    let zone = read_name(&zone, "zone")?;
    caller.check_in(Verb::Read, zone.as_name())?;
    let limit = page_limit(query.limit)?;
    let after = query.after.unwrap_or_default();
    if after > i64::MAX as u64 {
        return Err(Problem::unreadable("after", "is no revision: it is larger than any can be"));
    }
    let after = Revision(after);
    let origin = zone.clone();
    let journal = read(&desk, move |records| records.journal(origin.as_name(), after, limit));
    let journal = journal.await?;
    let next = journal.entries.last().filter(|_| journal.more).map(|entry| entry.revision.0);
    let entries = journal.entries.into_iter().map(|entry| describe(entry, &zone, &caller));
    let whole_after = journal.whole_after.0;
    Ok(axum::Json(JournalPage { entries: entries.collect(), next, whole_after }))
}

fn describe(entry: JournalEntry, zone: &NameBuf, caller: &Caller) -> EntryBody {
    let since = entry.when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let changes = entry.changes.iter().filter_map(|change| tell(change, zone, caller));
    EntryBody {
        revision: entry.revision.0,
        when_ms: since.as_millis() as u64,
        kind: match entry.kind {
            Kind::Created => KindBody::Created,
            Kind::Changed => KindBody::Changed,
            Kind::Restored => KindBody::Restored,
        },
        count: entry.count,
        changes: changes.collect(),
        by: entry.by,
    }
}

/// A change, if it is one that the caller may read.
fn tell(change: &SetChange, zone: &NameBuf, caller: &Caller) -> Option<ChangeTold> {
    let SetChange { name, rtype, view, before, after } = change;
    let name = NameBuf::joined(name, zone.as_name()).ok()?;
    let key = SetKey { zone: zone.clone(), name, rtype: *rtype, view: *view };
    caller.may(Verb::Read, &key).then(|| ChangeTold {
        name: key.name.to_string(),
        rtype: rtype.to_string(),
        before: before.as_ref().map(|value| write_value(*rtype, value)),
        after: after.as_ref().map(|value| write_value(*rtype, value)),
    })
}

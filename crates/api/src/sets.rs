//! `/v1/zones/{zone}/rrsets`: record sets, read and written.
use crate::body::{Ask, At, Json};
use crate::caller::Caller;
use crate::condition::{expected, is_known, tag};
use crate::cursor;
use crate::limits::CHANGES_MAX;
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::routes::{Desk, Receipt, WaitQuery, read, receipt};
use crate::text::{SetBody, ValueBody, read_name, read_type, read_value, read_view, write_set};
use crate::zones::page_limit;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use hyper::header::ETAG;
use hyper::{HeaderMap, StatusCode};
use model::Rule;
use records::{Batch, Edit, Expect, Filter, Revision, SetKey, StoredSet, View};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;
use utoipa::{IntoParams, ToSchema};
use wire::Name;

/// A record set as it is stored.
#[derive(Debug, Serialize, ToSchema)]
pub struct SetTold {
    /// The owner's name.
    name: String,
    /// The type.
    #[serde(rename = "type")]
    rtype: String,
    /// Seconds that an answer may be kept.
    ttl: u32,
    /// The data of each record, in presentation form.
    data: Vec<String>,
    /// For whom it is.
    view: String,
    /// Which of the records an answer has.
    policy: String,
    /// When it was last written: its entity tag is this number in quotes. Nothing, where the zone
    /// is not the store's.
    revision: Option<u64>,
}

/// A page of record sets.
#[derive(Debug, Serialize, ToSchema)]
pub struct SetsPage {
    /// In canonical order of their names, then by type.
    rrsets: Vec<SetTold>,
    /// What `after` is for the next page; nothing: there are no more. A page may have fewer sets
    /// than were asked for, and still not be the last.
    next: Option<String>,
}

/// Which record sets.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SetsQuery {
    /// Only names that begin so, as they are written relative to the zone.
    prefix: Option<String>,
    /// Only this type.
    #[serde(rename = "type")]
    rtype: Option<String>,
    /// Only what is behind this: `next` of the page before.
    after: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
}

/// Changes of one zone, all of which are done, or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "changes": [
    { "name": "www.example.org.", "type": "A", "put": { "ttl": 60, "data": ["192.0.2.2"] } },
    { "name": "old.example.org.", "type": "A", "put": null, "if": "present" }
] }))]
pub struct Changes {
    /// Each set once.
    #[schema(min_items = 1, max_items = 10000)]
    changes: Vec<Change>,
}

/// A change of one set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The name of the set.
    name: String,
    /// Its type.
    #[serde(rename = "type")]
    rtype: String,
    /// For whom it is: `default`.
    view: Option<String>,
    /// What must be so: `absent`, `present`, or the revision of when it was last written.
    #[serde(rename = "if")]
    expect: Option<ExpectBody>,
    /// What it holds from now on; null: it goes.
    #[schema(required)]
    #[serde(deserialize_with = "Option::deserialize")]
    put: Option<ValueBody>,
}

/// What must be true of a set for it to be changed.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
enum ExpectBody {
    /// In a word.
    Word(ExpectWord),
    /// It was last written then.
    At(u64),
}

/// Whether a set is there.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ExpectWord {
    /// It is not.
    Absent,
    /// It is.
    Present,
}

/// Refuses what is more than a list may have.
pub fn no_more_than(max: usize, count: usize, field: &str) -> Result<(), Problem> {
    if count <= max {
        return Ok(());
    }
    Err(Problem::invalid(field, Rule::LIMIT, format!("has {count}: {max} at a time is the most")))
}

/// The parts of a path to a set.
type SetPath = (String, String, String);

fn key((zone, name, rtype): &SetPath) -> Result<SetKey, Problem> {
    let (zone, name) = (read_name(zone, "zone")?, read_name(name, "name")?);
    Ok(SetKey { zone, name, rtype: read_type(rtype, "type")?, view: View::Default })
}

fn tell(set: &StoredSet) -> SetTold {
    let revision = (set.revision != Revision::NONE).then_some(set.revision.0);
    let SetBody { name, rtype, ttl, data, view, policy } = write_set(set);
    SetTold { name, rtype, ttl, data, view, policy, revision }
}

/// Record sets of a zone that the caller may read.
#[utoipa::path(
    get, path = "/v1/zones/{zone}/rrsets", tag = "rrsets",
    params(("zone" = String, Path, description = "The zone's name"), SetsQuery),
    responses(
        (status = 200, body = SetsPage),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_sets(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    At(zone): At<String>,
    Ask(query): Ask<SetsQuery>,
) -> Result<axum::Json<SetsPage>, Problem> {
    let zone = read_name(&zone, "zone")?;
    caller.check_in(Verb::Read, zone.as_name())?;
    let limit = page_limit(query.limit)?;
    let rtype = query.rtype.map(|text| read_type(&text, "type")).transpose()?;
    let prefix = query.prefix.unwrap_or_default().to_ascii_lowercase();
    let after = query.after.map(|text| cursor::read(&text, &zone)).transpose()?;
    let filter = Filter { prefix, rtype };
    let page =
        read(&desk, move |records| records.page(zone.as_name(), after.as_ref(), &filter, limit));
    let page = page.await?;
    let seen = page.sets.iter().filter(|set| caller.may(Verb::Read, &set.key));
    let (rrsets, next) = (seen.map(tell).collect(), page.next.as_ref().map(cursor::write));
    Ok(axum::Json(SetsPage { rrsets, next }))
}

/// Changes many record sets of a zone: all, or none.
#[utoipa::path(
    patch, path = "/v1/zones/{zone}/rrsets", tag = "rrsets",
    params(("zone" = String, Path, description = "The zone's name"), WaitQuery),
    request_body = Changes,
    responses(
        (status = 200, body = Receipt),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn patch_sets(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    At(zone): At<String>,
    Ask(query): Ask<WaitQuery>,
    Json(body, _room): Json<Changes>,
) -> Result<axum::Json<Receipt>, Problem> {
    let zone = read_name(&zone, "zone")?;
    caller.check_in(Verb::Write, zone.as_name())?;
    no_more_than(CHANGES_MAX, body.changes.len(), "changes")?;
    if body.changes.is_empty() {
        let what = "is empty: name one change at least";
        return Err(Problem::invalid("changes", Rule::LIMIT, what));
    }
    let mut edits = Vec::with_capacity(body.changes.len());
    for (number, change) in body.changes.into_iter().enumerate() {
        let place = format!("changes[{number}].");
        let edit = read_change(change, zone.as_name(), &place)?;
        let (name, rtype, view) = (edit.name.clone(), edit.rtype, edit.view);
        caller
            .check(Verb::Write, &SetKey { zone: zone.clone(), name, rtype, view })
            .map_err(|problem| problem.of_field(format!("{place}name")))?;
        edits.push(edit);
    }
    let batch = Batch { zone, edits, by: caller.name(), when: SystemTime::now() };
    let place = |edit: usize, field: &str| match field {
        "ttl" | "data" => format!("changes[{edit}].put.{field}"),
        "edits" => format!("changes[{edit}]"),
        field => format!("changes[{edit}].{field}"),
    };
    receipt(&desk, desk.records()?.write(batch), query.wait, place).await.map(axum::Json)
}

fn read_change(change: Change, origin: Name<'_>, place: &str) -> Result<Edit, Problem> {
    let name = read_name(&change.name, &format!("{place}name"))?;
    let rtype = read_type(&change.rtype, &format!("{place}type"))?;
    let view = match &change.view {
        Some(word) => read_view(word, &format!("{place}view"))?,
        None => View::Default,
    };
    let put = change.put.map(|value| read_value(&value, rtype, origin, &format!("{place}put.")));
    let expect = match change.expect {
        None => Expect::Anything,
        Some(ExpectBody::Word(ExpectWord::Absent)) => Expect::Absent,
        Some(ExpectBody::Word(ExpectWord::Present)) => Expect::Present,
        Some(ExpectBody::At(revision)) => Expect::At(Revision(revision)),
    };
    Ok(Edit { name, rtype, view, expect, put: put.transpose()? })
}

/// One record set.
#[utoipa::path(
    get, path = "/v1/zones/{zone}/rrsets/{name}/{type}", tag = "rrsets",
    params(
        ("zone" = String, Path, description = "The zone's name"),
        ("name" = String, Path, description = "The set's name, absolute"),
        ("type" = String, Path, description = "The set's type"),
        ("If-None-Match" = Option<String>, Header, description = "The entity tag of before"),
    ),
    responses(
        (status = 200, body = SetTold),
        (status = 304, description = "It is as it was"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_set(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    At(path): At<SetPath>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let key = key(&path)?;
    caller.check(Verb::Read, &key)?;
    let missing = Problem::missing(format!("{} has no record set {}", key.name, key.rtype));
    let set = read(&desk, move |records| records.set(&key)).await?.ok_or(missing)?;
    if set.revision == Revision::NONE {
        return Ok(axum::Json(tell(&set)).into_response());
    }
    let tag = [(ETAG, tag(set.revision))];
    Ok(match is_known(&headers, set.revision) {
        true => (StatusCode::NOT_MODIFIED, tag).into_response(),
        false => (tag, axum::Json(tell(&set))).into_response(),
    })
}

/// Writes one record set, whatever it held.
#[utoipa::path(
    put, path = "/v1/zones/{zone}/rrsets/{name}/{type}", tag = "rrsets",
    params(
        ("zone" = String, Path, description = "The zone's name"),
        ("name" = String, Path, description = "The set's name, absolute"),
        ("type" = String, Path, description = "The set's type"),
        WaitQuery,
        ("If-Match" = Option<String>, Header, description = "Only if it is as it was"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if it is not there"),
    ),
    request_body = ValueBody,
    responses(
        (status = 200, body = Receipt),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn put_set(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    At(path): At<SetPath>,
    Ask(query): Ask<WaitQuery>,
    headers: HeaderMap,
    Json(body, _room): Json<ValueBody>,
) -> Result<Response, Problem> {
    let key = key(&path)?;
    caller.check(Verb::Write, &key)?;
    let value = read_value(&body, key.rtype, key.zone.as_name(), "")?;
    let batch = one(key, expected(&headers)?, Some(value), &caller);
    Ok(receipt(&desk, desk.records()?.write(batch), query.wait, plainly).await?.tagged())
}

/// Deletes one record set.
#[utoipa::path(
    delete, path = "/v1/zones/{zone}/rrsets/{name}/{type}", tag = "rrsets",
    params(
        ("zone" = String, Path, description = "The zone's name"),
        ("name" = String, Path, description = "The set's name, absolute"),
        ("type" = String, Path, description = "The set's type"),
        WaitQuery,
        ("If-Match" = Option<String>, Header, description = "Only if it is as it was"),
    ),
    responses(
        (status = 200, body = Receipt),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn delete_set(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    At(path): At<SetPath>,
    Ask(query): Ask<WaitQuery>,
    headers: HeaderMap,
) -> Result<axum::Json<Receipt>, Problem> {
    let key = key(&path)?;
    caller.check(Verb::Write, &key)?;
    // To delete what is not there is no success: a client would not learn of its typing error.
    let (expect, missing) = match expected(&headers)? {
        Expect::Anything => (Expect::Present, true),
        expect => (expect, false),
    };
    let absent = Problem::missing(format!("{} has no record set {}", key.name, key.rtype));
    let batch = one(key, expect, None, &caller);
    let deleted = receipt(&desk, desk.records()?.write(batch), query.wait, plainly).await;
    deleted.map(axum::Json).map_err(|problem| match missing {
        true if problem.status() == StatusCode::PRECONDITION_FAILED => absent,
        _ => problem,
    })
}

fn one(key: SetKey, expect: Expect, put: Option<records::SetValue>, caller: &Caller) -> Batch {
    let SetKey { zone, name, rtype, view } = key;
    let edits = vec![Edit { name, rtype, view, expect, put }];
    Batch { zone, edits, by: caller.name(), when: SystemTime::now() }
}

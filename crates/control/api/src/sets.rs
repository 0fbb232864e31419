//! `/v1/zones/{zone}/rrsets`: reads and writes record sets.
use crate::body::{Json, PathParams, QueryParams, check_count, page_limit, present};
use crate::caller::Caller;
use crate::condition::{expected, is_known, tag};
use crate::cursor;
use crate::description::{
    MatchCondition, ReadCondition, Refusals, SetPath, WriteCondition, ZonePath,
};
use crate::endpoints::check_known;
use crate::limits::CHANGES_MAX;
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::receipt::{Receipt, WaitQuery, receipt};
use crate::shadow::{ShadowBody, put_keys};
use crate::state::{ApiState, blocking};
use crate::text::{SetBody, read_name, read_owner, read_prefix, read_type, write_set};
use crate::views::{SetQuery, ViewQuery, check_view, missing, view_or_all};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use hyper::header::ETAG;
use hyper::{HeaderMap, StatusCode};
use model::{
    BrokenRule, FailWord, MemberBody, MinUpBody, ValueBody, read_data, read_value, read_view,
};
use records::shadow::Shadow;
use records::{
    Batch, Edit, EditKind, Precondition, Revision, SetFilter, SetKey, SetValue, StoredSet, View,
    WriteContext,
};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;
use utoipa::{IntoParams, ToSchema};
use wire::Name;

/// A record set as it is stored.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordSet {
    /// The owner's name.
    name: String,
    /// The type.
    #[serde(rename = "type")]
    rtype: String,
    /// The TTL in seconds.
    ttl: u32,
    /// The data of each record, in presentation form.
    data: Vec<String>,
    /// The members with their tiers, weights and locations, if any has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<MemberBody>>,
    /// The view: `default`, that of all clients, or a named one.
    view: String,
    /// Which of the records an answer has.
    policy: String,
    /// The order of the records of an answer; absent: `random`, or that of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    then: Option<String>,
    /// The most records of an answer; absent: 1 with `one`, `weighted` and `hash`, else no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u16>,
    /// The check that the addresses have to pass; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<String>,
    /// With fewer members up, those that are not are answered, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_up: Option<MinUpBody>,
    /// What is answered if no member is up; absent: members that are down.
    #[serde(skip_serializing_if = "Option::is_none")]
    fail: Option<FailWord>,
    /// Comment of operators; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
    /// The revision of its last write: its entity tag is this number in quotes. Absent if the zone
    /// is not in the store.
    revision: Option<u64>,
    /// The record or zone that hides it from DNS.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadowed_by: Option<ShadowBody>,
}

/// A page of record sets.
#[derive(Debug, Serialize, ToSchema)]
pub struct SetsPage {
    /// In canonical order of the names, then by type.
    rrsets: Vec<RecordSet>,
    /// The value of `after` for the next page; absent on the last page. A page may have fewer sets
    /// than `limit` and not be the last one.
    next: Option<String>,
}

/// Query parameters of record sets.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SetsQuery {
    /// Only names whose first label begins with the first label of this, and whose other labels are
    /// the same: `h9` finds `h99`, `h9.prod` finds `h99.prod`. `@` finds the origin of the zone.
    prefix: Option<String>,
    /// Only this type.
    #[serde(rename = "type")]
    rtype: Option<String>,
    /// The sets of this view. Default: those of all clients.
    view: Option<String>,
    /// Only sets after this cursor: `next` of the page before.
    after: Option<String>,
    /// Maximum number of sets.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
}

/// Changes of one zone; all are applied, or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "changes": [
    { "name": "www.example.org.", "type": "A", "put": { "ttl": 60, "data": ["192.0.2.2"] } },
    { "name": "old.example.org.", "type": "A", "put": null, "if": "present" },
    { "name": "api.example.org.", "type": "A", "add": { "ttl": 60, "data": ["192.0.2.3"] } },
    { "name": "db.example.org.", "type": "A", "remove": { "data": ["192.0.2.4"] } }
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
    /// The view. Default: that of all clients.
    view: Option<String>,
    /// The condition: `absent`, `present`, or the revision of its last write.
    #[serde(rename = "if")]
    expect: Option<ExpectBody>,
    /// The new content; null: deleted.
    #[schema(value_type = Option<ValueBody>)]
    #[serde(default, deserialize_with = "present")]
    put: Option<Option<ValueBody>>,
    /// Instead of `put`: records to add to the set, which need not exist. Its TTL becomes theirs.
    add: Option<ValueBody>,
    /// Instead of `put`: records to remove from the set. Without records it is deleted.
    remove: Option<TakenMembers>,
}

/// Records to remove from a set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "data": ["192.0.2.1"] }))]
pub struct TakenMembers {
    /// The data of each record, in presentation form.
    #[schema(min_items = 1, max_items = 5000)]
    data: Vec<String>,
}

/// The condition of a change.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
enum ExpectBody {
    /// In one word.
    Word(ExpectWord),
    /// The revision of the set's last write.
    At(u64),
}

/// Whether a set must exist.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ExpectWord {
    /// It must not exist.
    Absent,
    /// It must exist.
    Present,
}

fn key(path: &SetPath, view: Option<&str>) -> Result<SetKey, Problem> {
    let zone = read_name(&path.zone, "zone")?;
    let name = read_owner(&path.name, zone.as_name(), "name")?;
    let rtype = read_type(&path.r#type, "type")?;
    Ok(SetKey { zone, name, rtype, view: view_or_all(view, "view")? })
}

fn tell(set: &StoredSet, shadow: Option<Shadow>) -> RecordSet {
    let revision = (set.revision != Revision::NONE).then_some(set.revision.0);
    let SetBody {
        name,
        rtype,
        ttl,
        data,
        mut members,
        view,
        policy,
        then,
        max,
        check,
        min_up,
        fail,
        comment,
    } = write_set(set);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    members.iter_mut().flatten().for_each(|member| member.show_weight(now.as_secs()));
    let shadowed_by = shadow.map(ShadowBody::from);
    RecordSet {
        name,
        rtype,
        ttl,
        data,
        members,
        view,
        policy,
        then,
        max,
        check,
        min_up,
        fail,
        comment,
        revision,
        shadowed_by,
    }
}

/// Record sets of a zone that the caller may read. The entity tag is that of the zone.
#[utoipa::path(
    get, path = "/v1/zones/{zone}/rrsets", tag = "rrsets",
    params(ZonePath, SetsQuery),
    responses(
        (status = 200, body = SetsPage, description = "A page of record sets",
            headers(("ETag" = String))),
        Refusals,
    )
)]
pub async fn list_sets(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    QueryParams(query): QueryParams<SetsQuery>,
) -> Result<Response, Problem> {
    let zone = read_name(&zone, "zone")?;
    caller.check_in(Verb::Read, zone.as_name())?;
    let limit = page_limit(query.limit)?;
    let rtype = query.rtype.map(|text| read_type(&text, "type")).transpose()?;
    let prefix = query.prefix.filter(|prefix| !prefix.is_empty());
    let prefix = prefix.map(|text| read_prefix(&text, zone.as_name())).transpose()?;
    let after = query.after.map(|text| cursor::read(&text, &zone)).transpose()?;
    let view = view_or_all(query.view.as_deref(), "view")?;
    let after = after.map(|after| SetKey { view, ..after });
    let filter = SetFilter { view, prefix, rtype };
    let page = state.read(move |records| {
        let mut page = records.page(zone.as_name(), after.as_ref(), &filter, limit)?;
        page.sets.retain(|set| caller.may(Verb::Read, &set.key));
        let keys: Vec<_> = page.sets.iter().map(|set| set.key.clone()).collect();
        Ok((records.shadows(&keys), page))
    });
    let (shadows, page) = page.await?;
    let rrsets = page.sets.iter().zip(shadows).map(|(set, shadow)| tell(set, shadow)).collect();
    let next = page.next.as_ref().map(cursor::write);
    let told = axum::Json(SetsPage { rrsets, next });
    Ok(match page.revision {
        Revision::NONE => told.into_response(),
        revision => ([(ETAG, tag(revision))], told).into_response(),
    })
}

/// Changes many record sets of a zone, as a whole. Sets that already have the content stay
/// unchanged.
#[utoipa::path(
    patch, path = "/v1/zones/{zone}/rrsets", tag = "rrsets",
    params(
        ZonePath,
        WaitQuery,
        MatchCondition,
    ),
    request_body = Changes,
    responses(
        (status = 200, body = Receipt, description = "Written, on the disk",
            headers(("ETag" = String))),
        Refusals,
    )
)]
pub async fn patch_sets(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    QueryParams(query): QueryParams<WaitQuery>,
    headers: HeaderMap,
    Json(body, _room): Json<Changes>,
) -> Result<Response, Problem> {
    let zone = read_name(&zone, "zone")?;
    caller.check_in(Verb::Write, zone.as_name())?;
    let context = query.context(&caller, expected(&headers)?)?;
    check_count(CHANGES_MAX, body.changes.len(), "changes")?;
    if body.changes.is_empty() {
        let what = "is empty: name one change at least";
        return Err(Problem::invalid("changes", BrokenRule::LIMIT, what));
    }
    let mut edits = Vec::with_capacity(body.changes.len());
    for (number, change) in body.changes.into_iter().enumerate() {
        let place = format!("changes[{number}].");
        let edit = read_change(change, zone.as_name(), &place)?;
        let (name, rtype, view) = (edit.name.clone(), edit.rtype, edit.view);
        caller.note_edits(std::slice::from_ref(&edit));
        let key = SetKey { zone: zone.clone(), name, rtype, view };
        let allowed = match edit.put {
            Some(_) => caller.check_put(&key),
            None => caller.check(Verb::Write, &key),
        };
        allowed.map_err(|problem| problem.of_field(format!("{place}name")))?;
        if let Some(value) = &edit.put {
            check_known(&state, value, &format!("{place}put."))?;
        }
        edits.push(edit);
    }
    let put = put_keys(&zone, &edits);
    let batch = Batch { zone: zone.clone(), edits, context };
    let place = |edit: usize, field: &str| match field {
        "ttl" | "data" | "members" => format!("changes[{edit}].put.{field}"),
        "edits" => format!("changes[{edit}]"),
        field => format!("changes[{edit}].{field}"),
    };
    let writing = state.records()?.write(batch);
    let written = receipt(&state, &caller, (&zone, writing), query.wait, place).await?;
    Ok(blocking(move || written.with_shadows(&state, &put)).await?.tagged_zone())
}

fn read_change(change: Change, origin: Name<'_>, place: &str) -> Result<Edit, Problem> {
    let name = read_owner(&change.name, origin, &format!("{place}name"))?;
    let rtype = read_type(&change.rtype, &format!("{place}type"))?;
    let view = match &change.view {
        Some(word) => read_view(word, &format!("{place}view"))?,
        None => View::DEFAULT,
    };
    let (kind, put) = match (change.put, change.add, change.remove) {
        (Some(put), None, None) => {
            let check = |value| check_view(view, value, &format!("{place}put."));
            put.as_ref().map_or(Ok(()), check)?;
            let put = put.map(|value| read_value(&value, rtype, &format!("{place}put.")));
            (EditKind::Replace, put.transpose()?)
        }
        (None, Some(added), None) => {
            check_view(view, &added, &format!("{place}add."))?;
            (EditKind::Add, Some(read_value(&added, rtype, &format!("{place}add."))?))
        }
        (None, None, Some(TakenMembers { data })) => {
            let data = read_data(&data, rtype, &format!("{place}remove."))?;
            (EditKind::Take, Some(SetValue::new(0, data)))
        }
        _ => {
            let what = "has exactly one of `put`, `add` and `remove`";
            return Err(Problem::unreadable(place.trim_end_matches('.'), what));
        }
    };
    let expect = match change.expect {
        None => Precondition::Anything,
        Some(ExpectBody::Word(ExpectWord::Absent)) => Precondition::Absent,
        Some(ExpectBody::Word(ExpectWord::Present)) => Precondition::Present,
        Some(ExpectBody::At(revision)) => Precondition::At(Revision(revision)),
    };
    Ok(Edit { name, rtype, view, expect, kind, put })
}

/// One record set.
#[utoipa::path(
    get, path = "/v1/zones/{zone}/rrsets/{name}/{type}", tag = "rrsets",
    params(
        SetPath,
        ViewQuery,
        ReadCondition,
    ),
    responses(
        (status = 200, body = RecordSet, description = "The record set",
            headers(("ETag" = String))),
        (status = 304, description = "Unchanged since the entity tag in If-None-Match"),
        Refusals,
    )
)]
pub async fn get_set(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(path): PathParams<SetPath>,
    QueryParams(query): QueryParams<ViewQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let key = key(&path, query.view.as_deref())?;
    caller.check(Verb::Read, &key)?;
    let missing = missing(&key);
    let found = state.read(move |records| {
        let set = records.set(&key)?;
        Ok(set.map(|set| (set, records.shadows(&[key]).pop().flatten())))
    });
    let (set, shadow) = found.await?.ok_or(missing)?;
    if set.revision == Revision::NONE {
        return Ok(axum::Json(tell(&set, shadow)).into_response());
    }
    let tag = [(ETAG, tag(set.revision))];
    Ok(match is_known(&headers, set.revision) {
        true => (StatusCode::NOT_MODIFIED, tag).into_response(),
        false => (tag, axum::Json(tell(&set, shadow))).into_response(),
    })
}

/// Replaces one record set. A set that already has the content stays unchanged, with its entity
/// tag.
#[utoipa::path(
    put, path = "/v1/zones/{zone}/rrsets/{name}/{type}", tag = "rrsets",
    params(
        SetPath,
        SetQuery,
        WriteCondition,
    ),
    request_body = ValueBody,
    responses(
        (status = 200, body = Receipt, description = "Written, on the disk",
            headers(("ETag" = String))),
        Refusals,
    )
)]
pub async fn put_set(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(path): PathParams<SetPath>,
    QueryParams(query): QueryParams<SetQuery>,
    headers: HeaderMap,
    Json(body, _room): Json<ValueBody>,
) -> Result<Response, Problem> {
    let SetQuery { view, wait, reason } = query;
    let query = WaitQuery { wait, reason };
    let key = key(&path, view.as_deref())?;
    caller.check_put(&key)?;
    check_view(key.view, &body, "")?;
    let value = read_value(&body, key.rtype, "")?;
    check_known(&state, &value, "")?;
    let context = query.context(&caller, Precondition::Anything)?;
    let batch = one(key.clone(), expected(&headers)?, Some(value), context);
    let writing = state.records()?.write(batch);
    let written = receipt(&state, &caller, (&key.zone, writing), query.wait, plainly).await?;
    Ok(written.with_shadows(&state, &[key]).tagged())
}

/// Deletes one record set.
#[utoipa::path(
    delete, path = "/v1/zones/{zone}/rrsets/{name}/{type}", tag = "rrsets",
    params(
        SetPath,
        SetQuery,
        MatchCondition,
    ),
    responses(
        (status = 200, body = Receipt, description = "Deleted, on the disk"),
        Refusals,
    )
)]
pub async fn delete_set(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(path): PathParams<SetPath>,
    QueryParams(query): QueryParams<SetQuery>,
    headers: HeaderMap,
) -> Result<axum::Json<Receipt>, Problem> {
    let SetQuery { view, wait, reason } = query;
    let query = WaitQuery { wait, reason };
    let key = key(&path, view.as_deref())?;
    caller.check(Verb::Write, &key)?;
    // Deleting an absent set is an error, so that a client notices a typing error.
    let wished = expected(&headers)?;
    let expect =
        if wished == Precondition::Anything { Precondition::Present } else { wished.clone() };
    let absent = missing(&key);
    let zone = key.zone.clone();
    let batch = one(key, expect, None, query.context(&caller, Precondition::Anything)?);
    let writing = state.records()?.write(batch);
    match receipt(&state, &caller, (&zone, writing), query.wait, plainly).await {
        Err(problem)
            if wished == Precondition::Anything
                && problem.status() == StatusCode::PRECONDITION_FAILED =>
        {
            Err(absent)
        }
        Ok(_) if wished == Precondition::Absent => Err(absent),
        deleted => deleted.map(axum::Json),
    }
}

fn one(
    key: SetKey,
    expect: Precondition,
    put: Option<records::SetValue>,
    context: WriteContext,
) -> Batch {
    let SetKey { zone, name, rtype, view } = key;
    let edits = vec![Edit { name, rtype, view, expect, kind: EditKind::Replace, put }];
    Batch { zone, edits, context }
}

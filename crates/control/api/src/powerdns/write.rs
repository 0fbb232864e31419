//! Writes: zones, and batches of changes of one zone.
use super::form::AnyJson;
use super::read::find_zone;
use crate::body::{PathParams, check_count};
use crate::caller::Caller;
use crate::condition::expected;
use crate::description::ZonePath;
use crate::limits::{CHANGES_MAX, REVERT_TRIES_MAX};
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::receipt::{Wait, WaitQuery, receipt};
use crate::state::ApiState;
use crate::zones::check_captured;
use axum::Json;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use hyper::header::LOCATION;
use hyper::{HeaderMap, StatusCode};
use model::{BrokenRule, InvalidField};
use powerdns::{NewZone, PatchKind, SetPatch, check_kind, merge, read_new_zone, read_patch};
use powerdns::{read_zone_id, set_body, zone_head};
use records::{
    Batch, Edit, EditKind, Precondition, RecordService, Refused, SetKey, SetValue, View,
    WriteContext,
};
use serde_json::{Value, json};
use wire::NameBuf;

/// The author and the condition of a write, which is live when it is answered.
fn context(caller: &Caller, expect: Precondition) -> Result<WriteContext, Problem> {
    WaitQuery::default().context(caller, expect)
}

/// `POST …/zones`: a new zone, with its sets. 201 with the zone; 409 if it is there.
pub async fn create_zone(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    AnyJson(body, _room): AnyJson,
) -> Result<Response, Problem> {
    let NewZone { origin, edits } = read_new_zone(&body)?;
    caller.check_all_of(Verb::Zones, origin.as_name())?;
    check_captured(&state, &caller, &origin).await?;
    check_count(CHANGES_MAX - 1, edits.len(), "rrsets")?;
    let wanted = origin.clone();
    let there = state.read(move |records| records.zone(wanted.as_name())).await?;
    if there.is_some_and(|zone| zone.owner != records::ZoneOwner::BuiltIn) {
        return Err(Problem::refused(Refused::ZoneExists, plainly));
    }
    caller.note_edits(&edits);
    let batch =
        Batch { zone: origin.clone(), edits, context: context(&caller, Precondition::Absent)? };
    let writing = state.records()?.create_zone(batch);
    let made = receipt(&state, &caller, (&origin, writing), Some(Wait::Live), place).await;
    made.map_err(|problem| match problem.status() {
        StatusCode::PRECONDITION_FAILED => Problem::refused(Refused::ZoneExists, plainly),
        _ => problem,
    })?;
    let found = find_zone(&state, &caller, Verb::Zones, &origin).await?;
    let mut zone = zone_head(origin.as_name(), found.serial.unwrap_or_default());
    zone.insert("rrsets".to_owned(), sets_of(&state, &origin).await?);
    let location = zone["url"].as_str().unwrap_or_default().to_owned();
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(Value::Object(zone))).into_response())
}

/// The sets of a zone that was just created, which its request is the bound of.
async fn sets_of(state: &ApiState, origin: &NameBuf) -> Result<Value, Problem> {
    let origin = origin.clone();
    let sets = state.read(move |records| {
        let mut sets = Vec::new();
        records.export(origin.as_name(), &mut |_, set| {
            sets.push(set_body(set.key.name.as_name(), set.key.rtype, &set.value));
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(sets)
    });
    Ok(sets.await?.into())
}

/// Where an edit stands in a request.
fn place(edit: usize, field: &str) -> String {
    match field {
        "edits" => format!("rrsets[{edit}]"),
        "data" => format!("rrsets[{edit}].records"),
        field => format!("rrsets[{edit}].{field}"),
    }
}

/// `PATCH …/zones/{zone}`: all changes, or none. 204 once every worker serves them.
pub async fn patch_zone(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    headers: HeaderMap,
    AnyJson(body, _room): AnyJson,
) -> Result<StatusCode, Problem> {
    let origin = read_zone_id(&zone)?;
    find_zone(&state, &caller, Verb::Write, &origin).await?;
    let expect = expected(&headers)?;
    let patches = read_patch(&body, origin.as_name())?;
    check_count(CHANGES_MAX, patches.len(), "rrsets")?;
    if patches.is_empty() {
        return Ok(StatusCode::NO_CONTENT);
    }
    for tried in 1.. {
        let (zone, planned) = (origin.clone(), patches.clone());
        let edits = state.read(move |records| plan(records, &zone, planned)).await??;
        if tried == 1 {
            check_edits(&caller, &origin, &edits)?;
        }
        let batch =
            Batch { zone: origin.clone(), edits, context: context(&caller, expect.clone())? };
        let writing = state.records()?.write(batch);
        let wait = Some(Wait::Live);
        match receipt(&state, &caller, (&origin, writing), wait, place).await {
            // Another client wrote a set between its reading and its writing.
            Err(problem)
                if problem.status() == StatusCode::PRECONDITION_FAILED
                    && expect == Precondition::Anything
                    && tried < REVERT_TRIES_MAX => {}
            done => return done.map(|_| StatusCode::NO_CONTENT),
        }
    }
    unreachable!("the last try returns")
}

/// Refuses edits that no grant covers.
fn check_edits(caller: &Caller, zone: &NameBuf, edits: &[Edit]) -> Result<(), Problem> {
    caller.note_edits(edits);
    for (number, edit) in edits.iter().enumerate() {
        let (name, rtype) = (edit.name.clone(), edit.rtype);
        let key = SetKey { zone: zone.clone(), name, rtype, view: View::DEFAULT };
        let allowed = match edit.put {
            Some(_) => caller.check_put(&key),
            None => caller.check(Verb::Write, &key),
        };
        allowed.map_err(|problem| problem.of_field(place(number, "name")))?;
    }
    Ok(())
}

/// The edits of changes. A change that keeps something of its set, such as its policy, is bound to
/// the revision that was read.
fn plan(
    records: &RecordService,
    zone: &NameBuf,
    patches: Vec<SetPatch>,
) -> Result<Result<Vec<Edit>, Problem>, Refused> {
    let mut edits = Vec::with_capacity(patches.len());
    for (number, SetPatch { name, rtype, kind }) in patches.into_iter().enumerate() {
        let key = SetKey { zone: zone.clone(), name: name.clone(), rtype, view: View::DEFAULT };
        let edit = match kind {
            PatchKind::Delete => Edit::remove(name, rtype),
            PatchKind::Extend(ttl, data) => {
                let value = SetValue::new(ttl, vec![data]);
                Edit { kind: EditKind::Add, ..Edit::put(name, rtype, value) }
            }
            PatchKind::Prune(data) => {
                let value = SetValue::new(0, vec![data]);
                Edit { kind: EditKind::Take, ..Edit::put(name, rtype, value) }
            }
            PatchKind::Replace { records: new, comment } => {
                match replace(records, key, new, comment)? {
                    Some(edit) => edit,
                    None => {
                        let what = "belong to a set that is not there: Dunlin keeps a comment \
                                    beside records";
                        let field = place(number, "comments");
                        let (rule, what) = (BrokenRule::SET_RULES, what.into());
                        return Ok(Err(InvalidField { field, rule, what }.into()));
                    }
                }
            }
        };
        edits.push(edit);
    }
    Ok(Ok(edits))
}

/// The edit of a `REPLACE`; `None`: a comment of a set that is not there.
fn replace(
    records: &RecordService,
    key: SetKey,
    new: Option<(u32, Vec<Box<[u8]>>)>,
    comment: Option<String>,
) -> Result<Option<Edit>, Refused> {
    let (name, rtype) = (key.name.clone(), key.rtype);
    if new.as_ref().is_some_and(|(_, data)| data.is_empty()) {
        return Ok(Some(Edit::remove(name, rtype)));
    }
    let Some(current) = records.set(&key)? else {
        return Ok(new.map(|(ttl, data)| {
            let mut value = SetValue::new(ttl, data);
            value.policy = value.policy.with_comment(&comment.unwrap_or_default());
            Edit::put(name, rtype, value)
        }));
    };
    let keeps = new.is_none() || current.value.policy.rules().is_some();
    let mut value = match new {
        Some((ttl, data)) => merge(current.value, ttl, data),
        None => current.value,
    };
    if let Some(comment) = comment {
        value.policy = value.policy.with_comment(&comment);
    }
    let mut edit = Edit::put(name, rtype, value);
    if keeps {
        edit.expect = Precondition::At(current.revision);
    }
    Ok(Some(edit))
}

/// `PUT …/zones/{zone}`: nothing of it is stored, but what a zone cannot be is refused.
pub async fn put_zone(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    AnyJson(body, _room): AnyJson,
) -> Result<StatusCode, Problem> {
    find_zone(&state, &caller, Verb::Write, &read_zone_id(&zone)?).await?;
    check_kind(&body)?;
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE …/zones/{zone}`
pub async fn delete_zone(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let origin = read_zone_id(&zone)?;
    caller.check_all_of(Verb::Zones, origin.as_name())?;
    let context = context(&caller, expected(&headers)?)?;
    let writing = state.records()?.delete_zone(origin.clone(), context);
    let deleted = receipt(&state, &caller, (&origin, writing), Some(Wait::Live), plainly);
    deleted.await.map(|_| StatusCode::NO_CONTENT)
}

/// `PUT …/notify`: changes reach secondaries without it.
pub async fn notify(
    state: State<ApiState>,
    caller: Extension<Caller>,
    path: PathParams<ZonePath>,
) -> Result<Json<Value>, Problem> {
    acknowledge(state, caller, path, "Nothing to do: the zone is live").await
}

/// `PUT …/rectify`: there is nothing to order.
pub async fn rectify(
    state: State<ApiState>,
    caller: Extension<Caller>,
    path: PathParams<ZonePath>,
) -> Result<Json<Value>, Problem> {
    acknowledge(state, caller, path, "Rectified").await
}

async fn acknowledge(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    result: &str,
) -> Result<Json<Value>, Problem> {
    find_zone(&state, &caller, Verb::Write, &read_zone_id(&zone)?).await?;
    Ok(Json(json!({ "result": result })))
}

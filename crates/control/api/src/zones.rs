//! `/v1/zones`: zones, and the source of each.
use crate::body::{Json, PathParams, QueryParams, check_count, page_limit};
use crate::caller::Caller;
use crate::condition::{expected, is_known, tag};
use crate::description::{MatchCondition, ReadCondition, Refusals, WriteCondition, ZonePath};
use crate::limits::CHANGES_MAX;
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::receipt::{Receipt, WaitQuery, receipt};
use crate::shadow::put_keys;
use crate::state::{ApiState, blocking};
use crate::text::{SetBody, read_name, read_owner, read_type};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use hyper::header::ETAG;
use hyper::{HeaderMap, StatusCode};
use model::read_value;
use records::{Batch, Edit, Policy, Refused, Revision, SetValue, ZoneInfo, ZoneOwner};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wire::{Name, NameBuf, Rtype};

/// TTL of the NS records of a new zone, in seconds.
const NS_TTL: u32 = 3_600;

/// A zone.
#[derive(Debug, Serialize, ToSchema)]
pub struct ZoneBody {
    /// Its name, with the final dot.
    name: String,
    /// The source of its content: only zones of the store can be written here.
    owner: OwnerBody,
    /// The file with its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The revision of its last write: its entity tag is this number in quotes. Absent if it is not
    /// in the store.
    revision: Option<u64>,
    /// The serial that DNS serves; absent: it was never loaded.
    serial: Option<u32>,
    /// The serial after the next write, if no other write comes before; absent if it is not in the
    /// store.
    next_serial: Option<u32>,
    /// The number of record sets; absent if it is not in the store.
    rrsets: Option<u64>,
}

/// The source of a zone's content.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum OwnerBody {
    /// The store: it can be written here.
    Store,
    /// A file named in the config.
    File,
    /// Built into the server.
    BuiltIn,
    /// Another source, such as Kubernetes.
    Source,
}

/// A page of zones.
#[derive(Debug, Serialize, ToSchema)]
pub struct ZonesPage {
    zones: Vec<ZoneBody>,
    /// The value of `after` for the next page; absent on the last page.
    next: Option<String>,
}

/// Query parameters of zones.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ZonesQuery {
    /// Only zones after this one, in canonical order: `next` of the page before.
    after: Option<String>,
    /// Maximum number of zones.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
    /// Include built-in zones, such as `localhost`.
    builtin: Option<bool>,
}

/// A new zone.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "nameservers": ["ns1.example.org."] }))]
pub struct NewZone {
    /// The names of its name servers, absolute, with or without the final dot.
    #[serde(default)]
    nameservers: Vec<String>,
    /// Other record sets. Without an SOA the zone gets one, whose serial the server maintains.
    #[serde(default)]
    rrsets: Vec<SetBody>,
}

fn describe(zone: ZoneInfo) -> ZoneBody {
    let (owner, file) = match zone.owner {
        ZoneOwner::Store => (OwnerBody::Store, None),
        ZoneOwner::File(file) => (OwnerBody::File, Some(file.display().to_string())),
        ZoneOwner::BuiltIn => (OwnerBody::BuiltIn, None),
        ZoneOwner::Source(_) => (OwnerBody::Source, None),
    };
    let revision = matches!(owner, OwnerBody::Store).then_some(zone.revision.0);
    let (name, serial, rrsets) = (zone.origin.to_string(), zone.serial, zone.sets);
    ZoneBody { name, owner, file, revision, serial, next_serial: zone.next_serial, rrsets }
}

/// The zones that the caller may read, in canonical order.
#[utoipa::path(
    get, path = "/v1/zones", tag = "zones", params(ZonesQuery),
    responses(
        (status = 200, body = ZonesPage, description = "A page of zones"),
        Refusals,
    )
)]
pub async fn list_zones(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<ZonesQuery>,
) -> Result<axum::Json<ZonesPage>, Problem> {
    let limit = page_limit(query.limit)?;
    let after = query.after.map(|text| read_name(&text, "after")).transpose()?;
    let builtin = query.builtin == Some(true);
    let (zones, has_more) = state
        .read(move |records| {
            let accept = |origin: Name<'_>| caller.may_in(Verb::Read, origin);
            records.zones(after.as_ref().map(NameBuf::as_name), limit, builtin, accept)
        })
        .await?;
    let next = zones.last().filter(|_| has_more).map(|zone| zone.origin.to_string());
    Ok(axum::Json(ZonesPage { zones: zones.into_iter().map(describe).collect(), next }))
}

/// One zone.
#[utoipa::path(
    get, path = "/v1/zones/{zone}", tag = "zones",
    params(
        ZonePath,
        ReadCondition,
    ),
    responses(
        (status = 200, body = ZoneBody, description = "The zone",
            headers(("ETag" = String))),
        (status = 304, description = "Unchanged since the entity tag in If-None-Match"),
        Refusals,
    )
)]
pub async fn get_zone(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let origin = read_name(&zone, "zone")?;
    caller.check_in(Verb::Read, origin.as_name())?;
    let found = state.read(move |records| records.zone(origin.as_name())).await?;
    let found = found.ok_or_else(|| Problem::refused(Refused::NoSuchZone, plainly))?;
    let revision = found.revision;
    if revision == Revision::NONE {
        return Ok(axum::Json(describe(found)).into_response());
    }
    let tag = [(ETAG, tag(revision))];
    Ok(match is_known(&headers, revision) {
        true => (StatusCode::NOT_MODIFIED, tag).into_response(),
        false => (tag, axum::Json(describe(found))).into_response(),
    })
}

/// Creates a zone. It needs name servers, in `nameservers` or in `rrsets`. A zone that exists with
/// the same content stays unchanged; with other content it is refused.
#[utoipa::path(
    put, path = "/v1/zones/{zone}", tag = "zones",
    params(
        ZonePath,
        WaitQuery,
        WriteCondition,
    ),
    request_body = NewZone,
    responses(
        (status = 200, body = Receipt, description = "The zone exists, on the disk",
            headers(("ETag" = String))),
        Refusals,
    )
)]
pub async fn put_zone(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    QueryParams(query): QueryParams<WaitQuery>,
    headers: HeaderMap,
    Json(body, _room): Json<NewZone>,
) -> Result<Response, Problem> {
    let origin = read_name(&zone, "zone")?;
    caller.check_all_of(Verb::Zones, origin.as_name())?;
    check_captured(&state, &caller, &origin).await?;
    let context = query.context(&caller, expected(&headers)?)?;
    // The new zone itself is one of the changes.
    check_count(CHANGES_MAX - 1, body.rrsets.len(), "rrsets")?;
    let mut edits = Vec::new();
    for (number, set) in body.rrsets.into_iter().enumerate() {
        let place = format!("rrsets[{number}].");
        let rtype = read_type(&set.rtype, &format!("{place}type"))?;
        let name = read_owner(&set.name, origin.as_name(), &format!("{place}name"))?;
        let value = read_value(&set.value(), rtype, &place)?;
        edits.push(Edit::put(name, rtype, value));
    }
    let of_sets = edits.len();
    edits.extend(servers(&origin, &body.nameservers)?);
    let put = put_keys(&origin, &edits);
    caller.note_edits(&edits);
    let batch = Batch { zone: origin.clone(), edits, context };
    let place = move |edit: usize, field: &str| match edit < of_sets {
        true if field == "edits" => format!("rrsets[{edit}]"),
        true => format!("rrsets[{edit}].{field}"),
        false => "nameservers".to_owned(),
    };
    let writing = state.records()?.create_zone(batch);
    let made = receipt(&state, &caller, (&origin, writing), query.wait, place).await?;
    Ok(blocking(move || made.with_shadows(&state, &put)).await?.tagged_zone())
}

/// Refuses a zone whose names another zone serves today, the closest one above it, unless the
/// caller may write them there. Built-in zones have no names to lose.
pub async fn check_captured(
    state: &ApiState,
    caller: &Caller,
    origin: &NameBuf,
) -> Result<(), Problem> {
    let below = origin.clone();
    let enclosing = state.read(move |records| {
        let mut above = below.as_name().parent();
        while let Some(name) = above {
            if let Some(zone) = records.zone(name)? {
                return Ok(Some(zone));
            }
            above = name.parent();
        }
        Ok(None)
    });
    match enclosing.await? {
        Some(zone) if zone.owner != ZoneOwner::BuiltIn => {
            caller.check_captured(zone.origin.as_name(), origin.as_name())
        }
        _ => Ok(()),
    }
}

/// The NS set of a zone, if name servers are given.
fn servers(origin: &NameBuf, names: &[String]) -> Result<Option<Edit>, Problem> {
    let mut data: Vec<Box<[u8]>> = Vec::new();
    for (number, text) in names.iter().enumerate() {
        let name = read_name(text, &format!("nameservers[{number}]"))?;
        data.push(Name::as_bytes(name.as_name()).into());
    }
    let value = SetValue { ttl: NS_TTL, data, policy: Policy::All };
    Ok((!names.is_empty()).then(|| Edit::put(origin.clone(), Rtype::NS, value)))
}

/// Deletes a zone with all its record sets.
#[utoipa::path(
    delete, path = "/v1/zones/{zone}", tag = "zones",
    params(
        ZonePath,
        WaitQuery,
        MatchCondition,
    ),
    responses(
        (status = 200, body = Receipt, description = "Deleted, on the disk"),
        Refusals,
    )
)]
pub async fn delete_zone(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    QueryParams(query): QueryParams<WaitQuery>,
    headers: HeaderMap,
) -> Result<axum::Json<Receipt>, Problem> {
    let origin = read_name(&zone, "zone")?;
    caller.check_all_of(Verb::Zones, origin.as_name())?;
    let context = query.context(&caller, expected(&headers)?)?;
    let writing = state.records()?.delete_zone(origin.clone(), context);
    let deleted = receipt(&state, &caller, (&origin, writing), query.wait, plainly);
    deleted.await.map(axum::Json)
}

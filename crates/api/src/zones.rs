//! `/v1/zones`: which there are, and who says what they hold.
use crate::body::{Ask, At, Json};
use crate::caller::Caller;
use crate::limits::{CHANGES_MAX, PAGE_DEFAULT, PAGE_MAX};
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::routes::{Desk, Receipt, WaitQuery, read, receipt};
use crate::sets::no_more_than;
use crate::text::{SetBody, read_name, read_type, read_value};
use axum::extract::{Extension, State};
use axum::response::Response;
use model::Rule;
use records::{Batch, Edit, Owner, Policy, Refused, SetValue, ZoneInfo};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::time::SystemTime;
use utoipa::{IntoParams, ToSchema};
use wire::{Name, NameBuf, Rtype};

/// Seconds that the name servers of a new zone may be kept.
const NS_TTL: u32 = 3_600;

/// A zone.
#[derive(Debug, Serialize, ToSchema)]
pub struct ZoneBody {
    /// Its name, with the final dot.
    name: String,
    /// Who says what it holds: only a zone of the store is written here.
    owner: OwnerBody,
    /// The file that says what it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// When it was last written; nothing, where it is not the store's.
    revision: Option<u64>,
    /// The serial of its SOA, as it is answered; nothing: it was never loaded.
    serial: Option<u32>,
    /// Its record sets; nothing, where it is not the store's.
    rrsets: Option<u64>,
}

/// Who says what a zone holds.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum OwnerBody {
    /// The store: it is written here.
    Store,
    /// A file that the config names.
    File,
    /// The server itself.
    BuiltIn,
}

/// A page of zones.
#[derive(Debug, Serialize, ToSchema)]
pub struct ZonesPage {
    zones: Vec<ZoneBody>,
    /// What `after` is for the next page; nothing: there are no more.
    next: Option<String>,
}

/// Which zones.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ZonesQuery {
    /// Only zones behind this one, in canonical order: `next` of the page before.
    after: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
}

/// A zone to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "nameservers": ["ns1.example.org."] }))]
pub struct NewZone {
    /// The names of its servers; those without a final dot lie in the zone.
    #[serde(default)]
    nameservers: Vec<String>,
    /// What else it holds. Without an SOA it gets one, whose serial is kept for you.
    #[serde(default)]
    rrsets: Vec<SetBody>,
}

fn describe(zone: ZoneInfo) -> ZoneBody {
    let (owner, file) = match zone.owner {
        Owner::Store => (OwnerBody::Store, None),
        Owner::File(file) => (OwnerBody::File, Some(file.display().to_string())),
        Owner::BuiltIn => (OwnerBody::BuiltIn, None),
    };
    let revision = matches!(owner, OwnerBody::Store).then_some(zone.revision.0);
    let (name, serial, rrsets) = (zone.origin.to_string(), zone.serial, zone.sets);
    ZoneBody { name, owner, file, revision, serial, rrsets }
}

/// How many of a page are wanted.
pub fn page_limit(limit: Option<usize>) -> Result<usize, Problem> {
    match limit {
        None => Ok(PAGE_DEFAULT),
        Some(limit @ 1..=PAGE_MAX) => Ok(limit),
        Some(_) => {
            Err(Problem::invalid("limit", Rule::LIMIT, format!("is 1 to {PAGE_MAX} a page")))
        }
    }
}

/// The zones that the caller may read, in canonical order.
#[utoipa::path(
    get, path = "/v1/zones", tag = "zones", params(ZonesQuery),
    responses(
        (status = 200, body = ZonesPage),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_zones(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    Ask(query): Ask<ZonesQuery>,
) -> Result<axum::Json<ZonesPage>, Problem> {
    let limit = page_limit(query.limit)?;
    let after = query.after.map(|text| read_name(&text, "after")).transpose()?;
    let mut zones = read(&desk, |records| records.zones()).await?;
    let is_behind = |zone: &ZoneInfo| {
        after.as_ref().is_none_or(|after| {
            zone.origin.as_name().canonical_cmp(after.as_name()) == Ordering::Greater
        })
    };
    zones.retain(|zone| is_behind(zone) && caller.may_in(Verb::Read, zone.origin.as_name()));
    let is_cut = zones.len() > limit;
    zones.truncate(limit);
    let next = zones.last().filter(|_| is_cut).map(|zone| zone.origin.to_string());
    Ok(axum::Json(ZonesPage { zones: zones.into_iter().map(describe).collect(), next }))
}

/// One zone.
#[utoipa::path(
    get, path = "/v1/zones/{zone}", tag = "zones",
    params(("zone" = String, Path, description = "The zone's name")),
    responses(
        (status = 200, body = ZoneBody),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn get_zone(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    At(zone): At<String>,
) -> Result<axum::Json<ZoneBody>, Problem> {
    let origin = read_name(&zone, "zone")?;
    caller.check_in(Verb::Read, origin.as_name())?;
    let found = read(&desk, move |records| records.zone(origin.as_name())).await?;
    let found = found.ok_or_else(|| Problem::refused(Refused::NoSuchZone, plainly))?;
    Ok(axum::Json(describe(found)))
}

/// Makes a zone. It needs name servers, by `nameservers` or among `rrsets`.
#[utoipa::path(
    put, path = "/v1/zones/{zone}", tag = "zones",
    params(("zone" = String, Path, description = "The zone's name"), WaitQuery),
    request_body = NewZone,
    responses(
        (status = 200, body = Receipt),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn put_zone(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    At(zone): At<String>,
    Ask(query): Ask<WaitQuery>,
    Json(body, _room): Json<NewZone>,
) -> Result<Response, Problem> {
    let origin = read_name(&zone, "zone")?;
    caller.check_all_of(Verb::Zones, origin.as_name())?;
    // The zone itself is one of the changes.
    no_more_than(CHANGES_MAX - 1, body.rrsets.len(), "rrsets")?;
    let mut edits = Vec::new();
    for (number, set) in body.rrsets.into_iter().enumerate() {
        let place = format!("rrsets[{number}].");
        let rtype = read_type(&set.rtype, &format!("{place}type"))?;
        let name = read_name(&set.name, &format!("{place}name"))?;
        let value = read_value(&set.value(), rtype, origin.as_name(), &place)?;
        edits.push(Edit::put(name, rtype, value));
    }
    let of_sets = edits.len();
    edits.extend(servers(&origin, &body.nameservers)?);
    let batch = Batch { zone: origin, edits, by: caller.name(), when: SystemTime::now() };
    let place = move |edit: usize, field: &str| match edit < of_sets {
        true if field == "edits" => format!("rrsets[{edit}]"),
        true => format!("rrsets[{edit}].{field}"),
        false => "nameservers".to_owned(),
    };
    let writing = desk.records()?.create_zone(batch);
    Ok(receipt(&desk, writing, query.wait, place).await?.tagged())
}

/// The set of a zone's servers, if any are named.
fn servers(origin: &NameBuf, names: &[String]) -> Result<Option<Edit>, Problem> {
    let mut data: Vec<Box<[u8]>> = Vec::new();
    for (number, text) in names.iter().enumerate() {
        let name = NameBuf::from_text(text.as_bytes(), origin.as_name()).map_err(|why| {
            let field = format!("nameservers[{number}]");
            Problem::invalid(field, Rule::NAME, format!("is not a name: {why}"))
        })?;
        data.push(Name::octets(name.as_name()).into());
    }
    let value = SetValue { ttl: NS_TTL, data, policy: Policy::All };
    Ok((!names.is_empty()).then(|| Edit::put(origin.clone(), Rtype::NS, value)))
}

/// Takes a zone away with all it holds.
#[utoipa::path(
    delete, path = "/v1/zones/{zone}", tag = "zones",
    params(("zone" = String, Path, description = "The zone's name"), WaitQuery),
    responses(
        (status = 200, body = Receipt),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn delete_zone(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    At(zone): At<String>,
    Ask(query): Ask<WaitQuery>,
) -> Result<axum::Json<Receipt>, Problem> {
    let origin = read_name(&zone, "zone")?;
    caller.check_all_of(Verb::Zones, origin.as_name())?;
    let writing = desk.records()?.delete_zone(origin, caller.name(), SystemTime::now());
    receipt(&desk, writing, query.wait, plainly).await.map(axum::Json)
}

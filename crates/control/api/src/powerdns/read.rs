//! Reads: the server, its zones, and a zone with its record sets.
use crate::body::{PathParams, QueryParams};
use crate::bulk::begin_export;
use crate::caller::Caller;
use crate::condition::{is_known, tag};
use crate::description::ZonePath;
use crate::limits::PAGE_MAX;
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::state::ApiState;
use crate::stream::{ChunkWriter, StreamedResponse};
use axum::Json;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use hyper::header::{CONTENT_TYPE, ETAG};
use hyper::{HeaderMap, StatusCode};
use powerdns::{read_zone_filter, read_zone_id, set_body, zone_head, zones_head};
use records::{RecordService, Refused, Revision, SetFilter, StoredSet, View, ZoneInfo, ZoneOwner};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::ops::ControlFlow;
use wire::{Name, NameBuf, Rtype};

/// `GET /api`
pub async fn versions() -> Json<Value> {
    Json(powerdns::versions_body())
}

/// `GET /api/v1/servers`
pub async fn servers() -> Json<Value> {
    Json(json!([powerdns::server_body()]))
}

/// `GET /api/v1/servers/localhost`
pub async fn server() -> Json<Value> {
    Json(powerdns::server_body())
}

/// `GET …/config`: no setting of `PowerDNS` is there.
pub async fn none() -> Json<Value> {
    Json(json!([]))
}

/// `GET …/zones/{zone}/cryptokeys`: none.
pub async fn keys(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
) -> Result<Json<Value>, Problem> {
    find_zone(&state, &caller, Verb::Read, &read_zone_id(&zone)?).await?;
    Ok(Json(json!([])))
}

/// The query parameters of the list of zones.
#[derive(Debug, Deserialize)]
pub struct ZonesQuery {
    zone: Option<String>,
    dnssec: Option<bool>,
}

/// The zone of the store, if the caller has a grant in it.
pub async fn find_zone(
    state: &ApiState,
    caller: &Caller,
    verb: Verb,
    origin: &NameBuf,
) -> Result<ZoneInfo, Problem> {
    caller.check_in(verb, origin.as_name())?;
    let wanted = origin.clone();
    let found = state.read(move |records| records.zone(wanted.as_name())).await?;
    let found = found.filter(|zone| zone.owner != ZoneOwner::BuiltIn);
    found.ok_or_else(|| Problem::refused(Refused::NoSuchZone, plainly))
}

/// `GET …/zones`: the zones of the store that the caller may read, all at once.
pub async fn list_zones(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<ZonesQuery>,
) -> Result<Json<Value>, Problem> {
    let wanted = query.zone.map(|text| read_zone_filter(&text)).transpose()?;
    let is_short = query.dnssec == Some(false);
    let zones = state.read(move |records| match wanted {
        Some(origin) => Ok(records.zone(origin.as_name())?.into_iter().collect::<Vec<_>>()),
        None => all_zones(records),
    });
    let zones = zones.await?.into_iter();
    let zones = zones
        .filter(|zone| zone.owner == ZoneOwner::Store)
        .filter(|zone| caller.may_in(Verb::Read, zone.origin.as_name()));
    let heads = zones.map(|zone| {
        let serial = zone.serial.unwrap_or_default();
        Value::Object(zones_head(zone.origin.as_name(), serial, is_short))
    });
    Ok(Json(heads.collect()))
}

fn all_zones(records: &RecordService) -> Result<Vec<ZoneInfo>, Refused> {
    let mut zones: Vec<ZoneInfo> = Vec::new();
    loop {
        let after = zones.last().map(|zone| zone.origin.clone());
        let after = after.as_ref().map(NameBuf::as_name);
        let (page, has_more) = records.zones(after, PAGE_MAX, false, |_| true)?;
        let is_over = page.is_empty() || !has_more;
        zones.extend(page);
        if is_over {
            return Ok(zones);
        }
    }
}

/// The query parameters of a zone.
#[derive(Debug, Deserialize)]
pub struct ZoneQuery {
    rrsets: Option<bool>,
    rrset_name: Option<String>,
    rrset_type: Option<String>,
}

/// The record sets that a reply has.
#[derive(Clone, Debug, Default)]
struct Wanted {
    name: Option<NameBuf>,
    /// An unknown type has no sets.
    rtype: Option<Option<Rtype>>,
}

impl Wanted {
    fn has(&self, set: &StoredSet) -> bool {
        let is_name = |name: &NameBuf| name.as_name() == set.key.name.as_name();
        self.name.as_ref().is_none_or(is_name)
            && self.rtype.is_none_or(|rtype| rtype == Some(set.key.rtype))
    }
}

/// `GET …/zones/{zone}`: the zone at one moment, with all its sets or those that are asked for. The
/// entity tag is its revision; with `If-None-Match` an unchanged zone is 304 and reads no set.
pub async fn get_zone(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    QueryParams(query): QueryParams<ZoneQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let origin = read_zone_id(&zone)?;
    let found = find_zone(&state, &caller, Verb::Read, &origin).await?;
    if is_known(&headers, found.revision) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag(found.revision))]).into_response());
    }
    if query.rrsets == Some(false) {
        let head = zone_head(origin.as_name(), found.serial.unwrap_or_default());
        return Ok(([(ETAG, tag(found.revision))], Json(Value::Object(head))).into_response());
    }
    let name = query.rrset_name.map(|text| read_zone_id(&text)).transpose()?;
    let rtype = query.rrset_type.map(|text| text.to_ascii_uppercase().parse().ok());
    let wanted = Wanted { name, rtype };
    let serial = found.serial.unwrap_or_default();
    let turn = begin_export(&state, &caller)?;
    let records = state.records()?.clone();
    let write = move |out: &mut ChunkWriter| {
        let mut reply = ZoneReply { caller, wanted, serial, is_begun: false, out };
        reply.write(&records, origin.as_name())
    };
    let streamed = StreamedResponse::start(turn, write).await?;
    let revision = streamed.revision;
    let mut response = streamed.body().into_response();
    let fields = response.headers_mut();
    if revision != Revision::NONE {
        fields.insert(ETAG, tag(revision));
    }
    fields.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Writes a zone as one JSON object, a set after the other.
struct ZoneReply<'o> {
    caller: Caller,
    wanted: Wanted,
    /// The serial, until the SOA says it.
    serial: u32,
    is_begun: bool,
    out: &'o mut ChunkWriter,
}

impl ZoneReply<'_> {
    fn write(&mut self, records: &RecordService, origin: Name<'_>) -> Result<(), Refused> {
        let mut is_first = true;
        let mut each = |reply: &mut Self, revision, set: &StoredSet| {
            let written = reply.take(origin, revision, set, &mut is_first);
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        match self.wanted.name.clone() {
            None => records.export(origin, &mut |revision, set| each(self, revision, &set))?,
            Some(name) => {
                let filter = SetFilter { prefix: Some(name), ..SetFilter::default() };
                // The name is the first of those that begin with it.
                let page = records.page(origin, None, &filter, PAGE_MAX)?;
                let _ = page.sets.iter().try_for_each(|set| each(self, page.revision, set));
                self.out.revision = page.revision;
            }
        }
        // A client that is gone needs no end.
        let _ = self.begin(origin).and_then(|()| self.out.write_all(b"]}"));
        Ok(())
    }

    /// Writes the zone's own fields, up to the sets.
    fn begin(&mut self, origin: Name<'_>) -> io::Result<()> {
        if self.is_begun {
            return Ok(());
        }
        self.is_begun = true;
        let head = Value::Object(zone_head(origin, self.serial)).to_string();
        self.out.write_all(head.trim_end_matches('}').as_bytes())?;
        self.out.write_all(b",\"rrsets\":[")
    }

    fn take(
        &mut self,
        origin: Name<'_>,
        revision: Revision,
        set: &StoredSet,
        is_first: &mut bool,
    ) -> io::Result<()> {
        if !self.is_begun {
            self.out.revision = revision;
            if let (Rtype::SOA, [data]) = (set.key.rtype, &set.value.data[..]) {
                self.serial = serial_of(data).unwrap_or(self.serial);
            }
            self.begin(origin)?;
        }
        // The dialect knows no views.
        let is_of_all = set.key.view == View::DEFAULT;
        if !is_of_all || !self.wanted.has(set) || !self.caller.may(Verb::Read, &set.key) {
            return Ok(());
        }
        if !std::mem::take(is_first) {
            self.out.write_all(b",")?;
        }
        let body = set_body(set.key.name.as_name(), set.key.rtype, &set.value);
        self.out.write_all(body.to_string().as_bytes())
    }
}

/// The serial in the data of an SOA: the first of the five numbers at its end.
fn serial_of(data: &[u8]) -> Option<u32> {
    let numbers = data.last_chunk::<20>()?;
    numbers.first_chunk().copied().map(u32::from_be_bytes)
}

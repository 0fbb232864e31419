//! A zone as a stream: NDJSON with a record set in each line, or a zone file.
use crate::body::{PathParams, QueryParams};
use crate::caller::Caller;
use crate::condition::{is_known, tag};
use crate::description::{ReadCondition, Refusals, ZonePath};
use crate::limits::EXPORTS_MAX;
use crate::principal::Verb;
use crate::problem::Problem;
use crate::quota::Permit;
use crate::state::ApiState;
use crate::stream::{ChunkWriter, StreamedResponse};
use crate::text::{read_name, write_set};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use hyper::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, VARY};
use hyper::{HeaderMap, StatusCode};
use model::read_view;
use records::{Refused, Revision, StoredSet, View};
use serde::Deserialize;
use std::fmt::Write;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::IntoParams;
use wire::NameBuf;

/// The media type of NDJSON.
pub const NDJSON: &str = "application/x-ndjson";
/// The media type of a zone file (RFC 4027).
pub const ZONE_FILE: &str = "text/dns";

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// NDJSON: a record set in each line.
    Ndjson,
    /// A master file.
    ZoneFile,
}

impl Form {
    /// The form of a media type.
    pub fn of(media: &str) -> Option<Self> {
        match media {
            NDJSON => Some(Self::Ndjson),
            ZONE_FILE => Some(Self::ZoneFile),
            _ => None,
        }
    }

    fn media(self) -> &'static str {
        match self {
            Self::Ndjson => NDJSON,
            Self::ZoneFile => ZONE_FILE,
        }
    }

    /// The first known form among the accepted media types (RFC 9110 §12.5.1); weights are ignored.
    fn accepted(headers: &HeaderMap) -> Option<Self> {
        let Some(field) = headers.get(ACCEPT) else { return Some(Self::Ndjson) };
        let ranges = field.to_str().unwrap_or_default().split(',');
        let mut medias = ranges.map(|range| range.split(';').next().unwrap_or_default().trim());
        medias.find_map(|media| match media {
            "*/*" | "application/*" => Some(Self::Ndjson),
            "text/*" => Some(Self::ZoneFile),
            media => Self::of(&media.to_ascii_lowercase()),
        })
    }

    /// Appends the header.
    fn begin(self, zone: &NameBuf, revision: Revision, out: &mut String) {
        if self == Self::ZoneFile && revision != Revision::NONE {
            writeln!(out, "; {zone} at revision {revision}").expect("a String takes all");
        }
    }

    /// Appends a set.
    fn write(self, set: &StoredSet, out: &mut String) {
        let body = write_set(set);
        match self {
            Self::Ndjson => {
                out.push_str(&serde_json::to_string(&body).expect("texts and numbers"));
                out.push('\n');
            }
            Self::ZoneFile => {
                if let Some(comment) = &body.comment {
                    writeln!(out, "; {comment}").expect("a String takes all");
                }
                for data in &body.data {
                    let (name, ttl, rtype) = (&body.name, body.ttl, &body.rtype);
                    writeln!(out, "{name} {ttl} IN {rtype} {data}").expect("a String takes all");
                }
            }
        }
    }
}

/// Query parameters of an export.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ExportQuery {
    /// Only the sets of this view. Default: those of all views as NDJSON, and those of all clients
    /// as a zone file.
    view: Option<String>,
}

/// The header field with the revision of an exported zone.
const REVISION: HeaderName = HeaderName::from_static("dunlin-revision");

/// Writes the sets that the caller may read, from one snapshot of the zone.
fn write_zone(
    records: &records::RecordService,
    caller: &Caller,
    (zone, form, view): (&NameBuf, Form, Option<View>),
    pieces: &mut ChunkWriter,
) -> Result<(), Refused> {
    let (mut text, mut is_begun) = (String::new(), false);
    records.export(zone.as_name(), &mut |revision, set| {
        if !is_begun {
            (pieces.revision, is_begun) = (revision, true);
            form.begin(zone, revision, &mut text);
        }
        let is_wanted = view.is_none_or(|view| view == set.key.view);
        if is_wanted && caller.may(Verb::Read, &set.key) {
            form.write(&set, &mut text);
        }
        let written = io::Write::write_all(pieces, text.as_bytes());
        text.clear();
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
}

/// One of the exports and dumps that may be in progress, in all and of the caller.
///
/// # Errors
/// There are too many.
pub fn begin_export(
    state: &ApiState,
    caller: &Caller,
) -> Result<(OwnedSemaphorePermit, Permit), Problem> {
    let permit = caller.begin_export(state)?;
    let turn = Arc::clone(&state.exports).try_acquire_owned().map_err(|_| {
        Problem::later("busy", format!("{EXPORTS_MAX} exports are in progress: try again later"))
    })?;
    Ok((turn, permit))
}

/// All record sets of a zone that the caller may read, streamed from one snapshot. The field
/// `Dunlin-Revision`, the entity tag and the first line of a zone file contain the revision of the
/// zone. Zones that are not in the store have no revision.
#[utoipa::path(
    get, path = "/v1/zones/{zone}/export", tag = "rrsets",
    params(
        ZonePath,
        ExportQuery,
        ("Accept" = Option<String>, Header,
            description = "`application/x-ndjson`, a set a line, or `text/dns`, a zone file"),
        ReadCondition,
    ),
    responses(
        (status = 200, content((String = "application/x-ndjson"), (String = "text/dns")),
            description = "The record sets of the zone",
            headers(("ETag" = String), ("Dunlin-Revision" = u64, description = "The revision"))),
        (status = 304, description = "Unchanged since the entity tag in If-None-Match"),
        Refusals,
    )
)]
pub async fn export(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
    QueryParams(query): QueryParams<ExportQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let zone = read_name(&zone, "zone")?;
    caller.check_in(Verb::Read, zone.as_name())?;
    let form = Form::accepted(&headers).ok_or_else(|| {
        let detail = format!("there are {NDJSON} and {ZONE_FILE}");
        Problem::new(StatusCode::NOT_ACCEPTABLE, "not-acceptable", detail)
    })?;
    let view = query.view.as_deref().map(|text| read_view(text, "view")).transpose()?;
    // A zone file is that of one view.
    let view = view.or((form == Form::ZoneFile).then_some(View::DEFAULT));
    let turn = begin_export(&state, &caller)?;
    let records = state.records()?.clone();
    let write =
        move |pieces: &mut ChunkWriter| write_zone(&records, &caller, (&zone, form, view), pieces);
    let streamed = StreamedResponse::start(turn, write).await?;
    let revision = streamed.revision;
    let mut response = match is_known(&headers, revision) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => streamed.body().into_response(),
    };
    let fields = response.headers_mut();
    if revision != Revision::NONE {
        fields.insert(ETAG, tag(revision));
        fields.insert(REVISION, revision.0.into());
    }
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(form.media()));
    fields.insert(VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

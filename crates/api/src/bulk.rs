//! A zone as a stream: NDJSON, a record set a line, or a zone file.
use crate::body::At;
use crate::caller::Caller;
use crate::limits::PAGE_MAX;
use crate::principal::Verb;
use crate::problem::Problem;
use crate::routes::{Desk, read};
use crate::text::{read_name, write_set};
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue, VARY};
use hyper::{HeaderMap, StatusCode};
use records::{Filter, SetKey, StoredSet, View};
use std::fmt::Write;
use std::io;
use wire::{NameBuf, Rtype};

/// The media type of a record set a line.
pub const NDJSON: &str = "application/x-ndjson";
/// The media type of a zone file (RFC 4027).
pub const ZONE_FILE: &str = "text/dns";

/// What a zone is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A record set a line.
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

    /// The first form there is of those that are accepted (RFC 9110 §12.5.1), without weights.
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

    /// Appends a set.
    fn write(self, set: &StoredSet, out: &mut String) {
        let body = write_set(set);
        match self {
            Self::Ndjson => {
                out.push_str(&serde_json::to_string(&body).expect("texts and numbers"));
                out.push('\n');
            }
            Self::ZoneFile => {
                for data in &body.data {
                    let (name, ttl, rtype) = (&body.name, body.ttl, &body.rtype);
                    writeln!(out, "{name} {ttl} IN {rtype} {data}").expect("a String takes all");
                }
            }
        }
    }
}

/// How far an export is.
struct Export {
    desk: Desk,
    caller: Caller,
    zone: NameBuf,
    form: Form,
    /// Behind which set it goes on; nothing: with the SOA, then the first.
    after: Option<SetKey>,
    is_over: bool,
}

impl Export {
    /// The next piece; nothing: that was all.
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let mut out = String::new();
        while out.is_empty() && !self.is_over {
            let (zone, after) = (self.zone.clone(), self.after.take());
            // A zone file begins with its SOA, whatever the order of types.
            let is_first = after.is_none();
            let (soa, page) = read(&self.desk, move |records| {
                let (name, view) = (zone.clone(), View::Default);
                let key = SetKey { zone: zone.clone(), name, rtype: Rtype::SOA, view };
                let soa = if is_first { records.set(&key)? } else { None };
                let filter = Filter::default();
                Ok((soa, records.page(zone.as_name(), after.as_ref(), &filter, PAGE_MAX)?))
            })
            .await?;
            let rest = page.sets.iter().filter(|set| set.key.rtype != Rtype::SOA);
            for set in soa.iter().chain(rest) {
                if self.caller.may(Verb::Read, &set.key) {
                    self.form.write(set, &mut out);
                }
            }
            self.is_over = page.next.is_none();
            self.after = page.next;
        }
        Ok((!out.is_empty()).then(|| out.into()))
    }
}

/// All record sets of a zone that the caller may read, streamed. Each thousand is as it was at one
/// moment.
#[utoipa::path(
    get, path = "/v1/zones/{zone}/export", tag = "rrsets",
    params(
        ("zone" = String, Path, description = "The zone's name"),
        ("Accept" = Option<String>, Header,
            description = "`application/x-ndjson`, a set a line, or `text/dns`, a zone file"),
    ),
    responses(
        (status = 200, content((String = "application/x-ndjson"), (String = "text/dns"))),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn export(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    At(zone): At<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let zone = read_name(&zone, "zone")?;
    caller.check_in(Verb::Read, zone.as_name())?;
    let form = Form::accepted(&headers).ok_or_else(|| {
        let detail = format!("there are {NDJSON} and {ZONE_FILE}");
        Problem::new(StatusCode::NOT_ACCEPTABLE, "not-acceptable", detail)
    })?;
    let mut export = Export { desk, caller, zone, form, after: None, is_over: false };
    // What keeps it from beginning is still told as a problem; what comes later cuts it off.
    let first = export.next().await?.unwrap_or_default();
    let pieces = stream::unfold((Some(first), export), |(ready, mut export)| async move {
        let piece = match ready {
            Some(piece) => Ok(Some(piece)),
            None => export.next().await.map_err(|why| io::Error::other(format!("{why:?}"))),
        };
        piece.transpose().map(|piece| (piece, (None, export)))
    });
    let mut response = Body::from_stream(pieces).into_response();
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(form.media()));
    fields.insert(VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

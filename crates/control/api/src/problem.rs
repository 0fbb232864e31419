//! What is wrong with a request, as `application/problem+json` (RFC 9457).
use crate::limits::{BODY_TIME_MAX, RETRY_AFTER_SECONDS};
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use model::BrokenRule;
use records::{Refused, Revision};
use serde::Serialize;
use utoipa::ToSchema;

/// The media type of a problem.
pub const MEDIA: &str = "application/problem+json";

/// Why a request was not done. Nothing changed, but where `written` tells what did.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(transparent)]
pub struct Problem(Box<Details>);

/// What is told of a problem.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Details {
    /// What kind of problem: `urn:dunlin:problem:` and a word that stays.
    #[serde(rename = "type")]
    kind: String,
    /// The HTTP status, in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What is wrong here, and what to do.
    detail: String,
    /// The field that is wrong, such as `changes[3].data[0]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The rule that is broken: a name that stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'static str>,
    /// Who says so: an RFC and its section, or Dunlin.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    /// The revision that the set or the zone has; 0: it is not there. Of a journal that was cut:
    /// how far back it reaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// The line of the import that is wrong, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// Record sets that the import wrote: those before that line, or behind it in batches that
    /// were on their way.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<u64>,
}

impl Problem {
    /// A problem of this status and kind.
    pub fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        Self(Box::new(Details {
            kind: format!("urn:dunlin:problem:{kind}"),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            field: None,
            rule: None,
            source: None,
            revision: None,
            line: None,
            written: None,
        }))
    }

    fn with(mut self, change: impl FnOnce(&mut Details)) -> Self {
        change(&mut self.0);
        self
    }

    /// A value that is none for its field.
    pub fn invalid(field: impl Into<String>, rule: BrokenRule, detail: impl Into<String>) -> Self {
        let BrokenRule { id, source } = rule;
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, id, detail).of_field(field).with(|told| {
            (told.rule, told.source) = (Some(id), Some(source));
        })
    }

    /// A request that cannot be read.
    pub fn unreadable(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "unreadable", detail).of_field(field)
    }

    /// A request without a good credential.
    pub fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
    }

    /// Something that the principal may not.
    pub fn forbidden(principal: &str, what: &str) -> Self {
        let detail = format!(
            "no grant of {principal} lets it {what}: `dunlin token list` shows them, and a new \
             token has others"
        );
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// A body of another media type than these.
    pub fn media(known: &[&str]) -> Self {
        let known: Vec<_> = known.iter().map(|media| format!("`Content-Type: {media}`")).collect();
        let detail = format!("send {}", known.join(" or "));
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail)
    }

    /// A body that did not come in time: `what` took as long as it may.
    pub fn slow(what: &str) -> Self {
        let detail = format!("{what} {} s", BODY_TIME_MAX.as_secs());
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow", detail)
    }

    /// Something that is not there.
    pub fn missing(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "missing", detail)
    }

    /// Too much at a time: it may work later.
    pub fn later(kind: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, kind, detail)
    }

    /// The same, about this field.
    pub fn of_field(self, field: impl Into<String>) -> Self {
        self.with(|told| told.field = Some(field.into()))
    }

    /// The same, at this line of an import; 0: of no single line.
    pub fn at_line(self, line: u64) -> Self {
        self.with(|told| told.line = (line > 0).then_some(line))
    }

    /// The same, of an import that wrote so many sets all the same.
    pub fn written(self, written: u64) -> Self {
        self.with(|told| told.written = Some(written))
    }

    /// Why the record service wrote nothing; `field` names an edit's place in the request.
    pub fn refused(refused: Refused, mut field: impl FnMut(usize, &str) -> String) -> Self {
        let detail = refused.to_string();
        let new = |status, kind| Self::new(status, kind, detail.clone());
        match refused {
            Refused::NoSuchZone => new(StatusCode::NOT_FOUND, "no-such-zone"),
            Refused::Unloaded => new(StatusCode::SERVICE_UNAVAILABLE, "unloaded"),
            Refused::ZoneExists => new(StatusCode::CONFLICT, "zone-exists"),
            Refused::NotTheOwner { owner } => Self::new(
                StatusCode::CONFLICT,
                "not-the-owner",
                format!("the zone is not the store's: {owner} says what it holds; change it there"),
            ),
            Refused::Conflict { edit, is } => {
                let detail = match is {
                    Revision::NONE => "the record set is not there".to_owned(),
                    is => format!("the record set is there, last written at revision {is}"),
                };
                let problem = Self::new(StatusCode::PRECONDITION_FAILED, "changed", detail);
                problem.of_field(field(edit, "if")).with(|told| told.revision = Some(is.0))
            }
            Refused::ZoneConflict { is } => {
                let detail = format!("the condition is not met: {detail}");
                let problem = Self::new(StatusCode::PRECONDITION_FAILED, "changed", detail);
                problem.of_field("if").with(|told| told.revision = Some(is.0))
            }
            Refused::JournalCut { whole_after: revision }
            | Refused::JournalAhead { newest: revision } => new(StatusCode::GONE, "journal-cut")
                .of_field("after")
                .with(|told| told.revision = Some(revision.0)),
            Refused::Invalid(wrong) => {
                Self::invalid(field(wrong.edit, wrong.field), wrong.rule, wrong.what)
            }
            Refused::TooMany { .. } => {
                let BrokenRule { id, source } = BrokenRule::LIMIT;
                new(StatusCode::UNPROCESSABLE_ENTITY, id).with(|told| {
                    (told.rule, told.source) = (Some(id), Some(source));
                })
            }
            Refused::Full => new(StatusCode::INSUFFICIENT_STORAGE, "disk-full"),
            Refused::Busy => new(StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Refused::Stopping => new(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
            Refused::Failed(_) => new(StatusCode::SERVICE_UNAVAILABLE, "store-failed"),
            Refused::Unavailable(_) => new(StatusCode::SERVICE_UNAVAILABLE, "store-unavailable"),
        }
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// Where a field of a request about one set is: it has the same name. What a set cannot be beside
/// others of its name is the name's fault.
pub fn plainly(_edit: usize, field: &str) -> String {
    if field == "edits" { "name".to_owned() } else { field.to_owned() }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA));
        match status {
            StatusCode::UNAUTHORIZED => {
                let scheme = HeaderValue::from_static("Bearer realm=\"dunlin\"");
                headers.insert(WWW_AUTHENTICATE, scheme);
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
            }
            _ => {}
        }
        response
    }
}

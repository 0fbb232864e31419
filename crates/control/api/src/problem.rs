//! Errors as `application/problem+json` (RFC 9457).
use crate::limits::{BODY_TIME_MAX, RETRY_AFTER_SECONDS};
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use model::{BrokenRule, InvalidField};
use records::{Refused, Revision};
use serde::Serialize;
use std::fmt;
use utoipa::ToSchema;

/// The media type of a problem.
pub const MEDIA: &str = "application/problem+json";

/// Why a request was not done. Nothing has changed, except for `written` sets.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(transparent)]
pub struct Problem(Box<Details>);

/// The content of a problem.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Details {
    /// The kind of problem: `urn:dunlin:problem:` and a word that never changes.
    #[serde(rename = "type")]
    kind: String,
    /// The HTTP status as text.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// The fault, and what to do.
    detail: String,
    /// The invalid field, such as `changes[3].data[0]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The broken rule: a word that never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'static str>,
    /// The source of the rule: an RFC and its section, or Dunlin.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    /// The revision of the set or the zone; 0: it does not exist. For a journal that was cut: the
    /// revision after which it is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// The line of the error in an import, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// Record sets that the import wrote: those before that line, and those in batches in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<u64>,
}

/// The field, and what is wrong.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.field {
            Some(field) => write!(f, "{field}: {}", self.0.detail),
            None => f.write_str(&self.0.detail),
        }
    }
}

impl From<InvalidField> for Problem {
    fn from(InvalidField { field, rule, what }: InvalidField) -> Self {
        Self::invalid(field, rule, what)
    }
}

impl Problem {
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

    /// An invalid value of a field.
    pub fn invalid(field: impl Into<String>, rule: BrokenRule, detail: impl Into<String>) -> Self {
        let BrokenRule { id, source } = rule;
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, id, detail).of_field(field).with(|told| {
            (told.rule, told.source) = (Some(id), Some(source));
        })
    }

    /// A request that cannot be parsed.
    pub fn unreadable(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "unreadable", detail).of_field(field)
    }

    /// A request without a valid credential.
    pub fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
    }

    /// The principal lacks the grant.
    pub fn forbidden(principal: &str, what: &str) -> Self {
        let detail = format!(
            "no grant of {principal} lets it {what}: `dunlin token list` shows them, and a new \
             token has others"
        );
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// A body of another media type.
    pub fn media(known: &[&str]) -> Self {
        let known: Vec<_> = known.iter().map(|media| format!("`Content-Type: {media}`")).collect();
        let detail = format!("send {}", known.join(" or "));
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail)
    }

    /// A body that did not arrive within `what`.
    pub fn slow(what: &str) -> Self {
        let detail = format!("{what} {} s", BODY_TIME_MAX.as_secs());
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow", detail)
    }

    /// A resource that does not exist.
    pub fn missing(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "missing", detail)
    }

    /// Too many at a time: try again later.
    pub fn later(kind: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, kind, detail)
    }

    /// etcd is out of space: nothing was done.
    pub fn no_space(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "store-full", detail)
    }

    /// It may have been done.
    pub fn unknown(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "outcome-unknown", detail)
    }

    /// Adds the field.
    pub fn of_field(self, field: impl Into<String>) -> Self {
        self.with(|told| told.field = Some(field.into()))
    }

    /// Adds the line of an import; 0: no single line.
    pub fn at_line(self, line: u64) -> Self {
        self.with(|told| told.line = (line > 0).then_some(line))
    }

    /// Adds the number of sets that an import wrote.
    pub fn written(self, written: u64) -> Self {
        self.with(|told| told.written = Some(written))
    }

    /// An error of the record service; `field` is the position of an edit in the request.
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
            Refused::HidesWildcard { edit, .. } => {
                new(StatusCode::FORBIDDEN, "hides-wildcard").of_field(field(edit, "name"))
            }
            Refused::TooMany { .. } => {
                let BrokenRule { id, source } = BrokenRule::LIMIT;
                new(StatusCode::UNPROCESSABLE_ENTITY, id).with(|told| {
                    (told.rule, told.source) = (Some(id), Some(source));
                })
            }
            Refused::Unmet { .. } => new(StatusCode::PRECONDITION_FAILED, "changed"),
            Refused::Full => new(StatusCode::INSUFFICIENT_STORAGE, "disk-full"),
            Refused::Busy => new(StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Refused::Unreachable(_) => new(StatusCode::SERVICE_UNAVAILABLE, "store-unreachable"),
            Refused::NoSpace(_) => new(StatusCode::INSUFFICIENT_STORAGE, "store-full"),
            Refused::Form(_) => new(StatusCode::CONFLICT, "store-form"),
            Refused::UnknownOutcome { .. } => new(StatusCode::GATEWAY_TIMEOUT, "outcome-unknown"),
            Refused::Lagging(_) => new(StatusCode::GATEWAY_TIMEOUT, "not-live"),
            Refused::ReadOnly => new(StatusCode::FORBIDDEN, "no-api-role"),
            Refused::NotShared => new(StatusCode::CONFLICT, "not-shared"),
            Refused::Stopping => new(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
            Refused::Failed(_) => new(StatusCode::SERVICE_UNAVAILABLE, "store-failed"),
            Refused::Unavailable(_) => new(StatusCode::SERVICE_UNAVAILABLE, "store-unavailable"),
        }
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// The field of a rule in a request about one set. A conflict with other sets of the name is an
/// error of `name`.
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

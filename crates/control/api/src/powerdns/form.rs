//! Bodies and errors in the form of `PowerDNS`.
use crate::body::whole;
use crate::limits::{JSON_LEN_MAX, JSON_WEIGHT};
use crate::problem::{MEDIA, Problem};
use crate::state::ApiState;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::{BodyExt, Limited};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

/// Bytes of a problem that is converted; ours are far shorter.
const PROBLEM_LEN_MAX: usize = 64 << 10;

/// Whether a path is one of `PowerDNS`.
pub fn is_dialect(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

/// A JSON body of any media type, whose unknown fields are ignored.
pub struct AnyJson(pub Value, pub OwnedSemaphorePermit);

impl FromRequest<ApiState> for AnyJson {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, Problem> {
        let (body, room) = whole(state, request.into_body(), JSON_LEN_MAX, JSON_WEIGHT).await?;
        let read = serde_json::from_slice(&body);
        let read = read.map_err(|why| Problem::unreadable("body", why.to_string()))?;
        Ok(Self(read, room))
    }
}

/// Writes a problem as `{"error": …}`: what clients of `PowerDNS` show.
pub async fn write_errors(request: Request, next: Next) -> Response {
    let is_dialect = is_dialect(request.uri().path());
    let response = next.run(request).await;
    let is_problem = response.headers().get(CONTENT_TYPE) == Some(&HeaderValue::from_static(MEDIA));
    if !(is_dialect && is_problem) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let body = Limited::new(body, PROBLEM_LEN_MAX).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |key: &str| problem[key].as_str().unwrap_or_default();
    let error = match text("field") {
        "" => text("detail").to_owned(),
        field => format!("{field}: {}", text("detail")),
    };
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::from(json!({ "error": error }).to_string()))
}

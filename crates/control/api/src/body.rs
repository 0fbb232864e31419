//! Parts of a request, each validated. An error is a problem (RFC 9457).
use crate::limits::{
    BODIES_LEN_MAX, BODY_TIME_MAX, JSON_LEN_MAX, JSON_WEIGHT, PAGE_DEFAULT, PAGE_MAX,
};
use crate::problem::Problem;
use crate::state::ApiState;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};
use model::BrokenRule;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// The variable parts of a path.
pub struct PathParams<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Path::from_request_parts(parts, state).await;
        let Path(read) = read.map_err(|why| Problem::unreadable("path", why.body_text()))?;
        Ok(Self(read))
    }
}

/// The query parameters.
pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Query::from_request_parts(parts, state).await;
        let Query(read) = read.map_err(|why| Problem::unreadable("query", why.body_text()))?;
        Ok(Self(read))
    }
}

/// The number of entries of a page.
///
/// # Errors
/// It is 0, or above the maximum of a page.
pub fn page_limit(limit: Option<usize>) -> Result<usize, Problem> {
    match limit {
        None => Ok(PAGE_DEFAULT),
        Some(limit @ 1..=PAGE_MAX) => Ok(limit),
        Some(_) => {
            Err(Problem::invalid("limit", BrokenRule::LIMIT, format!("is 1 to {PAGE_MAX} a page")))
        }
    }
}

/// Refuses a list that is too long.
pub fn check_count(max: usize, count: usize, field: &str) -> Result<(), Problem> {
    if count <= max {
        return Ok(());
    }
    Err(Problem::invalid(
        field,
        BrokenRule::LIMIT,
        format!("has {count}: the maximum at a time is {max}"),
    ))
}

/// The media type of JSON.
const JSON: &str = "application/json";

/// A JSON body, and the permit for its memory, which is held until the request is done.
pub struct Json<T>(pub T, pub OwnedSemaphorePermit);

impl<T: DeserializeOwned> FromRequest<ApiState> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, Problem> {
        if media(request.headers()) != JSON {
            return Err(Problem::media(&[JSON]));
        }
        let (body, room) = whole(state, request.into_body(), JSON_LEN_MAX, JSON_WEIGHT).await?;
        let mut reader = serde_json::Deserializer::from_slice(&body);
        let read = serde_path_to_error::deserialize(&mut reader).map_err(|why| {
            let field = match why.path().to_string() {
                path if path == "." => "body".to_owned(),
                path => path,
            };
            Problem::unreadable(field, why.into_inner().to_string())
        })?;
        reader.end().map_err(|why| Problem::unreadable("body", why.to_string()))?;
        Ok(Self(read, room))
    }
}

/// The media type of a body, without its parameters, in lower case.
pub fn media(headers: &HeaderMap) -> String {
    let field = headers.get(CONTENT_TYPE).and_then(|field| field.to_str().ok());
    let essence = field.unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// Reads a body of at most this many bytes. `weight` bytes of memory are reserved for each byte as
/// it arrives, and released with the permit.
pub async fn whole(
    state: &ApiState,
    body: Body,
    len_max: usize,
    weight: usize,
) -> Result<(BytesMut, OwnedSemaphorePermit), Problem> {
    if hyper::body::Body::size_hint(&body).lower() > len_max as u64 {
        return Err(too_long(len_max));
    }
    let read = timeout(BODY_TIME_MAX, take(state, body, len_max, weight)).await;
    read.unwrap_or_else(|_| Err(Problem::slow("the body took longer than")))
}

/// The next chunk of a body; `None` at its end.
///
/// # Errors
/// It does not arrive in time, or the client is gone.
pub async fn piece(body: &mut Body) -> Result<Option<Bytes>, Problem> {
    let frame = timeout(BODY_TIME_MAX, body.frame()).await;
    match frame.map_err(|_| Problem::slow("nothing came for"))? {
        Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
        Some(Err(why)) => Err(Problem::unreadable("body", format!("did not arrive: {why}"))),
        None => Ok(None),
    }
}

async fn take(
    state: &ApiState,
    mut body: Body,
    len_max: usize,
    weight: usize,
) -> Result<(BytesMut, OwnedSemaphorePermit), Problem> {
    let mut read = BytesMut::new();
    let mut room = more_room(state, 1)?;
    while let Some(data) = piece(&mut body).await? {
        let len = read.len() + data.len();
        if len > len_max {
            return Err(too_long(len_max));
        }
        let kib = (len * weight).div_ceil(1 << 10);
        if kib > room.num_permits() {
            room.merge(more_room(state, kib - room.num_permits())?);
        }
        read.extend_from_slice(&data);
    }
    Ok((read, room))
}

fn more_room(state: &ApiState, kib: usize) -> Result<OwnedSemaphorePermit, Problem> {
    let kib = u32::try_from(kib).unwrap_or(u32::MAX);
    Arc::clone(&state.room).try_acquire_many_owned(kib).map_err(|_| {
        let mib = BODIES_LEN_MAX >> 20;
        Problem::later("busy", format!("bodies in progress use {mib} MiB already: try again later"))
    })
}

fn too_long(len_max: usize) -> Problem {
    let detail = format!("the body is longer than {len_max} bytes: send it in parts");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-long", detail)
}
/// A field that is there, even as null.
pub fn present<'de, D, T>(from: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(from).map(Some)
}

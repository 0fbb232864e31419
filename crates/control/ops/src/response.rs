//! Responses of one line, and of one page.
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

const TEXT: &str = "text/plain; charset=utf-8";

/// A line of text.
pub fn line_response(status: StatusCode, line: &str) -> Response<Full<Bytes>> {
    respond(status, TEXT, format!("{line}\n").into())
}

/// A page of this media type, which is not cached.
pub fn respond(status: StatusCode, media: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

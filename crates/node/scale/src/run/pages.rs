//! The pages of a scaler: /healthz, /last-poll, /metrics and /status.
use super::status::Status;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::ACCEPT;
use hyper::{Method, Request, Response, StatusCode};
use ops::{Format, Respond, respond};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

const TEXT: &str = "text/plain; charset=utf-8";

/// Answers from the last status.
pub struct Pages(pub Arc<Mutex<Status>>);

impl Respond for Pages {
    fn allow(&self, _: IpAddr) -> bool {
        true
    }

    fn count_connection(&self, _: bool, _: bool) {}

    async fn answer(&self, request: Request<Incoming>, _: bool) -> Response<Full<Bytes>> {
        let line = |code, text: &str| respond(code, TEXT, format!("{text}\n").into());
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return line(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported");
        }
        let status = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match request.uri().path() {
            "/healthz" => line(StatusCode::OK, "alive"),
            "/last-poll" => match status.last_poll() {
                Ok(()) => line(StatusCode::OK, "OK"),
                Err(why) => line(StatusCode::INTERNAL_SERVER_ERROR, &why),
            },
            "/metrics" => {
                let accept = request.headers().get(ACCEPT).and_then(|field| field.to_str().ok());
                let format = Format::wanted(accept.unwrap_or_default());
                respond(StatusCode::OK, format.content_type(), status.metrics(format).into())
            }
            "/status" => {
                let text = serde_json::to_string_pretty(&status).unwrap_or_default();
                respond(StatusCode::OK, "application/json", format!("{text}\n").into())
            }
            _ => line(
                StatusCode::NOT_FOUND,
                "the paths are /healthz, /last-poll, /metrics and /status",
            ),
        }
    }
}

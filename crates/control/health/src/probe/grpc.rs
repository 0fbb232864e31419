//! One request of the gRPC health checking protocol (`grpc.health.v1.Health/Check`).
use super::Failure;
use super::http::{driven, told};
use crate::check::GrpcCheck;
use crate::limits::{GRPC_MESSAGE_MAX, RESPONSE_HEAD_MAX};
use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use prost::Message;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

/// The flag and the length before each message.
const PREFIX_LEN: usize = 5;
const SERVING: i32 = 1;

#[derive(Clone, PartialEq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// Sends the request of a check, and verifies the response.
///
/// # Errors
/// The service does not serve, or what differs from the protocol.
pub async fn exchange<S>(check: &GrpcCheck, target: SocketAddr, stream: S) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let tasks = Tasks::default();
    // A server that does not read would otherwise keep the connection beyond the probe.
    let _ended = AbortAtEnd(tasks.clone());
    let (mut sender, connection) = http2::Builder::new(tasks)
        .max_header_list_size(RESPONSE_HEAD_MAX as u32)
        .max_send_buf_size(RESPONSE_HEAD_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(told)?;
    let scheme = if check.tls.is_some() { "https" } else { "http" };
    let host = if check.host.is_empty() { target.to_string() } else { check.host.clone() };
    let request = Request::post(format!("{scheme}://{host}/grpc.health.v1.Health/Check"))
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .body(Full::new(framed(&check.service)))
        .map_err(|error| format!("the request of the check: {error}"))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(told)?;
        verify(response).await
    };
    driven(exchange, connection).await
}

fn framed(service: &str) -> Bytes {
    let message = HealthCheckRequest { service: service.to_owned() };
    let mut body = BytesMut::new();
    body.put_u8(0);
    body.put_u32(message.encoded_len() as u32);
    body.put_slice(&message.encode_to_vec());
    body.freeze()
}

async fn verify(response: Response<Incoming>) -> Result<(), Failure> {
    if response.status() != http::StatusCode::OK {
        return Err(format!("status {}", response.status().as_u16()).into());
    }
    // Without a message, the trailers come as the head.
    verify_status(response.headers(), false)?;
    let mut body = response.into_body();
    let mut message = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(told)?;
        if let Some(trailers) = frame.trailers_ref() {
            verify_status(trailers, true)?;
            return verify_message(&message);
        }
        message.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        if message.len() > GRPC_MESSAGE_MAX {
            return Err(format!("gRPC: the response has over {GRPC_MESSAGE_MAX} bytes").into());
        }
    }
    Err("gRPC: the response has no trailers".to_owned().into())
}

fn verify_status(headers: &HeaderMap, has_to_be_there: bool) -> Result<(), Failure> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        Some("0") => Ok(()),
        None if !has_to_be_there => Ok(()),
        Some("5") => Err("gRPC: the service is unknown".to_owned().into()),
        Some("12") => Err("gRPC: the server has no health service".to_owned().into()),
        status => {
            let (status, message) = (status.unwrap_or("none"), text("grpc-message"));
            Err(format!("gRPC status {status} {}", message.unwrap_or_default()).into())
        }
    }
}

fn verify_message(message: &[u8]) -> Result<(), Failure> {
    let invalid = || "gRPC: the response is not one of the health service".to_owned();
    let (prefix, message) = message.split_at_checked(PREFIX_LEN).ok_or_else(invalid)?;
    let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    if prefix[0] != 0 || len as usize != message.len() {
        return Err(invalid().into());
    }
    match HealthCheckResponse::decode(message).map_err(|_| invalid())?.status {
        SERVING => Ok(()),
        2 => Err("NOT_SERVING".to_owned().into()),
        3 => Err("SERVICE_UNKNOWN".to_owned().into()),
        other => Err(format!("health status {other}").into()),
    }
}

/// The tasks of one connection.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).spawn(task);
    }
}

struct AbortAtEnd(Tasks);

impl Drop for AbortAtEnd {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

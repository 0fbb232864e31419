//! One HTTP/1.1 request and the begin of its response. Redirects are not followed.
use super::Failure;
use super::after_request::AfterRequest;
use crate::check::HttpCheck;
use crate::limits::{BODY_MAX, RESPONSE_FIELDS_MAX, RESPONSE_HEAD_MAX};
use bytes::Bytes;
use http::header::{CONNECTION, HOST, USER_AGENT};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::pin::pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// Sends the request of a check, and verifies the response.
///
/// # Errors
/// What differs from what the check expects.
pub async fn exchange<S>(check: &HttpCheck, target: SocketAddr, stream: S) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let host = if check.host.is_empty() { target.to_string() } else { check.host.clone() };
    let request = Request::get(&check.path)
        .header(HOST, host)
        .header(USER_AGENT, concat!("dunlin/", env!("CARGO_PKG_VERSION"), " (health check)"))
        .header(CONNECTION, "close")
        .body(Full::default())
        .map_err(|error| format!("the request of the check: {error}"))?;
    send(request, stream, async |response| verify(check, response).await).await
}

/// Sends a request over a connection of its own, and verifies the response.
///
/// # Errors
/// The errors of the protocol and of `verify`.
pub async fn send<S>(
    request: Request<Full<Bytes>>,
    stream: S,
    verify: impl AsyncFnOnce(Response<Incoming>) -> Result<(), Failure>,
) -> Result<(), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(RESPONSE_HEAD_MAX)
        .max_headers(RESPONSE_FIELDS_MAX)
        .handshake(TokioIo::new(AfterRequest::new(stream)))
        .await
        .map_err(told)?;
    let exchange = async { verify(sender.send_request(request).await.map_err(told)?).await };
    driven(exchange, connection).await
}

/// Runs an exchange with its connection, until the exchange ends.
pub async fn driven<T>(exchange: impl Future<Output = T>, connection: impl Future) -> T {
    let (mut exchange, mut connection) = (pin!(exchange), pin!(connection));
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            done = &mut exchange => return done,
            // What the connection has read is still there.
            _ = &mut connection, if is_open => is_open = false,
        }
    }
}

async fn verify(check: &HttpCheck, response: Response<Incoming>) -> Result<(), Failure> {
    let status = response.status().as_u16();
    if !check.status.iter().any(|range| range.contains(&status)) {
        return Err(format!("status {status}").into());
    }
    if check.body.is_empty() {
        return Ok(());
    }
    let mut body = response.into_body();
    let mut begin = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(told)?;
        let Some(data) = frame.data_ref() else { continue };
        begin.extend_from_slice(&data[..data.len().min(BODY_MAX - begin.len())]);
        let wanted = check.body.as_bytes();
        if begin.windows(wanted.len()).any(|here| here == wanted) {
            return Ok(());
        }
        if begin.len() >= BODY_MAX {
            break;
        }
    }
    Err(format!("the first {} bytes of the body do not contain the text", begin.len()).into())
}

pub fn told(error: hyper::Error) -> Failure {
    format!("HTTP: {error}").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A server that has answered and closed before the request is sent.
    #[tokio::test(flavor = "current_thread")]
    async fn response_that_is_there_before_the_request_counts() {
        for (status, expected) in
            [("200", Ok(())), ("503", Err(Failure::Failed("status 503".into())))]
        {
            let (stream, mut server) = tokio::io::duplex(4096);
            let response = format!("HTTP/1.1 {status} X\r\n\r\n");
            server.write_all(response.as_bytes()).await.unwrap();
            let check = HttpCheck {
                path: "/".into(),
                host: "www.example.org".into(),
                status: vec![200..=299],
                body: String::new(),
                tls: None,
            };
            let target = SocketAddr::from(([192, 0, 2, 1], 80));
            assert_eq!(exchange(&check, target, stream).await, expected);
            let mut request = String::new();
            server.read_to_string(&mut request).await.unwrap();
            assert!(request.starts_with("GET / HTTP/1.1\r\n"), "{request}");
        }
    }
}

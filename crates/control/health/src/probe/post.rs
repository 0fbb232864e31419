//! One POST request of the webhook.
use super::{Failure, http, tls};
use crate::check::TlsCheck;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Response, Uri};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;

/// Sends a signed body. Redirects are not followed.
///
/// # Errors
/// The receiver cannot be reached, or its status is not 2xx.
pub async fn post(target: &Uri, signature: &str, body: Vec<u8>) -> Result<(), String> {
    let host = target.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_tls = target.scheme_str() == Some("https");
    let port = target.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await;
    let stream = stream.map_err(|error| format!("connecting: {error}"))?;
    let path = target.path_and_query().map_or("/", |path| path.as_str());
    let authority = target.authority().map_or(host, |authority| authority.as_str());
    // Without a user and a password, which do not belong into this field.
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let request = Request::post(path)
        .header(HOST, authority)
        .header(USER_AGENT, concat!("dunlin/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json")
        .header(CONNECTION, "close")
        .header("dunlin-signature", signature)
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| format!("the request: {error}"))?;
    let words = |failure: Failure| failure.reason().to_owned();
    if !is_tls {
        return http::send(request, stream, verify).await.map_err(words);
    }
    let connector = tls::connector(&TlsCheck::default(), b"http/1.1")?;
    let name = ServerName::try_from(host.to_owned()).map_err(|why| format!("{host}: {why}"))?;
    let stream = connector.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))?;
    http::send(request, stream, verify).await.map_err(words)
}

async fn verify(response: Response<Incoming>) -> Result<(), Failure> {
    match response.status() {
        status if status.is_success() => Ok(()),
        status => Err(format!("status {}", status.as_u16()).into()),
    }
}

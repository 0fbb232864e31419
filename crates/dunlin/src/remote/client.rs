//! A client of the API: one request a connection, over TLS where the URL says so.
use crate::cli;
use crate::limits::{API_RESPONSE_LEN_MAX, API_RESPONSE_TIME_MAX};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, HOST};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// What everything here may fail with: a sentence for whoever typed the command.
pub type Anyhow<T> = Result<T, Box<dyn Error>>;

type Outgoing = BoxBody<Bytes, io::Error>;

/// Where the API is unless somebody says otherwise.
const DEFAULT: &str = "http://127.0.0.1:8053";
/// Octets of a file that are sent at a time.
const PIECE: usize = 64 << 10;

/// A server that is asked.
pub struct Remote {
    host: String,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
    token: Option<String>,
    runtime: Runtime,
}

/// What is asked for.
pub struct Ask<'a> {
    pub method: Method,
    pub path: String,
    /// Header fields beside those that every request has.
    pub fields: Vec<(&'a str, String)>,
    pub body: Option<Value>,
}

impl Ask<'_> {
    pub fn new(method: Method, path: String) -> Self {
        Self { method, path, fields: Vec::new(), body: None }
    }
}

/// What came back from a request that was done.
pub struct Answer {
    pub body: Value,
    /// The entity tag, in its quotes.
    pub tag: Option<String>,
}

/// Why a request was not done.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    story: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.story)
    }
}

impl Error for Refusal {}

impl Remote {
    /// The server that a command names.
    ///
    /// # Errors
    /// The URL, the token or a certificate is none.
    pub fn new(api: &cli::Api) -> Anyhow<Self> {
        let named = api.api.clone().or_else(|| std::env::var("DUNLIN_API").ok());
        let url = named.unwrap_or_else(|| DEFAULT.to_owned());
        let uri: Uri = url.parse().map_err(|why| format!("{url:?} is no URL: {why}"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(format!("{url:?}: the API is at http://… or https://…").into()),
        };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let token = match &api.token_file {
            Some(file) => Some(
                fs::read_to_string(file)
                    .map_err(|why| format!("{}: cannot be read: {why}", file.display()))?,
            ),
            None => std::env::var("DUNLIN_TOKEN").ok(),
        };
        let token = token.map(|token| token.trim().to_owned());
        if token.is_some() && !is_tls && !is_here(&host) {
            let what = "anybody between here and there would read the token";
            return Err(format!("{url:?}: {what}: use https://").into());
        }
        let tls = is_tls.then(|| secure(api)).transpose()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { host, port, tls, token, runtime })
    }

    /// Asks, and waits for the whole answer.
    ///
    /// # Errors
    /// Nobody answers, or a [`Refusal`].
    pub fn ask(&self, ask: Ask<'_>) -> Anyhow<Answer> {
        self.runtime.block_on(async {
            let body = match &ask.body {
                Some(body) => Full::from(body.to_string()).map_err(|no| match no {}).boxed(),
                None => Empty::new().map_err(|no| match no {}).boxed(),
            };
            let media = ask.body.is_some().then_some("application/json");
            let response = self.send(&ask, media, body).await?;
            answer(response).await
        })
    }

    /// Asks for what is streamed, and writes it as it comes; `each` learns how much came.
    ///
    /// # Errors
    /// Nobody answers, a [`Refusal`], or what came cannot be written.
    pub fn download(
        &self,
        path: String,
        accept: &str,
        out: &mut dyn Write,
        mut each: impl FnMut(usize),
    ) -> Anyhow<()> {
        let mut ask = Ask::new(Method::GET, path);
        ask.fields.push((ACCEPT.as_str(), accept.to_owned()));
        self.runtime.block_on(async {
            let response = self.send(&ask, None, Empty::new().map_err(|no| match no {}).boxed());
            let mut body = refuse(response.await?).await?.into_body();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|why| format!("it was cut off: {why}"))?;
                if let Some(data) = frame.data_ref() {
                    out.write_all(data)?;
                    each(data.len());
                }
            }
            Ok(())
        })
    }

    /// Sends a file as it is; `each` learns how much was taken.
    ///
    /// # Errors
    /// Nobody answers, a [`Refusal`], or the file cannot be read.
    pub fn upload(
        &self,
        (method, path): (Method, String),
        media: &str,
        file: File,
        each: impl FnMut(usize) + Send + Sync + 'static,
    ) -> Anyhow<Answer> {
        let pieces = stream::try_unfold((file, each), |(mut file, mut each)| async move {
            let mut piece = vec![0; PIECE];
            let len = file.read(&mut piece)?;
            piece.truncate(len);
            each(len);
            let piece = (len > 0).then(|| (Frame::data(Bytes::from(piece)), (file, each)));
            Ok::<_, io::Error>(piece)
        });
        let ask = Ask::new(method, path);
        self.runtime.block_on(async {
            let body = BodyExt::boxed(StreamBody::new(Box::pin(pieces)));
            let response = self.send_patiently(&ask, Some(media), body).await?;
            answer(response).await
        })
    }

    async fn send(
        &self,
        ask: &Ask<'_>,
        media: Option<&str>,
        body: Outgoing,
    ) -> Anyhow<Response<Incoming>> {
        let sending = self.send_patiently(ask, media, body);
        timeout(API_RESPONSE_TIME_MAX, sending)
            .await
            .map_err(|_| format!("{}:{} does not answer in time", self.host, self.port))?
    }

    async fn send_patiently(
        &self,
        ask: &Ask<'_>,
        media: Option<&str>,
        body: Outgoing,
    ) -> Anyhow<Response<Incoming>> {
        let (host, port) = (&self.host, self.port);
        let stream = TcpStream::connect((&**host, port)).await.map_err(|why| {
            format!("no API answers at {host}:{port} ({why}): is [api] listen set in its config?")
        })?;
        stream.set_nodelay(true)?;
        let mut request = Request::builder().method(&ask.method).uri(&ask.path);
        request = request.header(HOST, format!("{host}:{port}"));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(media) = media {
            request = request.header(CONTENT_TYPE, media);
        }
        for (name, value) in &ask.fields {
            request = request.header(*name, value);
        }
        let request = request.body(body).map_err(|why| format!("no request: {why}"))?;
        match &self.tls {
            None => exchange(stream, request).await,
            Some(tls) => {
                let name = ServerName::try_from(host.clone())?;
                let shaking = TlsConnector::from(Arc::clone(tls)).connect(name, stream);
                let stream = shaking.await.map_err(|why| {
                    format!(
                        "no TLS with {host}:{port}: {why}; --ca names who signed its certificate"
                    )
                })?;
                exchange(stream, request).await
            }
        }
    }
}

/// Whether a host is this machine.
fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    request: Request<Outgoing>,
) -> Anyhow<Response<Incoming>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}

/// The response of a request that was done; a refusal of one that was not.
async fn refuse(response: Response<Incoming>) -> Anyhow<Response<Incoming>> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = Limited::new(response.into_body(), API_RESPONSE_LEN_MAX).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |key: &str| match &told[key] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let mut story = text("detail").unwrap_or_else(|| format!("it said {status}"));
    if let Some(line) = text("line") {
        story = format!("line {line}: {story}");
    }
    if let Some(field) = text("field") {
        story = format!("{field}: {story}");
    }
    if let (Some(rule), Some(source)) = (text("rule"), text("source")) {
        story = format!("{story} ({rule}, {source})");
    }
    if let Some(written) = text("written") {
        story = format!("{story}; {written} record sets were written");
    }
    Err(Refusal { status, story }.into())
}

async fn answer(response: Response<Incoming>) -> Anyhow<Answer> {
    let response = refuse(response).await?;
    let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    let body = Limited::new(response.into_body(), API_RESPONSE_LEN_MAX).collect().await;
    let body = body.map_err(|why| format!("the answer did not arrive: {why}"))?.to_bytes();
    Ok(Answer { body: serde_json::from_slice(&body)?, tag })
}

fn secure(api: &cli::Api) -> Anyhow<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let known = match &api.ca {
        Some(file) => certificates(file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    for certificate in known {
        // One that this library does not understand is none that a server of ours has.
        let _ = roots.add(certificate);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(Arc::new(match (&api.cert, &api.key) {
        (Some(cert), Some(key)) => {
            let read = PrivateKeyDer::from_pem_file(key)
                .map_err(|why| format!("{}: no private key: {why}", key.display()))?;
            builder.with_client_auth_cert(certificates(cert)?, read)?
        }
        _ => builder.with_no_client_auth(),
    }))
}

fn certificates(file: &Path) -> Anyhow<Vec<CertificateDer<'static>>> {
    let text = fs::read(file).map_err(|why| format!("{}: {why}", file.display()))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    Ok(read.map_err(|why| format!("{}: no certificates: {why}", file.display()))?)
}

/// A part of a path, with everything escaped that could be taken for more.
pub fn part(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for octet in text.bytes() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                escaped.push(octet.into());
            }
            octet => escaped += &format!("%{octet:02X}"),
        }
    }
    // Two dots would lead elsewhere.
    if escaped.bytes().all(|octet| octet == b'.') { escaped.replace('.', "%2E") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lead_nowhere_else() {
        let parts = ["www.example.org.", "*.a", "a/b?c#d", "..", ".", "\\000"].map(part);
        let expected = ["www.example.org.", "%2A.a", "a%2Fb%3Fc%23d", "%2E%2E", "%2E", "%5C000"];
        assert_eq!(parts, expected);
    }
}

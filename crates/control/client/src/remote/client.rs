//! A client of the REST API: one request per connection, over TLS for an https URL.
use crate::cli;
use crate::limits::{
    API_READ_TIME_MAX, API_RESPONSE_LEN_MAX, API_WRITE_TIME_MAX, STARTING_PAUSE, STARTING_TIME_MAX,
};
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
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

mod errors;

use errors::{broken, no_tls, unreachable};

/// The result of a command. The error is a sentence for the terminal.
pub type CommandResult<T> = Result<T, Box<dyn Error>>;

type Outgoing = BoxBody<Bytes, io::Error>;

/// The variable with the token.
const TOKEN: &str = "DUNLIN_TOKEN";
const DEFAULT_URL: &str = "http://127.0.0.1:8053";
/// Bytes of one frame of an upload.
const FRAME_LEN: usize = 64 << 10;

/// The management API of one server.
pub struct ApiClient {
    target: Target,
    token: Option<String>,
    runtime: Runtime,
}

/// Where the API is.
enum Target {
    Network {
        host: String,
        port: u16,
        tls: Option<Arc<ClientConfig>>,
    },
    /// The server's local socket, which needs no token.
    Local(PathBuf),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Network { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Local(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A request.
pub struct ApiRequest<'a> {
    pub method: Method,
    pub path: String,
    /// Header fields in addition to those of every request.
    pub fields: Vec<(&'a str, String)>,
    pub body: Option<Value>,
}

impl ApiRequest<'_> {
    pub fn new(method: Method, path: String) -> Self {
        Self { method, path, fields: Vec::new(), body: None }
    }
}

/// The response to a successful request.
pub struct ApiResponse {
    pub body: Value,
    /// The entity tag, with its quotes.
    pub tag: Option<String>,
}

/// The response of a server that did not carry out the request.
#[derive(Debug)]
pub struct ApiError {
    pub status: StatusCode,
    message: String,
    /// Whether the server is starting: it has done nothing, and will answer soon.
    is_starting: bool,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ApiError {}

impl ApiClient {
    /// A client with the URL and credentials of the command line.
    ///
    /// # Errors
    /// The URL, the token or a certificate is invalid.
    pub fn new(api: &cli::Api) -> CommandResult<Self> {
        let given = api.api.clone().or_else(|| std::env::var("DUNLIN_API").ok());
        let url = given.unwrap_or_else(|| DEFAULT_URL.to_owned());
        let uri: Uri = url.parse().map_err(|why| format!("{url:?} is not a URL: {why}"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => {
                return Err(
                    format!("{url:?}: the URL of the API begins with http:// or https://").into()
                );
            }
        };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let token = read_token(api.token_file.as_deref(), std::env::var_os(TOKEN))?;
        if token.is_some() && !is_tls && !is_local(&host) {
            let what = "plain HTTP would expose the token on the network";
            return Err(format!("{url:?}: {what}: use https://").into());
        }
        let tls = is_tls.then(|| tls_config(api)).transpose()?;
        Self::at(Target::Network { host, port, tls }, token)
    }

    /// A client at the local socket of a server.
    ///
    /// # Errors
    /// The kernel refuses resources.
    pub fn local(socket: &Path) -> CommandResult<Self> {
        Self::at(Target::Local(socket.to_owned()), None)
    }

    fn at(target: Target, token: Option<String>) -> CommandResult<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { target, token, runtime })
    }

    /// Sends a request and waits for the whole response.
    ///
    /// # Errors
    /// No server answers in time, or an [`ApiError`].
    pub fn request(&self, request: ApiRequest<'_>) -> CommandResult<ApiResponse> {
        let limit = time_max(&request.method);
        self.request_within(limit, request)
    }

    /// The same, for a request that takes longer than others. It waits for a server that is
    /// starting.
    ///
    /// # Errors
    /// No server answers in time, or an [`ApiError`].
    pub fn request_within(
        &self,
        limit: Duration,
        request: ApiRequest<'_>,
    ) -> CommandResult<ApiResponse> {
        let until = Instant::now() + STARTING_TIME_MAX;
        loop {
            match self.request_once(limit, &request) {
                Err(error) if is_starting(&*error) && Instant::now() < until => {
                    thread::sleep(STARTING_PAUSE);
                }
                done => return done,
            }
        }
    }

    /// The same once, also if the server is starting.
    ///
    /// # Errors
    /// No server answers in time, or an [`ApiError`].
    pub fn request_once(
        &self,
        limit: Duration,
        request: &ApiRequest<'_>,
    ) -> CommandResult<ApiResponse> {
        self.runtime.block_on(async {
            let body = match &request.body {
                Some(body) => Full::from(body.to_string()).map_err(|no| match no {}).boxed(),
                None => no_body(),
            };
            let media = request.body.is_some().then_some("application/json");
            read_response(self.send(limit, request, media, body).await?).await
        })
    }

    /// Writes a streamed response to `out`; calls `each` with the length of each frame. Returns the
    /// entity tag, with its quotes.
    ///
    /// # Errors
    /// No server answers, an [`ApiError`], or `out` fails.
    pub fn download(
        &self,
        path: String,
        accept: &str,
        out: &mut dyn Write,
        mut each: impl FnMut(usize),
    ) -> CommandResult<Option<String>> {
        let mut request = ApiRequest::new(Method::GET, path);
        request.fields.push((ACCEPT.as_str(), accept.to_owned()));
        self.runtime.block_on(async {
            let response = self.send(time_max(&request.method), &request, None, no_body());
            let response = check_status(response.await?).await?;
            let tag = tag(&response);
            let mut body = response.into_body();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|why| format!("the response was cut off: {why}"))?;
                if let Some(data) = frame.data_ref() {
                    out.write_all(data)?;
                    each(data.len());
                }
            }
            Ok(tag)
        })
    }

    /// Sends a file; calls `each` with the length of each frame.
    ///
    /// # Errors
    /// No server answers, an [`ApiError`], or the file cannot be read.
    pub fn upload(
        &self,
        request: ApiRequest<'_>,
        media: &str,
        file: impl Read + Send + Sync + 'static,
        each: impl FnMut(usize) + Send + Sync + 'static,
    ) -> CommandResult<ApiResponse> {
        let frames = stream::try_unfold((file, each), |(mut file, mut each)| async move {
            let mut bytes = vec![0; FRAME_LEN];
            let len = file.read(&mut bytes)?;
            bytes.truncate(len);
            each(len);
            let frame = (len > 0).then(|| (Frame::data(Bytes::from(bytes)), (file, each)));
            Ok::<_, io::Error>(frame)
        });
        self.runtime.block_on(async {
            let body = BodyExt::boxed(StreamBody::new(Box::pin(frames)));
            let response = self.send_without_limit(&request, Some(media), body).await?;
            read_response(response).await
        })
    }

    async fn send(
        &self,
        limit: Duration,
        request: &ApiRequest<'_>,
        media: Option<&str>,
        body: Outgoing,
    ) -> CommandResult<Response<Incoming>> {
        let sending = self.send_without_limit(request, media, body);
        timeout(limit, sending).await.map_err(|_| {
            let target = &self.target;
            format!("the server at {target} did not answer within {limit:?}; its log may say why")
        })?
    }

    async fn send_without_limit(
        &self,
        request: &ApiRequest<'_>,
        media: Option<&str>,
        body: Outgoing,
    ) -> CommandResult<Response<Incoming>> {
        let mut http = Request::builder().method(&request.method).uri(&request.path);
        http = http.header(
            HOST,
            match &self.target {
                Target::Network { .. } => self.target.to_string(),
                Target::Local(_) => "localhost".to_owned(),
            },
        );
        if let Some(token) = &self.token {
            http = http.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(media) = media {
            http = http.header(CONTENT_TYPE, media);
        }
        for (name, value) in &request.fields {
            http = http.header(*name, value);
        }
        let http = http.body(body).map_err(|why| format!("invalid request: {why}"))?;
        let (host, port, tls) = match &self.target {
            Target::Network { host, port, tls } => (host, *port, tls),
            Target::Local(path) => {
                let stream = UnixStream::connect(path).await.map_err(|why| unreachable(path, &why));
                let response = exchange(stream?, http).await;
                return response.map_err(|why| broken(path, &*why).into());
            }
        };
        let stream = TcpStream::connect((&**host, port)).await.map_err(|why| {
            format!("no API answers at {host}:{port} ({why}): is [api] listen set in its config?")
        })?;
        stream.set_nodelay(true)?;
        match tls {
            None => exchange(stream, http).await,
            Some(tls) => {
                let name = ServerName::try_from(host.clone())?;
                let handshake = TlsConnector::from(Arc::clone(tls)).connect(name, stream);
                let stream = handshake.await.map_err(|why| no_tls(host, port, &why))?;
                exchange(stream, http).await
            }
        }
    }
}

/// The token in a file, or else in the variable.
///
/// # Errors
/// There is a file or a variable, and no token in it.
fn read_token(file: Option<&Path>, variable: Option<OsString>) -> Result<Option<String>, String> {
    let (text, place) = match (file, variable) {
        (Some(file), _) => {
            let place = file.display().to_string();
            let text =
                fs::read_to_string(file).map_err(|why| format!("{place}: cannot be read: {why}"));
            (text?, place)
        }
        (None, Some(value)) => (value.to_string_lossy().into_owned(), TOKEN.to_owned()),
        (None, None) => return Ok(None),
    };
    let token = text.trim();
    if token.is_empty() {
        return Err(format!(
            "{place} is empty: put a token of `dunlin token create` there, or leave it out"
        ));
    }
    // The token is a secret, so the error does not repeat it.
    match token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(Some(token.to_owned())),
        false => Err(format!(
            "{place} has more than a token: it is one word without blanks and line breaks, as \
             `dunlin token create` prints it"
        )),
    }
}

/// How long a response may take to begin.
fn time_max(method: &Method) -> Duration {
    if method == Method::GET { API_READ_TIME_MAX } else { API_WRITE_TIME_MAX }
}

fn no_body() -> Outgoing {
    Empty::new().map_err(|no| match no {}).boxed()
}

/// Whether a host is this machine.
fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    request: Request<Outgoing>,
) -> CommandResult<Response<Incoming>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}

/// Returns a successful response, and any other as an [`ApiError`].
async fn check_status(response: Response<Incoming>) -> CommandResult<Response<Incoming>> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = Limited::new(response.into_body(), API_RESPONSE_LEN_MAX).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |key: &str| match &problem[key] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let mut message = text("detail").unwrap_or_else(|| format!("the server answered {status}"));
    if let Some(line) = text("line") {
        message = format!("line {line}: {message}");
    }
    if let Some(field) = text("field") {
        message = format!("{field}: {message}");
    }
    if let (Some(rule), Some(source)) = (text("rule"), text("source")) {
        message = format!("{message} ({rule}, {source})");
    }
    if let Some(written) = text("written") {
        message = format!("{message}; {written} record sets were written");
    }
    let is_starting = problem["type"].as_str() == Some("urn:dunlin:problem:starting");
    Err(ApiError { status, message, is_starting }.into())
}

fn is_starting(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<ApiError>().is_some_and(|error| error.is_starting)
}

/// The entity tag of a response, with its quotes.
fn tag(response: &Response<Incoming>) -> Option<String> {
    response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned)
}

async fn read_response(response: Response<Incoming>) -> CommandResult<ApiResponse> {
    let response = check_status(response).await?;
    let tag = tag(&response);
    let body = Limited::new(response.into_body(), API_RESPONSE_LEN_MAX).collect().await;
    let body = body.map_err(|why| format!("the response did not arrive: {why}"))?.to_bytes();
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
    Ok(ApiResponse { body, tag })
}

fn tls_config(api: &cli::Api) -> CommandResult<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let known = match &api.ca {
        Some(file) => certificates(file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    for certificate in known {
        // Dunlin's certificates are never of a form that rustls rejects.
        let _ = roots.add(certificate);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(Arc::new(match (&api.cert, &api.key) {
        (Some(cert), Some(key)) => {
            let read = PrivateKeyDer::from_pem_file(key)
                .map_err(|why| format!("{}: not a private key: {why}", key.display()))?;
            builder.with_client_auth_cert(certificates(cert)?, read)?
        }
        _ => builder.with_no_client_auth(),
    }))
}

fn certificates(file: &Path) -> CommandResult<Vec<CertificateDer<'static>>> {
    let text = fs::read(file).map_err(|why| format!("{}: {why}", file.display()))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    Ok(read.map_err(|why| format!("{}: not a list of certificates: {why}", file.display()))?)
}

/// Escapes text as one segment of a path.
pub fn path_segment(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                escaped.push(byte.into());
            }
            byte => escaped += &format!("%{byte:02X}"),
        }
    }
    // `..` would leave the folder.
    if escaped.bytes().all(|byte| byte == b'.') { escaped.replace('.', "%2E") } else { escaped }
}

#[cfg(test)]
mod tests;

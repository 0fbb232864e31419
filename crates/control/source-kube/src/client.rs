//! The connection to the API server.
use crate::limits::{CONNECT_MAX, KEEPALIVE};
use http::Request;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tower::BoxError;
use tower::util::{MapErrLayer, option_layer};

/// The longest part of an error of the API server that is repeated.
const MESSAGE_LEN_MAX: usize = 500;

/// How the API server is found, and who asks it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// A kubeconfig; `None`: that of a Pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it; empty: the current one.
    pub context: String,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What failed, why, and what to do.
    pub what: String,
    /// The status code of HTTP, if there was one.
    pub status: Option<u16>,
    /// The revision is too old for the server, or unknown to it.
    pub is_expired: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Failure {
    /// A failure without an answer.
    pub fn of(what: String) -> Self {
        Self { what, status: None, is_expired: false }
    }

    /// An answer that is an error.
    pub fn with_status(status: u16, message: String) -> Self {
        // 504: a server that was restored from an older state does not know a newer revision.
        let is_unknown = message.contains("oo large resource version");
        let is_expired = matches!(status, 410) || is_unknown;
        Self { what: format!("HTTP {status}: {message}"), status: Some(status), is_expired }
    }
}

/// A connection to the API server; clones share it. Credentials that the server refuses are read
/// again.
#[derive(Clone)]
pub struct Connection {
    access: Access,
    client: Arc<Mutex<Option<Client>>>,
}

impl Connection {
    /// A connection that is made when it is first used.
    pub fn new(access: Access) -> Self {
        Self { access, client: Arc::default() }
    }

    /// Gets a path. `verb` and `resource` are those of RBAC, for messages.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    pub async fn get(&self, path: &str, verb: &str, resource: &str) -> Result<Body, Failure> {
        let client = self.client().await?;
        let cannot = |why: &dyn fmt::Display| {
            let target = self.target();
            Failure::of(format!("cannot {verb} {resource} of {target}: {why}"))
        };
        let request = Request::get(path).header("accept", "application/json");
        let request = request.body(Body::empty()).map_err(|error| cannot(&error))?;
        let sent = client.send(request).await;
        let response = sent.map_err(|error| cannot(&causes(&error)))?;
        let status = response.status().as_u16();
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let bytes = response.into_body().collect_bytes().await.unwrap_or_default();
        let message = message(&bytes);
        if status == 401 {
            // The token may have expired: it is read again.
            *self.lock() = None;
        }
        let advice = match status {
            401 => format!("the API server does not accept the credentials of {}", self.target()),
            403 => format!("give its service account the verb `{verb}` on `{resource}`"),
            404 => format!("the cluster has no `{resource}`: is its definition installed?"),
            _ => String::new(),
        };
        let failure = Failure::with_status(status, message);
        let advice = if advice.is_empty() { advice } else { format!("; {advice}") };
        let what = format!("cannot {verb} {resource}: {}{advice}", failure.what);
        Err(Failure { what, ..failure })
    }

    fn target(&self) -> String {
        match &self.access.kubeconfig {
            Some(file) => file.display().to_string(),
            None => "the cluster of this Pod".into(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Client>> {
        // Nothing that holds it can panic half way.
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn client(&self) -> Result<Client, Failure> {
        if let Some(client) = self.lock().clone() {
            return Ok(client);
        }
        let client = connect(&self.access).await.map_err(Failure::of)?;
        *self.lock() = Some(client.clone());
        Ok(client)
    }
}

/// An error with all its causes, each once.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

/// What an answer of the API server says.
fn message(bytes: &[u8]) -> String {
    let status: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let text = match status["message"].as_str() {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(bytes).into_owned(),
    };
    text.chars().filter(|letter| !letter.is_control()).take(MESSAGE_LEN_MAX).collect()
}

async fn connect(access: &Access) -> Result<Client, String> {
    let mut config = match &access.kubeconfig {
        Some(file) => {
            let told = |error: &dyn fmt::Display| {
                format!("[kubernetes] kubeconfig {}: {error}", file.display())
            };
            let read = Kubeconfig::read_from(file).map_err(|error| told(&error))?;
            let context = (!access.context.is_empty()).then(|| access.context.clone());
            let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
            let config = Config::from_custom_kubeconfig(read, &options).await;
            config.map_err(|error| told(&error))?
        }
        None => Config::incluster().map_err(|error| {
            format!(
                "this is no Pod with a service account ({}): set [kubernetes] kubeconfig",
                causes(&error)
            )
        })?,
    };
    config.connect_timeout = Some(CONNECT_MAX);
    build(&config).map_err(|error| format!("no client for the API server: {}", causes(&error)))
}

fn build(config: &Config) -> kube::Result<Client> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(CONNECT_MAX));
    let (idle, interval, probes) = KEEPALIVE;
    connector.set_keepalive(Some(idle));
    connector.set_keepalive_interval(Some(interval));
    connector.set_keepalive_retries(Some(probes));
    connector.set_tcp_user_timeout(Some(idle + interval * probes));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let client: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let builder = ClientBuilder::new(client, config.default_namespace.clone())
        .with_layer(&MapErrLayer::new(BoxError::from))
        .with_layer(&option_layer(config.auth_layer()?));
    Ok(builder.with_layer(&config.base_uri_layer()).build())
}

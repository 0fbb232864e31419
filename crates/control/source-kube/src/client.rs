//! The connection to the API server.
use crate::access_files::{Stamp, named_files};
use crate::body::read_start;
use crate::failure::{Cause, Failure};
use crate::limits::{CONNECT_MAX, KEEPALIVE};
use http::Request;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client as HttpClient, Error as HttpError};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};
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

/// A connection to the API server; clones share it. Credentials that the server refuses are read
/// again, and so is each file that has changed.
#[derive(Clone)]
pub struct Connection {
    access: Access,
    current: Arc<Mutex<Option<Connected>>>,
}

#[derive(Clone)]
struct Connected {
    client: Client,
    /// The files that it was made of.
    files: Vec<Stamp>,
}

impl Connection {
    /// A connection that is made when it is first used.
    pub fn new(access: Access) -> Self {
        Self { access, current: Arc::default() }
    }

    /// Gets a path. `verb` and `resource` are those of RBAC, for messages.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    pub async fn get(&self, path: &str, verb: &str, resource: &str) -> Result<Body, Failure> {
        let client = self.client().await?;
        let cannot = |cause, why: &dyn fmt::Display| {
            let target = self.target();
            Failure::new(cause, format!("cannot {verb} {resource} of {target}: {why}"))
        };
        let request = Request::get(path).header("accept", "application/json");
        let request = request.body(Body::empty()).map_err(|error| cannot(Cause::Config, &error))?;
        let sent = client.send(request).await;
        let response = sent.map_err(|error| {
            let cause = if is_connect(&error) { Cause::Connection } else { Cause::Broken };
            cannot(cause, &causes(&error))
        })?;
        let status = response.status().as_u16();
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let retry_after = response.headers().get("retry-after");
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let message = message(&read_start(response.into_body()).await);
        if status == 401 {
            // The token may have expired: it is read again.
            *self.lock() = None;
        }
        let advice = match status {
            401 => format!("; the API server does not accept the credentials of {}", self.target()),
            403 => format!("; give its service account the verb `{verb}` on `{resource}`"),
            404 => format!("; is {} that of an API server?", self.target()),
            _ => String::new(),
        };
        let failure = Failure::with_code(Cause::Status(status), &message, retry_after);
        let what = format!("cannot {verb} {resource}: {}{advice}", failure.what);
        Err(Failure { what, resource: Some(resource.into()), ..failure })
    }

    fn target(&self) -> String {
        match &self.access.kubeconfig {
            Some(file) => file.display().to_string(),
            None => "the cluster of this Pod".into(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Connected>> {
        // Nothing that holds it can panic half way.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client, made again if a file has changed that it was made of.
    async fn client(&self) -> Result<Client, Failure> {
        let known = self.lock().clone();
        if let Some(Connected { client, files }) = &known
            && files.iter().all(Stamp::is_current)
        {
            return Ok(client.clone());
        }
        let connected = match (connect(&self.access).await, known) {
            (Ok(connected), _) => connected,
            (Err(why), Some(known)) => {
                tracing::warn!("a changed file of the access to Kubernetes is not used: {why}");
                let files = known.files.iter().map(Stamp::renewed).collect();
                Connected { files, ..known }
            }
            (Err(why), None) => return Err(Failure::new(Cause::Config, why)),
        };
        *self.lock() = Some(connected.clone());
        Ok(connected.client)
    }
}

/// Whether no connection could be made.
fn is_connect(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_it = error.downcast_ref::<HttpError>().is_some_and(HttpError::is_connect);
    is_it || error.source().is_some_and(is_connect)
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

/// Reads the files, and makes a client of them.
async fn connect(access: &Access) -> Result<Connected, String> {
    let (mut config, files) = match &access.kubeconfig {
        Some(file) => {
            let told = |error: &dyn fmt::Display| {
                format!("[kubernetes] kubeconfig {}: {error}", file.display())
            };
            // A file that changes while it is read differs from its stamp.
            let own = Stamp::of(file);
            let read = Kubeconfig::read_from(file).map_err(|error| told(&error))?;
            check_proxy(&read, &access.context).map_err(|why| told(&why))?;
            let files = std::iter::once(own).chain(named_files(&read).map(Stamp::of)).collect();
            let context = (!access.context.is_empty()).then(|| access.context.clone());
            let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
            let config = Config::from_custom_kubeconfig(read, &options).await;
            (config.map_err(|error| told(&error))?, files)
        }
        None => {
            let config = Config::incluster().map_err(|error| {
                format!(
                    "this is no Pod with a service account ({}): set [kubernetes] kubeconfig",
                    causes(&error)
                )
            })?;
            let ca = config.root_cert_file.as_deref().map(Path::new).map(Stamp::of);
            (config, ca.into_iter().collect())
        }
    };
    config.connect_timeout = Some(CONNECT_MAX);
    let client = build(&config);
    let client =
        client.map_err(|error| format!("no client for the API server: {}", causes(&error)))?;
    Ok(Connected { client, files })
}

/// Refuses a cluster that is reached by a proxy.
fn check_proxy(kubeconfig: &Kubeconfig, context: &str) -> Result<(), &'static str> {
    let current = kubeconfig.current_context.as_deref().filter(|_| context.is_empty());
    let wanted = current.unwrap_or(context);
    let used = kubeconfig.contexts.iter().find(|one| one.name == wanted);
    let used = used.and_then(|one| one.context.as_ref()).map(|context| &context.cluster);
    let cluster = kubeconfig.clusters.iter().find(|one| Some(&one.name) == used);
    let proxy = cluster.and_then(|one| one.cluster.as_ref()?.proxy_url.as_deref());
    match proxy.is_some_and(|url| !url.is_empty()) {
        true => Err("the key `proxy-url` of its cluster is not supported: take it out, and make \
                     `server` an address that this server reaches without a proxy"),
        false => Ok(()),
    }
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

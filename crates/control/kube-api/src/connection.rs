//! The address of the API server, the credentials, and the client.
use crate::access_files::{Stamp, named_files};
use crate::limits::{CONNECT_MAX, KEEPALIVE};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tower::BoxError;
use tower::util::{MapErrLayer, option_layer};

/// How the API server is found, and who asks it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// A kubeconfig; `None`: that of a Pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it; empty: the current one.
    pub context: String,
}

/// A connection to the API server; clones share it. It is made when it is first used. Credentials
/// that the server refuses are read again, and so is each file that has changed.
#[derive(Clone)]
pub struct Connection {
    /// Several are merged; without one, it is a Pod's service account.
    kubeconfigs: Vec<PathBuf>,
    context: String,
    current: Arc<Mutex<Option<Connected>>>,
}

#[derive(Clone)]
struct Connected {
    client: Client,
    /// The files that it was made of.
    files: Vec<Stamp>,
}

impl Connection {
    /// The connection for a kubeconfig or a service account.
    pub fn new(access: Access) -> Self {
        let kubeconfigs = access.kubeconfig.into_iter().collect();
        Self { kubeconfigs, context: access.context, current: Arc::default() }
    }

    /// The one that the environment names: the files of KUBECONFIG, `~/.kube/config`, or the
    /// service account of a Pod; `None`: it names none.
    pub fn inferred() -> Option<Self> {
        let listed = env::var_os("KUBECONFIG").map(|files| env::split_paths(&files).collect());
        let home = || env::home_dir().map(|home| home.join(".kube/config"));
        let home = || home().filter(|file| file.exists()).map(|file| vec![file]);
        let in_pod = || env::var_os("KUBERNETES_SERVICE_HOST").map(|_| Vec::new());
        let kubeconfigs = listed.or_else(home).or_else(in_pod)?;
        Some(Self { kubeconfigs, ..Self::new(Access::default()) })
    }

    /// The connection of a client, for tests.
    #[cfg(any(test, feature = "lying-server"))]
    pub fn of(client: Client) -> Self {
        let current = Some(Connected { client, files: Vec::new() });
        Self { current: Arc::new(Mutex::new(current)), ..Self::new(Access::default()) }
    }

    /// What it connects to, for messages.
    pub fn target(&self) -> String {
        match &self.kubeconfigs[..] {
            [] => "the cluster of this Pod".into(),
            files => {
                files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(":")
            }
        }
    }

    /// Reads all files again at the next use: the server does not accept the credentials.
    pub fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Connected>> {
        // Nothing that holds it can panic half way.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client, made again if a file has changed that it was made of.
    ///
    /// # Errors
    /// There is no access, or it cannot be used.
    pub async fn client(&self) -> Result<Client, String> {
        let known = self.lock().clone();
        if let Some(Connected { client, files }) = &known
            && files.iter().all(Stamp::is_current)
        {
            return Ok(client.clone());
        }
        let connected = match (self.connect().await, known) {
            (Ok(connected), _) => connected,
            (Err(why), Some(known)) => {
                tracing::warn!("a changed file of the access to Kubernetes is not used: {why}");
                let files = known.files.iter().map(Stamp::renewed).collect();
                Connected { files, ..known }
            }
            (Err(why), None) => return Err(why),
        };
        *self.lock() = Some(connected.clone());
        Ok(connected.client)
    }

    /// Reads the files, and makes a client of them.
    async fn connect(&self) -> Result<Connected, String> {
        let (mut config, files) = match &self.kubeconfigs[..] {
            [] => in_pod()?,
            _ => self.of_files().await.map_err(|why| format!("{}: {why}", self.target()))?,
        };
        config.connect_timeout = Some(CONNECT_MAX);
        let client = build(&config);
        let client =
            client.map_err(|error| format!("no client for the API server: {}", causes(&error)))?;
        Ok(Connected { client, files })
    }

    async fn of_files(&self) -> Result<(Config, Vec<Stamp>), String> {
        let (mut all, mut files) = (Kubeconfig::default(), Vec::new());
        for file in &self.kubeconfigs {
            // A file that changes while it is read differs from its stamp.
            files.push(Stamp::of(file));
            let read = Kubeconfig::read_from(file).map_err(|error| error.to_string())?;
            files.extend(named_files(&read).map(Stamp::of));
            all = all.merge(read).map_err(|error| error.to_string())?;
        }
        check_proxy(&all, &self.context)?;
        let context = (!self.context.is_empty()).then(|| self.context.clone());
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(all, &options).await;
        Ok((config.map_err(|error| error.to_string())?, files))
    }
}

fn in_pod() -> Result<(Config, Vec<Stamp>), String> {
    let config = Config::incluster().map_err(|error| {
        format!("not running in a Pod with a service account ({})", causes(&error))
    })?;
    let ca = config.root_cert_file.as_deref().map(Path::new).map(Stamp::of);
    Ok((config, ca.into_iter().collect()))
}

/// An error with all its causes, each once.
pub fn causes(error: &dyn Error) -> String {
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

/// Refuses a cluster that is reached by a proxy.
fn check_proxy(kubeconfig: &Kubeconfig, context: &str) -> Result<(), String> {
    let current = kubeconfig.current_context.as_deref().filter(|_| context.is_empty());
    let wanted = current.unwrap_or(context);
    let used = kubeconfig.contexts.iter().find(|one| one.name == wanted);
    let used = used.and_then(|one| one.context.as_ref()).map(|context| &context.cluster);
    let cluster = kubeconfig.clusters.iter().find(|one| Some(&one.name) == used);
    let proxy = cluster.and_then(|one| one.cluster.as_ref()?.proxy_url.as_deref());
    match proxy.is_some_and(|url| !url.is_empty()) {
        true => Err("the key `proxy-url` of its cluster is not supported: take it out, and make \
                     `server` an address that is reached without a proxy"
            .into()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lying::block;
    use std::fs;

    const USER: &str = "contexts:\n- {name: c, context: {cluster: c, user: u}}\n\
                        users:\n- {name: u, user: {}}\n";

    fn cluster(more: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n\
             - {{name: c, cluster: {{server: \"https://192.0.2.2\"{more}}}}}\n"
        )
    }

    #[test]
    fn a_proxy_is_refused_and_several_files_are_merged() {
        let folder = env::temp_dir().join(format!("dunlin-kube-api-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let files = ["one", "two"].map(|name| folder.join(name));
        let connect = |texts: [&str; 2]| {
            for (file, text) in files.iter().zip(texts) {
                fs::write(file, text).expect("written");
            }
            let connection =
                Connection { kubeconfigs: files.to_vec(), ..Connection::new(Access::default()) };
            block(connection.client()).map(drop)
        };
        assert_eq!(connect([&cluster(""), USER]), Ok(()), "each has a part");
        let proxy = cluster(", proxy-url: \"http://192.0.2.1:3128\"");
        let refused = connect([&proxy, USER]).expect_err("refused");
        assert!(refused.contains("one") && refused.contains("proxy-url"), "{refused}");
        let half = connect(["clusters: [", USER]).expect_err("half a file");
        assert!(half.starts_with(&files[0].display().to_string()), "{half}");
        fs::remove_dir_all(&folder).expect("it was there");
    }
}

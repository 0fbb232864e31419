//! Requests to the API server.
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// How long one request may take.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// There is no such object (404).
    NotFound(String),
    /// A right is missing (403).
    Forbidden(String),
    /// Another has written the object meanwhile (409).
    Conflict(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotFound(text)
        | Self::Forbidden(text)
        | Self::Conflict(text)
        | Self::Other(text)) = self;
        f.write_str(&command_line::plain(text))
    }
}

impl Error for ApiError {}

/// The API server.
#[derive(Clone)]
pub struct Api {
    client: Client,
    time_max: Duration,
}

/// Whether the environment names an API server: a Pod's, or a kubeconfig.
fn is_any_named() -> bool {
    let home = std::env::home_dir().map(|home| home.join(".kube/config"));
    ["KUBERNETES_SERVICE_HOST", "KUBECONFIG"].iter().any(|name| std::env::var_os(name).is_some())
        || home.is_some_and(|file| file.exists())
}

impl Api {
    /// The API server of a kubeconfig, or the one that the environment names: KUBECONFIG, or the
    /// service account of a Pod.
    ///
    /// # Errors
    /// There is none, or the config cannot be used.
    pub async fn connect(kubeconfig: Option<&Path>) -> Result<Self, String> {
        let config = match kubeconfig {
            Some(path) => {
                let told = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
                let read = Kubeconfig::read_from(path).map_err(|error| told(&error))?;
                let ca = ca_file(&read);
                let options = KubeConfigOptions::default();
                let config = Config::from_custom_kubeconfig(read, &options);
                let mut config = config.await.map_err(|error| told(&error))?;
                // `kube` reads this file again each minute.
                config.root_cert_file = ca;
                config
            }
            None => Config::infer().await.map_err(|error| match is_any_named() {
                true => format!("no API server is known: {error}; name --kubeconfig FILE"),
                false => "no API server is known: this is no Pod, and there is neither KUBECONFIG \
                          nor ~/.kube/config; name --kubeconfig FILE"
                    .to_owned(),
            })?,
        };
        if config.proxy_url.is_some() {
            return Err("a proxy is not supported: take `proxy-url` out of the kubeconfig, unset \
                        HTTPS_PROXY, and name an address that is reached without one"
                .into());
        }
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        Ok(Self::of(client, REQUEST_TIME_MAX))
    }

    /// The API server of a client, whose requests may take so long.
    pub const fn of(client: Client, time_max: Duration) -> Self {
        Self { client, time_max }
    }

    /// Sends a request and waits for the object.
    ///
    /// # Errors
    /// The API server refused it, or there was no answer in time.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, ApiError> {
        let what = format!("{method} {path}");
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .body(bytes)
            .map_err(|error| ApiError::Other(format!("{what}: {error}")))?;
        match timeout(self.time_max, self.client.request(request)).await {
            Ok(answered) => answered.map_err(|error| told(&what, error)),
            Err(_) => {
                let text = format!("{what}: no answer within {:?}", self.time_max);
                Err(ApiError::Other(text))
            }
        }
    }

    /// Reads an object.
    ///
    /// # Errors
    /// As [`Api::call`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.call(Method::GET, path, None).await
    }

    /// Writes an object that is there.
    ///
    /// # Errors
    /// As [`Api::call`].
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.call(Method::PUT, path, Some(body)).await
    }

    /// Creates an object.
    ///
    /// # Errors
    /// As [`Api::call`].
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.call(Method::POST, path, Some(body)).await
    }

    /// The client, for what is not one object.
    pub const fn client(&self) -> &Client {
        &self.client
    }
}

/// The file with the certificate authority of the current cluster of a kubeconfig.
fn ca_file(kubeconfig: &Kubeconfig) -> Option<PathBuf> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == *current)?;
    let name = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == *name)?;
    let cluster = cluster.cluster.as_ref()?;
    let file = cluster.certificate_authority.as_ref().map(PathBuf::from);
    file.filter(|_| cluster.certificate_authority_data.is_none())
}

/// An error of the library, by what it means.
pub fn told(what: &str, error: kube::Error) -> ApiError {
    match error {
        kube::Error::Api(status) => {
            let text = format!("{what}: {} (HTTP {})", status.message, status.code);
            match status.code {
                403 => ApiError::Forbidden(text),
                404 => ApiError::NotFound(text),
                409 => ApiError::Conflict(text),
                _ => ApiError::Other(text),
            }
        }
        other => ApiError::Other(format!("{what}: {other}")),
    }
}

/// Text as a value of a query string.
pub fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(byte.into());
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lying::block;
    use std::fs;

    fn kubeconfig(server: &str, more: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: \
             {{cluster: c, user: u}}\nclusters:\n- name: c\n  cluster:\n    server: {server}\n\
             {more}users:\n- name: u\n  user: {{}}\n"
        )
    }

    #[test]
    fn a_proxy_is_refused_and_a_file_of_certificates_is_followed() {
        let folder = std::env::temp_dir().join(format!("dunlin-kube-api-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("config");
        let connect = |text: String| {
            fs::write(&file, text).expect("written");
            block(Api::connect(Some(&file)))
        };
        let proxy = "    proxy-url: http://192.0.2.1:3128\n";
        let refused = connect(kubeconfig("https://192.0.2.2", proxy)).err().expect("refused");
        assert!(refused.contains("proxy-url"), "{refused}");
        let read = |more: &str| {
            fs::write(&file, kubeconfig("https://192.0.2.2", more)).expect("written");
            ca_file(&Kubeconfig::read_from(&file).expect("valid"))
        };
        assert_eq!(read("    certificate-authority: ca.crt\n"), Some(folder.join("ca.crt")));
        assert_eq!(read(""), None);
        fs::remove_dir_all(&folder).expect("it was there");
    }
}

//! Requests to the API server.
use crate::{Access, Connection, causes};
use http::{Method, Request};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::error::Error;
use std::fmt;
use std::path::Path;
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
    connection: Connection,
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
        let connection = match kubeconfig {
            Some(path) => Connection::new(Access {
                kubeconfig: Some(path.to_owned()),
                context: String::new(),
            }),
            None => Connection::inferred(),
        };
        let api = Self { connection, time_max: REQUEST_TIME_MAX };
        match (api.connection.client().await, kubeconfig) {
            (Ok(_), _) => Ok(api),
            (Err(why), Some(_)) => Err(why),
            (Err(why), None) if is_any_named() => {
                Err(format!("no API server is known: {why}; name --kubeconfig FILE"))
            }
            (Err(_), None) => Err("no API server is known: this is no Pod, and there is neither \
                                   KUBECONFIG nor ~/.kube/config; name --kubeconfig FILE"
                .into()),
        }
    }

    /// The API server of a client, whose requests may take so long.
    #[cfg(any(test, feature = "lying-server"))]
    pub fn of(client: Client, time_max: Duration) -> Self {
        Self { connection: Connection::of(client), time_max }
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
        let send = async {
            let client = self.client().await?;
            client.request(request).await.map_err(|error| self.told(&what, error))
        };
        match timeout(self.time_max, send).await {
            Ok(answered) => answered,
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
    ///
    /// # Errors
    /// The access to the API server cannot be used.
    pub async fn client(&self) -> Result<Client, ApiError> {
        self.connection.client().await.map_err(ApiError::Other)
    }

    /// An error of the library, by what it means.
    pub fn told(&self, what: &str, error: kube::Error) -> ApiError {
        let kube::Error::Api(status) = error else {
            return ApiError::Other(format!("{what}: {}", causes(&error)));
        };
        let text = format!("{what}: {} (HTTP {})", status.message, status.code);
        match status.code {
            401 => {
                // The token may have expired: it is read again.
                self.connection.forget();
                ApiError::Other(text)
            }
            403 => ApiError::Forbidden(text),
            404 => ApiError::NotFound(text),
            409 => ApiError::Conflict(text),
            _ => ApiError::Other(text),
        }
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

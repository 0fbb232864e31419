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

impl Api {
    /// The API server of a kubeconfig, or the one that the environment names: KUBECONFIG, or the
    /// service account of a Pod.
    ///
    /// # Errors
    /// There is none, or the config cannot be used.
    pub async fn connect(kubeconfig: Option<&Path>) -> Result<Self, String> {
        const NONE: &str = "no API server is known: not running in a Pod, and there is neither \
                            KUBECONFIG nor ~/.kube/config; name --kubeconfig FILE";
        let file = kubeconfig.map(Path::to_owned);
        let connection = match file {
            Some(_) => Connection::new(Access { kubeconfig: file, context: String::new() }),
            None => Connection::inferred().ok_or(NONE)?,
        };
        connection.client().await.map_err(|why| match kubeconfig {
            Some(_) => why,
            None => format!("no API server is known: {why}; name --kubeconfig FILE"),
        })?;
        Ok(Self { connection, time_max: REQUEST_TIME_MAX })
    }

    /// The API server that is reached so, once it is first used.
    pub fn to(access: Access) -> Self {
        Self { connection: Connection::new(access), time_max: REQUEST_TIME_MAX }
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
        self.send(method, path, "application/json", body).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<T, ApiError> {
        let what = format!("{method} {path}");
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content)
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

    /// Applies the fields of an object that are in the body (server-side apply). The path has the
    /// name of their manager.
    ///
    /// # Errors
    /// As [`Api::call`].
    pub async fn apply(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.send(Method::PATCH, path, "application/apply-patch+yaml", Some(body)).await
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

/// Text as a value in a query (RFC 3986 §2.1).
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

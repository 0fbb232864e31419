//! Requests to the API server, for tests that are threads.
use crate::Result;
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use std::path::Path;
use test_support::wait;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// What the API server answers.
#[derive(Debug)]
pub struct Answer {
    /// The status code of HTTP.
    pub status: u16,
    /// The object, the list, or a `Status` that says what is wrong.
    pub body: Value,
}

impl Answer {
    /// The object.
    ///
    /// # Errors
    /// The API server refused the request: why.
    pub fn done(self) -> Result<Value> {
        match self.status {
            200..300 => Ok(self.body),
            status => Err(format!("HTTP {status}: {}", self.body["message"])),
        }
    }
}

/// A client with a thread of its own.
pub(crate) struct ApiClient {
    runtime: Runtime,
    client: Client,
}

impl ApiClient {
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        let told = |error: &dyn std::fmt::Display| format!("no client of the API server: {error}");
        let built = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = built.map_err(|error| told(&error))?;
        let client = runtime.block_on(async {
            let read = Kubeconfig::read_from(kubeconfig).map_err(|error| told(&error))?;
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(read, &options).await;
            let config = config.map_err(|error| told(&error))?;
            Client::try_from(config).map_err(|error| told(&error))
        })?;
        Ok(Self { runtime, client })
    }

    /// Sends a request and waits for its answer.
    pub fn request(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Result<Answer> {
        let told = |error: &dyn std::fmt::Display| format!("{method} {path}: {error}");
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| told(&error))?;
        let request = Request::builder().method(method.clone()).uri(path);
        let request = request.header("content-type", kind).header("accept", "application/json");
        let request = request.body(Body::from(body.to_vec())).map_err(|error| told(&error))?;
        self.runtime.block_on(async {
            let answered = timeout(wait::deadline(), async {
                let response = self.client.send(request).await.map_err(|error| told(&error))?;
                let status = response.status().as_u16();
                let read = response.into_body().collect_bytes().await;
                let bytes = read.map_err(|error| told(&error))?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::String(text));
                Ok(Answer { status, body })
            });
            answered.await.map_err(|_| told(&"no answer within the deadline"))?
        })
    }

    /// Reads the lines of a stream as they come, until the function returns `false` or the stream
    /// ends.
    pub fn lines(&self, path: &str, mut each: impl FnMut(&[u8]) -> bool) -> Result<()> {
        let told = |error: &dyn std::fmt::Display| format!("GET {path}: {error}");
        let request = Request::get(path).header("accept", "application/json");
        let request = request.body(Body::empty()).map_err(|error| told(&error))?;
        self.runtime.block_on(async {
            let sent = self.client.send(request).await;
            let mut body = sent.map_err(|error| told(&error))?.into_body();
            let mut rest = Vec::new();
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame.map_err(|error| told(&error))?.into_data() else { continue };
                rest.extend_from_slice(&data);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let is_enough = !each(&rest[..end]);
                    rest.drain(..=end);
                    if is_enough {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }
}

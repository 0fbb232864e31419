//! Requests to the API server, and what its refusals mean.
use crate::body::read_start;
use crate::failure::{Cause, Failure};
use http::Request;
use hyper_util::client::legacy::Error as HttpError;
use kube::Client;
use kube::client::Body;
pub use kube_api::Access;
use kube_api::causes;
use serde_json::Value;
use std::fmt;

/// The longest part of an error of the API server that is repeated.
const MESSAGE_LEN_MAX: usize = 500;

/// A connection to the API server; clones share it.
#[derive(Clone)]
pub struct Connection {
    inner: kube_api::Connection,
    is_pod: bool,
}

impl Connection {
    /// A connection that is made when it is first used.
    pub fn new(access: Access) -> Self {
        let is_pod = access.kubeconfig.is_none();
        Self { inner: kube_api::Connection::new(access), is_pod }
    }

    /// Gets a path. `verb` and `resource` are those of RBAC, for messages.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    pub async fn get(&self, path: &str, verb: &str, resource: &str) -> Result<Body, Failure> {
        let client = self.client().await?;
        let cannot = |cause, why: &dyn fmt::Display| {
            let target = self.inner.target();
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
            self.inner.forget();
        }
        let advice = match status {
            401 => format!(
                "; the API server does not accept the credentials of {}",
                self.inner.target()
            ),
            403 => format!("; give its service account the verb `{verb}` on `{resource}`"),
            404 => format!("; is {} that of an API server?", self.inner.target()),
            _ => String::new(),
        };
        let failure = Failure::with_code(Cause::Status(status), &message, retry_after);
        let what = format!("cannot {verb} {resource}: {}{advice}", failure.what);
        Err(Failure { what, resource: Some(resource.into()), ..failure })
    }

    async fn client(&self) -> Result<Client, Failure> {
        let client = self.inner.client().await;
        client.map_err(|why| {
            let why = match self.is_pod {
                true => format!("{why}: set [kubernetes] kubeconfig"),
                false => format!("[kubernetes] kubeconfig {why}"),
            };
            Failure::new(Cause::Config, why)
        })
    }
}

/// Whether no connection could be made.
fn is_connect(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_it = error.downcast_ref::<HttpError>().is_some_and(HttpError::is_connect);
    is_it || error.source().is_some_and(is_connect)
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

//! Typed requests at the local socket of a server.
use crate::limits::API_SLOW_TIME_MAX;
use crate::remote::client::{ApiClient, ApiError, ApiRequest, CommandResult, path_segment};
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::path::Path;
use zone_manager::command::{
    AcceptedZone, Credential, FlushScope, ReloadOutcome, ThreadCacheEntry, ThreadFlushed,
};
use zone_manager::status::Status;

/// Why the state of an address was not set.
#[derive(Debug)]
pub struct EndpointError(Box<dyn std::error::Error>);

impl EndpointError {
    /// Whether it is the last member of a record set that is neither down nor drained.
    pub fn is_conflict(&self) -> bool {
        let refused = self.0.downcast_ref::<ApiError>();
        refused.is_some_and(|refused| refused.status == StatusCode::CONFLICT)
    }
}

impl std::fmt::Display for EndpointError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for EndpointError {}

/// A client at the local socket. Its errors are sentences for the terminal.
pub struct LocalClient(ApiClient);

impl LocalClient {
    /// A client of the server at this socket.
    pub fn new(socket: &Path) -> CommandResult<Self> {
        ApiClient::local(socket).map(Self)
    }

    /// The status.
    pub fn status(&self) -> CommandResult<Status> {
        read(self.get("/v1/status".into())?)
    }

    /// Reloads config and zones. A config with errors is not an error here.
    pub fn reload(&self) -> CommandResult<ReloadOutcome> {
        let request = ApiRequest::new(Method::POST, "/v1/reload".into());
        read(self.0.request_within(API_SLOW_TIME_MAX, request)?.body)
    }

    /// The servers that share the store.
    pub fn fleet(&self) -> CommandResult<Value> {
        self.get("/v1/fleet".into())
    }

    /// Accepts what the shared store has.
    pub fn adopt(&self) -> CommandResult<Value> {
        let request = ApiRequest::new(Method::POST, "/v1/fleet/adopt".into());
        read(self.0.request_within(API_SLOW_TIME_MAX, request)?.body)
    }

    /// Accepts the held content of a zone, or of all zones.
    pub fn accept(&self, zone: Option<&str>) -> CommandResult<Vec<AcceptedZone>> {
        let body = zone.map_or_else(|| json!({}), |zone| json!({ "zone": zone }));
        let mut request = ApiRequest::new(Method::POST, "/v1/accept".into());
        request.body = Some(body);
        read_field(self.0.request_within(API_SLOW_TIME_MAX, request)?.body, "accepted")
    }

    /// The cached answers of a name in each thread.
    pub fn show_cache(
        &self,
        name: &str,
        rtype: Option<&str>,
    ) -> CommandResult<Vec<ThreadCacheEntry>> {
        let rtype = rtype.map(|rtype| format!("&type={}", path_segment(rtype)));
        let query = format!("name={}{}", path_segment(name), rtype.unwrap_or_default());
        read_field(self.get(format!("/v1/cache?{query}"))?, "threads")
    }

    /// Flushes cached answers from each thread.
    pub fn flush_cache(&self, scope: &FlushScope) -> CommandResult<Vec<ThreadFlushed>> {
        let query = match scope {
            FlushScope::All => String::new(),
            FlushScope::Name(name) => format!("?name={}", path_segment(name)),
            FlushScope::Subtree(name) => format!("?name={}&subtree=true", path_segment(name)),
        };
        let request = ApiRequest::new(Method::DELETE, format!("/v1/cache{query}"));
        read_field(self.0.request(request)?.body, "threads")
    }

    /// Drains an upstream, or restores it. Returns the suffixes of its rules.
    pub fn drain(&self, server: &str, drained: bool) -> CommandResult<Vec<String>> {
        let path = format!("/v1/upstreams/{}", path_segment(server));
        let mut request = ApiRequest::new(Method::PUT, path);
        request.body = Some(json!({ "drained": drained }));
        read_field(self.0.request(request)?.body, "suffixes")
    }

    /// The targets of checks.
    pub fn health(
        &self,
        name: Option<&str>,
        check: Option<&str>,
        limit: usize,
    ) -> CommandResult<Value> {
        let mut path = format!("/v1/health?limit={limit}");
        for (key, value) in [("name", name), ("check", check)] {
            if let Some(value) = value {
                path += &format!("&{key}={}", path_segment(value));
            }
        }
        self.get(path)
    }

    /// All checks.
    pub fn checks(&self) -> CommandResult<Value> {
        self.get("/v1/checks".into())
    }

    /// Defines or changes a check.
    pub fn put_check(&self, name: &str, keys: Value) -> CommandResult<Value> {
        let path = format!("/v1/checks/{}", path_segment(name));
        let mut request = ApiRequest::new(Method::PUT, path);
        request.body = Some(keys);
        Ok(self.0.request(request)?.body)
    }

    /// Deletes a check.
    pub fn delete_check(&self, name: &str) -> CommandResult<()> {
        let path = format!("/v1/checks/{}", path_segment(name));
        self.0.request(ApiRequest::new(Method::DELETE, path)).map(drop)
    }

    /// Sets the state of an address.
    pub fn set_endpoint(&self, address: IpAddr, body: Value) -> Result<Value, EndpointError> {
        let path = format!("/v1/endpoints/{}", path_segment(&address.to_string()));
        let mut request = ApiRequest::new(Method::PUT, path);
        request.body = Some(body);
        self.0.request(request).map(|response| response.body).map_err(EndpointError)
    }

    /// All principals.
    pub fn credentials(&self) -> CommandResult<Vec<Credential>> {
        read_field(self.get("/v1/credentials".into())?, "credentials")
    }

    /// Creates a principal. Returns its token, unless it has a certificate.
    pub fn create_credential(&self, body: Value) -> CommandResult<Option<String>> {
        let mut request = ApiRequest::new(Method::POST, "/v1/credentials".into());
        request.body = Some(body);
        read(self.0.request(request)?.body["token"].take())
    }

    /// Gives a principal a new token.
    pub fn rotate_credential(&self, principal: &str) -> CommandResult<String> {
        let path = format!("/v1/credentials/{}/rotate", path_segment(principal));
        read_field(self.0.request(ApiRequest::new(Method::POST, path))?.body, "token")
    }

    /// Revokes the credentials of a principal.
    pub fn revoke_credential(&self, principal: &str) -> CommandResult<()> {
        let path = format!("/v1/credentials/{}", path_segment(principal));
        self.0.request(ApiRequest::new(Method::DELETE, path)).map(drop)
    }

    fn get(&self, path: String) -> CommandResult<Value> {
        Ok(self.0.request(ApiRequest::new(Method::GET, path))?.body)
    }
}

fn read<T: DeserializeOwned>(body: Value) -> CommandResult<T> {
    serde_json::from_value(body).map_err(|why| {
        format!("unexpected response ({why}): use the binary of the server's version").into()
    })
}

fn read_field<T: DeserializeOwned>(mut body: Value, field: &str) -> CommandResult<T> {
    read(body[field].take())
}

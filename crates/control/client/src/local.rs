//! Typed requests at the local socket of a server.
use crate::cli::LocalServer;
use crate::limits::{ANYCAST_SILENT_MAX, API_SLOW_TIME_MAX};
use crate::remote::client::{ApiClient, ApiError, ApiRequest, CommandResult, path_segment};
use api::limits::PAGE_MAX;
use config::Admin;
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use server_status::command::{
    AcceptedZone, Credential, FlushScope, ReloadOutcome, ThreadCacheEntry, ThreadFlushed,
};
use server_status::explain::Explanation;
use server_status::{AnycastStatus, SiteStatus, Status};
use std::ffi::OsString;
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;

/// Why the state of an address was not set.
#[derive(Debug)]
pub struct EndpointError(Box<dyn std::error::Error>);

/// Why record sets were not changed.
#[derive(Debug)]
pub struct SetsError {
    /// Why.
    pub why: String,
    /// Whether the server refuses the changes. Otherwise it may take them later.
    pub is_refused: bool,
}

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
    /// A client of the server that the command line or the environment names.
    pub fn new(server: &LocalServer) -> CommandResult<Self> {
        ApiClient::local(&socket(server, std::env::var_os("DUNLIN_SOCKET"))?).map(Self)
    }

    /// The status.
    pub fn status(&self) -> CommandResult<Status> {
        read(self.get("/v1/status".into())?)
    }

    /// Reloads config and zones; `accepts`: also a config that removes most of the zones. A config
    /// with errors is not an error here.
    pub fn reload(&self, accepts: bool) -> CommandResult<ReloadOutcome> {
        let path = if accepts { "/v1/reload?accept=true" } else { "/v1/reload" };
        let request = ApiRequest::new(Method::POST, path.into());
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

    /// What the shared store has of a cluster.
    pub fn cluster(&self, name: &str) -> CommandResult<Value> {
        self.get(cluster_path(name))
    }

    /// Removes what the shared store has of a cluster; returns what there was.
    pub fn retire(&self, cluster: &str) -> CommandResult<Value> {
        let request = ApiRequest::new(Method::DELETE, cluster_path(cluster));
        read(self.0.request_within(API_SLOW_TIME_MAX, request)?.body)
    }

    /// The names and types of the record sets of a zone.
    pub fn sets(&self, zone: &str) -> CommandResult<Vec<(String, String)>> {
        let (mut sets, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.get(format!("{}?limit={PAGE_MAX}{after}", sets_path(zone)))?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let found = page["rrsets"].as_array().into_iter().flatten();
            sets.extend(found.map(|set| (text(&set["name"]), text(&set["type"]))));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={}", path_segment(next)),
                None => return Ok(sets),
            }
        }
    }

    /// Changes record sets of a zone, all or none; each as in a PATCH of the API.
    pub fn change_sets(&self, zone: &str, changes: &[Value]) -> Result<(), SetsError> {
        let mut request = ApiRequest::new(Method::PATCH, sets_path(zone));
        request.body = Some(json!({ "changes": changes }));
        self.0.request(request).map(drop).map_err(|error| {
            let refused = error.downcast_ref::<ApiError>();
            // Of the zone, the server or the moment: not of these sets.
            let may_pass = [
                StatusCode::NOT_FOUND,
                StatusCode::REQUEST_TIMEOUT,
                StatusCode::CONFLICT,
                StatusCode::TOO_MANY_REQUESTS,
            ];
            let is_refused = refused.is_some_and(|refused| {
                refused.status.is_client_error() && !may_pass.contains(&refused.status)
            });
            SetsError { why: error.to_string(), is_refused }
        })
    }

    /// The other sites whose zones are served.
    pub fn sites(&self) -> CommandResult<Vec<SiteStatus>> {
        read_field(self.get("/v1/sites".into())?, "sites")
    }

    /// Accepts what the etcd of a site has.
    pub fn accept_site(&self, site: &str) -> CommandResult<Value> {
        let path = format!("/v1/sites/{}/accept", path_segment(site));
        let request = ApiRequest::new(Method::POST, path);
        read(self.0.request_within(API_SLOW_TIME_MAX, request)?.body)
    }

    /// The form of the store.
    pub fn store(&self) -> CommandResult<Value> {
        self.get("/v1/store".into())
    }

    /// Raises the form of the store.
    pub fn upgrade_store(&self) -> CommandResult<Value> {
        let request = ApiRequest::new(Method::POST, "/v1/store/upgrade".into());
        read(self.0.request_within(API_SLOW_TIME_MAX, request)?.body)
    }

    /// Accepts the held content of a zone, or of all zones.
    pub fn accept(&self, zone: Option<&str>) -> CommandResult<Vec<AcceptedZone>> {
        let body = zone.map_or_else(|| json!({}), |zone| json!({ "zone": zone }));
        let mut request = ApiRequest::new(Method::POST, "/v1/accept".into());
        request.body = Some(body);
        read_field(self.0.request_within(API_SLOW_TIME_MAX, request)?.body, "accepted")
    }

    /// Writes a zone as it is served to `out`; calls `each` with the length of each frame.
    pub fn dump(
        &self,
        zone: &str,
        out: &mut dyn Write,
        each: impl FnMut(usize),
    ) -> CommandResult<()> {
        let path = format!("/v1/zones/{}/dump", path_segment(zone));
        self.0.download(path, "text/dns", out, each).map(drop)
    }

    /// Why a client gets the answer to a query: `name`, `type`, `client` and what else
    /// `/v1/explain` takes.
    pub fn explain(&self, parameters: &[(&str, &str)]) -> CommandResult<Explanation> {
        let parameter = |(key, value): &(&str, &str)| format!("{key}={}", path_segment(value));
        let query: Vec<String> = parameters.iter().map(parameter).collect();
        read(self.get(format!("/v1/explain?{}", query.join("&")))?)
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

    /// The announced addresses.
    pub fn anycast(&self) -> CommandResult<AnycastStatus> {
        read(self.get("/v1/anycast".into())?)
    }

    /// The announced addresses; an error after a second, and of a server that is starting.
    pub fn anycast_now(&self) -> CommandResult<AnycastStatus> {
        let request = ApiRequest::new(Method::GET, "/v1/anycast".into());
        read(self.0.request_once(ANYCAST_SILENT_MAX, &request)?.body)
    }

    /// Withdraws the announced addresses for a reason, or leaves them to the server.
    /// `is_forced`: without a permit of the fleet.
    pub fn withdraw(&self, reason: Option<&str>, is_forced: bool) -> CommandResult<AnycastStatus> {
        let mut request = ApiRequest::new(Method::PUT, "/v1/anycast".into());
        request.body =
            Some(json!({ "withdrawn": reason.is_some(), "reason": reason, "force": is_forced }));
        read(self.0.request(request)?.body)
    }

    /// A page of the targets of checks, with these parameters of the query.
    pub fn health(&self, parameters: &[(&str, String)]) -> CommandResult<Value> {
        let query = parameters.iter().map(|(key, value)| format!("{key}={}", path_segment(value)));
        self.get(format!("/v1/health?{}", query.collect::<Vec<_>>().join("&")))
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

/// The socket of a server; `variable` is the value of DUNLIN_SOCKET.
/// Whether the server is a process of this PID namespace, and not of another container that has the
/// same folder.
pub fn is_of_this_container(server: &LocalServer) -> CommandResult<bool> {
    let path = socket(server, std::env::var_os("DUNLIN_SOCKET"))?;
    Ok(admin::server_process(&path)?.is_some())
}

fn socket(server: &LocalServer, variable: Option<OsString>) -> CommandResult<PathBuf> {
    let variable = variable.filter(|path| !path.is_empty()).map(PathBuf::from);
    match (&server.socket, &server.config) {
        (Some(path), _) => Ok(path.clone()),
        (None, None) => Ok(variable.unwrap_or_else(|| Admin::SOCKET.into())),
        (None, Some(config)) => match config::admin_socket(config) {
            Ok(Some(path)) => Ok(path),
            Ok(None) => Err(format!(
                "{}: [admin] socket is empty, so the server has no local socket",
                config.display()
            )
            .into()),
            Err(errors) => {
                Err(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n").into())
            }
        },
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

/// The path of the record sets of a zone.
fn sets_path(zone: &str) -> String {
    format!("/v1/zones/{}/rrsets", path_segment(zone))
}

fn cluster_path(name: &str) -> String {
    format!("/v1/fleet/clusters/{}", path_segment(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_is_that_of_the_flag_the_config_the_variable_or_the_default() {
        let folder = std::env::temp_dir().join(format!("dunlin-socket-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let config = |text: &str| {
            let file = folder.join("dunlin.toml");
            std::fs::write(&file, text).expect("a config");
            LocalServer { socket: None, config: Some(file) }
        };
        let of = |server: &LocalServer| {
            let found = socket(server, Some("/variable".into()));
            found.map_err(|why| why.to_string())
        };
        let flag = LocalServer { socket: Some("/flag".into()), config: None };
        assert_eq!(of(&flag), Ok("/flag".into()));
        assert_eq!(of(&LocalServer::default()), Ok("/variable".into()));
        for variable in [None, Some("".into())] {
            let found = socket(&LocalServer::default(), variable).expect("the default");
            assert_eq!(found, PathBuf::from(Admin::SOCKET));
        }
        // Other parts of the config may be what the command is to repair.
        let text = "[server]\nlisten = \"nonsense\"\n[admin]\nsocket = \"d.sock\"\n";
        assert_eq!(of(&config(text)), Ok(folder.join("d.sock")));
        assert_eq!(of(&config("")), Ok(Admin::SOCKET.into()));
        let none = of(&config("admin.socket = \"\"")).expect_err("it has none");
        assert!(none.contains("has no local socket"), "{none}");
        let wrong = of(&config("admin.socket = 5")).expect_err("a number");
        assert!(wrong.contains("dunlin.toml:1:16: "), "{wrong}");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}

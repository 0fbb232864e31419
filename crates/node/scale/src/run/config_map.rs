//! The ConfigMap with the parameters. A bad one keeps the last good one.
use crate::check::in_cluster;
use kube_api::{Api, ApiError};
use scale_rules::{Dialect, Params};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Reads parameters from one ConfigMap.
pub struct ConfigMap {
    path: String,
    namespace: String,
    name: String,
    dialect: Dialect,
    /// The data to create it with, where it is missing.
    defaults: Option<BTreeMap<String, String>>,
    /// It is not created: the defaults hold without it.
    is_dry: bool,
    /// The version that was read last, and why it is not in force.
    read: Option<(String, Option<String>)>,
}

/// What a poll has found.
#[derive(Debug, Default)]
pub struct Found {
    /// New parameters.
    pub params: Option<Params>,
    /// Why what the ConfigMap says now is not in force.
    pub error: Option<String>,
    /// The ConfigMap was missing, and has been created.
    pub is_created: bool,
}

impl ConfigMap {
    pub fn new(
        namespace: &str,
        name: &str,
        dialect: Dialect,
        defaults: Option<BTreeMap<String, String>>,
        is_dry: bool,
    ) -> Self {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self { path, namespace, name, dialect, defaults, is_dry, read: None }
    }

    /// Reads it by GET. Only if it does not exist is it created with the defaults.
    pub async fn poll(&mut self, api: &Api) -> Found {
        match api.get::<Value>(&format!("{}/{}", self.path, self.name)).await {
            Ok(object) => self.take(&object),
            Err(ApiError::NotFound(why)) => self.create(api, why).await,
            Err(error) => Found { error: Some(error.to_string()), ..Found::default() },
        }
    }

    async fn create(&mut self, api: &Api, why: String) -> Found {
        let Some(defaults) = &self.defaults else {
            self.read = None;
            let why = format!("{why}; there are no --default-params to create it with");
            return Found { error: Some(why), ..Found::default() };
        };
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "data": defaults,
        });
        if self.is_dry {
            return self.take(&object);
        }
        self.read = None;
        match api.post(&self.path, &object).await {
            Ok(object) => Found { is_created: true, ..self.take(&object) },
            Err(error) => Found { error: Some(error.to_string()), ..Found::default() },
        }
    }

    /// Takes the data of a version that is new.
    fn take(&mut self, object: &Value) -> Found {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if let Some((known, error)) = &self.read
            && known == version
        {
            return Found { error: error.clone(), ..Found::default() };
        }
        let empty = serde_json::Map::new();
        let data = object["data"].as_object().unwrap_or(&empty);
        let pairs =
            data.iter().map(|(key, text)| (key.as_str(), text.as_str().unwrap_or_default()));
        let read = Params::from_data(pairs, self.dialect)
            .map_err(|error| error.to_string())
            .and_then(|params| in_cluster(params, self.dialect));
        let (params, error) = match read {
            Ok(params) => (Some(params), None),
            Err(error) => (None, Some(format!("ConfigMap {}: {error}", self.name))),
        };
        self.read = Some((version.to_owned(), error.clone()));
        Found { params, error, is_created: false }
    }
}

/// The data that `--default-params` means: an object of modes, as the original takes it.
///
/// # Errors
/// It is not such an object, or its parameters are refused.
pub fn read_defaults(text: &str, dialect: Dialect) -> Result<BTreeMap<String, String>, String> {
    let told = |error: &dyn std::fmt::Display| format!("--default-params: {error}");
    let params = Params::from_file(text, dialect).map_err(|error| told(&error))?;
    in_cluster(params, dialect).map_err(|error| told(&error))?;
    let value: BTreeMap<String, Value> =
        serde_json::from_str(text).map_err(|error| told(&error))?;
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(value.into_iter().map(|(mode, value)| (mode, text(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_api::lying::{LyingServer, Reply, block};
    use std::time::Duration;

    #[test]
    fn dry_run_takes_the_defaults_and_creates_nothing() {
        let defaults = read_defaults(r#"{"linear": {"nodesPerReplica": 2}}"#, Dialect::Strict);
        block(async {
            let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": "it is so", "reason": "NotFound", "code": 404});
            let reply = Reply::Status(404, missing.to_string());
            let server =
                LyingServer::start(Duration::from_secs(60), move |_, _| reply.clone()).await;
            let defaults = Some(defaults.expect("parameters"));
            let mut config = ConfigMap::new("n", "c", Dialect::Strict, defaults, true);
            let found = config.poll(&server.api).await;
            assert!(found.params.is_some() && !found.is_created, "{found:?}");
            assert_eq!(config.poll(&server.api).await.error, None);
            assert!(server.requests().iter().all(|line| line.starts_with("GET")));
        });
    }

    /// The original creates it after any error.
    #[test]
    fn only_a_missing_config_map_is_created() {
        let failure = |code: u16| {
            let reason = if code == 404 { "NotFound" } else { "Other" };
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": "it is so", "reason": reason, "code": code});
            Reply::Status(code, status.to_string())
        };
        let page = Reply::Status(502, "<html>a proxy</html>".into());
        let nonsense = Reply::Status(200, "{\"data\": [1".into());
        let replies = [
            failure(403),
            failure(500),
            failure(503),
            page,
            nonsense,
            Reply::Close,
            Reply::Silence,
        ];
        let dialect = Dialect::Strict;
        let defaults = read_defaults(r#"{"linear": {"nodesPerReplica": 2}}"#, dialect);
        let defaults = defaults.expect("parameters");
        block(async {
            for reply in replies.into_iter().chain([failure(404)]) {
                let is_missing = matches!(&reply, Reply::Status(404, _));
                let of = reply.clone();
                let server =
                    LyingServer::start(Duration::from_millis(300), move |request, _| match request
                        .starts_with("GET")
                    {
                        true => of.clone(),
                        false => Reply::Status(
                            201,
                            json!({"metadata": {"resourceVersion": "8"},
                            "data": {"linear": r#"{"nodesPerReplica": 2}"#}})
                            .to_string(),
                        ),
                    })
                    .await;
                let mut config = ConfigMap::new("n", "c", dialect, Some(defaults.clone()), false);
                let found = config.poll(&server.api).await;
                let is_changed = server.requests().iter().any(|line| !line.starts_with("GET"));
                assert_eq!(is_changed, is_missing, "{reply:?}: {:?}", server.requests());
                assert_eq!(found.is_created, is_missing, "{reply:?}");
                assert_eq!(found.error.is_none(), is_missing, "{reply:?}: {:?}", found.error);
                assert_eq!(found.params.is_some(), is_missing, "{reply:?}");
            }
        });
    }
}

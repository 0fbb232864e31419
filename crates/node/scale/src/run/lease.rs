//! The Lease by which one of several scalers decides.
use jiff::Timestamp;
use kube_api::{Api, ApiError};
use scale_rules::election::{Elector, LEASE_S, Lease, Step};
use serde_json::{Value, json};

/// Takes part in the election of one Lease.
pub struct Candidate {
    elector: Elector,
    path: String,
    namespace: String,
    name: String,
}

impl Candidate {
    pub fn new(namespace: &str, name: &str, id: String) -> Self {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self { elector: Elector::new(id), path, namespace, name }
    }

    /// Whether it leads now.
    pub fn is_leader(&self, now_s: f64) -> bool {
        self.elector.is_leader(now_s)
    }

    /// One step: reads the Lease, and creates, renews or takes it. After `Ok(true)` this scaler
    /// holds the Lease, by a write that has just succeeded.
    ///
    /// # Errors
    /// The API server refuses or does not answer; what was renewed before holds for its time.
    pub async fn step(&mut self, api: &Api, clock: impl Fn() -> f64) -> Result<bool, ApiError> {
        let object = match api.get::<Value>(&format!("{}/{}", self.path, self.name)).await {
            Ok(object) => Some(object),
            Err(ApiError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lease = object.as_ref().map(|object| Lease {
            holder: text(&object["spec"]["holderIdentity"]),
            version: text(&object["metadata"]["resourceVersion"]),
        });
        let begun_s = clock();
        let step = self.elector.step(begun_s, lease.as_ref());
        let written = match step {
            Step::Wait => return Ok(false),
            Step::Create => api.post(&self.path, &self.object(step, None)).await,
            Step::Renew | Step::Take => {
                let path = format!("{}/{}", self.path, self.name);
                api.put(&path, &self.object(step, object.as_ref())).await
            }
        };
        match written {
            Ok(_) => {
                self.elector.renewed(begun_s);
                Ok(true)
            }
            Err(ApiError::Conflict(_)) => {
                self.elector.lost();
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the Lease up, so that another need not wait for its end.
    pub async fn give_up(&mut self, api: &Api, now_s: f64) {
        if !self.is_leader(now_s) {
            return;
        }
        let path = format!("{}/{}", self.path, self.name);
        if let Ok(mut object) = api.get::<Value>(&path).await
            && object["spec"]["holderIdentity"] == self.elector.id()
        {
            object["spec"]["holderIdentity"] = "".into();
            let _ = api.put(&path, &object).await;
        }
        self.elector.lost();
    }

    fn object(&self, step: Step, before: Option<&Value>) -> Value {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let spec = before.map(|before| &before["spec"]);
        let transitions = spec.and_then(|spec| spec["leaseTransitions"].as_i64()).unwrap_or(0);
        let acquired = spec.and_then(|spec| spec["acquireTime"].as_str()).unwrap_or(&now);
        let is_new = step != Step::Renew;
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "resourceVersion": before.map(|before| &before["metadata"]["resourceVersion"]),
            },
            "spec": {
                "holderIdentity": self.elector.id(),
                "leaseDurationSeconds": LEASE_S as i64,
                "acquireTime": if is_new { &now } else { acquired },
                "renewTime": now,
                "leaseTransitions": transitions + i64::from(step == Step::Take),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_api::lying::{LyingServer, Reply, block};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// A server that keeps one Lease by its version, as the API server does.
    fn keep(lease: &Mutex<Option<Value>>, request: &str, body: &str) -> Reply {
        let failure = |code: u16| {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": "it is so", "reason": "x", "code": code});
            Reply::Status(code, status.to_string())
        };
        let mut lease = lease.lock().expect("no panic");
        let version = lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        if request.starts_with("GET") {
            let Some(lease) = &*lease else { return failure(404) };
            return Reply::Status(200, lease.to_string());
        }
        let mut object: Value = serde_json::from_str(body).expect("JSON");
        if version.as_ref().is_some_and(|version| object["metadata"]["resourceVersion"] != *version)
        {
            return failure(409);
        }
        let next = version.and_then(|version| version.as_str()?.parse::<u64>().ok()).unwrap_or(0);
        object["metadata"]["resourceVersion"] = (next + 1).to_string().into();
        *lease = Some(object.clone());
        Reply::Status(200, object.to_string())
    }

    /// The clock of the second steps far ahead, so it takes the Lease while the first believes to
    /// lead. A write follows a renewal, so the first writes nothing more.
    #[test]
    fn leader_that_lost_by_a_step_of_a_clock_writes_nothing() {
        block(async {
            let lease = Arc::new(Mutex::new(None));
            let server = LyingServer::start(Duration::from_secs(60), move |request, body| {
                keep(&lease, request, body)
            })
            .await;
            let api = &server.api;
            let mut first = Candidate::new("n", "l", "first".into());
            let mut second = Candidate::new("n", "l", "second".into());
            assert_eq!(first.step(api, || 0.0).await, Ok(true));
            assert_eq!(second.step(api, || 1.0).await, Ok(false), "another leads");
            assert_eq!(second.step(api, || 1e6).await, Ok(true), "its clock has stepped");
            assert!(first.is_leader(2.0), "it does not know yet");
            assert_eq!(first.step(api, || 2.0).await, Ok(false), "so it may not write");
            assert!(!first.is_leader(2.0));
            assert_eq!(second.step(api, || 1e6 + 2.0).await, Ok(true));
        });
    }
}

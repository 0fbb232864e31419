//! The Pods of a target: which are ready, which no node takes, whether they are being replaced.
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// A replica that answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// Its name among all that there ever were.
    pub uid: String,
    /// The node that it runs on.
    pub node: String,
    /// Where its metrics are.
    pub metrics: Option<SocketAddr>,
    /// The CPUs that it may use, if they are limited.
    pub cpus: Option<f64>,
}

/// What the Pods of a target say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pods {
    /// Replicas that are ready.
    pub ready: Vec<Replica>,
    /// Pods that no node takes.
    pub unschedulable: u32,
    /// Whether there are Pods of more than one template.
    pub is_rolling_out: bool,
    /// The labels that all of them have.
    pub labels: BTreeMap<String, String>,
}

/// Reads a list of Pods. `port` is that of metrics, if parameters name it.
pub fn read(list: &Value, port: Option<u16>) -> Pods {
    let mut pods = Pods::default();
    let mut templates = BTreeSet::new();
    let mut labels: Option<BTreeMap<String, String>> = None;
    let empty = Vec::new();
    for pod in list["items"].as_array().unwrap_or(&empty) {
        let (metadata, status) = (&pod["metadata"], &pod["status"]);
        let has_ended = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
        if !metadata["deletionTimestamp"].is_null() || has_ended {
            continue;
        }
        let own: BTreeMap<String, String> =
            serde_json::from_value(metadata["labels"].clone()).unwrap_or_default();
        for key in ["pod-template-hash", "controller-revision-hash"] {
            templates.extend(own.get(key).cloned());
        }
        labels = Some(match labels {
            None => own,
            Some(mut all) => {
                all.retain(|key, value| own.get(key) == Some(value));
                all
            }
        });
        if has_condition(status, "PodScheduled", "False", Some("Unschedulable")) {
            pods.unschedulable += 1;
        }
        if has_condition(status, "Ready", "True", None) {
            pods.ready.push(replica(pod, port));
        }
    }
    pods.is_rolling_out = templates.len() > 1;
    pods.labels = labels.unwrap_or_default();
    pods
}

fn has_condition(status: &Value, kind: &str, wanted: &str, reason: Option<&str>) -> bool {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|condition| {
        condition["type"] == kind
            && condition["status"] == wanted
            && reason.is_none_or(|reason| condition["reason"] == reason)
    })
}

/// Whether a port serves metrics: CoreDNS's manifests name it `metrics`, Dunlin's `ops`.
fn is_metrics(port: &&Value) -> bool {
    matches!(port["name"].as_str(), Some("metrics" | "ops"))
}

fn replica(pod: &Value, port: Option<u16>) -> Replica {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let containers = pod["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named = containers
        .iter()
        .flat_map(|container| container["ports"].as_array().map(Vec::as_slice).unwrap_or_default())
        .find(is_metrics)
        .and_then(|port| u16::try_from(port["containerPort"].as_u64()?).ok());
    let ip: Option<IpAddr> = pod["status"]["podIP"].as_str().and_then(|ip| ip.parse().ok());
    let limit = |container: &Value| {
        super::nodes::nano_cpus(container["resources"]["limits"]["cpu"].as_str()?)
    };
    // The container that serves metrics is the one that counts.
    let serving = containers.iter().find(|container| {
        let ports = container["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        ports.iter().any(|port| is_metrics(&port))
    });
    Replica {
        uid: text(&pod["metadata"]["uid"]),
        node: text(&pod["spec"]["nodeName"]),
        metrics: ip.map(|ip| SocketAddr::new(ip, port.or(named).unwrap_or(9_153))),
        cpus: serving.or(containers.first()).and_then(limit).map(|nano| nano as f64 / 1e9),
    }
}

/// The largest integer `minAvailable` of the budgets whose selector matches the labels.
pub fn min_available(list: &Value, labels: &BTreeMap<String, String>) -> Option<u32> {
    let budgets = list["items"].as_array()?;
    let matches = |budget: &&Value| {
        let selector = &budget["spec"]["selector"];
        let wanted = selector["matchLabels"].as_object();
        let has_all = wanted.is_some_and(|wanted| {
            !wanted.is_empty()
                && wanted
                    .iter()
                    .all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
        });
        has_all && selector["matchExpressions"].as_array().is_none_or(Vec::is_empty)
    };
    let whole = |budget: &Value| u32::try_from(budget["spec"]["minAvailable"].as_u64()?).ok();
    budgets.iter().filter(matches).filter_map(whole).max()
}

/// The equalities of a selector such as `app=dns,k8s-app=kube-dns`.
pub fn selector_labels(selector: &str) -> BTreeMap<String, String> {
    let pair =
        |part: &str| part.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    selector.split(',').filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(uid: &str, template: &str, conditions: Value) -> Value {
        json!({
            "metadata": {"uid": uid, "labels": {"app": "dns", "pod-template-hash": template}},
            "spec": {"nodeName": "n", "containers": [{"name": "dns",
                "ports": [{"name": "metrics", "containerPort": 9253}],
                "resources": {"limits": {"cpu": "100m"}}}]},
            "status": {"podIP": "10.0.0.7", "phase": "Running", "conditions": conditions}
        })
    }

    #[test]
    fn pods_are_read() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let away = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        let mut ending = pod("d", "9", ready.clone());
        ending["metadata"]["deletionTimestamp"] = "2026-11-24T00:00:00Z".into();
        let list = json!({"items": [pod("a", "1", ready.clone()), pod("b", "1", away), ending]});
        let pods = read(&list, None);
        assert_eq!((pods.ready.len(), pods.unschedulable, pods.is_rolling_out), (1, 1, false));
        let replica = &pods.ready[0];
        assert_eq!(replica.metrics, "10.0.0.7:9253".parse().ok());
        assert_eq!((replica.uid.as_str(), replica.cpus), ("a", Some(0.1)));
        let list = json!({"items": [pod("a", "1", ready.clone()), pod("b", "2", ready)]});
        let pods = read(&list, Some(53));
        assert!(pods.is_rolling_out);
        assert_eq!(pods.labels, BTreeMap::from([("app".into(), "dns".into())]));
        assert_eq!(pods.ready[1].metrics, "10.0.0.7:53".parse().ok());
        assert_eq!(read(&json!("nonsense"), None), Pods::default());
    }

    #[test]
    fn budgets_match_by_all_their_labels() {
        let budget = |labels: Value, available: Value| {
            let selector = json!({"matchLabels": labels});
            json!({"spec": {"selector": selector, "minAvailable": available}})
        };
        let list = json!({"items": [
            budget(json!({"app": "dns"}), json!(2)),
            budget(json!({"app": "dns", "tier": "x"}), json!(9)),
            budget(json!({"app": "dns"}), json!("50%")),
            budget(json!({}), json!(7)),
        ]});
        let labels = selector_labels("app=dns,k8s-app=kube-dns");
        assert_eq!(min_available(&list, &labels), Some(2));
        assert_eq!(min_available(&list, &BTreeMap::new()), None);
    }
}

//! Objects as tests create them. Each function returns what is to be posted.
use serde_json::{Value, json};

/// A named port: its name, protocol and number.
pub type Port<'p> = (&'p str, &'p str, u16);

/// A namespace.
pub fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// A service without selector, so that its slices are those of the test. `spec` says what else is
/// in its specification.
pub fn service(namespace: &str, name: &str, ports: &[Port<'_>], spec: Value) -> Value {
    let ports: Vec<Value> = ports
        .iter()
        .map(|(name, protocol, port)| match name.is_empty() {
            true => json!({ "protocol": protocol, "port": port }),
            false => json!({ "name": name, "protocol": protocol, "port": port }),
        })
        .collect();
    let mut whole = json!({ "ports": ports });
    if let (Some(whole), Value::Object(more)) = (whole.as_object_mut(), spec) {
        whole.extend(more);
    }
    let metadata = json!({ "name": name, "namespace": namespace });
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": whole })
}

/// A headless service without selector.
pub fn headless(namespace: &str, name: &str, ports: &[Port<'_>]) -> Value {
    service(namespace, name, ports, json!({ "clusterIP": "None" }))
}

/// An endpoint that is ready.
pub fn endpoint(address: &str) -> Value {
    json!({ "addresses": [address], "conditions": { "ready": true } })
}

/// A slice of a service. Its addresses are of one family, IPv6 if one has a colon.
pub fn slice(
    namespace: &str,
    name: &str,
    service: &str,
    ports: &[Port<'_>],
    endpoints: &[Value],
) -> Value {
    let is_v6 = endpoints.iter().any(|endpoint| {
        endpoint["addresses"][0].as_str().is_some_and(|address| address.contains(':'))
    });
    let ports: Vec<Value> = ports
        .iter()
        .map(|(name, protocol, port)| json!({ "name": name, "protocol": protocol, "port": port }))
        .collect();
    let labels = json!({ "kubernetes.io/service-name": service });
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": name, "namespace": namespace, "labels": labels },
        "addressType": if is_v6 { "IPv6" } else { "IPv4" },
        "ports": ports, "endpoints": endpoints,
    })
}

/// The node of all pods. Endpoints of a pod without a node are not put into slices.
pub const NODE: &str = "node";

/// A node.
pub fn node(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } })
}

/// A pod with one container that never runs. Its status has to be patched.
pub fn pod(namespace: &str, name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "labels": labels },
        "spec": {
            "nodeName": NODE,
            "containers": [{ "name": "only", "image": "none.invalid/none" }],
        },
    })
}

/// The status of a pod that runs and is ready, as a kubelet would report it.
pub fn ready_status(addresses: &[&str]) -> Value {
    let ips: Vec<Value> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
    json!({ "status": {
        "phase": "Running", "podIP": addresses.first(), "podIPs": ips,
        "conditions": [{ "type": "Ready", "status": "True" }],
    } })
}

/// The path of the collection that an object is posted to.
pub(crate) fn collection(object: &Value) -> Option<String> {
    let (api, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let plural = match kind.to_ascii_lowercase() {
        kind if kind.ends_with("cy") || kind.ends_with("ry") => {
            format!("{}ies", &kind[..kind.len() - 1])
        }
        kind if kind.ends_with('s') => format!("{kind}es"),
        kind => format!("{kind}s"),
    };
    let root = if api.contains('/') { "/apis" } else { "/api" };
    Some(match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/{api}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{api}/{plural}"),
    })
}

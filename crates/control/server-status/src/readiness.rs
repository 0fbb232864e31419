//! Whether clients should use a server: whether this process answers DNS.
use crate::limits::FAULT_NAMES_MAX;
use crate::{ServerState, Status, ZoneState, ZoneStatus};

/// Why clients should not use a server; `None`: they should.
///
/// A server is ready once it serves, has tried every zone and has listed its Kubernetes cluster,
/// and the Pods and nodes that are its clients; a server of a fleet has read which zones there are,
/// too. From then on only a drain and a thread that does not answer make it unready: what it needs
/// from others, such as an upstream, the API server, etcd or a zone, may fail for all servers at
/// once, and none would be left.
pub fn hindrance(status: &Status) -> Option<String> {
    if status.state == ServerState::Draining {
        return Some("draining: the server will stop soon".into());
    }
    if status.stuck.is_some() {
        return status.stuck.clone();
    }
    if status.was_ready && status.state == ServerState::Serving {
        return None;
    }
    let is_untried =
        |zone: &&ZoneStatus| zone.state == ZoneState::Unloaded && zone.refused_seconds.is_none();
    let untried: Vec<&str> =
        status.zones.iter().filter(is_untried).map(|zone| zone.name.as_str()).collect();
    if !untried.is_empty() {
        return Some(format!("starting: not loaded yet: {}", some(&untried)));
    }
    // It would refuse queries for zones that the other servers answer.
    let store = status.store.as_ref();
    let has_no_records = store.is_some_and(|store| store.fleet.is_some() && store.is_unread);
    let has_no_cluster = status.kubernetes.as_ref().is_some_and(|cluster| !cluster.is_synced);
    // It would answer Pods as clients of other networks.
    let has_no_clients = status.kubernetes.as_ref().is_some_and(|it| it.is_without_clients);
    match status.state {
        ServerState::Starting => Some("starting".into()),
        _ if has_no_cluster => Some("starting: the cluster is not listed yet".into()),
        _ if has_no_clients => Some("starting: Pods and nodes are not listed yet".into()),
        _ if has_no_records => Some("starting: the records are not read from etcd yet".into()),
        _ => None,
    }
}

/// The first few, and how many more there are.
fn some(names: &[&str]) -> String {
    let named = names[..names.len().min(FAULT_NAMES_MAX)].join(", ");
    match names.len().saturating_sub(FAULT_NAMES_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

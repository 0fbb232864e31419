//! Pods and Nodes as clients, reduced to what networks need.
use crate::objects::{EndpointNaming, Kind, Meta};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The label with the topology zone of a Node.
const ZONE: &str = "topology.kubernetes.io/zone";

/// What is stored of a Pod.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct PodEntry {
    pub addresses: Box<[IpAddr]>,
    /// When it started, in the form of RFC 3339 with UTC: the later one is the greater one.
    pub started: Box<str>,
    /// In ascending order.
    pub labels: Vec<(Box<str>, Box<str>)>,
}

/// What is stored of a Node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct NodeEntry {
    pub prefixes: Box<[(IpAddr, u8)]>,
    /// Its topology zone; empty: it has none.
    pub zone: Box<str>,
}

/// Pods with an address of their own.
pub(super) enum ClientPods {}
/// Nodes.
pub(super) enum ClientNodes {}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawPod {
    metadata: Meta,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    host_network: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: Option<Box<str>>,
    start_time: Option<Box<str>>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<Address>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    ip: Option<Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawNode {
    metadata: Meta,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<Box<str>>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Vec<Box<str>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    addresses: Option<Vec<NodeAddress>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAddress {
    #[serde(rename = "type")]
    kind: Box<str>,
    address: Box<str>,
}

impl Kind for ClientPods {
    type Entry = PodEntry;
    type Raw = RawPod;
    const PATH: &'static str = "/api/v1/pods";
    const RESOURCE: &'static str = "pods";
    const LIST: &'static str = "PodList";

    fn meta(raw: &RawPod) -> &Meta {
        &raw.metadata
    }

    /// Pods with the network of their Node have its address, and those that ended have none.
    fn keep(raw: RawPod, _: EndpointNaming) -> Option<PodEntry> {
        let RawPod { metadata, spec, status } = raw;
        let has_ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed" | "Unknown"));
        if spec.host_network == Some(true) || has_ended {
            return None;
        }
        let ips = status.pod_ips.into_iter().flatten().filter_map(|one| one.ip?.parse().ok());
        let addresses: Box<[IpAddr]> = ips.collect();
        let started = status.start_time.unwrap_or_default();
        let labels = metadata.labels.into_iter().collect();
        (!addresses.is_empty()).then_some(PodEntry { addresses, started, labels })
    }
}

impl Kind for ClientNodes {
    type Entry = NodeEntry;
    type Raw = RawNode;
    const PATH: &'static str = "/api/v1/nodes";
    const RESOURCE: &'static str = "nodes";
    const LIST: &'static str = "NodeList";

    fn meta(raw: &RawNode) -> &Meta {
        &raw.metadata
    }

    fn keep(mut raw: RawNode, _: EndpointNaming) -> Option<NodeEntry> {
        let zone = raw.metadata.labels.remove(ZONE).unwrap_or_default();
        let cidrs = raw.spec.pod_cidrs.filter(|cidrs| !cidrs.is_empty());
        let cidrs = cidrs.unwrap_or_else(|| raw.spec.pod_cidr.into_iter().collect());
        let prefix = |text: &str| {
            let (address, len) = text.split_once('/')?;
            Some((address.parse().ok()?, len.parse().ok()?))
        };
        let mut prefixes: Vec<(IpAddr, u8)> =
            cidrs.iter().filter_map(|text| prefix(text)).collect();
        for NodeAddress { kind, address } in raw.status.addresses.into_iter().flatten() {
            if &*kind == "InternalIP"
                && let Ok(address) = address.parse::<IpAddr>()
            {
                prefixes.push((address, if address.is_ipv4() { 32 } else { 128 }));
            }
        }
        prefixes.sort_unstable();
        prefixes.dedup();
        (!prefixes.is_empty()).then(|| NodeEntry { prefixes: prefixes.into(), zone })
    }
}

//! Objects of the API server, reduced to what names are made of.
//!
//! Everything else of an object is skipped while it is read: an object becomes a compact record in
//! the stream, and is never held as a whole.
mod dns_endpoints;
mod exports;
mod hints;
mod hostnames;
mod part_objects;
mod rules;
mod services;

pub(crate) use dns_endpoints::CONDITION;
pub use dns_endpoints::DnsEndpoints;
pub use exports::Exports;
pub use hints::Hints;
use hints::RawHints;
pub use hostnames::{Gateways, HttpRoutes, Ingresses};
pub use part_objects::{
    GivenRecords, GivenSet, GivenStatus, Listener, Parent, PartContent, PartObject, Targets,
};
pub use rules::PartRules;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
pub use services::{Labels, SharedService, WatchedService};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The label that names the service of a slice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The same for a service imported from other clusters (KEP-1645).
const IMPORT_NAME: &str = "multicluster.kubernetes.io/service-name";
/// The cluster that a slice of an import comes from.
const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";
/// The annotation that names the check of a service.
const CHECK: &str = "dunlin.io/check";
/// The longest label of a DNS name (RFC 1035 §2.3.4).
const LABEL_LEN_MAX: usize = 63;

/// Metadata of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Its name.
    pub name: Box<str>,
    /// Its namespace; empty for objects of the whole cluster.
    pub namespace: Box<str>,
    /// Distinguishes it from others with its name.
    pub uid: Box<str>,
    /// Counts the changes of its specification.
    pub generation: u64,
    /// The revision at which it was last changed.
    pub resource_version: Box<str>,
    /// When it was created.
    pub creation_timestamp: Box<str>,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations; those of bookmarks say which they are.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
}

impl Meta {
    /// Whether a bookmark ends the list that begins a stream.
    pub fn ends_list(&self) -> bool {
        self.annotations.get("k8s.io/initial-events-end").is_some_and(|value| &**value == "true")
    }
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct Port {
    /// Its name; empty: it has none.
    pub name: Box<str>,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: Box<str>,
    /// Its number.
    pub number: u16,
}

/// The kind of a service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum ServiceKind {
    /// It has these addresses.
    ClusterIp(Box<[IpAddr]>),
    /// Its addresses are those of its endpoints.
    Headless,
    /// It is an alias of this name.
    External(Box<str>),
}

/// A service, or one imported from other clusters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Service {
    /// Its kind.
    pub kind: ServiceKind,
    /// Its ports: those with a name, or all.
    pub ports: Box<[Port]>,
}

/// A ready endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct Endpoint {
    /// Its address.
    pub address: IpAddr,
    /// Its hostname or the name of its pod; else it is named by its address.
    pub host: Option<Box<str>>,
    /// The topology zone, if zonal names are served.
    pub zone: Option<Box<str>>,
}

/// The ready endpoints of a slice.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Slice {
    /// The ports of all its endpoints: those with a name, or all.
    pub ports: Box<[Port]>,
    /// The cluster that it comes from; empty for this one.
    pub cluster: Box<str>,
    /// The endpoints.
    pub endpoints: Box<[Endpoint]>,
}

/// A slice, and the service that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceOf {
    /// The name of the service, in the namespace of the slice.
    pub service: Box<str>,
    /// Whether the service is imported.
    pub is_import: bool,
    /// The slice.
    pub slice: Slice,
    /// Its endpoints that still serve while they end, if there are any.
    pub terminating: Option<Box<Slice>>,
    /// Which clients its endpoints are for; `None`: for all.
    pub hints: Option<Hints>,
}

/// A slice as another server of the fleet has kept it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSliceOf {
    /// As in [`SliceOf`].
    pub service: Box<str>,
    /// As in [`SliceOf`].
    pub is_import: bool,
    /// How many endpoints are ready.
    pub ready: u32,
    /// The slice; `None`: its endpoints are not needed.
    pub slice: Option<Slice>,
    /// As in [`SliceOf`].
    pub terminating: Option<Box<Slice>>,
    /// As in [`SliceOf`].
    pub hints: Option<Hints>,
}

impl From<SliceOf> for KeptSliceOf {
    fn from(of: SliceOf) -> Self {
        let SliceOf { service, is_import, slice, terminating, hints } = of;
        let ready = slice.endpoints.len() as u32;
        Self { service, is_import, ready, slice: Some(slice), terminating, hints }
    }
}

/// How endpoints are named.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndpointNaming {
    /// By their pods, where they have no hostname.
    pub pod_names: bool,
    /// Whether topology zones are kept.
    pub zonal: bool,
    /// Whether ports without a name are kept.
    pub all_ports: bool,
    /// Whether services have parts in a zone that clusters share.
    pub shared: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPort {
    name: Option<Box<str>>,
    protocol: Option<Box<str>>,
    port: Option<i64>,
}

impl RawPort {
    /// The port, if it has a number and, unless all are kept, a name.
    fn keep(&self, naming: EndpointNaming) -> Option<Port> {
        let name = self.name.as_deref().unwrap_or_default();
        if name.is_empty() && !naming.all_ports {
            return None;
        }
        let protocol = self.protocol.as_deref().unwrap_or("TCP").to_ascii_lowercase().into();
        let number = u16::try_from(self.port?).ok()?;
        Some(Port { name: name.to_ascii_lowercase().into(), protocol, number })
    }
}

fn ports_of(ports: &Option<Vec<RawPort>>, naming: EndpointNaming) -> Box<[Port]> {
    let ports = ports.iter().flatten().filter_map(|port| port.keep(naming));
    let mut kept: Vec<Port> = ports.collect();
    kept.sort_unstable();
    kept.dedup();
    kept.into()
}

/// `spec` of a ServiceImport.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ImportSpec {
    #[serde(rename = "type")]
    kind: Option<Box<str>>,
    ips: Option<Vec<Box<str>>>,
    ports: Option<Vec<RawPort>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawEndpoint {
    addresses: Vec<Box<str>>,
    conditions: Conditions,
    hostname: Option<Box<str>>,
    target_ref: Option<TargetRef>,
    zone: Option<Box<str>>,
    hints: Option<RawHints>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TargetRef {
    name: Box<str>,
}

impl RawEndpoint {
    /// An unknown state counts as ready, as the API server defines it.
    fn is_ready(&self) -> bool {
        self.conditions.ready.unwrap_or(true)
    }

    /// Whether it still serves while it ends. It is not ready then.
    fn is_ending(&self) -> bool {
        let Conditions { serving, terminating, .. } = self.conditions;
        !self.is_ready() && serving == Some(true) && terminating == Some(true)
    }

    fn each(&self, naming: EndpointNaming) -> impl Iterator<Item = Endpoint> {
        let hostname = self.hostname.as_deref().filter(|name| !name.is_empty());
        let pod = self.target_ref.as_ref().map(|target| &*target.name);
        let pod =
            pod.filter(|name| naming.pod_names && !name.is_empty() && name.len() <= LABEL_LEN_MAX);
        let host = hostname.or(pod).map(|name| name.to_ascii_lowercase().into_boxed_str());
        let zone = self.zone.as_deref().filter(|zone| naming.zonal && !zone.is_empty());
        let zone = zone.map(|zone| zone.to_ascii_lowercase().into_boxed_str());
        let addresses = self.addresses.iter().filter_map(|address| address.parse().ok());
        addresses.map(move |address| Endpoint { address, host: host.clone(), zone: zone.clone() })
    }
}

/// `status` of a Pod.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: Option<Box<str>>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodIp {
    ip: Option<Box<str>>,
}

/// An object as it comes. Fields that a kind does not have stay empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Raw<S, T = IgnoredAny> {
    /// Its metadata.
    pub metadata: Meta,
    spec: Option<S>,
    status: Option<T>,
}

/// A kind of object that not every cluster has.
#[derive(Clone, Copy, Debug)]
pub struct Optional {
    /// Its group.
    pub group: &'static str,
    /// Its versions, the best first.
    pub versions: &'static [&'static str],
    /// Its name in the plural.
    pub plural: &'static str,
}

/// A kind of object that is watched.
pub trait Kind: Send + 'static {
    /// The stored fields of an object.
    type Entry: Send + 'static;
    /// The object as it is read.
    type Raw: for<'d> Deserialize<'d> + Send;
    /// The path of all objects of the kind; of an optional kind, in the version that most have.
    const PATH: &'static str;
    /// The name of the kind in the plural, as RBAC calls it, with its group.
    const RESOURCE: &'static str;
    /// The kind of a list of them.
    const LIST: &'static str;
    /// Where an optional kind is found; `None`: every cluster has it.
    const OPTIONAL: Option<Optional> = None;
    /// Whether the name of an object is a label of names.
    const IS_LABEL: bool = false;

    /// The metadata of an object.
    fn meta(raw: &Self::Raw) -> &Meta;
    /// The stored fields of it; `None`: nothing, as if it did not exist.
    fn keep(raw: Self::Raw, naming: EndpointNaming) -> Option<Self::Entry>;
}

/// Services.
pub enum Services {}
/// Slices of endpoints.
pub enum Slices {}
/// Namespaces.
pub enum Namespaces {}
/// Pods.
pub enum Pods {}
/// Services imported from other clusters.
pub enum Imports {}

fn addresses(texts: &[Box<str>]) -> Box<[IpAddr]> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// `spec` of a ServiceImport, as it is read.
#[derive(Debug, Default, Deserialize)]
pub struct RawImport(ImportSpec);

/// `status` of a Pod, as it is read.
#[derive(Debug, Default, Deserialize)]
pub struct RawPodStatus(PodStatus);

impl Kind for Imports {
    type Entry = Service;
    type Raw = Raw<RawImport>;
    const PATH: &'static str = "/apis/multicluster.x-k8s.io/v1alpha1/serviceimports";
    const RESOURCE: &'static str = "serviceimports.multicluster.x-k8s.io";
    const LIST: &'static str = "ServiceImportList";
    const OPTIONAL: Option<Optional> = Some(Optional {
        group: "multicluster.x-k8s.io",
        versions: &["v1beta1", "v1alpha1"],
        plural: "serviceimports",
    });
    const IS_LABEL: bool = true;

    fn meta(raw: &Self::Raw) -> &Meta {
        &raw.metadata
    }

    fn keep(raw: Self::Raw, naming: EndpointNaming) -> Option<Service> {
        let RawImport(spec) = raw.spec?;
        let ports = ports_of(&spec.ports, naming);
        let kind = match spec.kind.as_deref() {
            Some("Headless") => ServiceKind::Headless,
            _ => ServiceKind::ClusterIp(addresses(&spec.ips.unwrap_or_default())),
        };
        Some(Service { kind, ports })
    }
}

/// A slice as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawSlice {
    metadata: Meta,
    address_type: Option<Box<str>>,
    endpoints: Option<Vec<RawEndpoint>>,
    ports: Option<Vec<RawPort>>,
}

impl Kind for Slices {
    type Entry = SliceOf;
    type Raw = RawSlice;
    const PATH: &'static str = "/apis/discovery.k8s.io/v1/endpointslices";
    const RESOURCE: &'static str = "endpointslices.discovery.k8s.io";
    const LIST: &'static str = "EndpointSliceList";

    fn meta(raw: &RawSlice) -> &Meta {
        &raw.metadata
    }

    fn keep(raw: RawSlice, naming: EndpointNaming) -> Option<SliceOf> {
        let labels = &raw.metadata.labels;
        let (service, is_import) = match labels.get(IMPORT_NAME) {
            Some(service) => (service, true),
            None => (labels.get(SERVICE_NAME)?, false),
        };
        if raw.address_type.as_deref() == Some("FQDN") {
            return None;
        }
        let cluster = labels.get(SOURCE_CLUSTER).filter(|_| is_import).cloned();
        let slice_of = |is_kept: fn(&RawEndpoint) -> bool| {
            let kept = raw.endpoints.iter().flatten().filter(|endpoint| is_kept(endpoint));
            let mut endpoints: Vec<Endpoint> = kept.flat_map(|each| each.each(naming)).collect();
            endpoints.sort_unstable();
            endpoints.dedup();
            let cluster = cluster.clone().unwrap_or_default();
            Slice { ports: ports_of(&raw.ports, naming), cluster, endpoints: endpoints.into() }
        };
        let terminating = slice_of(RawEndpoint::is_ending);
        let terminating = (!terminating.endpoints.is_empty()).then(|| terminating.into());
        let slice = slice_of(RawEndpoint::is_ready);
        let ready = raw.endpoints.iter().flatten().filter(|endpoint| endpoint.is_ready());
        let hints = hints::of(ready);
        Some(SliceOf { service: service.clone(), is_import, slice, terminating, hints })
    }
}

impl Kind for Namespaces {
    type Entry = ();
    type Raw = Raw<IgnoredAny>;
    const PATH: &'static str = "/api/v1/namespaces";
    const RESOURCE: &'static str = "namespaces";
    const LIST: &'static str = "NamespaceList";
    const IS_LABEL: bool = true;

    fn meta(raw: &Self::Raw) -> &Meta {
        &raw.metadata
    }

    fn keep(_: Self::Raw, _: EndpointNaming) -> Option<()> {
        Some(())
    }
}

impl Kind for Pods {
    type Entry = Box<[IpAddr]>;
    type Raw = Raw<IgnoredAny, RawPodStatus>;
    const PATH: &'static str = "/api/v1/pods";
    const RESOURCE: &'static str = "pods";
    const LIST: &'static str = "PodList";

    fn meta(raw: &Self::Raw) -> &Meta {
        &raw.metadata
    }

    fn keep(raw: Self::Raw, _: EndpointNaming) -> Option<Box<[IpAddr]>> {
        let RawPodStatus(status) = raw.status?;
        // The addresses of pods that ended may belong to others.
        if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed" | "Unknown")) {
            return None;
        }
        let ips = status.pod_ips.into_iter().flatten().filter_map(|ip| ip.ip);
        let ips: Box<[IpAddr]> = ips.filter_map(|ip| ip.parse().ok()).collect();
        (!ips.is_empty()).then_some(ips)
    }
}

#[cfg(test)]
mod tests;

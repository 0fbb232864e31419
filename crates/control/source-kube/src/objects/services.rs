//! Services, and what they say of their part in a zone that clusters share.
use super::{CHECK, EndpointNaming, Kind, Meta, Raw, RawPort, Service, ServiceKind, Services};
use super::{addresses, ports_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The annotation that names a service in the zone that clusters share.
const NAME: &str = "dunlin.io/name";
/// The TTL of its records there.
const TTL: &str = "dunlin.io/ttl";
/// The policy of its sets there.
const POLICY: &str = "dunlin.io/policy";
/// The weight of its members there.
const WEIGHT: &str = "dunlin.io/weight";
/// Their tier.
const TIER: &str = "dunlin.io/tier";

/// A service as it is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedService {
    /// The service.
    pub service: Service,
    /// The check that it names.
    pub check: Option<Box<str>>,
    /// What it says of its part in a zone that clusters share, with its labels; `None`: it is not
    /// asked for.
    pub shared: Option<Box<(SharedService, Labels)>>,
}

/// Labels of an object.
pub type Labels = BTreeMap<Box<str>, Box<str>>;

/// What a service says of its part in a zone that clusters share. Texts are those of its
/// annotations; empty: it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SharedService {
    /// Its UID.
    pub uid: Box<str>,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// Its name in the zone.
    pub name: Box<str>,
    /// The TTL of its records.
    pub ttl: Box<str>,
    /// The policy of its sets.
    pub policy: Box<str>,
    /// The weight of its members.
    pub weight: Box<str>,
    /// The tier of its members.
    pub tier: Box<str>,
    /// The check of its addresses.
    pub check: Box<str>,
    /// The addresses of its load balancer.
    pub load_balancer: Box<[IpAddr]>,
    /// The name of its load balancer, if that has no addresses.
    pub load_balancer_name: Box<str>,
    /// `externalIPs`.
    pub external_ips: Box<[IpAddr]>,
}

/// `spec` of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceSpec {
    #[serde(rename = "type")]
    kind: Option<Box<str>>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<Box<str>>,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Option<Vec<Box<str>>>,
    #[serde(rename = "externalIPs")]
    external_ips: Option<Vec<Box<str>>>,
    external_name: Option<Box<str>>,
    ports: Option<Vec<RawPort>>,
}

/// `status` of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceStatus {
    load_balancer: LoadBalancer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    ingress: Option<Vec<Ingress>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Ingress {
    ip: Option<Box<str>>,
    hostname: Option<Box<str>>,
}

/// `spec` of a Service, as it is read.
#[derive(Debug, Default, Deserialize)]
pub struct RawService(ServiceSpec);

/// `status` of a Service, as it is read.
#[derive(Debug, Default, Deserialize)]
pub struct RawServiceStatus(ServiceStatus);

impl Kind for Services {
    type Entry = WatchedService;
    type Raw = Raw<RawService, RawServiceStatus>;
    const PATH: &'static str = "/api/v1/services";
    const RESOURCE: &'static str = "services";
    const LIST: &'static str = "ServiceList";
    const IS_LABEL: bool = true;

    fn meta(raw: &Self::Raw) -> &Meta {
        &raw.metadata
    }

    fn keep(mut raw: Self::Raw, naming: EndpointNaming) -> Option<Self::Entry> {
        let RawService(spec) = raw.spec?;
        let check = raw.metadata.annotations.remove(CHECK);
        let shared = naming.shared.then(|| {
            let status = raw.status.take().unwrap_or_default().0;
            let of = SharedService::of(&mut raw.metadata, &spec, status, check.as_deref());
            Box::new((of, std::mem::take(&mut raw.metadata.labels)))
        });
        let ports = ports_of(&spec.ports, naming);
        if spec.kind.as_deref() == Some("ExternalName") {
            let target = spec.external_name.filter(|name| !name.is_empty())?;
            let service = Service { kind: ServiceKind::External(target), ports };
            return Some(WatchedService { service, check, shared });
        }
        let ips = spec.cluster_ips.filter(|ips| !ips.is_empty());
        let ips = ips.unwrap_or_else(|| spec.cluster_ip.into_iter().collect());
        let kind = match ips.first().map(|ip| &**ip) {
            Some("None") => ServiceKind::Headless,
            _ => ServiceKind::ClusterIp(addresses(&ips)),
        };
        Some(WatchedService { service: Service { kind, ports }, check, shared })
    }
}

impl SharedService {
    fn of(meta: &mut Meta, spec: &ServiceSpec, status: ServiceStatus, check: Option<&str>) -> Self {
        let ingress = status.load_balancer.ingress.unwrap_or_default();
        let ips = ingress.iter().filter_map(|each| each.ip.as_deref()?.parse().ok());
        let name = ingress.iter().find_map(|each| each.hostname.clone()).unwrap_or_default();
        let mut annotation = |key: &str| meta.annotations.remove(key).unwrap_or_default();
        Self {
            name: annotation(NAME),
            ttl: annotation(TTL),
            policy: annotation(POLICY),
            weight: annotation(WEIGHT),
            tier: annotation(TIER),
            check: check.unwrap_or_default().into(),
            created: seconds_of(&meta.creation_timestamp),
            uid: std::mem::take(&mut meta.uid),
            load_balancer: ips.collect(),
            load_balancer_name: name,
            external_ips: addresses(spec.external_ips.as_deref().unwrap_or_default()),
        }
    }
}

/// The seconds since 1970 of a time such as `2026-11-28T07:00:00Z`; 0 for others.
pub(crate) fn seconds_of(text: &str) -> u64 {
    text.parse::<jiff::Timestamp>().map_or(0, |time| time.as_second().try_into().unwrap_or(0))
}

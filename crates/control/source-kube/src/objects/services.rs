//! Services, and what they say of their part in a zone that clusters share.
use super::{CHECK, EndpointNaming, Kind, Meta, PartRules, Raw, RawPort, Service, ServiceKind};
use super::{Services, Targets, addresses, ports_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The annotation that names a service in the zone that clusters share.
const NAME: &str = "dunlin.io/name";

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

/// A service as its part in a zone that clusters share needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SharedService {
    /// The annotations and the age.
    pub rules: PartRules,
    /// The annotation with its name in the zone; empty: there is none.
    pub name: Box<str>,
    /// Whether its labels choose it.
    pub is_selected: bool,
    /// The load balancer.
    pub load_balancer: Targets,
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
    load_balancer: RawLoadBalancer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawLoadBalancer {
    ingress: Option<Vec<Ingress>>,
}

impl RawLoadBalancer {
    pub(super) fn targets(&self) -> Targets {
        let all = || self.ingress.iter().flatten();
        let addresses = all().filter_map(|each| each.ip.as_deref());
        Targets::new(addresses, all().filter_map(|each| each.hostname.as_deref()))
    }
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
        let check = raw.metadata.annotations.get(CHECK).cloned();
        let shared = naming.shared.then(|| {
            let status = raw.status.take().unwrap_or_default().0;
            let of = SharedService::of(&mut raw.metadata, &spec, &status);
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
    fn of(meta: &mut Meta, spec: &ServiceSpec, status: &ServiceStatus) -> Self {
        Self {
            name: meta.annotations.remove(NAME).unwrap_or_default(),
            rules: PartRules::take(meta),
            is_selected: false,
            load_balancer: status.load_balancer.targets(),
            external_ips: addresses(spec.external_ips.as_deref().unwrap_or_default()),
        }
    }
}

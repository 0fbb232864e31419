//! The names of a Kubernetes cluster: from the config to the source.
use crate::documents::Documents;
use crate::etcd::{EtcdMap, EtcdSettings};
use crate::sites;
use crate::store::site_settings;
use config::{Config, LabelCondition as Condition, RecordKind, SharedAddresses};
use data_plane::KnownClients;
use server_status::KubernetesStatus;
use source_kube::client::Access;
use source_kube::clients::{ClientNode, ClientSettings, Clients};
use source_kube::cluster::parts::PartKind;
use source_kube::cluster::{Exposed, ObjectName};
use source_kube::limits::Bounds;
use source_kube::names::{ClusterZone, Compat, Naming, PodNames};
use source_kube::record_zones::{RecordZone, RecordZones};
use source_kube::shared_zone::{AddressKind, LabelCondition, SharedZone};
use source_kube::source::{self, FleetPart, KubernetesSource, Running, Settings, SharedPart};
use source_parts::{PartsSource, SiteFeed};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use wire::NameBuf;
use zone_manager::ZonePublisher;

/// The map of the fleet that has the objects of a cluster: that of its name, or of the cluster
/// without one.
fn map_name(config: &config::Kubernetes) -> String {
    match &*config.cluster {
        "" => "kubernetes".into(),
        name => format!("clusters/{name}"),
    }
}

/// Keys of the parts of clusters contain this.
const PARTS: &str = "/objects/parts/";
/// Parts of this cluster that wait to be merged, where there is no fleet.
const LOCAL_PARTS_MAX: usize = 1024;

/// The thread.
pub const THREAD: &str = source::THREAD;
/// The thread that merges parts of clusters.
pub const PARTS_THREAD: &str = source_parts::THREAD;

/// The source of the names of a cluster.
pub struct Kubernetes {
    source: Running,
    /// What it exchanges with the fleet; `None`: there is none.
    _map: Option<EtcdMap>,
    /// The zone that clusters share.
    shared: Option<Shared>,
}

impl Kubernetes {
    /// Its status.
    pub fn status(&self) -> KubernetesStatus {
        let parts = self.shared.as_ref().map(|shared| shared.parts.status());
        KubernetesStatus { parts, ..self.source.status() }
    }

    /// The clients of the cluster, as they change.
    pub fn clients(&self) -> ClientFeed {
        ClientFeed(self.source.clients())
    }

    /// Whether its thread ended by itself.
    pub fn has_failed(&self) -> bool {
        let has_failed = |shared: &Shared| shared.parts.has_failed();
        self.source.has_failed() || self.shared.as_ref().is_some_and(has_failed)
    }
}

/// The clients of a cluster, as they change.
pub struct ClientFeed(watch::Receiver<Arc<Clients>>);

impl ClientFeed {
    /// The next that differ from those before; `None`: there will be no more.
    pub async fn next(&mut self) -> Option<KnownClients> {
        self.0.changed().await.ok()?;
        Some(self.read())
    }

    /// Those that are known already and were not passed on yet.
    pub fn known(&mut self) -> Option<KnownClients> {
        self.0.has_changed().unwrap_or(false).then(|| self.read())
    }

    fn read(&mut self) -> KnownClients {
        let clients = Arc::clone(&self.0.borrow_and_update());
        let pods = clients.pods.iter();
        let pods = pods.map(|pod| (pod.address, pod.namespace.clone(), pod.labels.clone()));
        let prefixes = |node: &ClientNode| {
            let location = node.location.clone();
            let located = move |prefix| (prefix, location.clone());
            node.prefixes.clone().into_iter().map(located).collect::<Vec<_>>()
        };
        let nodes = clients.nodes.iter().flat_map(prefixes);
        KnownClients { pods: pods.collect(), nodes: nodes.collect() }
    }
}

/// What is watched of clients; `None`: nothing.
fn client_settings(config: &Config) -> Option<ClientSettings> {
    let (pods, nodes) = (config.has_pods(), config.kubernetes.node_locations);
    if !config.server.roles.kubernetes {
        if pods || nodes {
            tracing::warn!(
                "[[network]] knows no Pods and nodes here: this server has no role \"kubernetes\""
            );
        }
        return None;
    }
    let labels = config.pod_labels().into_iter().map(Into::into).collect();
    (pods || nodes).then_some(ClientSettings { pods, labels, nodes })
}

/// Starts to watch the cluster of a config, if it names one, or what another server of the fleet
/// writes of it. What was saved of it is served when this returns.
///
/// # Errors
/// The thread cannot be started.
pub fn start(
    config: &Config,
    manager: &ZonePublisher,
    documents: &Documents,
) -> io::Result<Option<Kubernetes>> {
    let (kubernetes, data_dir) = (&config.kubernetes, config.server.folder());
    if !kubernetes.is_wanted() {
        return Ok(None);
    }
    let name = map_name(kubernetes);
    let (map, part) = match documents.link.as_ref().zip(data_dir) {
        None => (None, None),
        Some((link, folder)) if config.server.roles.kubernetes => {
            let (map, writer) = EtcdMap::lead(link, folder, &name);
            (Some(map), Some(FleetPart::Writes(writer)))
        }
        Some((link, folder)) => {
            let (map, events) = EtcdMap::follow(link, folder, &name);
            (Some(map), Some(FleetPart::Follows(events)))
        }
    };
    let (shared, of_cluster) = Shared::start(config, manager, documents)?.unzip();
    let clients = client_settings(config);
    let settings = Settings { clients, shared: of_cluster, ..settings(kubernetes, data_dir) };
    let source = manager.start_source(KubernetesSource { settings, fleet: part })?;
    Ok(Some(Kubernetes { source, _map: map, shared }))
}

/// The zones with parts.
struct Shared {
    parts: source_parts::Running,
    /// Follow the parts of all clusters in the fleet, if there is one, and at other sites.
    _maps: Vec<EtcdMap>,
}

impl Shared {
    /// Starts to merge the parts of all clusters, if the config names zones for them; and what the
    /// source of this cluster needs to know of them.
    fn start(
        config: &Config,
        manager: &ZonePublisher,
        documents: &Documents,
    ) -> io::Result<Option<(Self, SharedPart)>> {
        let (kubernetes, data_dir) = (&config.kubernetes, config.server.folder());
        let zones = part_zones(kubernetes);
        if zones.is_empty() {
            return Ok(None);
        }
        let (mut maps, local, events) = match documents.link.as_ref().zip(data_dir) {
            Some((link, folder)) => {
                let (map, events) = EtcdMap::follow_clusters(link, folder, PARTS);
                (vec![map], None, events)
            }
            None => {
                let (local, events) = mpsc::channel(LOCAL_PARTS_MAX);
                (Vec::new(), Some(local), events)
            }
        };
        let mut sites = Vec::new();
        for site in config.sites.iter().filter(|site| site.shares) {
            // The config refuses a site without a folder.
            let folder = sites::folder(data_dir.unwrap_or(Path::new(".")), &site.name);
            let etcd = EtcdSettings { site: Some(site.name.clone()), ..site_settings(site).etcd };
            let (map, events) = EtcdMap::follow_clusters_of_site(etcd, &folder, PARTS)?;
            maps.push(map);
            sites.push(SiteFeed { site: site.name.as_str().into(), events });
        }
        let settings = source_parts::Settings {
            zones,
            ttl: kubernetes.ttl.as_secs() as u32,
            negative_ttl: kubernetes.negative_ttl.as_secs() as u32,
            folder: data_dir.map(Path::to_owned),
            hold: kubernetes.hold_time,
            max_age: Some(kubernetes.records.max_age).filter(|age| !age.is_zero()),
        };
        let parts = manager.start_source(PartsSource { settings, events, sites })?;
        let of_cluster = SharedPart {
            zone: shared_zone(kubernetes).map(Arc::new),
            records: Arc::new(record_zones(kubernetes)),
            kinds: if config.server.roles.kubernetes { kinds(kubernetes) } else { Vec::new() },
            cluster: kubernetes.cluster.as_str().into(),
            local,
            report: parts.report(),
        };
        Ok(Some((Self { parts, _maps: maps }, of_cluster)))
    }
}

/// All zones with parts, each once.
fn part_zones(config: &config::Kubernetes) -> Vec<NameBuf> {
    let exports = config.multicluster_zones.iter().filter(|_| config.records.exports);
    let records = config.records.zones.iter().map(|zone| &zone.origin);
    let mut zones: Vec<NameBuf> = Vec::new();
    for origin in config.shared.origin.iter().chain(records).chain(exports) {
        if !zones.contains(origin) {
            zones.push(origin.clone());
        }
    }
    zones
}

fn record_zones(config: &config::Kubernetes) -> RecordZones {
    let namespaces = |all: &[String]| all.iter().map(|name| name.as_str().into()).collect();
    let zone = |zone: &config::RecordZone| RecordZone {
        origin: zone.origin.clone(),
        namespaces: namespaces(&zone.namespaces),
    };
    RecordZones {
        zones: config.records.zones.iter().map(zone).collect(),
        ttl: config.ttl.as_secs() as u32,
        location: config.location.as_str().into(),
    }
}

/// The kinds of objects with parts that are watched, but for Services.
fn kinds(config: &config::Kubernetes) -> Vec<PartKind> {
    let of = |kind: &RecordKind| match kind {
        RecordKind::DnsEndpoints => &[PartKind::DnsEndpoint][..],
        RecordKind::Ingresses => &[PartKind::Ingress],
        RecordKind::Gateways => &[PartKind::Gateway, PartKind::HttpRoute],
    };
    let exports = config.records.exports.then_some(PartKind::Export);
    config.records.kinds.iter().flat_map(of).copied().chain(exports).collect()
}

/// Where Services have parts; `None`: they have none.
fn shared_zone(config: &config::Kubernetes) -> Option<SharedZone> {
    let exports = config.multicluster_zones.iter().filter(|_| config.records.exports);
    let exports: Vec<NameBuf> = exports.cloned().collect();
    if config.shared.origin.is_none() && exports.is_empty() {
        return None;
    }
    let kind = |kind: &SharedAddresses| match kind {
        SharedAddresses::LoadBalancer => AddressKind::LoadBalancer,
        SharedAddresses::Endpoints => AddressKind::Endpoints,
        SharedAddresses::ClusterIp => AddressKind::ClusterIp,
        SharedAddresses::ExternalIps => AddressKind::ExternalIps,
    };
    let condition = |condition: &Condition| match condition.clone() {
        Condition::Is(key, value) => LabelCondition::Is(key, value),
        Condition::IsNot(key, value) => LabelCondition::IsNot(key, value),
        Condition::Exists(key) => LabelCondition::Exists(key),
        Condition::Absent(key) => LabelCondition::Absent(key),
    };
    Some(SharedZone {
        origin: config.shared.origin.clone(),
        exports,
        addresses: config.shared.addresses.iter().map(kind).collect(),
        selector: config.shared.selector.iter().map(condition).collect(),
        ttl: config.ttl.as_secs() as u32,
        location: config.location.as_str().into(),
    })
}

fn settings(config: &config::Kubernetes, data_dir: Option<&Path>) -> Settings {
    let through = &config.fallthrough;
    let falls_through =
        |zone: &wire::NameBuf| through.iter().any(|origin| origin.as_name() == zone.as_name());
    let zone = |is_multicluster| {
        move |origin: &wire::NameBuf| ClusterZone {
            origin: origin.clone(),
            is_multicluster,
            falls_through: falls_through(origin),
        }
    };
    let zones: Vec<ClusterZone> = config
        .zones
        .iter()
        .map(zone(false))
        .chain(config.multicluster_zones.iter().map(zone(true)))
        .collect();
    let (namespace, name) = config.service.split_once('/').unwrap_or_default();
    Settings {
        access: Access { kubeconfig: config.kubeconfig.clone(), context: config.context.clone() },
        naming: Naming {
            zones,
            ttl: config.ttl.as_secs() as u32,
            negative_ttl: config.negative_ttl.as_secs() as u32,
            pods: match config.pods {
                config::PodNames::Disabled => PodNames::Disabled,
                config::PodNames::Verified => PodNames::Verified,
                config::PodNames::Insecure => PodNames::Insecure,
            },
            ignore_empty: config.ignore_empty_services,
            zonal: config.zonal,
            endpoints: config.endpoints,
            compat: match config.compat {
                config::Compat::Specification => Compat::Specification,
                config::Compat::CoreDns => Compat::CoreDns,
            },
            location: config.location.as_str().into(),
        },
        exposed: Exposed {
            namespaces: config.namespaces.iter().map(|name| name.as_str().into()).collect(),
            own: Some(ObjectName::new(namespace, name)),
        },
        labels: config.labels.clone(),
        namespace_labels: config.namespace_labels.clone(),
        pod_names: config.endpoint_pod_names,
        check: (!config.check.is_empty()).then(|| config.check.as_str().into()),
        check_cluster_ips: config.check_cluster_ips,
        folder: data_dir.map(Path::to_owned),
        hold: config.hold_time,
        clients: None,
        shared: None,
        bounds: Bounds::default(),
    }
}

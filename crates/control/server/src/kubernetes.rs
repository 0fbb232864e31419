//! The names of a Kubernetes cluster: from the config to the source.
use crate::documents::Documents;
use crate::etcd::EtcdMap;
use config::Config;
use server_status::KubernetesStatus;
use source_kube::client::Access;
use source_kube::cluster::{Exposed, ObjectName};
use source_kube::limits::Bounds;
use source_kube::names::{ClusterZone, Compat, Naming, PodNames};
use source_kube::source::{self, FleetPart, KubernetesSource, Running, Settings};
use std::io;
use std::path::Path;
use zone_manager::ZonePublisher;

/// The map of the fleet that has the objects of a cluster: that of its name, or of the cluster
/// without one.
fn map_name(config: &config::Kubernetes) -> String {
    match &*config.cluster {
        "" => "kubernetes".into(),
        name => format!("clusters/{name}"),
    }
}

/// The thread.
pub const THREAD: &str = source::THREAD;

/// The source of the names of a cluster.
pub struct Kubernetes {
    source: Running,
    /// What it exchanges with the fleet; `None`: there is none.
    _map: Option<EtcdMap>,
}

impl Kubernetes {
    /// Its status.
    pub fn status(&self) -> KubernetesStatus {
        self.source.status()
    }

    /// Whether its thread ended by itself.
    pub fn has_failed(&self) -> bool {
        self.source.has_failed()
    }
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
    let source = manager
        .start_source(KubernetesSource { settings: settings(kubernetes, data_dir), fleet: part })?;
    Ok(Some(Kubernetes { source, _map: map }))
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
        folder: data_dir.map(Path::to_owned),
        hold: config.hold_time,
        bounds: Bounds::default(),
    }
}

//! `[kubernetes]`: the names of a cluster, from its API server.
mod records;
mod shared;

use super::section::Section;
use super::{units, values};
use crate::StoreKind;
use crate::health::KnownChecks;
use crate::limits::{
    CLUSTER_NAME_LEN_MAX, KUBERNETES_HOLD, KUBERNETES_NAMESPACES_MAX, KUBERNETES_TTL,
    KUBERNETES_ZONES_MAX, TEXT_LEN_MAX,
};
use image::Location;
pub use records::{ObjectRecords, RecordKind, RecordZone};
pub use shared::{LabelCondition, SharedAddresses, SharedZone};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeValue;
use values::Wrong;
use wire::NameBuf;

/// `[kubernetes]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// The zones of the cluster; empty: no cluster is watched.
    pub zones: Vec<NameBuf>,
    /// Zones with the services imported from other clusters.
    pub multicluster_zones: Vec<NameBuf>,
    /// How the API server is reached; `None`: as the service account of the Pod.
    pub kubeconfig: Option<PathBuf>,
    /// The name of the cluster among those of a fleet; empty: it has none.
    pub cluster: String,
    /// Where the cluster is, in up to two levels; empty: not known.
    pub location: String,
    /// Whether clients have the location of their node.
    pub node_locations: bool,
    /// The context in the kubeconfig; empty: its current one.
    pub context: String,
    /// Dunlin's own service, `NAMESPACE/NAME`, whose addresses are those of the name server.
    pub service: String,
    /// How long records may be cached.
    pub ttl: Duration,
    /// How long the absence of records may be cached.
    pub negative_ttl: Duration,
    /// Which names services have.
    pub compat: Compat,
    /// Names of pods.
    pub pods: PodNames,
    /// Whether endpoints are watched.
    pub endpoints: bool,
    /// Whether endpoints without hostname are named by their pods.
    pub endpoint_pod_names: bool,
    /// Whether services without ready endpoints have no name.
    pub ignore_empty_services: bool,
    /// Whether headless services have names for topology zones.
    pub zonal: bool,
    /// Only these namespaces; empty: all.
    pub namespaces: Vec<String>,
    /// A selector of namespaces; empty: all.
    pub namespace_labels: String,
    /// A selector of services, slices and pods; empty: all.
    pub labels: String,
    /// Zones whose absent names are looked up elsewhere.
    pub fallthrough: Vec<NameBuf>,
    /// The check of services that name none; empty: they have none.
    pub check: String,
    /// Whether services with an address of their own can have a check, too.
    pub check_cluster_ips: bool,
    /// How long a list is held that lost most of what was served.
    pub hold_time: Duration,
    /// A zone that it shares with other clusters.
    pub shared: SharedZone,
    /// Objects with records beside Services.
    pub records: ObjectRecords,
}

/// Which names services have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// Those of the Kubernetes DNS specification.
    Specification,
    /// Those that CoreDNS has, too.
    CoreDns,
}

/// Names of pods: `10-0-0-1.NAMESPACE.pod.ZONE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodNames {
    /// There are none.
    Disabled,
    /// Those of pods that exist.
    Verified,
    /// Those of all addresses.
    Insecure,
}

impl Kubernetes {
    pub(super) fn read(
        root: &mut Section<'_, '_>,
        config: &Path,
        known: &KnownChecks,
        store: StoreKind,
    ) -> Self {
        let mut section = root.section("kubernetes", "[kubernetes]");
        let folder = config.parent().unwrap_or(Path::new(""));
        let pods = [
            ("disabled", PodNames::Disabled),
            ("verified", PodNames::Verified),
            ("insecure", PodNames::Insecure),
        ];
        let compat = [("specification", Compat::Specification), ("coredns", Compat::CoreDns)];
        let names = |section: &mut Section<'_, '_>, key| {
            section.list(key, Vec::new(), KUBERNETES_ZONES_MAX, values::zone_name)
        };
        let kubernetes = Self {
            zones: names(&mut section, "zones"),
            multicluster_zones: names(&mut section, "multicluster_zones"),
            kubeconfig: section
                .read("kubeconfig", None, |value| match value.as_str() {
                    Some("") => Ok(None),
                    _ => values::file(value).map(Some),
                })
                .map(|file| folder.join(file)),
            cluster: section.read("cluster", String::new(), cluster_name),
            location: section.read("location", String::new(), location),
            node_locations: section.read("node_locations", false, values::boolean),
            context: section.read("context", String::new(), values::text(TEXT_LEN_MAX)),
            service: section.read("service", "kube-system/kube-dns".into(), object_name),
            ttl: section.read("ttl", Duration::from_secs(5), units::duration(KUBERNETES_TTL)),
            negative_ttl: section.read(
                "negative_ttl",
                Duration::from_secs(5),
                units::duration(KUBERNETES_TTL),
            ),
            compat: section.read("compat", Compat::Specification, values::word(compat)),
            pods: section.read("pods", PodNames::Disabled, values::word(pods)),
            endpoints: section.read("endpoints", true, values::boolean),
            endpoint_pod_names: section.read("endpoint_pod_names", false, values::boolean),
            ignore_empty_services: section.read("ignore_empty_services", false, values::boolean),
            zonal: section.read("zonal", false, values::boolean),
            namespaces: section.list(
                "namespaces",
                Vec::new(),
                KUBERNETES_NAMESPACES_MAX,
                values::text(TEXT_LEN_MAX),
            ),
            namespace_labels: section.read(
                "namespace_labels",
                String::new(),
                values::text(TEXT_LEN_MAX),
            ),
            labels: section.read("labels", String::new(), values::text(TEXT_LEN_MAX)),
            fallthrough: names(&mut section, "fallthrough"),
            check: section.read("check", String::new(), |value| match value.as_str() {
                Some("") => Ok(String::new()),
                _ => known.read(value),
            }),
            check_cluster_ips: section.read("check_cluster_ips", false, values::boolean),
            hold_time: section.read(
                "hold_time",
                Duration::from_secs(600),
                units::duration(KUBERNETES_HOLD),
            ),
            shared: SharedZone::read(&mut section),
            records: ObjectRecords::read(&mut section),
        };
        kubernetes.check(&mut section);
        kubernetes.check_shared(&mut section, store == StoreKind::Etcd);
        kubernetes.check_records(&mut section, store == StoreKind::Etcd);
        section.close();
        kubernetes
    }

    /// Whether a cluster is watched.
    pub fn is_wanted(&self) -> bool {
        !self.zones.is_empty()
    }

    fn check_shared(&self, section: &mut Section<'_, '_>, is_fleet: bool) {
        let Some(shared) = &self.shared.origin else { return };
        if self.zones.is_empty() {
            section.missing("zones");
        }
        let mut zones = self.zones.iter().chain(&self.multicluster_zones);
        let is_same = |zone: &NameBuf| {
            zone.as_name().as_bytes().eq_ignore_ascii_case(shared.as_name().as_bytes())
        };
        if zones.any(is_same) {
            section.wrong("shared", "is in `zones`, too", "name another zone");
        }
        if is_fleet && self.cluster.is_empty() {
            let help = "set `cluster`: the keys in etcd begin with it";
            section.wrong("shared", "needs the name of the cluster", help);
        }
    }

    fn check(&self, section: &mut Section<'_, '_>) {
        if self.zones.is_empty() && self.kubeconfig.is_some() {
            section.missing("zones");
        }
        if !self.namespaces.is_empty() && !self.namespace_labels.is_empty() {
            section.wrong("namespace_labels", "stands beside `namespaces`", "keep one of them");
        }
        if !self.endpoints && (self.zonal || self.ignore_empty_services) {
            let key = if self.zonal { "zonal" } else { "ignore_empty_services" };
            section.wrong(key, "needs endpoints", "take out `endpoints = false`");
        }
        let zones = || self.zones.iter().chain(&self.multicluster_zones);
        let is_twice =
            |zone: &NameBuf| zones().filter(|other| other.as_name() == zone.as_name()).count() > 1;
        if zones().any(is_twice) {
            let key =
                if self.multicluster_zones.is_empty() { "zones" } else { "multicluster_zones" };
            section.wrong(key, "names a zone twice", "remove one of them");
        }
        let is_known = |zone: &NameBuf| zones().any(|known| known.as_name() == zone.as_name());
        if !self.fallthrough.iter().all(is_known) {
            let what = "names a zone that is not in `zones`";
            section.wrong("fallthrough", what, "name only zones of the cluster");
        }
    }
}

/// The name of a cluster: a label in lower case; empty: none.
fn cluster_name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = values::text(CLUSTER_NAME_LEN_MAX)(value)?;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match text.bytes().all(is_plain) && !text.starts_with('-') && !text.ends_with('-') {
        true => Ok(text),
        false => Err(Wrong {
            message: format!("{:?} is not the name of a cluster", values::shorten(&text)),
            help: Some("write lower-case letters, digits and hyphens, such as \"fra1-a\"".into()),
        }),
    }
}

/// The location of a cluster. Topology zone and node are two levels more.
fn location(value: &DeValue<'_>) -> Result<String, Wrong> {
    let path = values::text(Location::LEN_MAX)(value)?;
    if path.is_empty() {
        return Ok(path);
    }
    let location = Location::parse(&path).map_err(|why| why.to_string())?;
    match location.levels() {
        0..=2 => Ok(path),
        levels => Err(Wrong {
            message: format!("{path:?} has {levels} levels, and a cluster has 1 or 2"),
            help: Some("its topology zones and nodes are the levels below it".into()),
        }),
    }
}

/// The name of an object in its namespace.
fn object_name(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = values::text(TEXT_LEN_MAX)(value)?;
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => Ok(text),
        _ => Err(Wrong {
            message: format!("{:?} is not a namespace and a name", values::shorten(&text)),
            help: Some("write both, such as \"kube-system/kube-dns\"".into()),
        }),
    }
}

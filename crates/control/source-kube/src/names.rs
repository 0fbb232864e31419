//! From objects to names: the Kubernetes DNS specification, version 1.1.0
//! (<https://github.com/kubernetes/dns/blob/master/docs/specification.md>), and what users of
//! CoreDNS know beyond it.
//!
//! These are pure functions. `names/tests.rs` cites each sentence of the specification.
mod rules;

use crate::objects::{Endpoint, Port, Service, ServiceKind, Slice};
use crate::records::{Place, Records};
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::{Name, NameBuf, Rtype};

/// The version of the schema (specification, section 1).
pub const SCHEMA_VERSION: &str = "1.1.0";
/// The same of zones with imported services (KEP-1645, specification 1.0.0).
pub const MULTICLUSTER_SCHEMA_VERSION: &str = "1.0.0";
/// Seconds that the version may be cached: that of the specification's example.
pub const SCHEMA_TTL: u32 = 28_800;
/// Priority and weight of all SRV records: the specification prescribes none.
const PRIORITY_AND_WEIGHT: [u8; 4] = [0, 0, 0, 100];
const SOA_REFRESH: u32 = 7_200;
const SOA_RETRY: u32 = 1_800;
const SOA_EXPIRE: u32 = 86_400;

/// How pods are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodNames {
    /// Not at all.
    #[default]
    Disabled,
    /// By the address of a pod that exists.
    Verified,
    /// By any address: the answer is computed from the query, and no pod is watched.
    Insecure,
}

/// Which names services have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Those of the specification.
    #[default]
    Specification,
    /// Those that CoreDNS has, too: SRV records at services and at endpoints, for ports without a
    /// name as well, and names of the endpoints of services with addresses of their own.
    CoreDns,
}

/// A zone of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterZone {
    /// Its origin, in lower case.
    pub origin: NameBuf,
    /// Whether it has the services imported from other clusters, and only those (KEP-1645).
    pub is_multicluster: bool,
    /// Whether names that it lacks are looked up elsewhere. Its sets cannot have checks.
    pub falls_through: bool,
}

/// Settings that affect names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// The zones. The first that is not multicluster names addresses.
    pub zones: Vec<ClusterZone>,
    /// Seconds that records may be cached.
    pub ttl: u32,
    /// Seconds that the absence of records may be cached.
    pub negative_ttl: u32,
    /// How pods are named.
    pub pods: PodNames,
    /// Whether a ClusterIP service without a ready endpoint has no name.
    pub ignore_empty: bool,
    /// Whether headless services have names for topology zones.
    pub zonal: bool,
    /// Whether endpoints have names.
    pub endpoints: bool,
    /// Which names services have.
    pub compat: Compat,
    /// Where the cluster is; empty: not known.
    pub location: Box<str>,
}

/// A service with its slices.
#[derive(Clone, Copy, Debug)]
pub struct ServiceView<'s> {
    /// The namespace.
    pub namespace: &'s str,
    /// The name.
    pub name: &'s str,
    /// Whether it is imported from other clusters.
    pub is_import: bool,
    /// Its kind.
    pub service: &'s Service,
    /// Its slices.
    pub slices: &'s [&'s Slice],
    /// The number of its ready endpoints, of slices that are not kept too.
    pub ready: u64,
    /// The check of its addresses, if it is headless.
    pub check: Option<&'s str>,
    /// The locations of the clients of its endpoints, below that of the cluster, if all have one.
    pub locations: &'s BTreeMap<IpAddr, Box<str>>,
}

/// Whether a text from an object can be a label (RFC 1123 §2.1): letters, digits and hyphens, with
/// a letter or digit at both ends. So `*` never becomes a wildcard.
pub fn is_label(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= Name::LABEL_MAX
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// The same for labels with dots between them, as names of pods and zones have. The values of
/// labels can have underscores.
fn are_labels(text: &str) -> bool {
    text.split('.').all(|label| is_label(&label.replace('_', "-")))
}

/// A name made of labels, the first of them first, in lower case; `None`: it is too long.
fn name_of(labels: &[&str], above: Name<'_>) -> Option<NameBuf> {
    let mut name = NameBuf::from(above);
    for label in labels.iter().rev().flat_map(|labels| labels.rsplit('.')) {
        name = NameBuf::with_label(label.as_bytes(), name.as_name()).ok()?;
    }
    name.make_lowercase();
    Some(name)
}

/// The type and data of an address record.
fn address_record(address: IpAddr) -> (Rtype, Box<[u8]>) {
    match address {
        IpAddr::V4(ip) => (Rtype::A, ip.octets().into()),
        IpAddr::V6(ip) => (Rtype::AAAA, ip.octets().into()),
    }
}

/// The data of an SRV record.
fn srv_data(port: u16, target: Name<'_>) -> Box<[u8]> {
    let mut data = PRIORITY_AND_WEIGHT.to_vec();
    data.extend_from_slice(&port.to_be_bytes());
    data.extend_from_slice(target.as_bytes());
    data.into()
}

/// The reverse name of an address, in wire form (specification 2.3.3; RFC 1035 §3.5, RFC 3596
/// §2.5).
pub fn reverse_name(address: IpAddr) -> NameBuf {
    let text = match address {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(ip) => {
            let nibbles = ip.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa."
        }
    };
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap_or_else(|_| Name::ROOT.into())
}

/// An address as one label: `10-0-0-1`, `fd00--1`.
pub fn dashed(address: IpAddr) -> String {
    let mut label = address.to_string().replace(['.', ':'], "-");
    // No label ends in a hyphen.
    if label.ends_with('-') {
        label.push('0');
    }
    label
}

impl Naming {
    /// The zone that reverse names lead to.
    fn primary(&self) -> Option<u8> {
        self.zones.iter().position(|zone| !zone.is_multicluster).map(|at| at as u8)
    }

    /// Whether endpoints have names also where their service has addresses of its own.
    pub(crate) fn names_all_endpoints(&self) -> bool {
        self.endpoints && self.compat == Compat::CoreDns
    }

    fn falls_through(&self, zone: u8) -> bool {
        self.zones.get(usize::from(zone)).is_some_and(|zone| zone.falls_through)
    }

    fn zones_of(&self, is_import: bool) -> impl Iterator<Item = (u8, Name<'_>)> {
        let zones = self.zones.iter().enumerate();
        let zones = zones.filter(move |(_, zone)| zone.is_multicluster == is_import);
        zones.map(|(at, zone)| (at as u8, zone.origin.as_name()))
    }

    /// What each zone has whatever objects there are. `serial` is that of its SOA; `server` are the
    /// addresses of Dunlin's own service.
    pub fn apex(&self, serial: u32, server: &[IpAddr]) -> Records {
        let mut records = Records::default();
        for (at, zone) in self.zones.iter().enumerate() {
            let (at, origin) = (at as u8, zone.origin.as_name());
            let (Some(ns), Some(responsible), Some(version)) = (
                name_of(&["ns", "dns"], origin),
                name_of(&["hostmaster"], origin),
                name_of(&["dns-version"], origin),
            ) else {
                continue;
            };
            let place = Place::Zone(at);
            let mut soa = ns.as_name().as_bytes().to_vec();
            soa.extend_from_slice(responsible.as_name().as_bytes());
            for number in [serial, SOA_REFRESH, SOA_RETRY, SOA_EXPIRE, self.negative_ttl] {
                soa.extend_from_slice(&number.to_be_bytes());
            }
            records.add(place, origin.as_bytes(), Rtype::SOA, self.ttl, soa.into());
            let ns_name = ns.as_name().as_bytes();
            records.add(place, origin.as_bytes(), Rtype::NS, self.ttl, ns_name.into());
            for address in server {
                let (rtype, data) = address_record(*address);
                records.add(place, ns_name, rtype, self.ttl, data);
            }
            records.add_name(at, ns_name);
            let schema =
                if zone.is_multicluster { MULTICLUSTER_SCHEMA_VERSION } else { SCHEMA_VERSION };
            let text: Vec<u8> = std::iter::once(schema.len() as u8).chain(schema.bytes()).collect();
            let version = version.as_name().as_bytes();
            records.add(place, version, Rtype::TXT, SCHEMA_TTL, text.into());
            for kind in ["svc", "pod"] {
                if let Some(name) = name_of(&[kind], origin) {
                    records.add_name(at, name.as_name().as_bytes());
                }
            }
        }
        records
    }

    /// What exists because a namespace does.
    pub fn namespace(&self, namespace: &str) -> Records {
        let mut records = Records::default();
        let zones = self.zones.iter().enumerate();
        for (at, zone) in zones.filter(|_| is_label(namespace)) {
            let has_pods = self.pods != PodNames::Disabled && !zone.is_multicluster;
            for kind in ["svc", "pod"].into_iter().take(1 + usize::from(has_pods)) {
                if let Some(name) = name_of(&[namespace, kind], zone.origin.as_name()) {
                    records.add_name(at as u8, name.as_name().as_bytes());
                }
            }
            let computed = ["*", namespace, "pod"];
            if self.pods == PodNames::Insecure
                && has_pods
                && let Some(name) = name_of(&computed, zone.origin.as_name())
            {
                records.add_addresses(at as u8, name.as_name().as_bytes());
            }
        }
        records
    }

    /// The name of a pod by its address.
    pub fn pod(&self, namespace: &str, address: IpAddr) -> Records {
        let mut records = Records::default();
        for (at, origin) in self.zones_of(false).filter(|_| is_label(namespace)) {
            let label = address.to_string().replace(['.', ':'], "-");
            let Some(name) = name_of(&[&label, namespace, "pod"], origin) else { continue };
            let (rtype, data) = address_record(address);
            records.add(Place::Zone(at), name.as_name().as_bytes(), rtype, self.ttl, data);
        }
        records
    }

    /// All records of a service, added to others.
    pub fn service(&self, view: ServiceView<'_>, mut records: Records) -> Records {
        let primary = self.primary().filter(|_| !view.is_import);
        for (at, origin) in self.zones_of(view.is_import) {
            let are_labels = is_label(view.name) && is_label(view.namespace);
            let name = name_of(&[view.name, view.namespace, "svc"], origin);
            let Some(name) = name.filter(|_| are_labels) else {
                records.left_out += 1;
                continue;
            };
            let reverse = primary == Some(at);
            let (name, place) = (name.as_name(), Place::Zone(at));
            let mut writer =
                ServiceWriter { naming: self, place, name, reverse, out: &mut records };
            match &view.service.kind {
                ServiceKind::External(target) => writer.external(target),
                ServiceKind::ClusterIp(ips) if view.ready > 0 || !self.ignore_empty => {
                    writer.cluster_ip(ips, &view.service.ports);
                    if self.names_all_endpoints() {
                        writer.endpoints(view.slices);
                    }
                    if let Some(check) = view.check.filter(|_| !self.falls_through(at)) {
                        writer.check_addresses(check);
                    }
                }
                ServiceKind::ClusterIp(_) => {}
                ServiceKind::Headless if self.endpoints => {
                    writer.headless(view);
                    if !self.falls_through(at) {
                        writer.locate(view);
                    }
                    if let Some(check) = view.check.filter(|_| !self.falls_through(at)) {
                        writer.check(view, check);
                    }
                }
                ServiceKind::Headless => {}
            }
        }
        records
    }
}

/// Writes the records of one service in one zone.
struct ServiceWriter<'n, 'r> {
    naming: &'n Naming,
    place: Place,
    /// The name of the service.
    name: Name<'n>,
    /// Whether its addresses lead back to this name.
    reverse: bool,
    out: &'r mut Records,
}

impl ServiceWriter<'_, '_> {
    fn add(&mut self, name: Name<'_>, rtype: Rtype, data: Box<[u8]>) {
        self.out.add(self.place, name.as_bytes(), rtype, self.naming.ttl, data);
    }

    /// A name below that of the service.
    fn below(&mut self, labels: &[&str]) -> Option<NameBuf> {
        let name = name_of(labels, self.name);
        self.out.left_out += usize::from(name.is_none());
        name
    }

    fn address(&mut self, name: Name<'_>, address: IpAddr) {
        let (rtype, data) = address_record(address);
        self.add(name, rtype, data);
    }

    /// Specification 2.3.2, 2.4.2.
    fn srv(&mut self, owner: Name<'_>, port: u16, target: Name<'_>) {
        self.add(owner, Rtype::SRV, srv_data(port, target));
    }

    fn srv_to(&mut self, owner: Name<'_>, port: u16, slice: &Slice, endpoint: &Endpoint) {
        if let Some(target) = self.endpoint_name(slice, endpoint) {
            self.srv(owner, port, target.as_name());
        }
    }

    /// Specification 2.3.3, 2.4.3.
    fn pointer(&mut self, address: IpAddr, target: Name<'_>) {
        if self.reverse {
            let (owner, ttl) = (reverse_name(address), self.naming.ttl);
            let owner = owner.as_name().as_bytes();
            self.out.add(Place::Reverse, owner, Rtype::PTR, ttl, target.as_bytes().into());
        }
    }

    /// Specification 2.5. An address as the external name is not an alias.
    fn external(&mut self, target: &str) {
        let is_address = target.parse::<IpAddr>().is_ok();
        match NameBuf::from_text(target.as_bytes(), Name::ROOT) {
            Ok(target) if !is_address => {
                self.add(self.name, Rtype::CNAME, target.as_name().as_bytes().into());
            }
            _ => self.out.left_out += 1,
        }
    }

    /// Specification 2.3.
    fn cluster_ip(&mut self, ips: &[IpAddr], ports: &[Port]) {
        for address in ips {
            self.address(self.name, *address);
            self.pointer(*address, self.name);
        }
        for port in ports {
            if let Some(owner) = self.port(port, &[]) {
                self.srv(owner.as_name(), port.number, self.name);
            }
            if self.naming.compat == Compat::CoreDns {
                self.srv(self.name, port.number, self.name);
            }
        }
    }

    /// The owner of the SRV records of a port, which needs a name.
    fn port(&mut self, port: &Port, below: &[&str]) -> Option<NameBuf> {
        if port.name.is_empty() {
            return None;
        }
        if !is_label(&port.name) || !is_label(&port.protocol) {
            self.out.left_out += 1;
            return None;
        }
        let (name, protocol) = (format!("_{}", port.name), format!("_{}", port.protocol));
        let labels: Vec<&str> =
            [&*name, &*protocol].into_iter().chain(below.iter().copied()).collect();
        self.below(&labels)
    }

    /// Specification 2.4. Without a ready endpoint there is no name, so the answer is NXDOMAIN.
    fn headless(&mut self, view: ServiceView<'_>) {
        for slice in view.slices {
            let ports: Vec<(NameBuf, u16)> = slice
                .ports
                .iter()
                .filter_map(|port| Some((self.port(port, &[])?, port.number)))
                .collect();
            for endpoint in &slice.endpoints {
                self.address(self.name, endpoint.address);
                let Some(name) = self.endpoint(slice, endpoint) else { continue };
                for (owner, number) in &ports {
                    self.srv(owner.as_name(), *number, name.as_name());
                }
                if self.naming.compat == Compat::CoreDns {
                    for port in &slice.ports {
                        self.srv(self.name, port.number, name.as_name());
                    }
                }
            }
        }
        if self.naming.zonal
            && !view.is_import
            && view.slices.iter().any(|s| !s.endpoints.is_empty())
        {
            self.zonal(view.slices);
        }
    }

    /// The name of an endpoint: its hostname, or its address.
    fn endpoint_name(&mut self, slice: &Slice, endpoint: &Endpoint) -> Option<NameBuf> {
        let address;
        let host = match endpoint.host.as_deref().filter(|host| are_labels(host)) {
            Some(host) => host,
            None => {
                address = dashed(endpoint.address);
                &*address
            }
        };
        match &*slice.cluster {
            "" => self.below(&[host]),
            cluster if are_labels(cluster) => self.below(&[host, cluster]),
            _ => {
                self.out.left_out += 1;
                None
            }
        }
    }

    /// The names of all endpoints.
    fn endpoints(&mut self, slices: &[&Slice]) {
        for slice in slices {
            for endpoint in &slice.endpoints {
                self.endpoint(slice, endpoint);
            }
        }
    }

    /// The name of an endpoint, with its records.
    fn endpoint(&mut self, slice: &Slice, endpoint: &Endpoint) -> Option<NameBuf> {
        let name = self.endpoint_name(slice, endpoint)?;
        self.address(name.as_name(), endpoint.address);
        self.pointer(endpoint.address, name.as_name());
        if self.naming.compat == Compat::CoreDns {
            for port in &slice.ports {
                self.srv(name.as_name(), port.number, name.as_name());
            }
        }
        Some(name)
    }

    /// `<zone>.pin._zone` has the endpoints of a topology zone, `<zone>.prefer._zone` all where the
    /// zone has none: their addresses, and an SRV record for each port that is kept.
    fn zonal(&mut self, slices: &[&Slice]) {
        let place = match self.place {
            Place::Zone(at) => at,
            Place::Reverse => return,
        };
        if let Some(name) = self.below(&["*", "pin", "_zone"]) {
            self.out.add_name(place, name.as_name().as_bytes());
        }
        for slice in slices {
            for endpoint in &slice.endpoints {
                let zone = endpoint.zone.as_deref().filter(|zone| are_labels(zone));
                let each = zone.into_iter().flat_map(|zone| [(zone, "pin"), (zone, "prefer")]);
                for (zone, directive) in each.chain([("*", "prefer")]) {
                    if let Some(name) = self.below(&[zone, directive, "_zone"]) {
                        self.address(name.as_name(), endpoint.address);
                        for port in &slice.ports {
                            self.srv_to(name.as_name(), port.number, slice, endpoint);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! The parts that the objects of this cluster have in zones beside its own.
use super::{Cluster, Entry, ObjectName};
use crate::checks::UnusedCheck;
use crate::objects::{
    Labels, Listener, Parent, PartContent, PartObject, ServiceKind, SharedService, Slice, Targets,
};
use crate::packed::{KeyRef, Table};
use crate::record_zones::{RecordZones, takes};
use crate::shared_zone::SharedZone;
use source_parts::{EXPORTS, Part};
use std::sync::Arc;

/// A kind of object with parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// Services.
    Service,
    /// DNSEndpoints.
    DnsEndpoint,
    /// Ingresses.
    Ingress,
    /// Gateways.
    Gateway,
    /// HTTPRoutes.
    HttpRoute,
    /// ServiceExports.
    Export,
}

impl PartKind {
    /// The kinds but for Services, in the order of their streams.
    pub(crate) const OBJECTS: [Self; 5] =
        [Self::DnsEndpoint, Self::Ingress, Self::Gateway, Self::HttpRoute, Self::Export];

    /// The kind in keys of parts.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Service => "services",
            Self::DnsEndpoint => "dnsendpoints",
            Self::Ingress => "ingresses",
            Self::Gateway => "gateways",
            Self::HttpRoute => "httproutes",
            Self::Export => EXPORTS,
        }
    }

    /// The kind with this word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let all = [Self::Service].into_iter().chain(Self::OBJECTS);
        all.into_iter().find(|kind| kind.word() == word)
    }

    /// Version and kind of its objects, as Events name them.
    pub(crate) fn api(self) -> (&'static str, &'static str) {
        match self {
            Self::Service => ("v1", "Service"),
            Self::DnsEndpoint => ("externaldns.k8s.io/v1alpha1", "DNSEndpoint"),
            Self::Ingress => ("networking.k8s.io/v1", "Ingress"),
            Self::Gateway => ("gateway.networking.k8s.io/v1", "Gateway"),
            Self::HttpRoute => ("gateway.networking.k8s.io/v1", "HTTPRoute"),
            Self::Export => ("multicluster.x-k8s.io/v1beta1", "ServiceExport"),
        }
    }

    fn at(self) -> Option<usize> {
        Self::OBJECTS.iter().position(|kind| *kind == self)
    }
}

/// An object with a part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartName {
    /// The kind.
    pub kind: PartKind,
    /// The namespace and the name.
    pub object: ObjectName,
}

/// Where objects have parts, and what they say of them.
#[derive(Clone, Debug)]
pub(crate) struct PartTables {
    /// Where Services have parts; `None`: they have none.
    zone: Option<Arc<SharedZone>>,
    /// Where other objects have records.
    records: Arc<RecordZones>,
    /// The annotations and addresses of Services.
    services: Table<SharedService>,
    /// The other objects, by their kinds.
    objects: [Table<PartObject>; 5],
    /// When this server last said that it is there, in seconds since 1970; 0: not yet.
    pub heartbeat: u64,
}

impl PartTables {
    pub(super) fn new() -> Self {
        Self {
            zone: None,
            records: Arc::default(),
            services: Table::new(),
            objects: std::array::from_fn(|_| Table::new()),
            heartbeat: 0,
        }
    }

    /// None of the objects, for the same zones.
    pub(super) fn emptied(&self) -> Self {
        let (zone, records) = (self.zone.clone(), Arc::clone(&self.records));
        Self { zone, records, ..Self::new() }
    }

    fn object(&self, kind: PartKind, of: &ObjectName) -> Option<PartObject> {
        self.objects[kind.at()?].get((false, &of.namespace, &of.name))
    }

    /// Whether a Service is in a zone that clusters share, or in one for exports.
    fn is_used(&self, key: KeyRef<'_>, of: &SharedService) -> bool {
        let is_exported = || PartKind::Export.at().is_some_and(|at| self.objects[at].has(key));
        of.is_selected || is_exported()
    }
}

impl Cluster {
    /// Objects have parts in these zones from now on.
    pub fn set_part_zones(&mut self, zone: Option<Arc<SharedZone>>, records: Arc<RecordZones>) {
        (self.parts.zone, self.parts.records) = (zone, records);
    }

    /// What a service says of its part, if its labels choose it.
    pub(crate) fn take_shared(
        &mut self,
        object: &ObjectName,
        said: Option<Box<(SharedService, Labels)>>,
    ) {
        let zone = self.parts.zone.clone();
        let kept = said.zip(zone).and_then(|(said, zone)| {
            let (mut of, labels) = *said;
            of.is_selected = zone.selects(&labels);
            (of.is_selected || !zone.exports.is_empty()).then_some(of)
        });
        self.set_shared(object, kept.as_ref());
    }

    /// What a service says of its part; `None`: it has none. Before the service itself is put.
    pub(crate) fn set_shared(&mut self, object: &ObjectName, of: Option<&SharedService>) {
        let of = of.filter(|_| self.parts.zone.is_some());
        self.parts.services.set((false, &object.namespace, &object.name), of);
    }

    /// An object of another kind came, changed, or went (`None`).
    pub(crate) fn put_part_object(
        &mut self,
        kind: PartKind,
        object: &ObjectName,
        kept: Option<&PartObject>,
    ) {
        let Some(at) = kind.at() else { return };
        let key = (false, &*object.namespace, &*object.name);
        let is_new = kept.is_some() && !self.parts.objects[at].has(key);
        self.parts.objects[at].set(key, kept);
        if kind == PartKind::Export && is_new && self.part_needs_endpoints(key) {
            let slices = self.services.get(key).map(|entry| entry.slices).unwrap_or_default();
            self.needs_slices |= slices.iter().any(|kept| kept.slice.is_none() && kept.ready > 0);
        }
    }

    /// Whether an object of another kind is known.
    pub(crate) fn has_part_object(&self, kind: PartKind, of: &ObjectName) -> bool {
        let key = (false, &*of.namespace, &*of.name);
        kind.at().is_some_and(|at| self.parts.objects[at].has(key))
    }

    /// How many objects of another kind are known.
    pub(crate) fn count_of(&self, kind: PartKind) -> u64 {
        kind.at().map_or(0, |at| self.parts.objects[at].len() as u64)
    }

    /// The objects of another kind.
    pub(crate) fn part_objects(&self, kind: PartKind) -> impl Iterator<Item = ObjectName> {
        let table = kind.at().map(|at| &self.parts.objects[at]);
        let keys = table.into_iter().flat_map(Table::keys);
        keys.map(|(_, namespace, name)| ObjectName::new(namespace, name))
    }

    /// The records of a DNSEndpoint, and its status.
    pub(crate) fn given_records(&self, of: &ObjectName) -> Option<crate::objects::GivenRecords> {
        match self.parts.object(PartKind::DnsEndpoint, of)?.content {
            PartContent::Records(given) => Some(given),
            _ => None,
        }
    }

    /// The UID of an object with a part.
    pub(crate) fn part_uid(&self, PartName { kind, object }: &PartName) -> Option<Box<str>> {
        let key = (false, &*object.namespace, &*object.name);
        match kind {
            PartKind::Service => self.parts.services.get(key).map(|of| of.rules.uid),
            kind => self.parts.object(*kind, object).map(|of| of.rules.uid),
        }
    }

    /// Whether a part needs the endpoints of a service.
    pub(super) fn part_needs_endpoints(&self, key: KeyRef<'_>) -> bool {
        let Some(zone) = self.parts.zone.as_ref().filter(|_| !key.0) else { return false };
        let of = self.parts.services.get(key);
        of.is_some_and(|of| self.parts.is_used(key, &of) && zone.needs_endpoints(&of))
    }

    /// The part of an object; `None`: it has none.
    pub(crate) fn part(&self, PartName { kind, object }: &PartName) -> Option<Part> {
        if !self.is_exposed(&object.namespace) {
            return None;
        }
        if *kind == PartKind::Service {
            let of = self.parts.services.get((false, &object.namespace, &object.name))?;
            return self.of_service(object, &of, None);
        }
        let found = self.parts.object(*kind, object)?;
        let (records, namespace) = (&self.parts.records, &*object.namespace);
        match &found.content {
            PartContent::Records(given) => records.records(namespace, &found, given),
            PartContent::Hosts(hosts, targets) => {
                let hosts = hosts.iter().map(|host| (&**host, targets));
                records.hosts(namespace, &found, hosts)
            }
            PartContent::Listeners(listeners, targets) => {
                let hosts = listeners.iter().filter(|one| !one.hostname.is_empty());
                records.hosts(namespace, &found, hosts.map(|one| (&*one.hostname, targets)))
            }
            PartContent::Route(hosts, parents) => {
                let reached = self.reached(namespace, hosts, parents);
                let hosts = reached.iter().map(|(host, targets)| (*host, targets));
                records.hosts(namespace, &found, hosts)
            }
            PartContent::Service => {
                let of = self.parts.services.get((false, namespace, &object.name))?;
                self.of_service(object, &of, Some(&found))
            }
        }
    }

    /// The part of a Service, or that of its export.
    fn of_service(
        &self,
        object: &ObjectName,
        of: &SharedService,
        export: Option<&PartObject>,
    ) -> Option<Part> {
        let zone = self.parts.zone.as_ref()?;
        let name = (&*object.namespace, &*object.name);
        let Entry { service, slices } = self.services.get((false, name.0, name.1))?;
        let service = service?;
        let slices: Vec<Slice> = slices.into_iter().filter_map(|kept| kept.slice).collect();
        match export {
            None if of.is_selected => zone.part(name, &service, of, &slices),
            None => None,
            Some(export) => zone.export(name, &export.rules, &service, of, &slices),
        }
    }

    /// The hostnames of a route that its Gateways take, with their addresses.
    fn reached<'h>(
        &self,
        namespace: &str,
        hosts: &'h [Box<str>],
        parents: &[Parent],
    ) -> Vec<(&'h str, Targets)> {
        let mut reached = Vec::new();
        for parent in parents {
            let of = ObjectName::new(parent.namespace(namespace), &parent.name);
            let gateway = self.parts.object(PartKind::Gateway, &of);
            let Some(PartContent::Listeners(listeners, targets)) =
                gateway.map(|gateway| gateway.content)
            else {
                continue;
            };
            let is_named =
                |one: &&Listener| parent.listener.is_empty() || one.name == parent.listener;
            for host in hosts {
                if listeners.iter().filter(is_named).any(|one| takes(one, host)) {
                    reached.push((&**host, targets.clone()));
                }
            }
        }
        reached
    }

    /// The objects that may have parts.
    pub(crate) fn part_names(&self) -> impl Iterator<Item = PartName> {
        let name = |kind| {
            move |(_, namespace, name): KeyRef<'_>| PartName {
                kind,
                object: ObjectName::new(namespace, name),
            }
        };
        let services = self.parts.services.iter().filter(|(_, of)| of.is_selected);
        let services = services.map(move |(key, _)| name(PartKind::Service)(key));
        let objects = PartKind::OBJECTS.into_iter().zip(&self.parts.objects);
        services.chain(objects.flat_map(move |(kind, table)| table.keys().map(name(kind))))
    }

    /// The objects whose parts an event of an object of the stream with this number may change.
    pub(crate) fn affected_parts(&self, stream: usize, object: &ObjectName) -> Vec<PartName> {
        let own = |kind, object: &ObjectName| PartName { kind, object: object.clone() };
        let of_service = |object: &ObjectName| {
            let mut all = Vec::new();
            if self.parts.services.has((false, &object.namespace, &object.name)) {
                all.push(own(PartKind::Service, object));
            }
            if self.has_part_object(PartKind::Export, object) {
                all.push(own(PartKind::Export, object));
            }
            all
        };
        match stream {
            0 => self.part_names().filter(|of| of.object.namespace == object.name).collect(),
            1 => of_service(object),
            3 => {
                let of = self.slices.get((false, &object.namespace, &object.name));
                let of = of.filter(|(is_import, _)| !is_import);
                let of = of.map(|(_, name)| ObjectName::new(&object.namespace, &name));
                of.map(|of| of_service(&of)).unwrap_or_default()
            }
            2 | 4 => Vec::new(),
            _ => {
                let kind = PartKind::OBJECTS[stream - 5];
                let mut all = vec![own(kind, object)];
                if kind == PartKind::Gateway {
                    all.extend(self.routes_of(object).map(|of| own(PartKind::HttpRoute, &of)));
                }
                all
            }
        }
    }

    /// The routes of a Gateway.
    fn routes_of(&self, gateway: &ObjectName) -> impl Iterator<Item = ObjectName> {
        let table = PartKind::HttpRoute.at().map(|at| &self.parts.objects[at]);
        let routes = table.into_iter().flat_map(Table::iter);
        let of_gateway = move |((_, namespace, name), route): (KeyRef<'_>, PartObject)| {
            let PartContent::Route(_, parents) = route.content else { return None };
            let is_it = |parent: &Parent| {
                parent.name == gateway.name && *parent.namespace(namespace) == *gateway.namespace
            };
            parents.iter().any(is_it).then(|| ObjectName::new(namespace, name))
        };
        routes.filter_map(of_gateway)
    }

    /// The checks that services name in vain; `None`: nothing has changed since the last call.
    pub(crate) fn unused_checks(&mut self) -> Option<(Vec<UnusedCheck>, usize)> {
        let Self { checks, parts, .. } = self;
        checks.unused(|key| parts.services.get(key).is_some_and(|of| parts.is_used(key, &of)))
    }

    /// Whether the endpoints of a service are kept for its part alone.
    pub(super) fn are_for_parts(&self, entry: &Entry) -> bool {
        let kind = entry.service.as_ref().map(|service| &service.kind);
        matches!(kind, Some(ServiceKind::ClusterIp(_))) && !self.naming.names_all_endpoints()
    }
}

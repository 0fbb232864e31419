//! The parts that the services of this cluster have in the zone that clusters share.
use super::{Cluster, Entry, ObjectName};
use crate::checks::UnusedCheck;
use crate::objects::{Labels, ServiceKind, SharedService, Slice};
use crate::packed::KeyRef;
use crate::shared_zone::SharedZone;
use source_parts::Part;
use std::sync::Arc;

/// The kind of services in the keys of parts.
pub(crate) const SERVICES: &str = "services";

impl Cluster {
    /// Services have parts in this zone from now on.
    pub fn set_shared_zone(&mut self, zone: Option<Arc<SharedZone>>) {
        self.shared_zone = zone;
    }

    /// What a service says of its part, if its labels choose it.
    pub(crate) fn take_shared(
        &mut self,
        object: &ObjectName,
        said: Option<Box<(SharedService, Labels)>>,
    ) {
        let zone = self.shared_zone.clone();
        let is_chosen = |labels: &Labels| zone.as_ref().is_some_and(|zone| zone.selects(labels));
        let chosen = said.filter(|said| is_chosen(&said.1));
        self.set_shared(object, chosen.as_ref().map(|said| &said.0));
    }

    /// What a service says of its part; `None`: it has none. Before the service itself is put.
    pub(crate) fn set_shared(&mut self, object: &ObjectName, of: Option<&SharedService>) {
        let of = of.filter(|_| self.shared_zone.is_some());
        self.shared.set((false, &object.namespace, &object.name), of);
    }

    /// What a service says of its part.
    pub(crate) fn shared(&self, object: &ObjectName) -> Option<SharedService> {
        self.shared.get((false, &object.namespace, &object.name))
    }

    /// Whether a part needs the endpoints of a service.
    pub(super) fn part_needs_endpoints(&self, key: KeyRef<'_>) -> bool {
        let Some(zone) = self.shared_zone.as_ref().filter(|_| !key.0) else { return false };
        self.shared.get(key).is_some_and(|of| zone.needs_endpoints(&of))
    }

    /// The part of a service; `None`: it has none.
    pub(crate) fn part(&self, object: &ObjectName) -> Option<Part> {
        let zone = self.shared_zone.as_ref()?;
        let key = (false, &*object.namespace, &*object.name);
        let of = self.shared.get(key)?;
        let Entry { service, slices } = self.services.get(key)?;
        let service = service.filter(|_| self.is_exposed(&object.namespace))?;
        let slices: Vec<Slice> = slices.into_iter().filter_map(|kept| kept.slice).collect();
        zone.part((&*object.namespace, &*object.name), &service, &of, &slices)
    }

    /// The services that may have parts.
    pub(crate) fn part_names(&self) -> impl Iterator<Item = ObjectName> {
        self.shared.keys().map(|(_, namespace, name)| ObjectName::new(namespace, name))
    }

    /// The services whose parts an event of an object of the kind with this number may change.
    pub(crate) fn affected_parts(&self, kind: usize, object: &ObjectName) -> Vec<ObjectName> {
        if self.shared_zone.is_none() {
            return Vec::new();
        }
        match kind {
            0 => self.part_names().filter(|of| of.namespace == object.name).collect(),
            1 => vec![object.clone()],
            3 => {
                let of = self.slices.get((false, &object.namespace, &object.name));
                let of = of.filter(|(is_import, _)| !is_import);
                of.map(|(_, name)| ObjectName::new(&object.namespace, &name)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The checks that services name in vain; `None`: nothing has changed since the last call.
    pub(crate) fn unused_checks(&mut self) -> Option<(Vec<UnusedCheck>, usize)> {
        let Self { checks, shared, .. } = self;
        checks.unused(|key| shared.get(key).is_some())
    }

    /// Whether the endpoints of a service are kept for its part alone.
    pub(super) fn are_for_parts(&self, entry: &Entry) -> bool {
        let kind = entry.service.as_ref().map(|service| &service.kind);
        matches!(kind, Some(ServiceKind::ClusterIp(_))) && !self.naming.names_all_endpoints()
    }
}

//! The known objects.
use super::parts::PartKind;
use super::{Cluster, KeptSlice, ObjectName};
use crate::objects::{KeptSliceOf, Service, ServiceKind};
use std::collections::HashMap;
use std::net::IpAddr;

impl Cluster {
    /// A slice as it is kept.
    pub(crate) fn kept_slice(&self, object: &ObjectName) -> Option<KeptSliceOf> {
        let ObjectName { namespace, name } = object;
        let (is_import, service) = self.slices.get((false, namespace, name))?;
        let entry = self.services.get((is_import, namespace, &service))?;
        let kept = entry.slices.into_iter().find(|kept| kept.name == *name)?;
        let terminating = self.checks.terminating.get((false, namespace, name)).map(Box::new);
        let hints = self.checks.hints.get((false, namespace, name));
        let KeptSlice { ready, slice, .. } = kept;
        Some(KeptSliceOf { service, is_import, ready, slice, terminating, hints })
    }

    /// A slice as others need it: without endpoints that only the part of a service has.
    pub(crate) fn shared_slice(&self, object: &ObjectName) -> Option<KeptSliceOf> {
        let mut kept = self.kept_slice(object)?;
        let key = (kept.is_import, &*object.namespace, &*kept.service);
        if self.services.get(key).is_some_and(|entry| self.are_for_parts(&entry)) {
            kept.slice = None;
        }
        Some(kept)
    }

    /// The addresses that at least so many services or endpoints have.
    pub fn shared_addresses(&self, min: usize) -> impl Iterator<Item = IpAddr> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (_, entry) in self.services.iter() {
            let slices = entry.slices.iter().filter_map(|kept| kept.slice.as_ref());
            let endpoints = slices.flat_map(|slice| slice.endpoints.iter().map(|one| one.address));
            endpoints.for_each(|address| *counts.entry(address).or_default() += 1);
            if let Some(Service { kind: ServiceKind::ClusterIp(ips), .. }) = &entry.service {
                ips.iter().for_each(|address| *counts.entry(*address).or_default() += 1);
            }
        }
        counts.into_iter().filter(move |(_, count)| *count >= min).map(|(address, _)| address)
    }

    /// Whether an object of the kind with this number is known.
    pub(crate) fn has(&self, kind: usize, object: &ObjectName) -> bool {
        let ObjectName { namespace, name } = object;
        match kind {
            0 => self.namespaces.contains(name),
            1 | 2 => {
                let entry = self.services.get((kind == 2, namespace, name));
                entry.is_some_and(|entry| entry.service.is_some())
            }
            3 => self.slices.get((false, namespace, name)).is_some(),
            4 => self.pods.contains_key(object),
            _ => {
                let kind = PartKind::OBJECTS.get(kind - 5);
                kind.is_some_and(|kind| self.has_part_object(*kind, object))
            }
        }
    }

    /// The names of all services, or of all imported ones.
    pub fn service_names(&self, imports: bool) -> impl Iterator<Item = ObjectName> {
        let known =
            self.services.iter().filter(move |(key, of)| key.0 == imports && of.service.is_some());
        known.map(|((_, namespace, name), _)| ObjectName::new(namespace, name))
    }

    /// The names of all slices.
    pub fn slice_names(&self) -> impl Iterator<Item = ObjectName> {
        self.slices.keys().map(|(_, namespace, name)| ObjectName::new(namespace, name))
    }

    /// The names of all namespaces.
    pub fn namespace_names(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(|name| &**name)
    }

    /// The names of all pods.
    pub fn pod_names(&self) -> impl Iterator<Item = &ObjectName> {
        self.pods.keys()
    }
}

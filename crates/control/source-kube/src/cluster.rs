//! The known state of a cluster, and the records that each event changes.
//!
//! An address can be in two slices of a service while it moves from one to the other, so what each
//! slice contributes is kept by itself. Of a ClusterIP service only the number of its ready
//! endpoints is kept, unless they have names, too ([`Compat::CoreDns`](crate::names::Compat)).
mod content;
mod hints;
pub mod parts;
mod pods;

use crate::checks::Checks;
use crate::names::{Naming, ServiceView};
use crate::objects::{KeptSliceOf, Service, ServiceKind, Slice, SliceOf};
use crate::packed::{KeyRef, Table};
use crate::records::{Place, RecordChange, Records, changes};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use zone_manager::CheckNames;

/// The name of an object in its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// The namespace; empty for objects of the whole cluster.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

impl ObjectName {
    /// The name of an object.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// A service, by its name and by whether it is imported from other clusters.
pub type ServiceKey = (bool, ObjectName);

fn key_ref((is_import, object): &ServiceKey) -> KeyRef<'_> {
    (*is_import, &object.namespace, &object.name)
}

/// A slice of a service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct KeptSlice {
    pub name: Box<str>,
    pub ready: u32,
    /// `None`: the service has addresses of its own, and those of its endpoints have no names.
    pub slice: Option<Slice>,
}

/// A service and its slices. Either may come first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Entry {
    pub service: Option<Service>,
    pub slices: Vec<KeptSlice>,
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty()
    }

    fn may_be_headless(&self) -> bool {
        self.service.as_ref().is_none_or(|service| service.kind == ServiceKind::Headless)
    }

    fn needs_endpoints(&self, naming: &Naming) -> bool {
        match self.service.as_ref().map(|service| &service.kind) {
            None | Some(ServiceKind::Headless) => true,
            Some(ServiceKind::ClusterIp(_)) => naming.names_all_endpoints(),
            Some(ServiceKind::External(_)) => false,
        }
    }

    /// The endpoints that are kept, in all slices.
    fn endpoints(&self) -> u64 {
        let slices = self.slices.iter().filter_map(|kept| kept.slice.as_ref());
        slices.map(|slice| slice.endpoints.len() as u64).sum()
    }

    fn ready(&self) -> u64 {
        self.slices.iter().map(|slice| u64::from(slice.ready)).sum()
    }
}

/// Which objects have names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exposed {
    /// Only these namespaces; empty: all.
    pub namespaces: HashSet<Box<str>>,
    /// Dunlin's own service, whose addresses are those of the name server.
    pub own: Option<ObjectName>,
}

/// The state of a cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    naming: Arc<Naming>,
    exposed: Arc<Exposed>,
    pub(crate) services: Table<Entry>,
    /// The service of each slice, in the same namespace, and whether that is imported.
    slices: Table<(bool, Box<str>)>,
    pub(crate) checks: Checks,
    /// Where objects have parts, and what they say of them.
    pub(crate) parts: parts::PartTables,
    /// Services and endpoints among them.
    totals: (u64, u64),
    pub(crate) namespaces: HashSet<Box<str>>,
    pub(crate) pods: HashMap<ObjectName, Box<[IpAddr]>>,
    /// How many pods of a namespace have an address.
    pod_addresses: HashMap<(Box<str>, IpAddr), u32>,
    /// The serial of the zones.
    serial: u32,
    /// The endpoints of a service are needed, but were not kept: all slices are to be listed again.
    pub needs_slices: bool,
    /// Changes are not computed: all records are published together later.
    pub is_quiet: bool,
}

/// Counts of what is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Services.
    pub services: u64,
    /// Slices.
    pub slices: u64,
    /// Ready endpoints, each with its own name.
    pub endpoints: u64,
    /// Namespaces.
    pub namespaces: u64,
    /// Pods.
    pub pods: u64,
}

impl Cluster {
    /// A cluster without objects.
    pub fn new(naming: Arc<Naming>, exposed: Arc<Exposed>, serial: u32) -> Self {
        let mut own_zones = naming.zones.iter().filter(|zone| !zone.is_multicluster);
        let checks = Checks::new(own_zones.any(|zone| !zone.falls_through));
        Self {
            naming,
            exposed,
            checks,
            parts: parts::PartTables::new(),
            services: Table::new(),
            slices: Table::new(),
            totals: (0, 0),
            namespaces: HashSet::new(),
            pods: HashMap::new(),
            pod_addresses: HashMap::new(),
            serial,
            needs_slices: false,
            is_quiet: false,
        }
    }

    /// A cluster with the same settings, checks and serial, and what is put into it.
    pub(crate) fn with(&self, fill: impl FnOnce(&mut Self)) -> Self {
        let (naming, exposed) = (Arc::clone(&self.naming), Arc::clone(&self.exposed));
        let mut other = Self::new(naming, exposed, self.serial);
        other.checks.know(self.checks.known());
        other.checks.configured_as(&self.checks);
        other.parts = self.parts.emptied();
        other.is_quiet = true;
        fill(&mut other);
        other.is_quiet = false;
        other
    }

    /// The counts of all objects.
    pub fn counts(&self) -> Counts {
        Counts {
            services: self.totals.0,
            slices: self.slices.len() as u64,
            endpoints: self.totals.1,
            namespaces: self.namespaces.len() as u64,
            pods: self.pods.len() as u64,
        }
    }

    /// About as many names as are served: those of namespaces that do not exist are not.
    pub fn names(&self) -> u64 {
        let services = self.services.iter().filter(|((_, of, _), _)| self.is_exposed(of));
        let of_services = services
            .map(|(_, entry)| entry.service.as_ref().map_or(0, |_| 1 + self.endpoints_of(&entry)));
        let pods = self.pod_addresses.keys().filter(|(namespace, _)| self.is_exposed(namespace));
        let namespaces = self.namespaces.iter().filter(|name| self.is_exposed(name));
        of_services.sum::<u64>() + pods.count() as u64 + namespaces.count() as u64
    }

    fn is_exposed(&self, namespace: &str) -> bool {
        let listed = &self.exposed.namespaces;
        (listed.is_empty() || listed.contains(namespace)) && self.namespaces.contains(namespace)
    }

    /// The records of a service as it is now.
    fn records_of(&self, key: KeyRef<'_>, entry: &Entry) -> Records {
        match self.is_quiet {
            true => Records::default(),
            false => self.all_records_of(key, entry, Records::default()),
        }
    }

    /// Adds the records of a service to others.
    fn all_records_of(
        &self,
        (is_import, namespace, name): KeyRef<'_>,
        entry: &Entry,
        records: Records,
    ) -> Records {
        let Some(service) = entry.service.as_ref().filter(|_| self.is_exposed(namespace)) else {
            return records;
        };
        let key = (is_import, namespace, name);
        let check = self.checks.of(key, &service.kind);
        let mut slices: Vec<&Slice> =
            entry.slices.iter().filter_map(|kept| kept.slice.as_ref()).collect();
        let terminating: Vec<Slice>;
        if check.is_some() && slices.iter().all(|slice| slice.endpoints.is_empty()) {
            // Readiness comes first; those that end are better than none.
            let slices_of = entry.slices.iter().map(|kept| (false, namespace, &*kept.name));
            terminating = slices_of.filter_map(|at| self.checks.terminating.get(at)).collect();
            slices = terminating.iter().collect();
        }
        let locations = self.locations_of(namespace, entry);
        let view = ServiceView {
            namespace,
            name,
            is_import,
            service,
            slices: &slices,
            ready: entry.ready(),
            check: check.as_deref(),
            locations: &locations,
        };
        self.naming.service(view, records)
    }

    /// The addresses of Dunlin's own service.
    fn own_addresses(&self) -> Vec<IpAddr> {
        let own = self.exposed.own.as_ref();
        let own = own.and_then(|own| self.services.get((false, &own.namespace, &own.name)));
        let Some(Entry { service: Some(service), slices }) = own else { return Vec::new() };
        match &service.kind {
            ServiceKind::ClusterIp(ips) => ips.to_vec(),
            ServiceKind::Headless => {
                let kept = slices.iter().filter_map(|kept| kept.slice.as_ref());
                kept.flat_map(|slice| slice.endpoints.iter().map(|each| each.address)).collect()
            }
            ServiceKind::External(_) => Vec::new(),
        }
    }

    fn apex(&self) -> Records {
        self.naming.apex(self.serial, &self.own_addresses())
    }

    /// Gives the zones the next serial, or this one if it is later (RFC 1982: serials wrap).
    pub fn renew_serial(&mut self, serial: u32) -> Vec<RecordChange> {
        let old = self.apex();
        let is_later = serial.wrapping_sub(self.serial) as i32 > 0;
        self.serial = if is_later { serial } else { self.serial.wrapping_add(1) };
        changes(old, self.apex())
    }

    /// The endpoints of a service that have names.
    fn endpoints_of(&self, entry: &Entry) -> u64 {
        if self.are_for_parts(entry) { 0 } else { entry.endpoints() }
    }

    fn count(&mut self, entry: &Entry, change: fn(u64, u64) -> u64) {
        let (services, endpoints) = self.totals;
        let service = u64::from(entry.service.is_some());
        self.totals = (change(services, service), change(endpoints, self.endpoints_of(entry)));
    }

    /// Changes a service by a function; the records that change.
    fn edit(
        &mut self,
        key: ServiceKey,
        edit: impl FnOnce(&mut Entry, &mut Checks),
    ) -> Vec<RecordChange> {
        let is_own = !key.0 && self.exposed.own.as_ref() == Some(&key.1);
        let apex = is_own.then(|| self.apex());
        let key = key_ref(&key);
        let mut entry = self.services.get(key).unwrap_or_default();
        let old = self.records_of(key, &entry);
        self.count(&entry, u64::wrapping_sub);
        edit(&mut entry, &mut self.checks);
        self.count(&entry, u64::wrapping_add);
        self.services.set(key, Some(&entry).filter(|entry| !entry.is_empty()));
        let mut changed = changes(old, self.records_of(key, &entry));
        if let Some(apex) = apex {
            changed.extend(changes(apex, self.apex()));
        }
        changed
    }

    /// A service without a check came, changed, or went (`None`).
    pub fn put_service(&mut self, key: ServiceKey, service: Option<Service>) -> Vec<RecordChange> {
        self.put_checked_service(key, service, None)
    }

    /// A service that names a check came or changed.
    pub fn put_checked_service(
        &mut self,
        key: ServiceKey,
        service: Option<Service>,
        check: Option<&str>,
    ) -> Vec<RecordChange> {
        let mut lacks_endpoints = false;
        let (is_import, object) = key.clone();
        let naming = Arc::clone(&self.naming);
        if service.is_none() && !is_import {
            self.set_shared(&object, None);
        }
        let has_part = self.part_needs_endpoints(key_ref(&key));
        let changed = self.edit(key, |entry, checks| {
            let kind = service.as_ref().map(|service| &service.kind);
            checks.name((is_import, &object.namespace, &object.name), check, kind);
            entry.service = service;
            let (needs_endpoints, may_be_headless) =
                (entry.needs_endpoints(&naming) || has_part, entry.may_be_headless());
            lacks_endpoints = needs_endpoints
                && entry.service.is_some()
                && entry.slices.iter().any(|kept| kept.slice.is_none() && kept.ready > 0);
            for kept in &mut entry.slices {
                if !needs_endpoints {
                    kept.slice = None;
                }
                if !may_be_headless {
                    checks.terminating.set((false, &object.namespace, &kept.name), None);
                    checks.hints.set((false, &object.namespace, &kept.name), None);
                }
            }
        });
        self.needs_slices |= lacks_endpoints;
        changed
    }

    /// The check of services that name none, and whether those with an address of their own can
    /// have one. Before there are services.
    pub fn configure_checks(&mut self, default: Option<Box<str>>, has_cluster_ips: bool) {
        self.checks.configure(default, has_cluster_ips);
    }

    /// These checks exist. Services that name one that came or went change.
    pub fn set_checks(&mut self, known: CheckNames) -> Vec<RecordChange> {
        let affected = match self.checks.affects_all(&known) {
            true => {
                let keys = self.services.iter().map(|(key, _)| key);
                keys.map(|(is_import, of, name)| (is_import, ObjectName::new(of, name))).collect()
            }
            false => self.checks.affected(&known),
        };
        let records = |cluster: &Self| -> Vec<Records> {
            let entry = |key| cluster.services.get(key).unwrap_or_default();
            let keys = affected.iter().map(key_ref);
            keys.map(|key| cluster.records_of(key, &entry(key))).collect()
        };
        let old = records(self);
        self.checks.know(known);
        let new = records(self);
        old.into_iter().zip(new).flat_map(|(old, new)| changes(old, new)).collect()
    }

    /// A slice came, changed, or went (`None`).
    pub fn put_slice(&mut self, object: ObjectName, slice: Option<SliceOf>) -> Vec<RecordChange> {
        self.put_kept_slice(object, slice.map(KeptSliceOf::from))
    }

    /// The same for a slice that another server has kept.
    pub(crate) fn put_kept_slice(
        &mut self,
        object: ObjectName,
        slice: Option<KeptSliceOf>,
    ) -> Vec<RecordChange> {
        let ObjectName { namespace, name } = object;
        let of = slice.as_ref().map(|slice| (slice.is_import, slice.service.clone()));
        let before = self.slices.get((false, &namespace, &name));
        let mut changed = Vec::new();
        if before != of {
            self.slices.set((false, &namespace, &name), of.as_ref());
            if let Some((is_import, service)) = before {
                let key = (is_import, ObjectName::new(&namespace, &service));
                changed = self.edit(key, |entry, checks| {
                    entry.slices.retain(|kept| kept.name != name);
                    checks.terminating.set((false, &namespace, &name), None);
                    checks.hints.set((false, &namespace, &name), None);
                });
            }
        }
        let Some(KeptSliceOf { service, is_import, ready, slice, terminating, hints }) = slice
        else {
            return changed;
        };
        let key = (is_import, ObjectName::new(&namespace, &service));
        let naming = Arc::clone(&self.naming);
        let has_part = self.part_needs_endpoints(key_ref(&key));
        changed.extend(self.edit(key, |entry, checks| {
            let terminating = terminating.as_deref().filter(|_| entry.may_be_headless());
            checks.terminating.set((false, &namespace, &name), terminating);
            let hints = hints.filter(|_| !is_import && entry.may_be_headless());
            checks.hints.set((false, &namespace, &name), hints.as_ref());
            let slice = slice.filter(|_| entry.needs_endpoints(&naming) || has_part);
            let kept = KeptSlice { name, ready, slice };
            match entry.slices.iter_mut().find(|other| other.name == kept.name) {
                Some(other) => *other = kept,
                None => entry.slices.push(kept),
            }
        }));
        changed
    }

    /// A service with its slices, of a saved state.
    pub(crate) fn put_entry(&mut self, key: KeyRef<'_>, entry: &Entry) {
        let (is_import, namespace, name) = key;
        for slice in &entry.slices {
            self.slices.set((false, namespace, &slice.name), Some(&(is_import, name.into())));
        }
        self.count(entry, u64::wrapping_add);
        self.services.set(key, Some(entry));
    }

    /// A namespace is there or not.
    pub fn put_namespace(&mut self, namespace: &str, is_there: bool) -> Vec<RecordChange> {
        if self.namespaces.contains(namespace) == is_there {
            return Vec::new();
        }
        let old = if self.is_quiet { Vec::new() } else { self.records_in(namespace) };
        match is_there {
            true => self.namespaces.insert(namespace.into()),
            false => self.namespaces.remove(namespace),
        };
        let new = if self.is_quiet { Vec::new() } else { self.records_in(namespace) };
        old.into_iter().zip(new).flat_map(|(old, new)| changes(old, new)).collect()
    }

    /// The records of a namespace, and of each object in it.
    fn records_in(&self, namespace: &str) -> Vec<Records> {
        let keys = self.services.keys().filter(|(_, of, _)| *of == namespace);
        let mut keys: Vec<KeyRef<'_>> = keys.collect();
        keys.sort_unstable();
        let records_of = |key| {
            self.services.get(key).map(|entry| self.records_of(key, &entry)).unwrap_or_default()
        };
        let own = self.records_of_namespace(namespace);
        let pods = self.pod_addresses.keys().filter(|(of, _)| **of == *namespace);
        let mut pods: Vec<IpAddr> = pods.map(|(_, address)| *address).collect();
        pods.sort_unstable();
        let pods = pods.into_iter().map(|address| self.records_of_pod(namespace, address));
        std::iter::once(own).chain(keys.into_iter().map(records_of)).chain(pods).collect()
    }

    fn records_of_namespace(&self, namespace: &str) -> Records {
        match self.is_exposed(namespace) {
            true => self.naming.namespace(namespace),
            false => Records::default(),
        }
    }

    /// All records of services, namespaces and pods, in parts. Of services only those of `only`,
    /// if it says so.
    pub fn all(&self, only: Option<Place>) -> impl Iterator<Item = Records> {
        let namespaces =
            self.namespaces.iter().map(|namespace| self.records_of_namespace(namespace));
        let none = move || only.map(Records::only).unwrap_or_default();
        let services = self.services.iter();
        let services = services.map(move |(key, of)| self.all_records_of(key, &of, none()));
        let pods = self.pod_addresses.keys();
        let pods = pods.map(|(namespace, address)| self.records_of_pod(namespace, *address));
        std::iter::once(self.apex()).chain(namespaces).chain(services).chain(pods)
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! The objects of a cluster, as the servers of a fleet share them: each is a key, and its value is
//! JSON. One server that watches the API server writes them; those that do not watch it follow.
use crate::cluster::parts::{PartKind, PartName};
use crate::cluster::{Cluster, ObjectName};
use crate::objects::{Hints, KeptSliceOf, Service, Slice};
use crate::records::RecordChange;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use source_parts::{Part, PartKey, object_key, read_object_key};
use std::net::IpAddr;

/// The format of the values.
const FORMAT: u64 = 1;

/// The kinds of objects, as their keys begin. Services come before their slices, as in a list of
/// keys.
pub(crate) const KINDS: [&str; 5] = ["namespaces", "services", "imports", "slices", "pods"];

/// An object, or that it is gone (`None`).
#[derive(Debug, PartialEq)]
pub(crate) enum Shared {
    Namespace(ObjectName, Option<()>),
    Service(ObjectName, Option<(Service, Option<Box<str>>)>),
    Import(ObjectName, Option<Service>),
    Slice(ObjectName, Option<KeptSliceOf>),
    Pod(ObjectName, Option<Box<[IpAddr]>>),
}

#[derive(Deserialize, Serialize)]
struct NamespaceValue {
    format: u64,
}

#[derive(Deserialize, Serialize)]
struct ServiceValue {
    format: u64,
    #[serde(flatten)]
    service: Service,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<Box<str>>,
}

#[derive(Deserialize, Serialize)]
struct SliceValue {
    format: u64,
    service: Box<str>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_import: bool,
    ready: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slice: Option<Slice>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terminating: Option<Box<Slice>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hints: Option<Hints>,
}

#[derive(Deserialize, Serialize)]
struct PodValue {
    format: u64,
    addresses: Box<[IpAddr]>,
}

/// The key of an object of the kind with this number.
pub(crate) fn key(kind: usize, object: &ObjectName) -> String {
    let ObjectName { namespace, name } = object;
    match namespace.is_empty() {
        true => format!("{}/{name}", KINDS[kind]),
        false => format!("{}/{namespace}/{name}", KINDS[kind]),
    }
}

/// The keys whose values an event of an object may change. What is kept of the slices of a service
/// depends on the kind of the service.
pub(crate) fn affected(cluster: &Cluster, kind: usize, object: &ObjectName) -> Vec<String> {
    // Others have only parts.
    if kind >= KINDS.len() {
        return Vec::new();
    }
    let mut keys = vec![key(kind, object)];
    if let 1 | 2 = kind {
        let entry = cluster.services.get((kind == 2, &object.namespace, &object.name));
        let slices = entry.map(|entry| entry.slices).unwrap_or_default();
        let slice = |name: &str| key(3, &ObjectName::new(&object.namespace, name));
        keys.extend(slices.iter().map(|kept| slice(&kept.name)));
    }
    keys
}

/// Puts all objects that were written into an empty cluster. Those that cannot be read are left
/// out.
pub(crate) fn fill(cluster: &mut Cluster, written: Vec<(String, Vec<u8>)>) {
    for (key, value) in written {
        if let Ok(shared) = read(&key, Some(&value)) {
            put(cluster, shared);
        }
    }
}

/// An object came, changed, or went; the records that change.
pub(crate) fn put(cluster: &mut Cluster, shared: Shared) -> Vec<RecordChange> {
    match shared {
        Shared::Namespace(object, kept) => cluster.put_namespace(&object.name, kept.is_some()),
        Shared::Service(object, kept) => {
            let (service, check) = kept.unzip();
            cluster.put_checked_service((false, object), service, check.flatten().as_deref())
        }
        Shared::Import(object, kept) => cluster.put_service((true, object), kept),
        Shared::Slice(object, kept) => cluster.put_kept_slice(object, kept),
        Shared::Pod(object, kept) => cluster.put_pod(object, kept),
    }
}

/// The keys of all objects.
pub(crate) fn keys(cluster: &Cluster) -> impl Iterator<Item = String> {
    let namespaces = cluster.namespace_names().map(|name| key(0, &ObjectName::new("", name)));
    let services = cluster.service_names(false).map(|object| key(1, &object));
    let imports = cluster.service_names(true).map(|object| key(2, &object));
    let slices = cluster.slice_names().map(|object| key(3, &object));
    let pods = cluster.pod_names().map(|object| key(4, object));
    let parts = cluster
        .part_names()
        .map(|PartName { kind, object }| object_key(kind.word(), &object.namespace, &object.name));
    let heartbeat = (cluster.parts.heartbeat != 0).then(heartbeat_key);
    namespaces
        .chain(services)
        .chain(imports)
        .chain(slices)
        .chain(pods)
        .chain(parts)
        .chain(heartbeat)
}

/// The key by which the server that writes says that it is there.
pub(crate) fn heartbeat_key() -> String {
    PartKey::heartbeat("").object_key()
}

/// The kind and the name of an object; `None`: it is not the key of one.
fn read_key(key: &str) -> Option<(usize, ObjectName)> {
    let (kind, rest) = key.split_once('/')?;
    let kind = KINDS.iter().position(|known| *known == kind)?;
    let (namespace, name) = match kind {
        0 => ("", rest),
        _ => rest.split_once('/')?,
    };
    let is_whole = !name.is_empty() && !name.contains('/') && (kind == 0) == namespace.is_empty();
    is_whole.then(|| (kind, ObjectName::new(namespace, name)))
}

/// The value of a key; `None`: there is no such object.
///
/// # Panics
/// Never: what is known of an object is JSON.
pub(crate) fn value(cluster: &Cluster, key: &str) -> Option<Vec<u8>> {
    if key == heartbeat_key() {
        let created = Some(cluster.parts.heartbeat).filter(|at| *at != 0)?;
        return Some(Part { created, ..Part::default() }.write());
    }
    if let Some((kind, namespace, name)) = read_object_key(key) {
        let object = ObjectName::new(namespace, name);
        let part = cluster.part(&PartName { kind: PartKind::of_word(kind)?, object })?;
        return Some(part.write());
    }
    let (kind, object) = read_key(key)?;
    let ObjectName { namespace, name } = &object;
    let service = |is_import| {
        let key = (is_import, &**namespace, &**name);
        let service = cluster.services.get(key)?.service?;
        let check = cluster.checks.named_by(key);
        Some(json(&ServiceValue { format: FORMAT, service, check }))
    };
    match kind {
        0 => cluster.namespaces.contains(name).then(|| json(&NamespaceValue { format: FORMAT })),
        1 => service(false),
        2 => service(true),
        3 => cluster.shared_slice(&object).map(|kept| {
            let KeptSliceOf { service, is_import, ready, slice, terminating, hints } = kept;
            let format = FORMAT;
            json(&SliceValue { format, service, is_import, ready, slice, terminating, hints })
        }),
        _ => {
            let addresses = cluster.pods.get(&object)?.clone();
            Some(json(&PodValue { format: FORMAT, addresses }))
        }
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("an object is JSON")
}

/// Reads a key and its value.
///
/// # Errors
/// Their fault.
pub(crate) fn read(key: &str, value: Option<&[u8]>) -> Result<Shared, String> {
    let (kind, object) = read_key(key).ok_or("it is not the key of an object")?;
    Ok(match kind {
        0 => Shared::Namespace(object, parsed::<NamespaceValue>(value)?.map(|_| ())),
        1 => {
            let found = parsed::<ServiceValue>(value)?;
            Shared::Service(object, found.map(|found| (found.service, found.check)))
        }
        2 => Shared::Import(object, parsed::<ServiceValue>(value)?.map(|found| found.service)),
        3 => {
            let kept = parsed::<SliceValue>(value)?.map(|found| {
                let SliceValue { service, is_import, ready, slice, terminating, hints, .. } = found;
                KeptSliceOf { service, is_import, ready, slice, terminating, hints }
            });
            Shared::Slice(object, kept)
        }
        _ => Shared::Pod(object, parsed::<PodValue>(value)?.map(|found| found.addresses)),
    })
}

fn parsed<T: DeserializeOwned>(value: Option<&[u8]>) -> Result<Option<T>, String> {
    let Some(value) = value else { return Ok(None) };
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }
    let wrong = |why: serde_json::Error| format!("its value is wrong: {why}");
    match serde_json::from_slice::<Format>(value).map_err(wrong)?.format {
        FORMAT => serde_json::from_slice(value).map(Some).map_err(wrong),
        format => Err(format!("a newer version wrote it, in format {format}")),
    }
}

#[cfg(test)]
mod tests;

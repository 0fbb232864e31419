//! The last state of a cluster on disk (invariant I10), for a start without the API server, in the
//! form of [`durable`]: for each object its length (4 bytes, little-endian) and its bytes.
use crate::cluster::{Cluster, Entry, ObjectName};
use crate::limits::SAVED_OBJECT_LEN_MAX;
use crate::objects::Hints;
use crate::packed::KeyRef;
use durable::{FileForm, OldForm, OldSum};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Take, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The file in `[server] data_dir`.
pub const FILE: &str = "kubernetes.state";
/// The longest file that is read.
const LEN_MAX: u64 = 4 << 30;

/// The form of the file. Older versions wrote 2, or 3 with checks.
fn form(zones: &[String]) -> FileForm {
    let old = |form| {
        let zones = serde_json::json!(zones);
        let begin = format!("{{\"dunlin_kubernetes_state\":{form},\"zones\":{zones}}}\n").into();
        OldForm { begin, sum: OldSum::Number }
    };
    let (owner, old) = (zones.join(" "), vec![old(2), old(3)]);
    FileForm { what: "Kubernetes objects", owner, form: 4, len_max: LEN_MAX, old }
}

/// An object.
#[derive(Deserialize, Serialize)]
enum Object<'o> {
    Namespace(&'o str),
    /// A service with its slices.
    Service(#[serde(borrow)] KeyRef<'o>, Entry),
    /// Its namespace, its name, its addresses.
    Pod(&'o str, &'o str, Box<[IpAddr]>),
    /// A service, after it was written, and the check that it names.
    Check(#[serde(borrow)] KeyRef<'o>, &'o str),
    /// The hints of a slice, by its name.
    Hints(#[serde(borrow)] KeyRef<'o>, Hints),
}

/// Saves the state of a cluster. The old file stays until the new one is complete and durable.
///
/// # Errors
/// What failed, and where.
pub fn save(folder: &Path, zones: &[String], cluster: &Cluster) -> Result<(), String> {
    let path = path(folder);
    let saved = form(zones).replace(&path, 0o640, |out| write(out, cluster));
    saved.map_err(|error| format!("{} cannot be saved: {error}", path.display()))
}

/// The path of the file.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

fn write(out: &mut dyn Write, cluster: &Cluster) -> io::Result<()> {
    let mut object = |object: &Object<'_>| {
        let bytes = postcard::to_stdvec(object).map_err(io::Error::other)?;
        let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        out.write_all(&len.to_le_bytes())?;
        out.write_all(&bytes)
    };
    for namespace in &cluster.namespaces {
        object(&Object::Namespace(namespace))?;
    }
    for (key, entry) in cluster.services.iter() {
        object(&Object::Service(key, entry))?;
    }
    for (key, check) in cluster.checks.named() {
        object(&Object::Check(key, &check))?;
    }
    for (key, hints) in cluster.checks.hints.iter() {
        object(&Object::Hints(key, hints))?;
    }
    for (pod, ips) in &cluster.pods {
        object(&Object::Pod(&pod.namespace, &pod.name, ips.clone()))?;
    }
    Ok(())
}

/// Reads a saved state into a cluster without objects. `false`: there is none.
///
/// # Errors
/// The file cannot be read, or is not whole; the cluster stays without objects then.
pub fn load(folder: &Path, zones: &[String], cluster: &mut Cluster) -> Result<bool, String> {
    let path = path(folder);
    let content = form(zones).open(&path).map_err(|fault| format!("{fault}: it is not used"))?;
    let Some(content) = content else { return Ok(false) };
    let mut loaded = cluster.clone();
    read(content, &mut loaded)
        .map_err(|why| format!("{}: {why}: it is not used", path.display()))?;
    *cluster = loaded;
    Ok(true)
}

fn read(mut from: Take<impl BufRead>, cluster: &mut Cluster) -> io::Result<()> {
    let mut bytes = Vec::new();
    while from.limit() > 0 {
        let mut len = [0; 4];
        from.read_exact(&mut len)?;
        match u32::from_le_bytes(len) as usize {
            // An older version wrote the number of objects behind this.
            0 => break,
            len if len > SAVED_OBJECT_LEN_MAX => {
                return Err(io::Error::other(format!("has an object of {len} bytes")));
            }
            len => bytes.resize(len, 0),
        }
        from.read_exact(&mut bytes)?;
        take(cluster, postcard::from_bytes(&bytes).map_err(io::Error::other)?);
    }
    Ok(())
}

fn take(cluster: &mut Cluster, object: Object<'_>) {
    match object {
        Object::Namespace(name) => drop(cluster.put_namespace(name, true)),
        Object::Service(key, entry) => cluster.put_entry(key, &entry),
        Object::Check(key, check) => {
            let kind = cluster.services.get(key).and_then(|of| of.service).map(|of| of.kind);
            cluster.checks.name(key, Some(check), kind.as_ref());
        }
        Object::Hints(key, hints) => cluster.checks.hints.set(key, Some(&hints)),
        Object::Pod(namespace, name, ips) => {
            drop(cluster.put_pod(ObjectName::new(namespace, name), Some(ips)));
        }
    }
}

#[cfg(test)]
mod tests;

//! The last state of a cluster on disk (invariant I10), for a start without the API server.
//!
//! ```text
//! file   a line of JSON: what this is and which zones it is of; blocks; a block without bytes; how
//!        many blocks there were (8, little-endian); a checksum of all before it (8)
//! block  bytes that follow (4, little-endian), an object
//! ```
//! A file that is cut off, damaged or of other zones is refused (I12).
use crate::cluster::{Cluster, Entry, ObjectName};
use crate::limits::SAVED_OBJECT_LEN_MAX;
use crate::packed::KeyRef;
use durable::files::Folder;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The file in `[server] data_dir`.
pub const FILE: &str = "kubernetes.state";
/// The number of the format.
const FORMAT: u32 = 3;
/// The format without checks. It is written if there are none, for older versions.
const FORMAT_WITHOUT_CHECKS: u32 = 2;
/// The longest file that is read.
const LEN_MAX: u64 = 4 << 30;

/// The first line.
#[derive(PartialEq, Deserialize, Serialize)]
struct Head {
    dunlin_kubernetes_state: u32,
    zones: Vec<String>,
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
}

/// Writes blocks and their checksum.
struct BlockWriter<W> {
    out: W,
    sum: SipHasher13,
    blocks: u64,
}

impl<W: Write> BlockWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.write(bytes);
        self.out.write_all(bytes)
    }

    fn object(&mut self, object: &Object<'_>) -> io::Result<()> {
        let bytes = postcard::to_stdvec(object).map_err(io::Error::other)?;
        let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        self.blocks += 1;
        self.write(&len.to_le_bytes())?;
        self.write(&bytes)
    }
}

/// Saves the state of a cluster. The old file stays until the new one is complete and durable.
///
/// # Errors
/// What failed, and where.
pub fn save(folder: &Path, zones: &[String], cluster: &Cluster) -> Result<(), String> {
    let told = |error: io::Error| format!("{} cannot be saved: {error}", path(folder).display());
    let saved = Folder::create(folder).and_then(|folder| {
        folder.replace(Path::new(FILE), 0o640, |file| write(file, zones, cluster))
    });
    saved.map_err(told)
}

/// The path of the file.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

fn write(file: &mut File, zones: &[String], cluster: &Cluster) -> io::Result<()> {
    let mut out = BlockWriter { out: BufWriter::new(file), sum: SipHasher13::new(), blocks: 0 };
    let format = if cluster.checks.is_empty() { FORMAT_WITHOUT_CHECKS } else { FORMAT };
    let head = Head { dunlin_kubernetes_state: format, zones: zones.to_vec() };
    let mut head = serde_json::to_vec(&head)?;
    head.push(b'\n');
    out.write(&head)?;
    for namespace in &cluster.namespaces {
        out.object(&Object::Namespace(namespace))?;
    }
    for (key, entry) in cluster.services.iter() {
        out.object(&Object::Service(key, entry))?;
    }
    for (key, check) in cluster.checks.named() {
        out.object(&Object::Check(key, &check))?;
    }
    for (object, ips) in &cluster.pods {
        out.object(&Object::Pod(&object.namespace, &object.name, ips.clone()))?;
    }
    out.write(&0u32.to_le_bytes())?;
    out.write(&out.blocks.to_le_bytes())?;
    let checksum = out.sum.finish();
    out.write(&checksum.to_le_bytes())?;
    out.out.flush()
}

/// Reads a saved state into a cluster without objects. `false`: there is none.
///
/// # Errors
/// The file cannot be read, or is not whole; the cluster stays without objects then.
pub fn load(folder: &Path, zones: &[String], cluster: &mut Cluster) -> Result<bool, String> {
    let place = path(folder);
    let told = |why: &dyn std::fmt::Display| format!("{}: {why}", place.display());
    let file = match Folder::open(folder).and_then(|folder| folder.read(Path::new(FILE))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(told(&error)),
        Ok(file) => file,
    };
    let mut loaded = cluster.clone();
    read(file, zones, &mut loaded).map_err(|why| told(&why))?;
    *cluster = loaded;
    Ok(true)
}

fn not_whole() -> String {
    "is cut off or damaged: it is not used".into()
}

/// Reads bytes and their checksum.
struct BlockReader<R> {
    from: R,
    sum: SipHasher13,
}

impl<R: Read> BlockReader<R> {
    /// So many bytes; memory grows only with what is there.
    fn read(&mut self, into: &mut Vec<u8>, len: usize) -> Result<(), String> {
        into.clear();
        let read = self.from.by_ref().take(len as u64).read_to_end(into);
        match read.map_err(|error| error.to_string())? == len {
            true => self.sum.write(into),
            false => return Err(not_whole()),
        }
        Ok(())
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = Vec::with_capacity(N);
        self.read(&mut bytes, N)?;
        <[u8; N]>::try_from(bytes).map_err(|_| not_whole())
    }
}

fn read(file: File, zones: &[String], cluster: &mut Cluster) -> Result<(), String> {
    let mut from = BufReader::new(file.take(LEN_MAX));
    let mut block = Vec::new();
    from.by_ref()
        .take(SAVED_OBJECT_LEN_MAX as u64)
        .read_until(b'\n', &mut block)
        .map_err(|error| error.to_string())?;
    let head: Head = serde_json::from_slice(&block)
        .map_err(|_| "is not a saved state of Kubernetes: move it elsewhere".to_owned())?;
    let is_known = [FORMAT, FORMAT_WITHOUT_CHECKS].contains(&head.dunlin_kubernetes_state);
    if !is_known || head.zones != zones {
        return Err("is of another version or of other zones: it is not used".into());
    }
    let mut reader = BlockReader { from, sum: SipHasher13::new() };
    reader.sum.write(&block);
    let mut blocks = 0;
    loop {
        let len = u32::from_le_bytes(reader.number()?) as usize;
        match len {
            0 => break,
            len if len > SAVED_OBJECT_LEN_MAX => return Err(not_whole()),
            len => reader.read(&mut block, len)?,
        }
        blocks += 1;
        take(cluster, postcard::from_bytes(&block).map_err(|_| not_whole())?);
    }
    let counted = u64::from_le_bytes(reader.number()?);
    let checksum = reader.sum.finish();
    let is_whole = counted == blocks && reader.number()? == checksum.to_le_bytes();
    let rest = reader.from.read(&mut [0]).map_err(|error| error.to_string())?;
    if is_whole && rest == 0 { Ok(()) } else { Err(not_whole()) }
}

fn take(cluster: &mut Cluster, object: Object<'_>) {
    match object {
        Object::Namespace(name) => drop(cluster.put_namespace(name, true)),
        Object::Service(key, entry) => cluster.put_entry(key, &entry),
        Object::Check(key, check) => {
            let kind = cluster.services.get(key).and_then(|of| of.service).map(|of| of.kind);
            cluster.checks.name(key, Some(check), kind.as_ref());
        }
        Object::Pod(namespace, name, ips) => {
            drop(cluster.put_pod(ObjectName::new(namespace, name), Some(ips)));
        }
    }
}

#[cfg(test)]
mod tests;

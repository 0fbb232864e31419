//! The last state of a cluster on disk (invariant I10), for a start without the API server.
//!
//! A file of lines, each a JSON value. The first says what it is and which zones it is of, the last
//! is a checksum. A file that is cut off, damaged or of other zones is refused (I12).
use crate::cluster::{Cluster, KeptSlice, ObjectName};
use crate::objects::{Service, Slice, SliceOf};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use zone_manager::files::Folder;

/// The file in `[server] data_dir`.
pub const FILE: &str = "kubernetes.state";
const TEMPORARY: &str = "kubernetes.state.new";
/// The number of the format.
const FORMAT: u32 = 1;
/// The longest file that is read.
const LEN_MAX: u64 = 4 << 30;

/// The first line.
#[derive(PartialEq, Deserialize, Serialize)]
struct Head {
    dunlin_kubernetes_state: u32,
    zones: Vec<String>,
}

/// The last line.
#[derive(PartialEq, Deserialize, Serialize)]
struct Tail {
    lines: u64,
    checksum: String,
}

/// An object.
#[derive(Deserialize, Serialize)]
enum Line {
    Namespace(Box<str>),
    Service(bool, Box<str>, Box<str>, Service),
    /// Namespace, name, service, whether that is imported, and the slice.
    Slice(Box<str>, Box<str>, Box<str>, bool, Slice),
    /// A slice whose endpoints are only counted.
    Count(Box<str>, Box<str>, Box<str>, bool, u32),
    Pod(Box<str>, Box<str>, Box<[IpAddr]>),
}

/// Writes lines and their checksum.
struct LineWriter<W> {
    out: W,
    sum: SipHasher13,
    lines: u64,
}

impl<W: Write> LineWriter<W> {
    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.sum.write(&bytes);
        self.lines += 1;
        self.out.write_all(&bytes)
    }
}

/// Saves the state of a cluster. The old file stays until the new one is complete and durable.
///
/// # Errors
/// What failed, and where.
pub fn save(folder: &Path, zones: &[String], cluster: &Cluster) -> Result<(), String> {
    let told = |error: io::Error| format!("{} cannot be saved: {error}", path(folder).display());
    let write_all = || {
        let folder = Folder::create(folder)?;
        match folder.remove(Path::new(TEMPORARY)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = folder.create_new(Path::new(TEMPORARY), 0o640)?;
        let file = write(file, zones, cluster)?;
        file.sync_all()?;
        folder.rename(Path::new(TEMPORARY), Path::new(FILE))?;
        folder.sync()
    };
    write_all().map_err(told)
}

/// The path of the file.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

fn write(file: File, zones: &[String], cluster: &Cluster) -> io::Result<File> {
    let mut out = LineWriter { out: BufWriter::new(file), sum: SipHasher13::new(), lines: 0 };
    out.write(&Head { dunlin_kubernetes_state: FORMAT, zones: zones.to_vec() })?;
    for namespace in &cluster.namespaces {
        out.write(&Line::Namespace(namespace.clone()))?;
    }
    // Services first: whether the endpoints of a slice are needed depends on its service.
    for ((is_import, object), entry) in &cluster.services {
        if let Some(service) = &entry.service {
            let ObjectName { namespace, name } = object.clone();
            out.write(&Line::Service(*is_import, namespace, name, service.clone()))?;
        }
    }
    for ((is_import, object), entry) in &cluster.services {
        let ObjectName { namespace, name } = object;
        for KeptSlice { name: slice_name, ready, slice } in &entry.slices {
            let head = (namespace.clone(), slice_name.clone(), name.clone(), *is_import);
            let (a, b, c, d) = head;
            out.write(&match slice {
                Some(slice) => Line::Slice(a, b, c, d, slice.clone()),
                None => Line::Count(a, b, c, d, *ready),
            })?;
        }
    }
    for (object, ips) in &cluster.pods {
        let ObjectName { namespace, name } = object.clone();
        out.write(&Line::Pod(namespace, name, ips.clone()))?;
    }
    let checksum = format!("{:016x}", out.sum.finish());
    let tail = Tail { lines: out.lines, checksum };
    out.write(&tail)?;
    out.out.into_inner().map_err(io::IntoInnerError::into_error)
}

/// Reads a saved state into a cluster without objects. `false`: there is none.
///
/// # Errors
/// The file cannot be read, or is not whole; the cluster is not to be used then.
pub fn load(folder: &Path, zones: &[String], cluster: &mut Cluster) -> Result<bool, String> {
    let place = path(folder);
    let told = |why: &dyn std::fmt::Display| format!("{}: {why}", place.display());
    let open = || Folder::open(folder).and_then(|folder| folder.read(Path::new(FILE)));
    let file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(told(&error)),
        Ok(file) => file,
    };
    // All of it is verified before any of it is used.
    let lines = verify(&file, zones).map_err(|why| told(&why))?;
    let file = open().map_err(|error| told(&error))?;
    let mut reader = BufReader::new(file.take(LEN_MAX));
    let mut text = Vec::new();
    for number in 0..lines {
        text.clear();
        reader.read_until(b'\n', &mut text).map_err(|error| told(&error))?;
        if number > 0 {
            let line = serde_json::from_slice(&text);
            take(cluster, line.map_err(|error| told(&error))?);
        }
    }
    Ok(true)
}

fn verify(file: &File, zones: &[String]) -> Result<u64, String> {
    let mut reader = BufReader::new(file.take(LEN_MAX));
    let (mut sum, mut lines, mut text) = (SipHasher13::new(), 0, Vec::new());
    let not_whole = || "is cut off or damaged: it is not used".to_owned();
    loop {
        text.clear();
        let read = reader.read_until(b'\n', &mut text).map_err(|error| error.to_string())?;
        if read == 0 || text.last() != Some(&b'\n') {
            return Err(not_whole());
        }
        if lines == 0 {
            let head: Head = serde_json::from_slice(&text)
                .map_err(|_| "is not a saved state of Kubernetes: move it elsewhere".to_owned())?;
            if head.dunlin_kubernetes_state != FORMAT || head.zones != zones {
                return Err("is of another version or of other zones: it is not used".into());
            }
        }
        if text.starts_with(b"{\"lines\"") {
            let tail: Tail = serde_json::from_slice(&text).map_err(|_| not_whole())?;
            let checksum = format!("{:016x}", sum.finish());
            text.clear();
            let rest = reader.read_until(b'\n', &mut text).map_err(|error| error.to_string())?;
            return match rest == 0 && tail == (Tail { lines, checksum }) {
                true => Ok(lines),
                false => Err(not_whole()),
            };
        }
        sum.write(&text);
        lines += 1;
    }
}

fn take(cluster: &mut Cluster, line: Line) {
    match line {
        Line::Namespace(name) => drop(cluster.put_namespace(&name, true)),
        Line::Service(is_import, namespace, name, service) => {
            let key = (is_import, ObjectName { namespace, name });
            drop(cluster.put_service(key, Some(service)));
        }
        Line::Slice(namespace, name, service, is_import, slice) => {
            let of = SliceOf { service, is_import, slice };
            drop(cluster.put_slice(ObjectName { namespace, name }, Some(of)));
        }
        Line::Count(namespace, name, service, is_import, ready) => {
            let service = (is_import, ObjectName::new(&namespace, &service));
            cluster.put_count(ObjectName { namespace, name }, service, ready);
        }
        Line::Pod(namespace, name, ips) => {
            drop(cluster.put_pod(ObjectName { namespace, name }, Some(ips)));
        }
    }
}

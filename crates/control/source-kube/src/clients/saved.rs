//! The clients on disk, for a start without the API server.
use super::ClientSettings;
use super::kinds::{NodeEntry, PodEntry};
use crate::cluster::ObjectName;
use durable::FileForm;
use std::collections::HashMap;
use std::io::{self, Read};
use std::path::Path;

/// The file in `[server] data_dir`.
const FILE: &str = "kubernetes.clients";
/// The longest file that is read.
const LEN_MAX: u64 = 1 << 30;

/// Pods and Nodes by their names.
pub(super) type Saved = (HashMap<ObjectName, PodEntry>, HashMap<ObjectName, NodeEntry>);
/// An object with its namespace and its name.
type Named<T> = ((Box<str>, Box<str>), T);
/// The same as it is written.
type Written = (Vec<Named<PodEntry>>, Vec<Named<NodeEntry>>);

/// The form of the file. One with other labels is of another config.
fn form(settings: &ClientSettings) -> FileForm {
    let labels: Vec<&str> = settings.labels.iter().map(|label| &**label).collect();
    let owner = format!("labels {}", labels.join(" "));
    FileForm { what: "clients of Kubernetes", owner, form: 1, len_max: LEN_MAX, old: Vec::new() }
}

/// Saves clients. The old file stays until the new one is complete and durable.
pub(super) fn save(
    folder: &Path,
    settings: &ClientSettings,
    pods: &HashMap<ObjectName, PodEntry>,
    nodes: &HashMap<ObjectName, NodeEntry>,
) -> Result<(), String> {
    let path = folder.join(FILE);
    let written: Written = (listed(pods), listed(nodes));
    let saved = form(settings).replace(&path, 0o640, |out| {
        let bytes = postcard::to_stdvec(&written).map_err(io::Error::other)?;
        out.write_all(&bytes)
    });
    saved.map_err(|error| format!("{} cannot be saved: {error}", path.display()))
}

/// Reads the saved clients; `None` if there is no file, or one of another config.
///
/// # Errors
/// The file cannot be read, or is not whole.
pub(super) fn load(folder: &Path, settings: &ClientSettings) -> Result<Option<Saved>, String> {
    let path = folder.join(FILE);
    let content = form(settings).open(&path).map_err(|fault| format!("{fault}: it is not used"))?;
    let Some(mut content) = content else { return Ok(None) };
    let mut bytes = Vec::new();
    let read = content.read_to_end(&mut bytes).map_err(|error| error.to_string());
    let written = read
        .and_then(|_| postcard::from_bytes::<Written>(&bytes).map_err(|error| error.to_string()));
    let (pods, nodes) =
        written.map_err(|why| format!("{}: {why}: it is not used", path.display()))?;
    Ok(Some((named(pods), named(nodes))))
}

fn named<T>(all: Vec<Named<T>>) -> HashMap<ObjectName, T> {
    let named = |((namespace, name), kept)| (ObjectName { namespace, name }, kept);
    all.into_iter().map(named).collect()
}

fn listed<T: Clone>(all: &HashMap<ObjectName, T>) -> Vec<Named<T>> {
    let key = |object: &ObjectName| (object.namespace.clone(), object.name.clone());
    all.iter().map(|(object, kept)| (key(object), kept.clone())).collect()
}

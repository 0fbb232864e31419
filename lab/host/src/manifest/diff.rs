//! Differences of two manifests, and their relevance.

use super::Manifest;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its path, such as `devices.eth0.rings.rx`.
    pub path: String,
    /// The one's; none where it has no such value.
    pub a: Option<String>,
    /// The other's.
    pub b: Option<String>,
    /// Whether it makes results incomparable.
    pub matters: bool,
}

/// Values that never affect a result, and the version under test. Its compiler and target CPU are
/// relevant.
const HARMLESS: [&str; 6] =
    ["fingerprint", "identity.", "now.", "software.commit", "software.version", "schema"];

/// Whether results are not comparable if this value differs.
pub(super) fn matters(path: &str) -> bool {
    !HARMLESS.iter().any(|prefix| path.starts_with(prefix))
}

/// Every value of a manifest by its place, in order. A list of plain values is one value, and so is
/// each item of another list.
pub fn leaves(manifest: &Manifest) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    // It has no keys but text.
    let value = serde_json::to_value(manifest).unwrap_or_default();
    collect("", &value, &mut found);
    found
}

fn collect(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| collect(&below(name), value, found));
        }
        Value::Array(items) if items.iter().any(|item| item.is_object()) => {
            for (index, item) in items.iter().enumerate() {
                let mut fields = BTreeMap::new();
                collect("", item, &mut fields);
                let words = fields.into_iter().map(|(name, value)| format!("{name} {value}"));
                found.insert(below(&index.to_string()), words.collect::<Vec<_>>().join(", "));
            }
        }
        Value::Array(items) => {
            let words: Vec<_> = items.iter().map(ToString::to_string).collect();
            found.insert(path.to_owned(), words.join(" "));
        }
        Value::Null => {}
        Value::String(text) => {
            found.insert(path.to_owned(), text.clone());
        }
        plain => {
            found.insert(path.to_owned(), plain.to_string());
        }
    }
}

/// All differences, relevant ones first, in the order of their paths.
pub fn diff(a: &Manifest, b: &Manifest) -> Vec<Difference> {
    let (a, b) = (leaves(a), leaves(b));
    let paths: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differ = paths.into_iter().filter(|path| a.get(*path) != b.get(*path));
    let mut found: Vec<_> = differ
        .map(|path| Difference {
            path: path.clone(),
            a: a.get(path).cloned(),
            b: b.get(path).cloned(),
            matters: matters(path),
        })
        .collect();
    found.sort_by_key(|difference| !difference.matters);
    found
}

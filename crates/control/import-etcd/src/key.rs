//! Keys: names with their labels from the root, below a prefix.
use crate::service::Service;
use crate::{Imported, KeyReport};
use wire::{Name, NameBuf};

/// A key of etcd and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value: JSON.
    pub value: Vec<u8>,
    /// Seconds until the lease of the key ends; `None`: it has none.
    pub lease_seconds: Option<u32>,
}

/// A key of the zone with its service.
#[derive(Clone, Debug)]
pub struct Key {
    /// The key as it is.
    pub text: String,
    /// Its parts below the prefix, the first label of the root first.
    pub parts: Vec<String>,
    pub service: Service,
    /// The TTL of its records.
    pub ttl: u32,
}

/// The keys of a zone, in the order of etcd.
#[derive(Debug)]
pub struct Keys {
    pub keys: Vec<Key>,
    /// The prefix, without slashes around it.
    pub prefix: String,
    /// The labels of the zone.
    pub depth: usize,
}

impl Keys {
    /// Parses keys and values, and reports what cannot be.
    pub fn read<'e>(
        entries: impl IntoIterator<Item = &'e Entry>,
        prefix: &str,
        zone: Name<'_>,
        imported: &mut Imported,
    ) -> Self {
        let mut keys = Vec::new();
        for entry in entries {
            match read(entry, prefix, zone) {
                Ok(Some(key)) => keys.push(key),
                Ok(None) => imported.elsewhere += 1,
                Err(what) => {
                    imported.notes.push(KeyReport { key: entry.key.clone(), what, is_lost: true });
                }
            }
        }
        keys.sort_by(|one, other| one.text.cmp(&other.text));
        Self { keys, prefix: prefix.to_owned(), depth: zone.labels().count() }
    }

    /// The keys at which `CoreDNS` looks for a name: those below its key, or the key itself.
    pub fn below(&self, parts: &[String]) -> Vec<&Key> {
        let own = self.text_of(parts);
        let begin = format!("{own}/");
        let from = self.keys.partition_point(|key| key.text < begin);
        let below = self.keys[from..].iter().take_while(|key| key.text.starts_with(&begin));
        let below: Vec<&Key> = below.collect();
        if below.is_empty() { self.exactly(parts).into_iter().collect() } else { below }
    }

    /// The key of a name itself.
    pub fn exactly(&self, parts: &[String]) -> Option<&Key> {
        let own = self.text_of(parts);
        let at = self.keys.binary_search_by(|key| key.text.as_str().cmp(&own)).ok()?;
        Some(&self.keys[at])
    }

    fn text_of(&self, parts: &[String]) -> String {
        format!("/{}/{}", self.prefix, parts.join("/"))
    }
}

/// The name of parts, the root's label first.
pub fn name_of(parts: &[String]) -> Option<NameBuf> {
    let labels: Vec<&str> = parts.iter().rev().map(String::as_str).collect();
    zonefile::read_name(&labels.join(".")).ok()
}

/// Parses a key; `None`: it is not of this zone.
fn read(entry: &Entry, prefix: &str, zone: Name<'_>) -> Result<Option<Key>, String> {
    let rest = entry.key.strip_prefix('/').and_then(|key| key.strip_prefix(prefix));
    let Some(rest) = rest.and_then(|rest| rest.strip_prefix('/')) else { return Ok(None) };
    let parts: Vec<String> =
        rest.strip_suffix('/').unwrap_or(rest).split('/').map(str::to_owned).collect();
    let labels: Vec<&[u8]> = zone.labels().collect();
    let is_here = parts.len() >= labels.len()
        && labels.iter().rev().zip(&parts).all(|(label, part)| *label == part.as_bytes());
    if !is_here {
        return Ok(None);
    }
    if let Some(part) = parts.iter().find(|part| part.contains('.')) {
        return Err(format!("{part:?} has a dot: no query reaches it as one label"));
    }
    if rest.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("has a capital letter: queries are looked up in lower case".into());
    }
    if name_of(&parts).is_none() {
        return Err("is no name: a label has 1 to 63 bytes, a name 255".into());
    }
    let service: Service = serde_json::from_slice(&entry.value)
        .map_err(|why| format!("the value is not the JSON of a service: {why}"))?;
    let ttl = service.ttl(entry.lease_seconds);
    Ok(Some(Key { text: entry.key.clone(), parts, service, ttl }))
}

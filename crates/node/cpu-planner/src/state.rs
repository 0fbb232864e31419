//! A kubelet's `cpu_manager_state`, versions 1 to 4.
use crate::limits::STATE_BYTES_MAX;
use cpu::CpuList;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Who has which CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The policy that wrote it: `static` or `none`.
    pub policy: String,
    /// CPUs that are shared, the reserved ones among them unless they are strictly reserved.
    pub shared: CpuList,
    /// Exclusive CPUs by pod and container. Version 1 has no pods: they are empty there. CPUs of a
    /// pod as a whole have an empty container.
    pub assignments: BTreeMap<(String, String), CpuList>,
}

/// Why a state cannot be read.
#[derive(Debug)]
pub enum StateError {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// It is cut off, or no state at all.
    Malformed(String),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Self::Malformed(what) => write!(
                f,
                "is not a cpu_manager_state of version 1 to 4: {what}; if it is cut off, drain the \
                 node and delete it"
            ),
        }
    }
}

impl std::error::Error for StateError {}

/// The fields of all versions. Version 4 keeps those of version 3 and has the truth in `data`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    policy_name: Option<String>,
    default_cpu_set: Option<String>,
    #[serde(default)]
    entries: Option<BTreeMap<String, Entry>>,
    #[serde(default)]
    pod_entries: Option<BTreeMap<String, PodEntry>>,
    data: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    /// Version 1: a container's CPUs.
    Container(String),
    /// From version 2 on: those of a pod's containers.
    Pod(BTreeMap<String, String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodEntry {
    cpu_set: String,
}

impl State {
    /// Reads the file of a kubelet.
    ///
    /// # Errors
    /// It cannot be read, or is not a state.
    pub fn load(path: &Path) -> Result<Self, StateError> {
        let mut text = String::new();
        let file = File::open(path).map_err(StateError::Unreadable)?;
        file.take(STATE_BYTES_MAX).read_to_string(&mut text).map_err(StateError::Unreadable)?;
        Self::parse(&text)
    }

    /// Reads the text of a state. Checksums are not verified: they are of Go's own text form.
    ///
    /// # Errors
    /// It is not a state.
    pub fn parse(text: &str) -> Result<Self, StateError> {
        let malformed = |error: serde_json::Error| StateError::Malformed(error.to_string());
        let mut fields: Fields = serde_json::from_str(text).map_err(malformed)?;
        if let Some(data) = &fields.data {
            fields = serde_json::from_str(data).map_err(malformed)?;
        }
        let missing = |what: &str| StateError::Malformed(format!("it has no {what}"));
        let policy = fields.policy_name.ok_or_else(|| missing("policyName"))?;
        let shared = list(&fields.default_cpu_set.ok_or_else(|| missing("defaultCpuSet"))?)?;
        let mut assignments = BTreeMap::new();
        for (key, entry) in fields.entries.unwrap_or_default() {
            match entry {
                Entry::Container(cpus) => {
                    assignments.insert((String::new(), key), list(&cpus)?);
                }
                Entry::Pod(containers) => {
                    for (container, cpus) in containers {
                        assignments.insert((key.clone(), container), list(&cpus)?);
                    }
                }
            }
        }
        for (pod, entry) in fields.pod_entries.unwrap_or_default() {
            assignments.insert((pod, String::new()), list(&entry.cpu_set)?);
        }
        Ok(Self { policy, shared, assignments })
    }

    /// CPUs that someone has exclusively.
    pub fn exclusive(&self) -> CpuList {
        self.assignments.values().fold(CpuList::default(), |all, cpus| all.union(cpus))
    }
}

fn list(text: &str) -> Result<CpuList, StateError> {
    let malformed = |error| StateError::Malformed(format!("{text:?}: {error}"));
    CpuList::from_kernel(text).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all versions have in common, before and after the entries.
    fn version(shared: &str, entries: &str) -> String {
        let policy = r#""policyName":"static""#;
        format!(r#"{{{policy},"defaultCpuSet":"{shared}","entries":{entries},"checksum":0}}"#)
    }

    const CONTAINERS: &str = r#"{"p":{"c":"1-2"}}"#;

    #[test]
    fn every_version_is_read() {
        let pods = format!(r#"{CONTAINERS},"podEntries":{{"q":{{"cpuSet":"3"}}}}"#);
        let third = version("0,4-7", &pods);
        let inner = serde_json::to_string(&third).expect("a string");
        let texts = [
            (version("0,3-7", r#"{"c":"1-2"}"#), "0,3-7", "1-2"),
            (version("0,3-7", CONTAINERS), "0,3-7", "1-2"),
            (third, "0,4-7", "1-3"),
            (
                format!(r#"{{"policyName":"none","defaultCpuSet":"9","data":{inner}}}"#),
                "0,4-7",
                "1-3",
            ),
            (format!(r#"{{"data":{inner},"dataChecksum":7}}"#), "0,4-7", "1-3"),
        ];
        for (text, shared, exclusive) in texts {
            let state = State::parse(&text).expect(&text);
            assert_eq!(state.policy, "static", "{text}");
            assert_eq!(state.shared.to_string(), shared, "{text}");
            assert_eq!(state.exclusive().to_string(), exclusive, "{text}");
        }
        let empty = r#"{"policyName":"none","defaultCpuSet":"","checksum":1}"#;
        assert!(State::parse(empty).expect("a state").assignments.is_empty());
    }

    #[test]
    fn truncated_input_is_an_error_with_advice() {
        let whole = version("0,3-7", CONTAINERS);
        for length in 0..whole.len() {
            let error = State::parse(&whole[..length]).expect_err("cut off").to_string();
            assert!(error.contains("delete it"), "{error}");
        }
        assert!(State::parse(r#"{"policyName":"static","defaultCpuSet":"7-3"}"#).is_err());
        assert!(State::parse("{}").is_err());
    }
}

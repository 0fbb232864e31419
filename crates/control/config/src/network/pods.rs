//! `namespaces` and `pod_labels` of `[[network]]`: Pods as clients.
use crate::limits::{NETWORK_NAMESPACES_MAX, NETWORK_POD_LABELS_MAX, TEXT_LEN_MAX};
use crate::section::Section;
use crate::values::{self, Wrong};
use toml::de::DeValue;

/// Which Pods belong to a network. Without namespaces and labels there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSelector {
    /// Names of namespaces; `*` at the end of one stands for any letters.
    pub namespaces: Vec<String>,
    /// Labels that a Pod has with these values.
    pub labels: Vec<(String, String)>,
}

impl PodSelector {
    /// Reads both keys. `has_cluster`: a cluster is watched.
    pub(super) fn read(section: &mut Section<'_, '_>, has_cluster: bool) -> Self {
        let namespaces = section.list("namespaces", Vec::new(), NETWORK_NAMESPACES_MAX, namespace);
        let labels = section.list("pod_labels", Vec::new(), NETWORK_POD_LABELS_MAX, label);
        for key in ["namespaces", "pod_labels"].into_iter().filter(|_| !has_cluster) {
            section.wrong(key, "needs a cluster", "name its zones: [kubernetes] zones = [\"…\"]");
        }
        Self { namespaces, labels }
    }

    /// Whether no Pod belongs to the network.
    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.labels.is_empty()
    }

    /// Whether a Pod of this namespace with these labels belongs to the network.
    pub fn selects(&self, namespace: &str, labels: &[(Box<str>, Box<str>)]) -> bool {
        let is_of = |pattern: &String| match pattern.strip_suffix('*') {
            Some(begin) => namespace.starts_with(begin),
            None => namespace == pattern,
        };
        let has = |(name, value): &(String, String)| {
            labels.iter().any(|(known, of)| **known == **name && **of == **value)
        };
        let is_named = self.namespaces.is_empty() || self.namespaces.iter().any(is_of);
        !self.is_empty() && is_named && self.labels.iter().all(has)
    }
}

/// The name of a namespace, or the begin of some and `*`.
fn namespace(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = values::text(TEXT_LEN_MAX)(value)?;
    let name = text.strip_suffix('*').unwrap_or(&text);
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match !text.is_empty() && name.bytes().all(is_plain) {
        true => Ok(text),
        false => Err(Wrong {
            message: format!("{:?} is not the name of a namespace", values::shorten(&text)),
            help: Some("write a name, or the begin of names and `*`: \"pci-*\"".into()),
        }),
    }
}

/// `NAME=VALUE`.
fn label(value: &DeValue<'_>) -> Result<(String, String), Wrong> {
    let text = values::text(TEXT_LEN_MAX)(value)?;
    let is_part =
        |part: &str| part.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_./".contains(&c));
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && is_part(name) && is_part(value) => {
            Ok((name.into(), value.into()))
        }
        _ => Err(Wrong {
            message: format!("{:?} is not a label and its value", values::shorten(&text)),
            help: Some("write both, such as \"tier=payment\"".into()),
        }),
    }
}

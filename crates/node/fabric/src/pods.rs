//! Which Pods of this node the switch may move packets of: those with its label that no network
//! policy selects, as long as that is known for sure.
use crate::Container;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

mod follow;

pub(crate) use follow::Access;

/// The label by which a Pod opts in, and its value.
const LABEL: (&str, &str) = ("dunlin.io/switch", "true");

/// Groups of the API whose policies are not followed: what they allow is not known.
const FOREIGN: [&str; 6] = [
    "cilium.io",
    "crd.antrea.io",
    "crd.projectcalico.org",
    "k8s.ovn.org",
    "policy.networking.k8s.io",
    "projectcalico.org",
];

/// What the API server says of any object.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default, rename = "resourceVersion")]
    version: String,
}

/// A Pod, or a network policy; only what counts is read.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Spec {
    /// That of a network policy. Empty: all Pods of its namespace.
    #[serde(default, rename = "podSelector")]
    selector: Selector,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Selector {
    #[serde(default, rename = "matchLabels")]
    labels: BTreeMap<String, String>,
    #[serde(default, rename = "matchExpressions")]
    expressions: Vec<Expression>,
}

#[derive(Clone, Debug, Deserialize)]
struct Expression {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

impl Selector {
    fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
        let is_so = |one: &Expression| {
            let value = labels.get(&one.key);
            match one.operator.as_str() {
                "In" => value.is_some_and(|value| one.values.contains(value)),
                "NotIn" => value.is_none_or(|value| !one.values.contains(value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                // One of a later version: it may select the Pod.
                _ => true,
            }
        };
        self.labels.iter().all(has) && self.expressions.iter().all(is_so)
    }
}

/// A kind of object that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Pods,
    Policies,
}

/// What is known of Pods and policies.
#[derive(Debug, Default)]
struct Table {
    objects: HashMap<Kind, BTreeMap<(String, String), Object>>,
    /// Kinds of which all is known, and each change is received.
    current: Vec<Kind>,
}

/// Which Pods opt in, followed by threads of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodRules(Arc<Mutex<Table>>);

impl PodRules {
    /// The Pods that the switch may move packets of, by their uid; none while that is not sure.
    pub fn permitted(&self) -> BTreeSet<String> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ![Kind::Pods, Kind::Policies].iter().all(|kind| table.current.contains(kind)) {
            return BTreeSet::new();
        }
        let of = |kind| table.objects.get(&kind).into_iter().flat_map(BTreeMap::values);
        let is_free = |pod: &&Object| {
            let Metadata { namespace, labels, .. } = &pod.metadata;
            let is_selected = of(Kind::Policies).any(|policy| {
                policy.metadata.namespace == *namespace && policy.spec.selector.selects(labels)
            });
            labels.get(LABEL.0).is_some_and(|value| value == LABEL.1) && !is_selected
        };
        of(Kind::Pods).filter(is_free).map(|pod| pod.metadata.uid.clone()).collect()
    }

    /// Marks the containers that may be switched.
    pub fn mark(&self, containers: &mut [Container]) {
        let permitted = self.permitted();
        for one in containers {
            one.is_permitted = one.pod.as_ref().is_some_and(|uid| permitted.contains(uid));
        }
    }

    fn change(&self, act: impl FnOnce(&mut Table)) {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Nothing is sure of a kind until it is listed again.
    fn forget(&self, kind: Kind) {
        self.change(|table| table.current.retain(|one| *one != kind));
    }

    /// All objects of a kind.
    fn replace(&self, kind: Kind, all: Vec<Object>) {
        let key = |one: &Object| (one.metadata.namespace.clone(), one.metadata.name.clone());
        let all = all.into_iter().map(|one| (key(&one), one)).collect();
        self.change(|table| {
            table.objects.insert(kind, all);
            table.current.retain(|one| *one != kind);
            table.current.push(kind);
        });
    }

    fn put(&self, kind: Kind, object: Object) {
        let key = (object.metadata.namespace.clone(), object.metadata.name.clone());
        self.change(|table| drop(table.objects.entry(kind).or_default().insert(key, object)));
    }

    fn remove(&self, kind: Kind, object: &Object) {
        let key = (object.metadata.namespace.clone(), object.metadata.name.clone());
        self.change(|table| drop(table.objects.entry(kind).or_default().remove(&key)));
    }
}

#[cfg(test)]
mod tests;

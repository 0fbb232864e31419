//! Kinds of objects that a cluster has only if they are defined.
use crate::Cluster;
use serde_json::{Value, json};
use test_support::wait;

impl Cluster {
    /// Defines a kind of objects in namespaces, whose fields are any, with a status of its own. The
    /// first version is stored.
    ///
    /// # Panics
    /// The API server refuses it.
    pub fn define(&self, group: &str, kind: &str, plural: &str, versions: &[&str]) {
        let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        self.define_as(group, kind, plural, versions, any);
    }

    /// The same with this schema.
    ///
    /// # Panics
    /// The API server refuses it.
    pub fn define_as(
        &self,
        group: &str,
        kind: &str,
        plural: &str,
        versions: &[&str],
        schema: Value,
    ) {
        let version = |(at, name): (usize, &&str)| {
            json!({ "name": name, "served": true, "storage": at == 0,
                    "subresources": { "status": {} },
                    "schema": { "openAPIV3Schema": schema } })
        };
        let versions: Vec<Value> = versions.iter().enumerate().map(version).collect();
        let first = versions[0]["name"].as_str().unwrap_or_default().to_owned();
        let note = "unapproved, for a test";
        self.create(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}"),
                          "annotations": { "api-approved.kubernetes.io": note } },
            "spec": { "group": group, "scope": "Namespaced", "versions": versions,
                "names": { "plural": plural, "singular": kind.to_ascii_lowercase(),
                           "kind": kind, "listKind": format!("{kind}List") } } }));
        let path = format!("/apis/{group}/{first}/{plural}");
        wait::until_ok(&format!("{kind} is served"), || self.get(&path));
    }
}

//! What all parts of a running scaler use.
use super::api::Api;
use super::messages::Messages;
use super::nodes::NodeTable;
use super::rights::{Feature, Rights};
use jiff::Timestamp;
use scale_rules::target::{Target, TargetKind};
use serde_json::json;
use std::time::{Duration, Instant};

/// The cluster, and what may be done in it.
pub struct Context {
    pub api: Api,
    pub namespace: String,
    pub nodes: NodeTable,
    pub rights: Rights,
    pub messages: Messages,
    pub is_dry: bool,
    pub period: Duration,
    pub begun: Instant,
}

impl Context {
    /// The monotonic clock, in seconds.
    pub fn now_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    pub fn tell(&self, text: &str) {
        self.messages.tell(text);
    }

    pub fn tell_new(&self, text: &str) -> bool {
        self.messages.tell_new(text)
    }

    /// The path of a target.
    pub fn path(&self, target: &Target) -> String {
        let (group, plural) = match target.kind {
            TargetKind::Deployment => ("/apis/apps/v1", "deployments"),
            TargetKind::ReplicaSet => ("/apis/apps/v1", "replicasets"),
            TargetKind::StatefulSet => ("/apis/apps/v1", "statefulsets"),
            TargetKind::ReplicationController => ("/api/v1", "replicationcontrollers"),
        };
        format!("{group}/namespaces/{}/{plural}/{}", self.namespace, target.name)
    }

    /// Writes an Event of a target. Failures are messages: no decision depends on Events.
    pub async fn event(
        &self,
        target: &Target,
        uid: &str,
        is_warning: bool,
        reason: &str,
        text: &str,
    ) {
        if self.is_dry || !self.rights.allow(Feature::Events) {
            return;
        }
        let (version, kind) = match target.kind {
            TargetKind::Deployment => ("apps/v1", "Deployment"),
            TargetKind::ReplicaSet => ("apps/v1", "ReplicaSet"),
            TargetKind::StatefulSet => ("apps/v1", "StatefulSet"),
            TargetKind::ReplicationController => ("v1", "ReplicationController"),
        };
        let now = Timestamp::now();
        let text: String = text.chars().take(1_000).collect();
        let object = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{}.{:x}", target.name, now.as_nanosecond()),
                "namespace": self.namespace,
            },
            "involvedObject": {
                "apiVersion": version,
                "kind": kind,
                "name": target.name,
                "namespace": self.namespace,
                "uid": uid,
            },
            "type": if is_warning { "Warning" } else { "Normal" },
            "reason": reason,
            "message": text,
            "count": 1,
            "source": {"component": "dunlin-scale"},
            "firstTimestamp": seconds(now),
            "lastTimestamp": seconds(now),
        });
        let path = format!("/api/v1/namespaces/{}/events", self.namespace);
        let sent = self.api.post(&path, &object).await;
        if let Err(error) = self.rights.judge(Feature::Events, sent, |text| self.tell(text)) {
            self.tell(&format!("an Event cannot be written: {error}"));
        }
    }
}

/// A time as Kubernetes writes it.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

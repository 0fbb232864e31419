//! The context that all parts of a running scaler use.
use super::nodes::NodeTable;
use super::rights::Feature;
use jiff::Timestamp;
use kube_api::{Api, Event, Messages, Rights, Subject};
use scale_rules::target::{Target, TargetKind};
use std::time::{Duration, Instant};

/// The cluster, and what may be done in it.
pub struct Context {
    pub api: Api,
    pub namespace: String,
    pub nodes: NodeTable,
    pub rights: Rights<Feature>,
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

    /// Says what was done, also if it was done before.
    pub fn announce(&self, text: &str) {
        self.messages.announce(text);
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
        reason: &'static str,
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
        let (namespace, name) = (self.namespace.clone(), target.name.clone());
        let event = Event {
            subject: Subject { version, kind, namespace, name, uid: uid.to_owned() },
            is_warning,
            reason,
            text: text.to_owned(),
            component: "dunlin-scale",
            node: String::new(),
            count: 1,
            first: now,
            last: now,
        };
        let sent = self.api.write_event(&event).await;
        if let Err(error) = self.rights.judge(Feature::Events, sent, |text| self.tell(text)) {
            self.tell(&format!("an Event cannot be written: {error}"));
        }
    }
}

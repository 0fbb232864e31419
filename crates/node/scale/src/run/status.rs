//! The status: what was decided and why, for people, for metrics, and in a ConfigMap.
use super::rights::Feature;
use kube_api::{Api, ApiError};
use ops::{Exposition, Format, Kind};
use scale_rules::{Decision, Nodes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The status of a scaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The scaler that decides.
    pub scaler: String,
    pub version: String,
    /// When it was written.
    pub time: String,
    pub is_leader: bool,
    pub is_dry: bool,
    /// The mode in force.
    pub mode: String,
    /// Why what the ConfigMap says is not in force.
    pub config_error: Option<String>,
    /// Why no target was found.
    pub target_error: Option<String>,
    pub nodes: u64,
    pub ready_nodes: u64,
    pub schedulable_nodes: u64,
    pub cores: u64,
    pub schedulable_cores: u64,
    /// Features that are off, because a right is missing.
    pub features_off: Vec<String>,
    pub polls: u64,
    pub polls_failed: u64,
    pub targets: Vec<TargetStatus>,
}

/// The status of one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetStatus {
    pub target: String,
    pub replicas: Option<u32>,
    /// What the policy asks for, before anything held it back.
    pub need: Option<u32>,
    pub peak_qps: Option<f64>,
    pub capacity: Option<f64>,
    pub cpu_seconds_per_query: Option<f64>,
    /// Why, in a sentence.
    pub reason: String,
    /// When the count was changed last.
    pub changed: Option<String>,
    pub error: Option<String>,
    pub is_off: bool,
    pub other_autoscalers: Vec<String>,
    pub rises: u64,
    pub falls: u64,
    pub hand_changes: u64,
}

impl TargetStatus {
    pub fn decided(&mut self, decision: &Decision) {
        self.need = Some(decision.need);
        (self.peak_qps, self.capacity) = (decision.peak_qps, decision.capacity);
        self.reason.clone_from(&decision.reason);
    }
}

impl Status {
    pub const fn count(&mut self, nodes: &Nodes) {
        (self.nodes, self.ready_nodes, self.schedulable_nodes) =
            (nodes.total, nodes.ready, nodes.schedulable);
        (self.cores, self.schedulable_cores) = (nodes.total_cores, nodes.schedulable_cores);
    }

    /// The page /last-poll: an error where something is not in order.
    pub fn last_poll(&self) -> Result<(), String> {
        let errors = self.config_error.iter().chain(&self.target_error);
        let mut wrong: Vec<String> = errors.cloned().collect();
        for target in &self.targets {
            wrong.extend(target.error.iter().map(|error| format!("{}: {error}", target.target)));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    /// Metrics.
    pub fn metrics(&self, format: Format) -> String {
        let mut out = Exposition::new(format);
        out.family("dunlin_build", Kind::Info, "The running binary.")
            .sample(&[("version", &self.version)], 1);
        out.family("dunlin_scale_leader", Kind::Gauge, "1 if this scaler decides.")
            .sample(&[], u8::from(self.is_leader));
        out.family("dunlin_scale_config_valid", Kind::Gauge, "0 if the ConfigMap is not in force.")
            .sample(&[], u8::from(self.config_error.is_none()));
        out.family(
            "dunlin_scale_nodes",
            Kind::Gauge,
            "Nodes of the cluster, by what they count as.",
        )
        .sample(&[("state", "all")], self.nodes)
        .sample(&[("state", "ready")], self.ready_nodes)
        .sample(&[("state", "schedulable")], self.schedulable_nodes);
        out.family("dunlin_scale_cores", Kind::Gauge, "Allocatable cores of nodes.")
            .sample(&[("state", "all")], self.cores)
            .sample(&[("state", "schedulable")], self.schedulable_cores);
        out.family("dunlin_scale_polls", Kind::Counter, "Polls, by result.")
            .sample(&[("result", "done")], self.polls - self.polls_failed)
            .sample(&[("result", "failed")], self.polls_failed);
        let mut family = out.family(
            "dunlin_scale_feature",
            Kind::Gauge,
            "0 if a missing right switches it off.",
        );
        for feature in Feature::ALL.map(Feature::name) {
            let is_on = !self.features_off.iter().any(|off| off == feature);
            family.sample(&[("feature", feature)], u8::from(is_on));
        }
        self.target_metrics(&mut out);
        out.finish()
    }

    fn target_metrics(&self, out: &mut Exposition) {
        type Value = fn(&TargetStatus) -> Option<f64>;
        let gauges: [(&'static str, &'static str, Value); 7] = [
            ("dunlin_scale_replicas", "Replicas.", |t| t.replicas.map(f64::from)),
            ("dunlin_scale_need", "Replicas that the policy asks for.", |t| t.need.map(f64::from)),
            ("dunlin_scale_peak_qps", "The peak of 10 minutes.", |t| t.peak_qps),
            ("dunlin_scale_capacity_qps", "What one replica carries.", |t| t.capacity),
            ("dunlin_scale_query_cpu_seconds", "CPU time of a query.", |t| t.cpu_seconds_per_query),
            ("dunlin_scale_target_failed", "1 if the last poll of the target failed.", |t| {
                Some(f64::from(u8::from(t.error.is_some())))
            }),
            ("dunlin_scale_other_autoscalers", "Other autoscalers of the target.", |t| {
                Some(t.other_autoscalers.len() as f64)
            }),
        ];
        for (name, help, value) in gauges {
            let mut family = out.family(name, Kind::Gauge, help);
            for target in &self.targets {
                if let Some(value) = value(target) {
                    family.sample(&[("target", &target.target)], value);
                }
            }
        }
        let mut family =
            out.family("dunlin_scale_changes", Kind::Counter, "Changes, by direction.");
        for target in &self.targets {
            let name = ("target", target.target.as_str());
            family.sample(&[name, ("direction", "up")], target.rises);
            family.sample(&[name, ("direction", "down")], target.falls);
            family.sample(&[name, ("direction", "by_another")], target.hand_changes);
        }
    }
}

/// The ConfigMap of the status, and its key.
pub const KEY: &str = "status.json";

/// The path of the status object.
pub fn path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}-status")
}

/// Writes the status object; creates it if there is none.
pub async fn write(
    api: &Api,
    namespace: &str,
    name: &str,
    status: &Status,
) -> Result<(), ApiError> {
    let text =
        serde_json::to_string_pretty(status).map_err(|error| ApiError::Other(error.to_string()))?;
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": format!("{name}-status"), "namespace": namespace},
        "data": {KEY: text},
    });
    match api.put(&path(namespace, name), &object).await {
        Err(ApiError::NotFound(_)) => {
            api.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &object).await?;
        }
        other => drop(other?),
    }
    Ok(())
}

/// Reads the status object.
pub async fn read(api: &Api, namespace: &str, name: &str) -> Result<Status, String> {
    let object: Value = api.get(&path(namespace, name)).await.map_err(|error| error.to_string())?;
    let text = object["data"][KEY].as_str().unwrap_or_default();
    serde_json::from_str(text).map_err(|error| format!("ConfigMap {name}-status: {error}"))
}

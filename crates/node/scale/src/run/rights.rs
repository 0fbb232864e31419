//! The rights of the scaler. A missing right disables one feature.
use kube_api::Feature as NeedsRights;
use serde::Serialize;

/// A feature that needs rights of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// One of several scalers decides.
    LeaderElection,
    /// Decisions are Events of the target.
    Events,
    /// PodDisruptionBudgets are a floor.
    DisruptionBudgets,
    /// Pods are listed: metrics, rollouts, replicas that no node takes.
    Pods,
    /// The annotation `dunlin.io/scale: "off"`, and other writers of the target's scale.
    Target,
    /// HorizontalPodAutoscalers of the same target are found.
    Autoscalers,
    /// The status is a ConfigMap.
    StatusObject,
    /// Deployments are listed: that of DNS, without --target, and those of the original.
    Discovery,
}

impl Feature {
    pub const ALL: [Self; 8] = [
        Self::LeaderElection,
        Self::Events,
        Self::DisruptionBudgets,
        Self::Pods,
        Self::Target,
        Self::Autoscalers,
        Self::StatusObject,
        Self::Discovery,
    ];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeaderElection => "leader_election",
            Self::Events => "events",
            Self::DisruptionBudgets => "disruption_budgets",
            Self::Pods => "pods",
            Self::Target => "target",
            Self::Autoscalers => "autoscalers",
            Self::StatusObject => "status_object",
            Self::Discovery => "discovery",
        }
    }
}

impl NeedsRights for Feature {
    fn loss(self) -> &'static str {
        match self {
            Self::LeaderElection => {
                "leader election is off, run one replica (it needs get, create and update of \
                 leases)"
            }
            Self::Events => "Events are off (they need create of events)",
            Self::DisruptionBudgets => {
                "PodDisruptionBudgets are not looked at (it needs list of poddisruptionbudgets)"
            }
            Self::Pods => {
                "metrics of replicas, rollouts and replicas that no node takes are not looked at \
                 (it needs list of pods)"
            }
            Self::Target => {
                "the annotation dunlin.io/scale and other writers of the target are not looked at \
                 (it needs get of the target)"
            }
            Self::Autoscalers => {
                "other autoscalers of the target are not looked for (it needs list of \
                 horizontalpodautoscalers)"
            }
            Self::StatusObject => {
                "`dunlin scale status` has nothing to show (it needs get, create and update of \
                 configmaps)"
            }
            Self::Discovery => {
                "the label k8s-app=kube-dns and Deployments of the cluster-proportional-autoscaler \
                 are not looked for (it needs list of deployments)"
            }
        }
    }
}

//! What the scaler may do. A missing right switches off one feature, and is reported once.
use super::api::ApiError;
use serde::Serialize;
use std::cell::RefCell;
use std::time::{Duration, Instant};

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

    /// What does not work without it, and the right that it needs.
    const fn loss(self) -> &'static str {
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

/// Time after which a feature that was switched off is tried again.
const AGAIN: Duration = Duration::from_secs(600);

/// Which features are off, and since when.
#[derive(Default)]
pub struct Rights {
    off: RefCell<Vec<(Feature, Instant, bool)>>,
}

impl Rights {
    /// Whether a feature may be tried now.
    pub fn allow(&self, feature: Feature) -> bool {
        let off = self.off.borrow();
        off.iter().all(|(other, since, _)| *other != feature || since.elapsed() >= AGAIN)
    }

    /// Whether a feature is off.
    pub fn is_off(&self, feature: Feature) -> bool {
        self.off.borrow().iter().any(|(other, _, is_off)| *other == feature && *is_off)
    }

    /// Takes the result of a request of a feature: `None` where the right is missing, with a
    /// message the first time.
    pub fn judge<T>(
        &self,
        feature: Feature,
        result: Result<T, ApiError>,
        tell: impl FnOnce(&str),
    ) -> Result<Option<T>, ApiError> {
        let mut off = self.off.borrow_mut();
        let known = off.iter_mut().find(|(other, _, _)| *other == feature);
        match result {
            Err(ApiError::Forbidden(why)) => {
                match known {
                    Some((_, since, is_off)) => (*since, *is_off) = (Instant::now(), true),
                    None => {
                        off.push((feature, Instant::now(), true));
                        tell(&format!("{}: {why}", feature.loss()));
                    }
                }
                Ok(None)
            }
            Err(other) => Err(other),
            Ok(value) => {
                if let Some((_, _, is_off)) = known {
                    *is_off = false;
                }
                Ok(Some(value))
            }
        }
    }
}

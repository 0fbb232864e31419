//! One target: what is observed of it, what is decided, and the write to its scale.
use super::context::Context;
use super::lease::Candidate;
use super::nodes::Counts;
use super::others::{MANAGER, horizontal_autoscalers, other_writers, proportional_autoscalers};
use super::pods::{self, Pods};
use super::rights::Feature;
use super::scrape::scrape;
use super::status::TargetStatus;
use crate::limits::{REPLICAS_AT_ONCE, REPLICAS_READ_MAX};
use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use kube_api::limits::REMIND;
use kube_api::{ApiError, encode, seconds};
use scale_rules::cost::Costs;
use scale_rules::load::Load;
use scale_rules::replicas::{Meter, Sample};
use scale_rules::target::Target;
use scale_rules::{Decision, Observation, Params, Scaler};
use serde_json::Value;
use std::collections::BTreeMap;

/// Changes by another within 10 minutes that make it a second autoscaler.
const FOREIGN_CHANGES: usize = 3;

/// Scales one target.
pub struct TargetScaler {
    target: Target,
    scaler: Option<Scaler>,
    meter: Meter,
    costs: Costs,
    sampled_s: BTreeMap<String, f64>,
    /// The count that was written or found in order last.
    settled: Option<u32>,
    /// A count that another has written, and since when it is left alone.
    foreign: Option<f64>,
    foreign_changes: Vec<f64>,
    /// The change that a dry run has named, and when.
    proposed: Option<((u32, u32), f64)>,
    pub status: TargetStatus,
}

/// The scale of a target as it was read.
struct Scale {
    object: Value,
    replicas: u32,
    uid: String,
    selector: String,
}

impl TargetScaler {
    pub fn new(target: Target) -> Self {
        let status = TargetStatus { target: target.to_string(), ..TargetStatus::default() };
        Self {
            target,
            scaler: None,
            meter: Meter::default(),
            costs: Costs::default(),
            sampled_s: BTreeMap::new(),
            settled: None,
            foreign: None,
            foreign_changes: Vec::new(),
            proposed: None,
            status,
        }
    }

    /// Takes parameters; what is remembered stays.
    pub fn set_params(&mut self, params: &Params) {
        match &mut self.scaler {
            Some(scaler) => scaler.set_params(params.clone()),
            None => self.scaler = Some(Scaler::new(params.clone())),
        }
    }

    /// Observes, decides, and writes the scale if it is to change.
    ///
    /// # Errors
    /// The target cannot be read or written; its count stays.
    pub async fn poll(
        &mut self,
        context: &Context,
        candidate: Option<&mut Candidate>,
        counts: &Counts,
    ) -> Result<(), ApiError> {
        let Some(scaler) = &self.scaler else {
            return Err(ApiError::Other("there are no valid parameters yet".into()));
        };
        let load = match scaler.params() {
            Params::Load(load) => Some(load.clone()),
            _ => None,
        };
        let scale = self.read(context).await?;
        self.status.replicas = Some(scale.replicas);
        self.read_target(context, &scale).await?;
        let pods = self.list_pods(context, &scale, load.as_deref()).await?;
        let min_available = self.budget(context, &scale, pods.as_ref()).await?;
        let now_s = context.now_s();
        let mut seen = Observation {
            time_s: now_s,
            replicas: scale.replicas,
            nodes: counts.nodes,
            demand: None,
            capacity: None,
            unschedulable: pods.as_ref().map_or(0, |pods| pods.unschedulable),
            is_rolling_out: pods.as_ref().is_some_and(|pods| pods.is_rolling_out),
            min_available,
            largest_zone: counts.largest_zone,
        };
        if let (Some(load), Some(pods)) = (&load, &pods) {
            self.measure(context, load, pods, &mut seen).await;
        }
        if self.status.is_off {
            self.status.reason = "the annotation dunlin.io/scale is \"off\"".into();
            (self.settled, self.foreign) = (None, None);
            return Ok(());
        }
        if self.is_left_alone(context, &scale, now_s).await {
            return Ok(());
        }
        let Some(scaler) = &mut self.scaler else { return Ok(()) };
        let decision = scaler.decide(&seen);
        self.apply(context, candidate, scale, decision).await
    }

    /// Writes a warning as an Event of the target.
    pub async fn warn(&self, context: &Context, reason: &'static str, text: &str) {
        let uid = self.read(context).await.map(|scale| scale.uid).unwrap_or_default();
        context.event(&self.target, &uid, true, reason, text).await;
    }

    async fn read(&self, context: &Context) -> Result<Scale, ApiError> {
        let path = format!("{}/scale", context.path(&self.target));
        let object: Value = context.api.get(&path).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let replicas = object["spec"]["replicas"].as_u64().unwrap_or(0);
        Ok(Scale {
            replicas: u32::try_from(replicas).unwrap_or(u32::MAX),
            uid: text(&object["metadata"]["uid"]),
            selector: text(&object["status"]["selector"]),
            object,
        })
    }

    /// The annotation, and other writers of the scale.
    async fn read_target(&mut self, context: &Context, scale: &Scale) -> Result<(), ApiError> {
        let tell = |text: &str| context.tell(text);
        let mut others = Vec::new();
        if context.rights.allow(Feature::Target) {
            let object = context.api.get::<Value>(&context.path(&self.target)).await;
            if let Some(object) = context.rights.judge(Feature::Target, object, tell)? {
                self.status.is_off = object["metadata"]["annotations"]["dunlin.io/scale"] == "off";
                others.extend(other_writers(&object));
            }
        }
        if context.rights.allow(Feature::Autoscalers) {
            let path = format!(
                "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
                context.namespace
            );
            let list = context.api.get::<Value>(&path).await;
            if let Some(list) = context.rights.judge(Feature::Autoscalers, list, tell)? {
                others.extend(horizontal_autoscalers(&list, &self.target));
            }
        }
        if context.rights.allow(Feature::Discovery) {
            let path = format!("/apis/apps/v1/namespaces/{}/deployments", context.namespace);
            let list = context.api.get::<Value>(&path).await;
            if let Some(list) = context.rights.judge(Feature::Discovery, list, tell)? {
                others.extend(proportional_autoscalers(&list, &self.target));
            }
        }
        if self.foreign_changes.len() >= FOREIGN_CHANGES {
            others.push("another writer, which has changed it several times in 10 minutes".into());
        }
        for other in &others {
            let text = format!("{} has a second autoscaler: {other}; switch one off", self.target);
            if context.tell_new(&text) {
                context.event(&self.target, &scale.uid, true, "SecondAutoscaler", &text).await;
            }
        }
        self.status.other_autoscalers = others;
        Ok(())
    }

    async fn list_pods(
        &self,
        context: &Context,
        scale: &Scale,
        load: Option<&Load>,
    ) -> Result<Option<Pods>, ApiError> {
        if scale.selector.is_empty() || !context.rights.allow(Feature::Pods) {
            return Ok(None);
        }
        let path = format!(
            "/api/v1/namespaces/{}/pods?labelSelector={}",
            context.namespace,
            encode(&scale.selector)
        );
        let list = context.api.get::<Value>(&path).await;
        let list = context.rights.judge(Feature::Pods, list, |text| context.tell(text))?;
        Ok(list.map(|list| pods::read(&list, load.and_then(|load| load.metrics_port))))
    }

    async fn budget(
        &self,
        context: &Context,
        scale: &Scale,
        pods: Option<&Pods>,
    ) -> Result<Option<u32>, ApiError> {
        if !context.rights.allow(Feature::DisruptionBudgets) {
            return Ok(None);
        }
        let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", context.namespace);
        let list = context.api.get::<Value>(&path).await;
        let tell = |text: &str| context.tell(text);
        let list = context.rights.judge(Feature::DisruptionBudgets, list, tell)?;
        let labels = pods.map(|pods| pods.labels.clone()).filter(|labels| !labels.is_empty());
        let labels = labels.unwrap_or_else(|| pods::selector_labels(&scale.selector));
        Ok(list.and_then(|list| pods::min_available(&list, &labels)))
    }

    /// Reads the metrics of the ready replicas: the demand, and what one carries.
    async fn measure(
        &mut self,
        context: &Context,
        load: &Load,
        pods: &Pods,
        seen: &mut Observation,
    ) {
        let replicas = pods.ready.iter().take(REPLICAS_READ_MAX);
        let reads = replicas.filter_map(|replica| {
            let address = replica.metrics?;
            Some(async move { (replica, scrape(address).await) })
        });
        let read: Vec<(_, Result<Sample, String>)> =
            stream::iter(reads).buffer_unordered(REPLICAS_AT_ONCE).collect().await;
        let now_s = context.now_s();
        let limits: Vec<f64> = pods.ready.iter().filter_map(|replica| replica.cpus).collect();
        let limit = (limits.len() == pods.ready.len() && !limits.is_empty())
            .then(|| limits.iter().sum::<f64>() / limits.len() as f64);
        let cpus = load.cpus.or(limit);
        for (replica, sample) in read {
            let sample = match sample {
                Ok(sample) => sample,
                Err(error) => {
                    context.tell(&error);
                    continue;
                }
            };
            let before_s = self.sampled_s.insert(replica.uid.clone(), now_s);
            let work = self.meter.add(&replica.uid, now_s, sample);
            if let (Some(work), Some(cpus)) = (work, cpus) {
                let span_s = now_s - before_s.unwrap_or(now_s);
                let kind = context.nodes.kind(&replica.node);
                self.costs.add(&kind, cpus, now_s, span_s, &work);
            }
        }
        let uids: Vec<String> = pods.ready.iter().map(|replica| replica.uid.clone()).collect();
        self.sampled_s.retain(|uid, _| uids.contains(uid));
        seen.demand = self.meter.demand(now_s, &uids);
        if let Some(cpus) = cpus {
            let kinds: Vec<String> =
                pods.ready.iter().map(|replica| context.nodes.kind(&replica.node)).collect();
            let misses = self.meter.misses();
            seen.capacity = Some(self.costs.capacity(&kinds, cpus, misses, load.capacity));
            let cost = kinds.first().and_then(|kind| self.costs.cost(kind));
            self.status.cpu_seconds_per_query = cost.map(|cost| cost.mean_s(misses));
        }
    }

    /// Whether another has changed the count within the last period. After it, that is reported.
    async fn is_left_alone(&mut self, context: &Context, scale: &Scale, now_s: f64) -> bool {
        self.foreign_changes.retain(|time_s| now_s - time_s < 600.0);
        let Some(settled) = self.settled.filter(|settled| *settled != scale.replicas) else {
            self.foreign = None;
            return false;
        };
        let since_s = *self.foreign.get_or_insert(now_s);
        let text = format!(
            "{} was changed from {settled} to {} replicas by another",
            self.target, scale.replicas
        );
        if now_s - since_s < context.period.as_secs_f64() {
            self.status.reason = format!("{text}; it is not scaled for one period");
            return true;
        }
        (self.foreign, self.settled) = (None, None);
        self.foreign_changes.push(since_s);
        self.foreign_changes.truncate(FOREIGN_CHANGES);
        self.status.hand_changes += 1;
        let text = format!(
            "{text}; it is scaled again. The annotation dunlin.io/scale: \"off\" ends that"
        );
        context.announce(&text);
        context.event(&self.target, &scale.uid, true, "ChangedByHand", &text).await;
        false
    }

    async fn apply(
        &mut self,
        context: &Context,
        candidate: Option<&mut Candidate>,
        mut scale: Scale,
        decision: Decision,
    ) -> Result<(), ApiError> {
        let (from, to) = (decision.from, decision.replicas);
        let text = format!("{} from {from} to {to}: {}", self.target, decision.reason);
        self.status.decided(&decision);
        if to == from {
            (self.settled, self.proposed) = (Some(from), None);
            return Ok(());
        }
        if context.is_dry {
            self.propose(context, (from, to), &text);
            return Ok(());
        }
        // The write comes right after a renewal: a scaler that has lost the Lease writes nothing.
        if let Some(candidate) = candidate
            && !candidate.step(&context.api, || context.now_s()).await?
        {
            return Err(ApiError::Other("the Lease was lost before the write".into()));
        }
        scale.object["spec"]["replicas"] = to.into();
        let path = format!("{}/scale?fieldManager={MANAGER}", context.path(&self.target));
        context.api.put(&path, &scale.object).await?;
        (self.settled, self.status.replicas) = (Some(to), Some(to));
        self.status.changed = Some(seconds(Timestamp::now()));
        *if to > from { &mut self.status.rises } else { &mut self.status.falls } += 1;
        context.announce(&format!("scaled {text}"));
        context.event(&self.target, &scale.uid, false, "Scaled", &format!("Scaled {text}")).await;
        Ok(())
    }

    /// Says what a dry run would do: at once, and again after a while if that is still so.
    fn propose(&mut self, context: &Context, change: (u32, u32), text: &str) {
        let now_s = context.now_s();
        let is_known = self.proposed.is_some_and(|(known, told_s)| {
            known == change && now_s - told_s < REMIND.as_secs_f64()
        });
        if !is_known {
            self.proposed = Some((change, now_s));
            context.announce(&format!("would scale {text}"));
        }
    }
}

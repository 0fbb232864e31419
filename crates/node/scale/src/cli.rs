//! The arguments of `dunlin scale`.
use clap::{Args, Subcommand, ValueEnum};
pub use command_line::Output;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Scale {
    #[command(subcommand)]
    pub act: Option<ScaleAct>,
    #[command(flatten)]
    pub run: Run,
}

/// The flags of the cluster-proportional-autoscaler, and more.
#[derive(Args, Debug)]
pub struct Run {
    /// Namespace of the targets and the ConfigMap; without it that of MY_NAMESPACE or of this Pod,
    /// or kube-system.
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The ConfigMap with the parameters, and the Lease of the leader.
    #[arg(long, value_name = "NAME", default_value = "dunlin-scale")]
    pub configmap: String,
    /// What is scaled, kind/name[,kind/name…]: deployment, replicaset, replicationcontroller or
    /// statefulset. Without it, DNS is looked for.
    #[arg(long, value_name = "TARGETS")]
    pub target: Option<String>,
    /// Parameters with which the ConfigMap is created if there is none, such as {"linear": …}.
    #[arg(long, value_name = "JSON")]
    pub default_params: Option<String>,
    /// Count only nodes with these labels.
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    pub nodelabels: String,
    /// Seconds between polls; a change of nodes is decided on at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub poll_period_seconds: u64,
    /// End after so many failed polls in a row; 0 never ends.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub max_sync_failures: u32,
    /// Decide and say so, but change nothing and take no Lease.
    #[arg(long)]
    pub dry_run: bool,
    /// Refuse unknown keys of parameters; false reads them as the cluster-proportional-autoscaler.
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1,
        default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub strict: bool,
    /// Where /healthz, /last-poll, /metrics and /status are.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
    /// The kubeconfig; without it KUBECONFIG, or the service account of this Pod.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub glog: Glog,
}

/// Flags of glog, which manifests of the original set. They have no effect.
#[derive(Args, Debug)]
pub struct Glog {
    #[arg(long, hide = true, num_args = 0..=1)]
    pub logtostderr: Option<Option<bool>>,
    #[arg(long, hide = true, num_args = 0..=1)]
    pub alsologtostderr: Option<Option<bool>>,
    #[arg(long, short = 'v', hide = true)]
    pub v: Option<i32>,
    #[arg(long, hide = true)]
    pub stderrthreshold: Option<String>,
    #[arg(long, hide = true)]
    pub vmodule: Option<String>,
    #[arg(long = "log_dir", hide = true)]
    pub log_dir: Option<String>,
    #[arg(long = "log_backtrace_at", hide = true)]
    pub log_backtrace_at: Option<String>,
}

impl Run {
    /// The namespace of the targets.
    pub fn namespace(&self) -> String {
        const POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
        let of_pod = || std::fs::read_to_string(POD).ok().map(|name| name.trim().to_owned());
        let named = self.namespace.clone().or_else(|| std::env::var("MY_NAMESPACE").ok());
        named
            .or_else(of_pod)
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "kube-system".into())
    }
}

#[derive(Debug, Subcommand)]
pub enum ScaleAct {
    /// Show what a running scaler has decided, and why.
    ///
    /// Exit status 1 says that parameters are not in force, or that a target fails.
    #[command(after_help = "Examples:\n  \
        dunlin scale status\n  \
        dunlin scale status --namespace kube-system -o json | jq '.targets[].reason'")]
    Status(ShowStatus),
    /// Decide by a trace instead of a cluster, and write each decision with its reason as JSON.
    ///
    /// A line of the trace is an object: t (seconds), nodes, ready, cores, ready_cores,
    /// schedulable_nodes, schedulable_cores, qps (null: metrics are stale), p99_ms, unschedulable,
    /// dropped (0 to 1), rolling_out, min_available, largest_zone (0 to 1), replicas (set by
    /// hand). Each line is one decision. Absent counts of ready and schedulable nodes and cores
    /// equal all of them; any other absent field keeps its value.
    #[command(after_help = "Examples:\n  \
        dunlin scale simulate --params load.json --trace monday.jsonl\n  \
        dunlin scale simulate --params linear.json --trace - --policy cpa < monday.jsonl")]
    Simulate(Simulate),
    /// Check parameters and targets without a cluster.
    #[command(after_help = "Examples:\n  \
        dunlin scale check --params linear.json\n  \
        dunlin scale check --policy cpa --params linear.json --target deployment/coredns")]
    Check(Check),
}

#[derive(Args, Debug)]
pub struct ShowStatus {
    /// Namespace of the scaler.
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    pub namespace: String,
    /// The ConfigMap of the scaler.
    #[arg(long, value_name = "NAME", default_value = "dunlin-scale")]
    pub configmap: String,
    /// The kubeconfig; without it KUBECONFIG, or the service account of this Pod.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// How the result is written.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct Simulate {
    /// Parameters: a JSON object with one key, linear, ladder or load; - reads standard input.
    #[arg(long, value_name = "FILE")]
    pub params: PathBuf,
    /// The trace: one JSON object a line; - reads standard input.
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Which rules decide; without it those that the parameters name.
    #[arg(long, value_enum)]
    pub policy: Option<Policy>,
    /// Replicas before the first line.
    #[arg(long, value_name = "NUMBER", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub replicas: u32,
    /// Refuse unknown keys; false reads them as the cluster-proportional-autoscaler does.
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1,
        default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub strict: bool,
}

/// Whose rules decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// In proportion to nodes and cores.
    Linear,
    /// By steps of nodes and cores.
    Ladder,
    /// By load and measured capacity.
    Load,
    /// linear or ladder as the cluster-proportional-autoscaler, with its traps.
    Cpa,
    /// As EKS: by the peak of nodes and cores of 10 minutes.
    Eks,
    /// A horizontal pod autoscaler on CPU, with the capacity that the parameters name.
    Hpa,
}

#[derive(Args, Debug)]
pub struct Check {
    /// Parameters: a JSON object with one key, linear, ladder or load; - reads standard input.
    #[arg(long, value_name = "FILE", required_unless_present = "target")]
    pub params: Option<PathBuf>,
    /// Targets, kind/name[,kind/name…].
    #[arg(long, value_name = "TARGETS")]
    pub target: Option<String>,
    /// Whose rules hold: Dunlin's without it, or those of the cluster-proportional-autoscaler.
    #[arg(long, value_enum)]
    pub policy: Option<CheckPolicy>,
    /// Refuse unknown keys; false reads them as the cluster-proportional-autoscaler does.
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1,
        default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    pub strict: bool,
    /// How the result is written.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Whose rules a check applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckPolicy {
    /// Those of the cluster-proportional-autoscaler, with its traps.
    Cpa,
}

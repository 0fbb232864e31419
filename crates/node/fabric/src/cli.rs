//! The arguments of `dunlin fabric`.
use clap::{Args, Subcommand, ValueEnum};
pub use command_line::Output;
use command_line::read_duration;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub struct Fabric {
    #[command(subcommand)]
    pub action: FabricAction,
}

#[derive(Debug, Subcommand)]
pub enum FabricAction {
    /// Write who sends to whom, and how far that is, once per interval.
    ///
    /// It counts packets at the host side of each container's veth pair (tcx). It works with any
    /// network plugin and changes no packet. Round trips are those of TCP connections that begin
    /// meanwhile. It needs Linux 6.6 and root; when it ends in any way, nothing of it is left.
    ///
    /// It drops all capabilities once it has attached its programs; containers that come later are
    /// not watched then. With --follow it keeps those that it needs for them.
    #[command(after_help = "Examples:\n  \
        dunlin fabric watch\n  \
        dunlin fabric watch --follow --interval 10s --metrics /run/metrics/fabric.prom\n  \
        dunlin fabric watch --count 1 -o json | jq '.distances'")]
    Watch(Watch),
    /// Show the same on a screen that is drawn again and again.
    #[command(after_help = "Example:\n  dunlin fabric top --follow")]
    Top(Watch),
}

#[derive(Args, Debug)]
pub struct Watch {
    /// Time between two reports: 100ms to 1h.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = read_interval)]
    pub interval: Duration,
    /// End after this many reports.
    #[arg(long, value_name = "NUMBER")]
    pub count: Option<u64>,
    /// Watch containers that come later, too. It keeps the capabilities for that.
    #[arg(long)]
    pub follow: bool,
    /// Move packets of flows between containers that opt in straight from one to the other: past
    /// the bridge, netfilter and the second pass through the stack.
    ///
    /// A container opts in by the variable DUNLIN_FABRIC=switch of one of its processes. Pods need
    /// --pods. docs/fabric.md says what is left out.
    #[arg(long, requires = "follow")]
    pub switch: bool,
    /// Switch Pods of this node, too: those with the label dunlin.io/switch=true that no
    /// NetworkPolicy selects. None while that is not sure.
    ///
    /// It lists and watches Pods and NetworkPolicies.
    #[arg(long, requires = "switch")]
    pub pods: bool,
    /// The kubeconfig for --pods; without it KUBECONFIG, or the service account of this Pod.
    #[arg(long, value_name = "FILE", requires = "pods")]
    pub kubeconfig: Option<PathBuf>,
    /// The name of this node; without it NODE_NAME, or the name of the host.
    #[arg(long, value_name = "NAME", requires = "pods")]
    pub node: Option<String>,
    /// Where the programs run among those of others on an interface.
    #[arg(long, value_enum, default_value_t = ProgramOrder::First)]
    pub order: ProgramOrder,
    /// The control group (v2) below which TCP reports round trips; without it where cgroup v2 is.
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<PathBuf>,
    /// Write metrics into a file that the textfile collector of node_exporter reads.
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// How reports are written; JSON is one object per line, with all pairs.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

impl Watch {
    /// The name of this Kubernetes node: of `--node`, of NODE_NAME or of the host; empty: none has
    /// one.
    pub fn node(&self) -> String {
        let named = self.node.clone().or_else(|| std::env::var("NODE_NAME").ok());
        let of_host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        named.unwrap_or_else(|| of_host().trim().to_owned())
    }
}

/// Where programs run among those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgramOrder {
    /// Before those that are there: it counts what they drop.
    First,
    /// After those that are there: it counts what they let pass.
    Last,
}

/// A time between reports.
fn read_interval(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(100)..=Duration::from_secs(3_600);
    let interval = read_duration(text).filter(|interval| range.contains(interval));
    interval.ok_or_else(|| "expected 100ms to 1h, such as \"500ms\" or \"10s\"".into())
}

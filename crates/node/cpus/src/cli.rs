//! The arguments of `dunlin cpus`.
use clap::{Args, Subcommand, ValueEnum};
pub use command_line::Output;
use command_line::read_duration;
use cpu::CpuList;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub struct Cpus {
    #[command(subcommand)]
    pub act: CpusAct,
}

#[derive(Debug, Subcommand)]
pub enum CpusAct {
    /// Draw the machine: what its CPUs share, what is near them, and who uses them.
    #[command(after_help = "Examples:\n  \
        dunlin cpus topology\n  \
        dunlin cpus topology --measure\n  \
        dunlin cpus topology --save /tmp/machine\n  \
        dunlin cpus topology -o json | jq '.machine.cpus[] | select(.node == 0).id'")]
    Topology(ShowTopology),
    /// Choose CPUs for a request, and say why these. Nothing is changed.
    #[command(after_help = "Examples:\n  \
        dunlin cpus plan --request 4 --near eth0\n  \
        dunlin cpus plan --request 2 --near-container web\n  \
        dunlin cpus plan --request 4 --order kubelet --reserve 2 --full-cores\n  \
        dunlin cpus plan --request 8 --sysfs /tmp/machine --free 0-15,32-47 -o json\n  \
        dunlin cpus plan --state /var/lib/kubelet/cpu_manager_state --request 2")]
    Plan(PlanCpus),
    /// Give containers and control groups CPUs of their own, and keep all others off them.
    ///
    /// Control groups are named by a rule file. With --nri, containers of Guaranteed pods that
    /// request whole CPUs have theirs before they start. It compares every --interval and repairs
    /// what another program has changed. What it has set stays when it ends. It needs root and
    /// cgroup v2.
    #[command(after_help = "Examples:\n  \
        dunlin cpus manage --rules /etc/dunlin/cpus.toml\n  \
        dunlin cpus manage --nri\n  \
        dunlin cpus manage --nri --events --kubeconfig /etc/kubernetes/kubelet.conf\n  \
        dunlin cpus manage --rules cpus.toml --once")]
    Manage(Manage),
    /// End the manager, and put every control group back as it found it.
    #[command(after_help = "Example:\n  dunlin cpus uninstall")]
    Uninstall(Uninstall),
}

/// Where the kernel's control groups usually are.
const CGROUP: &str = "/sys/fs/cgroup";

/// Where the state is unless another place is named.
const STATE: &str = "/var/lib/dunlin/cpus.state";

#[derive(Args, Debug)]
pub struct Manage {
    /// Which groups have CPUs of their own. It is read again when it changes.
    #[arg(long, value_name = "FILE", default_value = "/etc/dunlin/cpus.toml")]
    pub rules: PathBuf,
    /// Speak NRI with containerd or CRI-O, and give containers that request it CPUs of their own.
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, default_missing_value = nri::SOCKET,
        conflicts_with = "once")]
    pub nri: Option<PathBuf>,
    /// Write Events of Pods: which CPUs a container has for itself, and why others share.
    #[arg(long, requires = "nri")]
    pub events: bool,
    /// The kubeconfig for Events; without it KUBECONFIG, or the service account of this Pod.
    #[arg(long, value_name = "FILE", requires = "events")]
    pub kubeconfig: Option<PathBuf>,
    /// The name of this node in Events; without it NODE_NAME, or the name of the host.
    #[arg(long, value_name = "NAME", requires = "events")]
    pub node: Option<String>,
    /// Where what was found and who has which CPUs is kept.
    #[arg(long, value_name = "FILE", default_value = STATE)]
    pub state: PathBuf,
    /// Where cgroup v2 is mounted.
    #[arg(long, value_name = "DIR", default_value = CGROUP)]
    pub cgroup: PathBuf,
    /// Time between two passes: 10ms to 10s.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = read_pause)]
    pub interval: Duration,
    /// Make one pass and end; exit status 1 says that something is not as the rules say.
    #[arg(long)]
    pub once: bool,
    /// Write metrics into a file that the textfile collector of node_exporter reads.
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// The state of a kubelet, which must not run the static policy beside this.
    #[arg(long, value_name = "FILE", default_value = "/var/lib/kubelet/cpu_manager_state")]
    pub kubelet_state: PathBuf,
}

impl Manage {
    /// The name of this Kubernetes node: of `--node`, of NODE_NAME or of the host; empty: none has
    /// one.
    pub fn node(&self) -> String {
        let named = self.node.clone().or_else(|| std::env::var("NODE_NAME").ok());
        let of_host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        named.unwrap_or_else(|| of_host().trim().to_owned())
    }
}

#[derive(Args, Debug)]
pub struct Uninstall {
    /// Where `manage` has kept what it found.
    #[arg(long, value_name = "FILE", default_value = STATE)]
    pub state: PathBuf,
    /// Where cgroup v2 is mounted.
    #[arg(long, value_name = "DIR", default_value = CGROUP)]
    pub cgroup: PathBuf,
}

/// A time between passes.
fn read_pause(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(10)..=Duration::from_secs(10);
    let pause = read_duration(text).filter(|pause| range.contains(pause));
    pause.ok_or_else(|| "expected 10ms to 10s, such as \"500ms\" or \"1s\"".into())
}

#[derive(Args, Debug)]
pub struct ShowTopology {
    /// A saved machine: a folder that `--save` has written, or a copy of /sys.
    #[arg(long, value_name = "DIR")]
    pub sysfs: Option<PathBuf>,
    /// Save what is known of the machine into an empty folder, for `--sysfs` elsewhere.
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Time a cache line between every pair of CPUs. It keeps two CPUs busy for as long.
    #[arg(long, conflicts_with_all = ["sysfs", "save"])]
    pub measure: bool,
    /// Samples of each pair and direction, 64 round trips each.
    #[arg(long, value_name = "NUMBER", default_value_t = 200, requires = "measure",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub samples: u32,
    /// The CPUs to measure, such as 0-3,8; without it all that this process may use.
    #[arg(long, value_name = "LIST", requires = "measure")]
    pub cpus: Option<CpuList>,
    /// How it is written; JSON holds all there is.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct PlanCpus {
    /// CPUs requested: a whole number, or thousandths such as 1500m as Kubernetes writes them.
    #[arg(long, value_name = "NUMBER", value_parser = read_request,
        required_unless_present = "state")]
    pub request: Option<u64>,
    /// The device to be near: an interface, a PCI address or a node of /dev.
    #[arg(long, value_name = "DEVICE")]
    pub near: Option<String>,
    /// The container to be near, by its name or the start of its id: in its L3 domain, else on its
    /// NUMA node, else on its socket. `dunlin fabric watch` says which send much to each other.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["near", "sysfs"])]
    pub near_container: Option<String>,
    /// Which CPUs come first.
    #[arg(long, value_enum, default_value_t = Order::Dunlin)]
    pub order: Order,
    /// A saved machine: a folder that `topology --save` has written, or a copy of /sys.
    #[arg(long, value_name = "DIR")]
    pub sysfs: Option<PathBuf>,
    /// CPUs that no one has exclusively; without it all that are online.
    #[arg(long, value_name = "LIST", conflicts_with = "state")]
    pub free: Option<CpuList>,
    /// The cpu_manager_state of a kubelet: says which CPUs are free, and is checked.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Give the CPUs of a container of the state back first.
    #[arg(long, value_name = "POD/CONTAINER", requires = "state")]
    pub release: Option<String>,
    /// CPUs that are never chosen.
    #[arg(long, value_name = "LIST")]
    pub reserved: Option<CpuList>,
    /// Number of CPUs to keep free. --reserved says which; otherwise the planner chooses them.
    #[arg(long, value_name = "NUMBER")]
    pub reserve: Option<usize>,
    /// The quality of service of the pod: only guaranteed ones with whole CPUs have them alone.
    #[arg(long, value_enum, default_value_t = Qos::Guaranteed)]
    pub qos: Qos,
    /// Choose whole cores only (full-pcpus-only).
    #[arg(long)]
    pub full_cores: bool,
    /// Spread over NUMA nodes evenly (distribute-cpus-across-numa).
    #[arg(long, conflicts_with = "across_cores")]
    pub across_nodes: bool,
    /// CPUs that go to a NUMA node at a time; without it 1, or a core with --full-cores.
    #[arg(long, value_name = "NUMBER", requires = "across_nodes")]
    pub group: Option<usize>,
    /// Choose one thread of each core while there are cores (distribute-cpus-across-cores).
    #[arg(long, conflicts_with = "full_cores")]
    pub across_cores: bool,
    /// NUMA nodes to choose from first, such as 0,2: a hint of the Topology Manager.
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    pub nodes: Option<Vec<usize>>,
    /// Let --nodes hold for the sockets of the nodes (align-by-socket).
    #[arg(long, requires = "nodes")]
    pub align_by_socket: bool,
    /// Have the kubelet order prefer whole L3 domains (prefer-align-cpus-by-uncorecache).
    #[arg(long)]
    pub prefer_l3: bool,
    /// Keep reserved CPUs from those who share, too (strict-cpu-reservation).
    #[arg(long)]
    pub strict_reservation: bool,
    /// How the result is written.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Which CPUs come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// As the kubelet's static policy chooses.
    Kubelet,
    /// Near the device, then the smallest part of the machine with room.
    Dunlin,
}

/// The quality of service of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Qos {
    /// Requests equal limits.
    Guaranteed,
    /// Some requests.
    Burstable,
    /// No requests.
    #[value(name = "besteffort")]
    BestEffort,
}

/// Thousandths of a CPU, of `4` or `1500m`.
fn read_request(text: &str) -> Result<u64, String> {
    let milli = match text.strip_suffix('m') {
        Some(milli) => milli.parse().ok(),
        None => text.parse::<u64>().ok().and_then(|cpus| cpus.checked_mul(1_000)),
    };
    milli.ok_or_else(|| {
        "expected whole CPUs such as 4; 1500m is a request that shares CPUs with others".into()
    })
}

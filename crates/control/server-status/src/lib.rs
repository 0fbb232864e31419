//! The status of a server: one structure for `dunlin status`, `dunlin top` and metrics.
//!
//! It is collected from the threads' counters on each request. [`command`] has what can be asked
//! of a server.
#![forbid(unsafe_code)]

mod anycast;
mod api;
mod certificates;
pub mod command;
mod dpdk;
pub mod explain;
mod faults;
mod fleet;
mod health;
mod held;
mod histogram;
mod hosts;
mod kubernetes;
mod limits;
mod networks;
mod process;
mod readiness;
mod secondary;
mod shards;
mod signatures;
mod site;
mod sockets;
mod store;
mod tap;
mod time;
mod transfer;
mod xdp;

pub use anycast::AnycastStatus;
pub use api::ApiStatus;
pub use certificates::CertificateStatus;
pub use dpdk::{DpdkDeviceStatus, DpdkQueueStatus, DpdkStatus};
pub use faults::{Fault, fault_kinds, find_faults, unanswered_suffixes};
pub use fleet::{FleetStatus, Member, StoredCluster};
pub use health::HealthStatus;
pub use held::HeldZone;
pub use histogram::StatusHistogram;
pub use hosts::HostsStatus;
pub use kubernetes::{ClusterParts, KubernetesStatus, KubernetesStream, PartsStatus};
pub use networks::NetworkStatus;
pub use process::Process;
pub use readiness::hindrance;
pub use secondary::SecondaryStatus;
pub use shards::ShardStatus;
pub use signatures::SignatureSpan;
pub use site::SiteStatus;
pub use store::{DocumentsStatus, StoreStatus, StoreZoneFault};
pub use tap::TapStatus;
pub use time::seconds;
pub use transfer::TransferStatus;
pub use xdp::{XdpQueueStatus, XdpStatus};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The status of a server. Times are seconds since 1970; counters grow while the process lives.
/// Missing fields have defaults, so that tool and server versions may differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The version of the binary.
    pub version: String,
    /// The process ID.
    pub pid: u32,
    /// The server's state.
    pub state: ServerState,
    /// When the process started.
    pub started_seconds: f64,
    /// When the status was collected.
    pub gathered_seconds: f64,
    /// Everything that is wrong, the most severe first; at most one of each kind.
    pub faults: Vec<Fault>,
    /// The addresses it answers on, over UDP and TCP.
    pub listen: Vec<String>,
    /// The config and its last reload.
    pub config: ConfigStatus,
    /// The number of the served image, from 1 in each process.
    pub generation: u64,
    /// When that image was published.
    pub generation_seconds: f64,
    /// The zones of the config, in order.
    pub zones: Vec<ZoneStatus>,
    /// Content of any source that is held, and not served until it is accepted, by
    /// zone or layer. Held zone files are among `zones`, too.
    #[serde(default)]
    pub held: BTreeMap<String, HeldZone>,
    /// The hosts files of the config, in order.
    pub hosts: Vec<HostsStatus>,
    /// The interface served by AF_XDP; `None`: not configured.
    pub xdp: Option<XdpStatus>,
    /// The devices served by DPDK; `None`: not configured.
    pub dpdk: Option<DpdkStatus>,
    /// Why zones are not saved to disk; `None`: they are, or need not be.
    pub saving: Option<String>,
    /// Threads that apply changes and that panicked. Their zones do not change until a restart.
    pub failed: Vec<String>,
    /// The worker or stream thread that does not even answer queries of the server itself; `None`:
    /// all do.
    pub stuck: Option<String>,
    /// Whether the server was ready once: from then on only a drain and a thread that does not
    /// answer make it unready.
    pub was_ready: bool,
    /// Panics of the threads that answer, each of which cost one query.
    pub panics: PanicStatus,
    /// Replies by the network of the client: those with a reply, in the order of the config.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkStatus>,
    /// Workers, then stream threads.
    pub threads: Vec<ThreadStatus>,
    /// The stream connections.
    pub streams: StreamStatus,
    /// The highest number of queries received by a worker, divided by the mean of all workers.
    pub imbalance: f64,
    /// The upstreams, by suffix, in the order of the config.
    pub upstreams: Vec<UpstreamStatus>,
    /// The cache of upstream answers; `None`: no forwarding.
    pub cache: Option<CacheStatus>,
    /// The announced addresses; `None`: not configured.
    #[serde(default)]
    pub anycast: Option<AnycastStatus>,
    /// The store; `None`: not configured.
    pub store: Option<StoreStatus>,
    /// What the servers of a fleet share beside their records, and files of this server that cannot
    /// be used.
    pub documents: Vec<DocumentsStatus>,
    /// The names of a Kubernetes cluster; `None`: not configured.
    #[serde(default)]
    pub kubernetes: Option<KubernetesStatus>,
    /// Other sites whose zones are served, in the order of the config.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<SiteStatus>,
    /// Zones that are transferred from primaries, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secondaries: Vec<SecondaryStatus>,
    /// The health of addresses; `None`: there is no check.
    #[serde(default)]
    pub health: Option<HealthStatus>,
    /// The REST API; `None`: not configured.
    pub api: Option<ApiStatus>,
    /// Transfers of zones to other servers; `None`: there are none.
    pub transfer: Option<TransferStatus>,
    /// The certificates that the server shows to others.
    pub certificates: Vec<CertificateStatus>,
    /// The resources the process uses.
    pub process: Process,
    /// The most frequent names and clients lately, estimated from samples.
    pub hot: HottestNames,
    /// Counters of sampled queries.
    #[serde(default)]
    pub tap: TapStatus,
}

/// The state of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// Loading zones; not answering yet.
    #[default]
    Starting,
    /// Answering.
    Serving,
    /// Answering, but about to stop: send no new clients.
    Draining,
}

impl ServerState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Starting, Self::Serving, Self::Draining];

    /// The name used in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Draining => "draining",
        }
    }

    /// Whether clients should use it.
    pub fn is_ready(self) -> bool {
        self == Self::Serving
    }
}

/// The running config.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigStatus {
    /// The file; empty: defaults only.
    pub file: String,
    /// When it was last loaded.
    pub loaded_seconds: f64,
    /// Successful reloads.
    pub reloads: u64,
    /// Refused reloads.
    pub reloads_refused: u64,
    /// Why the last reload was refused, a line each; empty if it was not.
    pub errors: Vec<String>,
    /// Keys whose new value needs a restart.
    pub restart_needed: Vec<String>,
    /// Why a file with upstreams is not used as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_file: Option<String>,
}

/// One zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ZoneStatus {
    /// Its name, with the final dot.
    pub name: String,
    /// The file it is loaded from.
    pub file: String,
    /// The state of the served content.
    pub state: ZoneState,
    /// The serial of the served content.
    pub serial: Option<u32>,
    /// Records of the served content.
    pub records: u64,
    /// When the served content was loaded; `None`: never.
    pub loaded_seconds: Option<f64>,
    /// When the file was last refused, unless it was loaded since.
    pub refused_seconds: Option<f64>,
    /// Why it was refused, a line each.
    pub errors: Vec<String>,
    /// The file lost most of its names and is held; `None`: it is not held.
    pub held: Option<HeldZone>,
    /// Since when a writer has the file open; it is loaded once closed. `None`: no known writer.
    pub writing_seconds: Option<f64>,
    /// How long the signatures of the served content are valid; `None`: it is not signed.
    pub signatures: Option<SignatureSpan>,
}

impl ZoneStatus {
    /// Whether signatures have expired, or expire soon.
    pub fn has_old_signatures(&self, now: f64) -> bool {
        self.signatures.is_some_and(|span| span.is_soon(now))
    }
}

/// The served content of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ZoneState {
    /// SERVFAIL: never loaded.
    #[default]
    Unloaded,
    /// The content of its file.
    Current,
    /// The earlier content of its file; the current one was refused.
    Behind,
    /// The copy saved by an earlier process; the file was refused.
    Saved,
}

impl ZoneState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Unloaded, Self::Current, Self::Behind, Self::Saved];

    /// The name used in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unloaded => "unloaded",
            Self::Current => "current",
            Self::Behind => "behind",
            Self::Saved => "saved",
        }
    }
}

/// The counters of one thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadStatus {
    /// `worker-0`, `streams-0`, …
    pub name: String,
    /// `udp` or `tcp`.
    pub transport: String,
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Bursts with at least one query.
    pub bursts: u64,
    /// Received messages: answered and dropped.
    pub received: u64,
    /// Replies sent.
    pub replied: u64,
    /// Messages dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Replies by response code.
    pub rcodes: BTreeMap<String, u64>,
    /// Replies by query type.
    pub types: BTreeMap<String, u64>,
    /// Replies with TC set.
    pub truncated: u64,
    /// NOTIFY messages, by what became of them.
    pub notifies: BTreeMap<String, u64>,
    /// Panics in the handling of queries and of upstreams' answers.
    pub panics: u64,
    /// From reading a query to passing its reply to the kernel.
    pub latency: StatusHistogram,
}

/// Panics of the threads that answer: defects that cost one query each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PanicStatus {
    /// How many there were since the start.
    pub count: u64,
    /// When the last one was; `None`: there was none.
    pub last_seconds: Option<f64>,
    /// Its place in the code, its message, and the query.
    pub last: Option<String>,
}

/// The stream connections of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamStatus {
    /// Open connections.
    pub open: u64,
    /// Maximum open connections.
    pub open_max: u64,
    /// Bytes of their buffers.
    #[serde(alias = "buffered_octets")]
    pub buffered_bytes: u64,
    /// Maximum bytes of their buffers.
    #[serde(alias = "buffered_octets_max")]
    pub buffered_bytes_max: u64,
    /// Accepted connections, with those from the old process.
    pub accepted: u64,
    /// Connections that the server closed, by reason.
    pub closed: BTreeMap<String, u64>,
}

/// An upstream of one suffix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpstreamStatus {
    /// The suffix, with the final dot.
    pub suffix: String,
    /// The server's address and port.
    pub server: String,
    /// Whether it responds.
    pub state: UpstreamState,
    /// Its smoothed round-trip time, the highest of all threads; `None`: never measured.
    pub round_trip_seconds: Option<f64>,
    /// Queries sent.
    pub sent: u64,
    /// Usable replies.
    pub answered: u64,
    /// Replies that it could not answer.
    pub refused: u64,
    /// Queries without a reply in time.
    pub late: u64,
    /// Messages that match no query.
    pub mismatched: u64,
    /// Open connections to it.
    pub connections: u64,
    /// Connections opened so far.
    pub connections_opened: u64,
    /// Queries that found no room on a connection.
    pub connections_full: u64,
    /// The error of the last connection; `None` after a successful one.
    pub fault: Option<String>,
}

/// Whether an upstream responds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpstreamState {
    /// It responds, or was not queried yet.
    #[default]
    Up,
    /// It fails for some threads.
    Failing,
    /// It does not respond.
    Down,
    /// An operator drained it: it is queried only if no other upstream responds.
    Drained,
}

impl UpstreamState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Up, Self::Failing, Self::Down, Self::Drained];

    /// The name used in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Failing => "failing",
            Self::Down => "down",
            Self::Drained => "drained",
        }
    }
}

/// The cache of upstream answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheStatus {
    /// Look-ups with a fresh answer.
    pub hits: u64,
    /// Look-ups with an expired answer.
    pub stale: u64,
    /// Look-ups without an answer.
    pub misses: u64,
    /// Cached answers.
    pub entries: u64,
    /// Their size in bytes.
    #[serde(alias = "octets")]
    pub bytes: u64,
    /// Their maximum size in bytes.
    #[serde(alias = "octets_max")]
    pub bytes_max: u64,
    /// Clients waiting for an answer.
    pub waiting: u64,
    /// Queries refused because their client had too many waiting.
    pub crowded: u64,
    /// Queries passed to other threads' caches.
    pub homes: ShardStatus,
}

/// The most frequent names and clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HottestNames {
    /// The samples that the shares come from; older ones count less.
    pub samples: u64,
    /// Names, the most frequent first.
    pub names: Vec<HotEntry>,
    /// Client addresses, the busiest first.
    pub clients: Vec<HotEntry>,
}

/// A name or a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotEntry {
    /// The name or address.
    pub what: String,
    /// Its share of all samples, 0 to 1.
    pub share: f64,
}

/// The remedy for threads that panicked; `None`: none did.
pub fn failed_threads(names: &[String]) -> Option<String> {
    let text =
        format!("{} ended: served zones no longer change; restart the server", names.join(" and "));
    (!names.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_names_equal_their_json() {
        for state in ServerState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        for state in ZoneState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }

    #[test]
    fn status_of_another_version_is_read() {
        let older = r#"{"version": "0.0.9", "state": "serving", "new": 1, "zones": [{}]}"#;
        let status: Status = serde_json::from_str(older).unwrap();
        assert_eq!((status.version.as_str(), status.state), ("0.0.9", ServerState::Serving));
        assert_eq!(status.zones, [ZoneStatus::default()]);
    }
}

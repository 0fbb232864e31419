//! What a server tells of itself: one structure for `dunlin status`, `dunlin top` and metrics.
//!
//! It is gathered when somebody asks, from what the threads count; nothing of it is kept.
mod api;
mod histogram;
mod homes;
mod hosts;
mod store;
mod xdp;

pub use api::ApiStatus;
pub use histogram::Histogram;
pub use homes::HomesStatus;
pub use hosts::HostsStatus;
pub use store::StoreStatus;
pub use xdp::{XdpQueueStatus, XdpStatus};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

/// All a server tells of itself. Times are seconds since 1970; counters only grow while the
/// process lives. What another version does not tell is read as nothing, so that a tool and a
/// server need not be of the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The version of the binary.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// How far it is.
    pub state: State,
    /// When the process started.
    pub started_seconds: f64,
    /// When this was gathered.
    pub gathered_seconds: f64,
    /// The addresses it answers on, UDP and TCP.
    pub listen: Vec<String>,
    /// The config, and what became of its last reload.
    pub config: ConfigStatus,
    /// The number of the image that is served, counted from 1 by each process.
    pub generation: u64,
    /// When it was published.
    pub generation_seconds: f64,
    /// The zones of the config, in its order.
    pub zones: Vec<ZoneStatus>,
    /// The hosts files of the config, in its order.
    pub hosts: Vec<HostsStatus>,
    /// The interface that is served past the kernel; nothing: none is configured.
    pub xdp: Option<XdpStatus>,
    /// Why zones that are in order are not kept on disk; nothing: they are, or are not to be.
    pub saving: Option<String>,
    /// Threads that nothing can be changed without, and that ended by themselves: what was served
    /// is, until a restart.
    pub failed: Vec<String>,
    /// Workers, then stream threads.
    pub threads: Vec<ThreadStatus>,
    /// The stream connections.
    pub streams: StreamStatus,
    /// The most received by a worker over the mean of all; 1 is even.
    pub imbalance: f64,
    /// The servers that others' names are asked of, by suffix, in the order of the config.
    pub upstreams: Vec<UpstreamStatus>,
    /// What is kept of what they said; nothing: nobody is asked.
    pub cache: Option<CacheStatus>,
    /// Zones that are written through this server; nothing: there is no store.
    pub store: Option<StoreStatus>,
    /// Who writes them over HTTP; nothing: nobody may.
    pub api: Option<ApiStatus>,
    /// What the process takes of the machine.
    pub process: Process,
    /// What is asked most, and who asks most, lately. Estimated from samples.
    pub hot: Hot,
    /// What became of the samples of single queries.
    #[serde(default)]
    pub tap: TapStatus,
}

/// How far a server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It loads its zones, and does not answer yet.
    #[default]
    Starting,
    /// It answers.
    Serving,
    /// It still answers, and will end soon: nothing new should be sent to it.
    Draining,
}

impl State {
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

    /// Whether clients should be sent to it.
    pub fn is_ready(self) -> bool {
        self == Self::Serving
    }
}

/// The config a server runs with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigStatus {
    /// The file; empty: it runs on defaults alone.
    pub file: String,
    /// When what it says was taken over last.
    pub loaded_seconds: f64,
    /// Reloads that were taken over, and that were refused.
    pub reloads: u64,
    /// As before.
    pub reloads_refused: u64,
    /// Why the last reload was refused, a line each; empty: it was not.
    pub errors: Vec<String>,
    /// Keys whose new value waits for a restart or a successor.
    pub restart_needed: Vec<String>,
}

/// One zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ZoneStatus {
    /// Its name, with the final dot.
    pub name: String,
    /// The file it is loaded from.
    pub file: String,
    /// What is answered.
    pub state: ZoneState,
    /// The serial of what is answered.
    pub serial: Option<u32>,
    /// Records of what is answered.
    pub records: u64,
    /// When what is answered was loaded; nothing: never.
    pub loaded_seconds: Option<f64>,
    /// When the file was refused last, if nothing good came after it.
    pub refused_seconds: Option<f64>,
    /// Why it was refused, a line each.
    pub errors: Vec<String>,
}

/// What is answered of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ZoneState {
    /// SERVFAIL, since it was never loaded.
    #[default]
    Unloaded,
    /// What its file says.
    Current,
    /// What its file said before; what it says now was refused.
    Behind,
    /// What was saved from an earlier process, since the file was refused.
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

/// What one thread has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadStatus {
    /// `worker-0`, `streams-0`, …
    pub name: String,
    /// `udp` or `tcp`.
    pub transport: String,
    /// The CPU it stays on.
    pub cpu: Option<usize>,
    /// Bursts that were not empty.
    pub bursts: u64,
    /// Messages received: those replied to and those dropped.
    pub received: u64,
    /// Replies sent.
    pub replied: u64,
    /// Messages dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Replies by rcode.
    pub rcodes: BTreeMap<String, u64>,
    /// Replies by the type that was asked for.
    pub types: BTreeMap<String, u64>,
    /// Replies with TC set.
    pub truncated: u64,
    /// From reading a message to handing its reply to the kernel.
    pub latency: Histogram,
}

/// What a process takes of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Memory of it that is in RAM, in octets.
    pub resident_octets: u64,
    /// Time of CPUs it has used, all threads together, in its own code and in the kernel.
    pub cpu_seconds: f64,
    /// File descriptors it has open.
    pub open_files: u64,
    /// File descriptors it may have open.
    pub open_files_max: u64,
}

impl Process {
    /// This process, as the kernel tells of it in `/proc/self` (proc(5)). What cannot be read is 0.
    pub fn read() -> Self {
        let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let of_line = |file: &str, head: &str| {
            let text = text(file);
            let line = text.lines().find_map(|line| line.strip_prefix(head));
            line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        Self {
            resident_octets: of_line("/proc/self/status", "VmRSS:") << 10,
            cpu_seconds: cpu_seconds(&text("/proc/self/stat")).unwrap_or(0.0),
            // One of them is the listing itself.
            open_files: fs::read_dir("/proc/self/fd")
                .map_or(0, |all| all.count().saturating_sub(1) as u64),
            open_files_max: of_line("/proc/self/limits", "Max open files"),
        }
    }
}

/// User and system time of `/proc/PID/stat`: fields 14 and 15, in hundredths of a second (Linux
/// shows that unit whatever its own clock does). The second field may hold blanks, but ends with
/// the last parenthesis.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / 100.0)
}

/// The stream connections of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamStatus {
    /// Open now.
    pub open: u64,
    /// Open at most.
    pub open_max: u64,
    /// Octets their buffers take now.
    pub buffered_octets: u64,
    /// Octets their buffers may take.
    pub buffered_octets_max: u64,
    /// Accepted so far, those taken over from a predecessor included.
    pub accepted: u64,
    /// Closed by us so far, by reason.
    pub closed: BTreeMap<String, u64>,
}

/// A server that names at and below a suffix are asked of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpstreamStatus {
    /// The suffix, with the final dot.
    pub suffix: String,
    /// The server's address and port.
    pub server: String,
    /// Whether it answers.
    pub state: UpstreamState,
    /// How long it takes, smoothed; the most of all threads. Nothing: it was never heard.
    pub round_trip_seconds: Option<f64>,
    /// Questions sent.
    pub sent: u64,
    /// Replies that could be used.
    pub answered: u64,
    /// Replies that said that it could not answer.
    pub refused: u64,
    /// Questions that were not answered in time.
    pub late: u64,
    /// Messages that were no reply to what was asked.
    pub mismatched: u64,
    /// Connections to it that there are.
    pub connections: u64,
    /// Connections that were ever opened.
    pub connections_opened: u64,
    /// Questions that found no room on them.
    pub connections_full: u64,
    /// What was wrong with the last connection, until one is good again.
    pub fault: Option<String>,
}

/// Whether a server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpstreamState {
    /// It does, or was not asked yet.
    #[default]
    Up,
    /// For some threads it does not.
    Failing,
    /// It does not.
    Down,
    /// It is not to be asked, as somebody said, but where nobody else answers.
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

/// What is kept of what other servers said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheStatus {
    /// Look-ups that found an answer that is good.
    pub hits: u64,
    /// Look-ups that found one that is too old.
    pub stale: u64,
    /// Look-ups that found nothing.
    pub misses: u64,
    /// Answers that are kept.
    pub entries: u64,
    /// Octets they take.
    pub octets: u64,
    /// Octets they may take.
    pub octets_max: u64,
    /// Clients that wait for an answer.
    pub waiting: u64,
    /// Names that threads leave to each other.
    pub homes: HomesStatus,
}

/// What is asked most, and who asks most.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hot {
    /// Names, the most asked first.
    pub names: Vec<Rank>,
    /// Client addresses, the busiest first.
    pub clients: Vec<Rank>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// The name or the address.
    pub what: String,
    /// Its share of all that was sampled, 0 to 1.
    pub share: f64,
}

/// What became of the queries that were picked to be looked at one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TapStatus {
    /// Queries that were picked.
    pub sampled: u64,
    /// Of these, lost because they came faster than they were looked at.
    pub lost: u64,
    /// Lines written to the query log.
    pub logged: u64,
    /// Lines the query log could not take.
    pub log_lost: u64,
    /// Whether dnstap messages are to be sent at all.
    pub dnstap_wanted: bool,
    /// Whether somebody reads our dnstap messages.
    pub dnstap_connected: bool,
    /// dnstap messages sent.
    pub dnstap_sent: u64,
    /// dnstap messages that nobody was there to read, or not fast enough.
    pub dnstap_lost: u64,
    /// How often the reader of dnstap messages was connected to again.
    pub dnstap_reconnects: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json() {
        for state in State::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        for state in ZoneState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }

    #[test]
    fn another_version_is_understood() {
        let older = r#"{"version": "0.0.9", "state": "serving", "new": 1, "zones": [{}]}"#;
        let status: Status = serde_json::from_str(older).unwrap();
        assert_eq!((status.version.as_str(), status.state), ("0.0.9", State::Serving));
        assert_eq!(status.zones, [ZoneStatus::default()]);
    }

    #[test]
    fn a_process_knows_itself() {
        let process = Process::read();
        assert!(process.resident_octets > 100 << 10, "{process:?}");
        assert!((1..process.open_files_max).contains(&process.open_files), "{process:?}");
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 5 1 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("7 (a) S 1"), None);
    }
}

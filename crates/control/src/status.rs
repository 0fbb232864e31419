//! What a server tells of itself: one structure for `dunlin status`, `dunlin top` and metrics alike.
//!
//! It is gathered when somebody asks, from what the threads count; nothing of it is kept.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All a server tells of itself. Times are seconds since 1970; counters only grow while the
/// process lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of the binary.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// How far it is.
    pub state: State,
    /// When the process started.
    pub started_seconds: f64,
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
    /// Workers, then stream threads.
    pub threads: Vec<ThreadStatus>,
    /// The stream connections.
    pub streams: StreamStatus,
    /// The most received by a worker over the mean of all; 1 is even.
    pub imbalance: f64,
    /// Memory of the process that is in RAM, in octets.
    pub resident_octets: u64,
    /// What is asked most, and who asks most, lately. Estimated from samples.
    pub hot: Hot,
    /// What became of the samples of single queries.
    #[serde(default)]
    pub tap: TapStatus,
}

/// How far a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It loads its zones, and does not answer yet.
    Starting,
    /// It answers.
    Serving,
    /// It still answers, and will end soon: nothing new should be sent to it.
    Draining,
}

impl State {
    /// Whether clients should be sent to it.
    pub fn is_ready(self) -> bool {
        self == Self::Serving
    }
}

/// The config a server runs with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ZoneState {
    /// SERVFAIL, since it was never loaded.
    Unloaded,
    /// What its file says.
    Current,
    /// What its file said before; what it says now was refused.
    Behind,
    /// What was saved from an earlier process, since the file was refused.
    Saved,
}

/// What one thread has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// How often something took how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Upper ends of the buckets, in seconds, growing; the last bucket has none.
    pub bounds_seconds: Vec<f64>,
    /// How often, for each bucket: one more than there are bounds.
    pub counts: Vec<u64>,
    /// All of them together.
    pub sum_seconds: f64,
}

impl Histogram {
    /// Adds another one with the same bounds; an empty one takes the other's.
    pub fn add(&mut self, other: &Self) {
        if self.counts.is_empty() {
            *self = other.clone();
            return;
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum_seconds += other.sum_seconds;
    }

    /// The upper end of the bucket in which this share, 0 to 1, is reached; infinity in the last,
    /// nothing where nothing was counted.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let all: u64 = self.counts.iter().sum();
        let wanted = ((share * all as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Some(self.bounds_seconds.get(index).copied().unwrap_or(f64::INFINITY));
            }
        }
        None
    }
}

/// The stream connections of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// What is asked most, and who asks most.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

    fn histogram(counts: [u64; 3]) -> Histogram {
        Histogram { bounds_seconds: vec![0.1, 0.2], counts: counts.into(), sum_seconds: 1.0 }
    }

    #[test]
    fn quantiles_are_upper_ends_of_buckets() {
        assert_eq!(histogram([90, 9, 1]).quantile(0.9), Some(0.1));
        assert_eq!(histogram([90, 9, 1]).quantile(0.99), Some(0.2));
        assert_eq!(histogram([90, 9, 1]).quantile(1.0), Some(f64::INFINITY));
        assert_eq!(histogram([0, 0, 0]).quantile(0.5), None);
    }

    #[test]
    fn histograms_add_up() {
        let mut sum = Histogram::default();
        sum.add(&histogram([1, 2, 3]));
        sum.add(&histogram([1, 0, 1]));
        assert_eq!((sum.counts, sum.sum_seconds), (vec![2, 2, 4], 2.0));
    }
}

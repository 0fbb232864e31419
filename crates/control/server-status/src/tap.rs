//! Samples of queries.
use serde::{Deserialize, Serialize};

/// Counters of sampled queries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TapStatus {
    /// Sampled queries.
    pub sampled: u64,
    /// Samples lost because the reader was too slow.
    pub lost: u64,
    /// Lines written to the query log.
    pub logged: u64,
    /// Lines lost because the query log was too slow.
    pub log_lost: u64,
    /// Why its file cannot be written; `None`: it can.
    pub log_fault: Option<String>,
    /// Whether dnstap is configured.
    pub dnstap_wanted: bool,
    /// Whether a dnstap reader is connected.
    pub dnstap_connected: bool,
    /// dnstap messages sent.
    pub dnstap_sent: u64,
    /// dnstap messages lost without a reader, or with one too slow.
    pub dnstap_lost: u64,
    /// Reconnections to the dnstap reader.
    pub dnstap_reconnects: u64,
}

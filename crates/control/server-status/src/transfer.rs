//! Transfers of zones to other servers.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Transfers of zones to other servers (`[transfer]`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransferStatus {
    /// Transfers in progress.
    pub active: u64,
    /// Transfers so far, by what was sent.
    pub served: BTreeMap<String, u64>,
    /// Queries for transfers that were refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Transfers that were cut off, by reason.
    pub cut: BTreeMap<String, u64>,
    /// Records sent.
    pub records: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Bytes of the differences between versions that are kept for IXFR.
    pub history_bytes: u64,
    /// Notifications of changes (RFC 1996), by what became of them.
    pub notifications: BTreeMap<String, u64>,
}

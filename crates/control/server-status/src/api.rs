//! Status of the REST API.
use super::StatusHistogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The REST API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApiStatus {
    /// Why no request is authenticated: the file of credentials is invalid.
    pub fault: Option<String>,
    /// Why it is not served any more; `None`: it is.
    pub ended: Option<String>,
    /// Open connections.
    pub connections: u64,
    /// Connections accepted so far.
    pub connections_accepted: u64,
    /// Connections refused at the maximum.
    pub connections_full: u64,
    /// Idle connections closed to make room for others.
    pub connections_evicted: u64,
    /// Requests so far, by status code; 499: the client disconnected.
    pub requests: BTreeMap<String, u64>,
    /// Time from accepting a write until it is durable.
    pub durable: StatusHistogram,
    /// Time from accepting a write until every worker serves it, for clients that wait for it.
    pub live: StatusHistogram,
}

//! What is told of the REST API.
use super::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The REST API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApiStatus {
    /// Connections that are open.
    pub connections: u64,
    /// Connections that were accepted so far.
    pub connections_accepted: u64,
    /// Connections that were closed at once, since there was no place for them.
    pub connections_full: u64,
    /// Requests so far, by the status of the response; 499: the client did not wait for it.
    pub requests: BTreeMap<String, u64>,
    /// From a write coming to the desk until no crash could undo it.
    pub durable: Histogram,
    /// The same until every worker served it, of those where somebody waited for that.
    pub live: Histogram,
}

//! Replies by the network of the client.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The replies to the clients of one network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkStatus {
    /// The name of the network; `default`: clients in no network; `other`: networks without a
    /// counter of their own.
    pub name: String,
    /// Replies by response code. BADVERS counts as NOERROR: its upper bits are not in the header.
    pub rcodes: BTreeMap<String, u64>,
}

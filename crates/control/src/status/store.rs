//! What is told of the store.
use serde::{Deserialize, Serialize};

/// The store, where records are that are written through the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreStatus {
    /// The file of its tree; its log is beside it.
    pub file: String,
    /// Octets of both.
    pub octets: u64,
    /// Octets that are free on its disk.
    pub free_octets: u64,
    /// The newest write.
    pub revision: u64,
    /// Zones in it.
    pub zones: u64,
    /// Their record sets.
    pub rrsets: u64,
    /// Why it cannot be read, as while a successor takes it over; nothing: it can.
    pub fault: Option<String>,
}

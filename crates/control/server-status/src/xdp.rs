//! Status of an interface served by AF_XDP.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The interface and its counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct XdpStatus {
    /// Its name.
    pub interface: String,
    /// Where the program runs: `native` (driver) or `generic` (kernel). Empty: none; sockets
    /// serve alone.
    pub mode: String,
    /// Whether the program runs in a dispatcher with others.
    pub joined: bool,
    /// Whether driver and server share frames without copies.
    pub zero_copy: bool,
    /// Why only sockets serve.
    pub failed: Option<String>,
    /// Packets by the program's action: `taken` (of these `unchecked`), or by the reason to pass
    /// them to the kernel.
    pub passed: BTreeMap<String, u64>,
    /// The served queues.
    pub queues: Vec<XdpQueueStatus>,
}

/// One queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct XdpQueueStatus {
    /// The number of the queue.
    pub queue: u32,
    /// The number of its frames.
    pub frames: u64,
    /// Where they are: `free`, or in a ring. Frames in use by the worker or the driver are missing.
    pub places: BTreeMap<String, u64>,
    /// Frames that the kernel dropped, by reason.
    pub lost: BTreeMap<String, u64>,
}

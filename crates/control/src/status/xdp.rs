//! What a server tells of an interface that it serves past the kernel's network stack.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The interface, and what became of what came there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct XdpStatus {
    /// Its name.
    pub interface: String,
    /// Who runs the program: `native`, the driver; `generic`, the kernel. Empty: nobody, so sockets
    /// serve alone.
    pub mode: String,
    /// Whether the program runs in a dispatcher, beside others.
    pub joined: bool,
    /// Whether frames are not copied between the driver and us.
    pub zero_copy: bool,
    /// Why sockets serve alone.
    pub failed: Option<String>,
    /// Packets by what the program did: `taken`, and of these `unchecked`; or left to the kernel,
    /// by reason.
    pub passed: BTreeMap<String, u64>,
    /// The queues that are served.
    pub queues: Vec<XdpQueueStatus>,
}

/// One queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct XdpQueueStatus {
    /// Its number.
    pub queue: u32,
    /// How many frames it has.
    pub frames: u64,
    /// Where they are: `free`, or in one of the rings. While nothing is under way, and frames are
    /// copied, these are all; else the rest is with the worker or the driver.
    pub places: BTreeMap<String, u64>,
    /// Frames that the kernel lost there, by reason.
    pub lost: BTreeMap<String, u64>,
}

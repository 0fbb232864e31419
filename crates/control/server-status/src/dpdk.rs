//! Status of the devices that DPDK serves.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// DPDK and its devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DpdkStatus {
    /// The release, such as `DPDK 22.11.11`. Empty: it is not started.
    pub release: String,
    /// Why only sockets serve.
    pub failed: Option<String>,
    /// The configured devices.
    pub devices: Vec<DpdkDeviceStatus>,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DpdkDeviceStatus {
    /// Its name.
    pub name: String,
    /// Why it is not served.
    pub failed: Option<String>,
    /// Its driver.
    pub driver: String,
    /// Its Ethernet address.
    pub mac: String,
    /// The most bytes of an IP packet.
    pub mtu: usize,
    /// Whether its link is up.
    pub up: bool,
    /// Whether it was removed.
    pub gone: bool,
    /// Received frames.
    pub received: u64,
    /// Sent frames.
    pub sent: u64,
    /// Frames that were lost or dropped, by reason.
    pub lost: BTreeMap<String, u64>,
    /// Frames that were not for the server, and that the kernel got.
    pub to_host: u64,
    /// Frames that the kernel sent.
    pub from_host: u64,
    /// Whether it wakes its workers, which then sleep while nothing comes.
    pub interrupts: bool,
    /// Its buffers.
    pub buffers: u64,
    /// Those of them that are not in use.
    pub buffers_free: u64,
    /// Its queues; worker n serves queue n.
    pub queues: Vec<DpdkQueueStatus>,
}

/// One queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DpdkQueueStatus {
    /// How often it was polled.
    pub polls: u64,
    /// Polls that received nothing.
    pub empty_polls: u64,
    /// How often its worker slept until something came.
    pub waits: u64,
}

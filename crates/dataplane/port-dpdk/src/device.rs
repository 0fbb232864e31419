//! A started device.

use crate::calls::RawCounts;
use crate::counts::{DeviceCounts, QueueCounts};
use crate::{Environment, Library};
use std::sync::Arc;

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name.
    pub name: String,
    /// The driver, such as `net_memif`.
    pub driver: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The most bytes of an IP packet that it and a buffer hold.
    pub mtu: usize,
    /// Whether it wakes the worker of each queue.
    pub has_interrupts: bool,
}

/// A device, which is stopped when its last queue and view are dropped.
#[derive(Debug)]
pub struct Device {
    environment: Environment,
    port: u16,
}

impl Device {
    /// A device that was started.
    pub fn new(environment: Environment, port: u16) -> Self {
        Self { environment, port }
    }

    /// The library.
    pub fn library(&self) -> Library {
        self.environment.library()
    }

    /// Its number.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let port = self.port;
        // One at a time with others that are opened or stopped. Its thread has ended: so has the
        // process, about.
        let _ = self.environment.run(move |library| {
            // SAFETY: `open` gave the number, and no queue uses the device any more.
            unsafe { (library.calls().close)(port) };
            Ok(())
        });
    }
}

/// A device, as the control plane sees it.
#[derive(Debug)]
pub struct DeviceView {
    /// What it is.
    pub info: DeviceInfo,
    device: Arc<Device>,
    queues: Vec<Arc<QueueCounts>>,
}

impl DeviceView {
    /// A view of a started device.
    pub(crate) fn new(
        info: DeviceInfo,
        device: Arc<Device>,
        queues: Vec<Arc<QueueCounts>>,
    ) -> Self {
        Self { info, device, queues }
    }

    /// The counters of its queues, in order.
    pub fn queues(&self) -> &[Arc<QueueCounts>] {
        &self.queues
    }

    /// What it counted; all zero if it cannot be read any more.
    pub fn counts(&self) -> DeviceCounts {
        let mut raw = RawCounts::default();
        // SAFETY: the device is started, and one structure is written.
        unsafe { (self.device.library().calls().count)(self.device.port, &raw mut raw) };
        raw.into()
    }
}

//! Network devices.

use super::ethtool;
use crate::Result;
use crate::limits::DEVICES_MAX;
use crate::machine::Machine;
use crate::tool::output;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

const NET: &str = "sys/class/net";

/// A network device (`/sys/class/net`, ethtool(8)).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its driver; empty for one that is made of software.
    pub driver: String,
    /// The version of its firmware.
    pub firmware: String,
    /// Where it is plugged in, and how: the bus' address, `16.0 GT/s PCIe x8`.
    pub bus: String,
    /// Its NUMA node; -1 where there is none.
    pub node: i64,
    /// Mbit/s; 0 if unknown.
    pub speed: i64,
    /// Bytes of a packet, at most.
    pub mtu: i64,
    /// Length of its send queue, in packets.
    pub send_queue: i64,
    /// Receive queues in use.
    pub rx_queues: usize,
    /// Send queues in use.
    pub tx_queues: usize,
    /// Queues it has (ethtool -l).
    pub channels: BTreeMap<String, String>,
    /// Room in its rings (ethtool -g).
    pub rings: BTreeMap<String, String>,
    /// Interrupt coalescing (ethtool -c).
    pub coalescing: BTreeMap<String, String>,
    /// Whether it sends and obeys pause frames (ethtool -a).
    pub pause: BTreeMap<String, String>,
    /// Enabled offloads (ethtool -k).
    pub offloads: String,
    /// How flows are spread over queues (ethtool -x): entries of the table for each queue.
    pub rss: BTreeMap<String, String>,
    /// Fields of an IPv4 datagram that select its queue (ethtool -n rx-flow-hash udp4).
    pub rss_udp4: String,
    /// CPUs that each receive queue's packets are steered to, as a mask; empty: that of the
    /// interrupt.
    pub rps: BTreeMap<String, String>,
    /// CPUs that use each send queue, as a mask.
    pub xps: BTreeMap<String, String>,
    /// Whether threads of the kernel poll it.
    pub threaded: bool,
    /// Nanoseconds that packets may be delayed for GRO, and how often interrupts may be deferred:
    /// `gro_flush_timeout`, `napi_defer_hard_irqs`.
    pub deferral: String,
    /// Its queueing discipline.
    pub qdisc: String,
    /// How an XDP program is attached; empty: none is.
    pub xdp: String,
    /// CPUs that may serve its interrupts, as lists, by their name.
    pub interrupts: BTreeMap<String, String>,
}

/// Devices that are up and plugged in; where there are none, those that are up, but for the
/// loopback one. Devices of containers are ignored.
pub fn devices_up(machine: &Machine) -> Vec<String> {
    let is_up = |name: &String| {
        let state = machine.read(&format!("{NET}/{name}/operstate"));
        let carrier = machine.number(&format!("{NET}/{name}/carrier"));
        name != "lo" && (state.as_deref() == Some("up") || carrier == Some(1))
    };
    let is_hard = |name: &&String| machine.has(&format!("{NET}/{name}/device"));
    let up: Vec<_> = machine.list(NET).into_iter().filter(is_up).collect();
    let hard: Vec<_> = up.iter().filter(is_hard).cloned().collect();
    let chosen = if hard.is_empty() { up } else { hard };
    chosen.into_iter().take(DEVICES_MAX).collect()
}

impl Device {
    pub(super) fn read(machine: &Machine, name: &str) -> Result<Self> {
        let folder = format!("{NET}/{name}");
        if name.is_empty() || name.contains('/') || !machine.has(&folder) {
            return Err(format!("there is no device {name} (`ip link` lists the devices)"));
        }
        let file = |file: &str| format!("{folder}/{file}");
        let number = |name: &str| machine.number(&file(name)).unwrap_or(0);
        let text = |name: &str| machine.read(&file(name)).unwrap_or_default();
        let queues = machine.list(&file("queues"));
        let masks = |kind: &str, mask: &str| -> BTreeMap<String, String> {
            let of_kind = queues.iter().filter(|queue| queue.starts_with(kind));
            let mask = |queue: &String| unset(&text(&format!("queues/{queue}/{mask}")));
            of_kind.map(|queue| (queue.clone(), mask(queue))).collect()
        };
        let rps = masks("rx-", "rps_cpus");
        let xps = masks("tx-", "xps_cpus");
        let mut device = Self {
            driver: link(machine, &file("device/driver")),
            bus: bus(machine, &folder),
            node: machine.number(&file("device/numa_node")).unwrap_or(-1),
            speed: number("speed").max(0),
            mtu: number("mtu"),
            send_queue: number("tx_queue_len"),
            rx_queues: rps.len(),
            tx_queues: xps.len(),
            rps,
            xps,
            threaded: number("threaded") == 1,
            deferral: format!(
                "{} ns, {}",
                number("gro_flush_timeout"),
                number("napi_defer_hard_irqs")
            ),
            interrupts: interrupts(machine, name)
                .into_iter()
                .map(|interrupt| (interrupt.name, interrupt.cpus))
                .collect(),
            ..Self::default()
        };
        if machine.is_this() {
            read_settings(name, &mut device);
        }
        Ok(device)
    }
}

/// Reads the settings that are not in `/sys`.
fn read_settings(name: &str, device: &mut Device) {
    let shown = |words: &[&str]| output("ethtool", words).unwrap_or_default();
    let driver = ethtool::pairs(&shown(&["-i", name]));
    if let (true, Some(driver)) = (device.driver.is_empty(), driver.get("driver")) {
        device.driver.clone_from(driver);
    }
    device.firmware = driver.get("firmware-version").cloned().unwrap_or_default();
    device.channels = ethtool::pairs(ethtool::current(&shown(&["-l", name])));
    device.rings = ethtool::pairs(ethtool::current(&shown(&["-g", name])));
    device.coalescing = ethtool::pairs(&shown(&["-c", name]));
    device.pause = ethtool::pairs(&shown(&["-a", name]));
    device.offloads = ethtool::offloads(&shown(&["-k", name]));
    device.rss = ethtool::rss(&shown(&["-x", name]));
    device.rss_udp4 = ethtool::hash_fields(&shown(&["-n", name, "rx-flow-hash", "udp4"]));
    let tc = output("tc", &["-j", "qdisc", "show", "dev", name]).unwrap_or_default();
    device.qdisc = ethtool::root_qdisc(&tc);
    let ip = output("ip", &["-j", "link", "show", "dev", name]).unwrap_or_default();
    device.xdp = ethtool::xdp(&ip);
}

/// An empty mask is unknown.
fn unset(mask: &str) -> String {
    let is_set = mask.chars().any(|digit| !matches!(digit, '0' | ','));
    if is_set { mask.to_owned() } else { String::new() }
}

/// The name of what a link leads to.
fn link(machine: &Machine, file: &str) -> String {
    let target = fs::read_link(machine.path(file)).ok();
    let name = target.as_ref().and_then(|target| target.file_name()?.to_str());
    name.unwrap_or_default().to_owned()
}

/// Address, speed and width.
fn bus(machine: &Machine, folder: &str) -> String {
    let address = link(machine, &format!("{folder}/device"));
    let speed = machine.read(&format!("{folder}/device/current_link_speed"));
    let width = machine.read(&format!("{folder}/device/current_link_width"));
    match (speed, width) {
        (Some(speed), Some(width)) => format!("{address}, {speed} x{width}"),
        _ => address,
    }
}

/// An interrupt of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// Its name, such as `eth0-rx-0` (`/proc/interrupts`).
    pub name: String,
    /// The CPUs that may serve it, as a list.
    pub cpus: String,
}

/// The interrupts of a device: those of what it is plugged in as, or of what that is plugged in as
/// (a virtio device has none of its own).
pub fn interrupts(machine: &Machine, device: &str) -> Vec<Interrupt> {
    let table = machine.read("proc/interrupts").unwrap_or_default();
    let virtio = link(machine, &format!("{NET}/{device}/device"));
    let folders = ["device/msi_irqs", "device/../msi_irqs"];
    let numbers = folders.iter().map(|folder| machine.list(&format!("{NET}/{device}/{folder}")));
    let numbers = numbers.into_iter().find(|numbers| !numbers.is_empty()).unwrap_or_default();
    let read = |number: String| {
        let number = number.parse().ok()?;
        let name = interrupt_name(&table, number)?;
        let cpus = machine.read(&format!("proc/irq/{number}/smp_affinity_list"))?;
        // One that never comes for packets moves nothing.
        let is_config = !virtio.is_empty() && name == format!("{virtio}-config");
        (!is_config).then_some(Interrupt { number, name, cpus })
    };
    numbers.into_iter().filter_map(read).collect()
}

/// The last word of its line.
pub(super) fn interrupt_name(table: &str, number: u32) -> Option<String> {
    let of_number = |line: &&str| {
        line.split_once(':').is_some_and(|(found, _)| found.trim().parse() == Ok(number))
    };
    let line = table.lines().find(of_number)?;
    line.split_whitespace().next_back().map(str::to_owned)
}

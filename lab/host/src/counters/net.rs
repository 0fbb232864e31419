//! Counters of a namespace's network stack.
//!
//! `/proc/net` shows the namespace of a process' first thread; `/proc/thread-self/net` that of the
//! thread that reads.

use crate::Result;
use crate::limits::SOCKETS_MAX;
use crate::tool::{self, text};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::Path;

/// Packets of a device (`/proc/net/dev`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Received.
    pub rx_packets: u64,
    /// Bytes that came in, without preamble and checksum of the frames.
    pub rx_bytes: u64,
    /// Received and dropped for lack of room, including those that the card missed.
    pub rx_drops: u64,
    /// Received damaged.
    pub rx_errors: u64,
    /// Sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Dropped before they were sent.
    pub tx_drops: u64,
    /// Failed to be sent.
    pub tx_errors: u64,
}

impl Device {
    pub(super) fn since(&self, old: &Self) -> Self {
        Self {
            rx_packets: self.rx_packets.saturating_sub(old.rx_packets),
            rx_bytes: self.rx_bytes.saturating_sub(old.rx_bytes),
            rx_drops: self.rx_drops.saturating_sub(old.rx_drops),
            rx_errors: self.rx_errors.saturating_sub(old.rx_errors),
            tx_packets: self.tx_packets.saturating_sub(old.tx_packets),
            tx_bytes: self.tx_bytes.saturating_sub(old.tx_bytes),
            tx_drops: self.tx_drops.saturating_sub(old.tx_drops),
            tx_errors: self.tx_errors.saturating_sub(old.tx_errors),
        }
    }
}

/// Packets that queueing disciplines of a device dropped or requeued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qdisc {
    /// Dropped packets.
    pub drops: u64,
    /// Packets that the device did not take at once.
    pub requeues: u64,
    /// How often a rate limit was reached.
    pub overlimits: u64,
}

impl Qdisc {
    pub(super) fn since(&self, old: &Self) -> Self {
        Self {
            drops: self.drops.saturating_sub(old.drops),
            requeues: self.requeues.saturating_sub(old.requeues),
            overlimits: self.overlimits.saturating_sub(old.overlimits),
        }
    }
}

/// Datagrams of UDP (RFC 4113, and what Linux adds: `snmp` and `snmp6`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Udp {
    /// Delivered to a socket and read by its owner.
    pub in_datagrams: u64,
    /// For a port without a listener.
    pub no_ports: u64,
    /// Not delivered for another reason; those of the receive buffer are counted here, too.
    pub in_errors: u64,
    /// Sent by sockets.
    pub out_datagrams: u64,
    /// Dropped because a socket's receive buffer was full.
    pub receive_buffer_errors: u64,
    /// Dropped because a socket's send buffer, or the device's queue, was full.
    pub send_buffer_errors: u64,
    /// With a wrong checksum.
    pub checksum_errors: u64,
    /// Dropped because all UDP sockets together exceeded their memory (`net.ipv4.udp_mem`).
    pub memory_errors: u64,
}

impl Udp {
    pub(super) fn since(&self, old: &Self) -> Self {
        self.each(old, u64::saturating_sub)
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    fn each(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            in_datagrams: of(self.in_datagrams, other.in_datagrams),
            no_ports: of(self.no_ports, other.no_ports),
            in_errors: of(self.in_errors, other.in_errors),
            out_datagrams: of(self.out_datagrams, other.out_datagrams),
            receive_buffer_errors: of(self.receive_buffer_errors, other.receive_buffer_errors),
            send_buffer_errors: of(self.send_buffer_errors, other.send_buffer_errors),
            checksum_errors: of(self.checksum_errors, other.checksum_errors),
            memory_errors: of(self.memory_errors, other.memory_errors),
        }
    }

    fn set(&mut self, name: &str, count: u64) {
        match name {
            "InDatagrams" => self.in_datagrams = count,
            "NoPorts" => self.no_ports = count,
            "InErrors" => self.in_errors = count,
            "OutDatagrams" => self.out_datagrams = count,
            "RcvbufErrors" => self.receive_buffer_errors = count,
            "SndbufErrors" => self.send_buffer_errors = count,
            "InCsumErrors" => self.checksum_errors = count,
            "MemErrors" => self.memory_errors = count,
            _ => {}
        }
    }
}

/// A UDP socket (`/proc/net/udp`, `udp6`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Socket {
    /// The port it is bound to.
    pub port: u16,
    /// Whether it is an IPv6 socket.
    pub is_ipv6: bool,
    /// Its number, which `/proc/PID/fd` shows as `socket:[NUMBER]`.
    pub inode: u64,
    /// Datagrams dropped because it was full.
    pub drops: u64,
    /// Bytes of memory for datagrams that wait in it; in a [`super::Change`], those of the later
    /// reading.
    pub waiting_bytes: u64,
}

impl Socket {
    pub(super) fn key(&self) -> (u16, bool, u64) {
        (self.port, self.is_ipv6, self.inode)
    }

    pub(super) fn since(&self, old: &Self) -> Self {
        Self { drops: self.drops.saturating_sub(old.drops), ..*self }
    }
}

/// Packets that a CPU received from devices (`/proc/net/softnet_stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Softnet {
    /// The CPU.
    pub cpu: usize,
    /// Packets received.
    pub processed: u64,
    /// Packets dropped because its backlog was full (`net.core.netdev_max_backlog`).
    pub dropped: u64,
    /// How often it left packets for later (`net.core.netdev_budget`, `netdev_budget_usecs`).
    pub squeezed: u64,
    /// How often another CPU handed it packets (RPS).
    pub steered: u64,
}

impl Softnet {
    pub(super) fn since(&self, old: &Self) -> Self {
        Self {
            cpu: self.cpu,
            processed: self.processed.saturating_sub(old.processed),
            dropped: self.dropped.saturating_sub(old.dropped),
            squeezed: self.squeezed.saturating_sub(old.squeezed),
            steered: self.steered.saturating_sub(old.steered),
        }
    }
}

/// A file of `/proc/net` as the calling thread's namespace has it.
fn read(proc: &Path, file: &str) -> String {
    text(&proc.join("thread-self/net").join(file)).unwrap_or_default()
}

/// # Errors
/// The device is not there.
pub(super) fn device(proc: &Path, name: &str) -> Result<Device> {
    parse_device(&read(proc, "dev"), name)
        .ok_or_else(|| format!("there is no device {name} here (`ip link` lists the devices)"))
}

pub(super) fn parse_device(text: &str, name: &str) -> Option<Device> {
    let of_name = |line: &'_ str| -> Option<String> {
        let (found, counts) = line.rsplit_once(':')?;
        (found.trim() == name).then(|| counts.to_owned())
    };
    let counts = text.lines().find_map(of_name)?;
    let counts: Vec<u64> = counts.split_whitespace().map_while(|n| n.parse().ok()).collect();
    let at = |index: usize| counts.get(index).copied().unwrap_or(0);
    Some(Device {
        rx_bytes: at(0),
        rx_packets: at(1),
        rx_errors: at(2),
        rx_drops: at(3),
        tx_bytes: at(8),
        tx_packets: at(9),
        tx_errors: at(10),
        tx_drops: at(11),
    })
}

/// Of IPv4 and of IPv6.
pub(super) fn udp(proc: &Path) -> (Udp, Udp) {
    (parse_snmp(&read(proc, "snmp")), parse_snmp6(&read(proc, "snmp6")))
}

/// Pairs of lines that begin alike: names, and numbers in the same order.
pub(super) fn parse_snmp(text: &str) -> Udp {
    let mut udp = Udp::default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    if let (Some(names), Some(counts)) = (lines.next(), lines.next()) {
        for (name, count) in names.split_whitespace().zip(counts.split_whitespace()) {
            udp.set(name, count.parse().unwrap_or(0));
        }
    }
    udp
}

pub(super) fn parse_snmp6(text: &str) -> Udp {
    let mut udp = Udp::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let name = words.next().and_then(|name| name.strip_prefix("Udp6"));
        if let (Some(name), Some(count)) = (name, words.next()) {
            udp.set(name, count.parse().unwrap_or(0));
        }
    }
    udp
}

pub(super) fn sockets(proc: &Path) -> Vec<Socket> {
    let mut found = parse_sockets(&read(proc, "udp"), false);
    found.extend(parse_sockets(&read(proc, "udp6"), true));
    found.truncate(SOCKETS_MAX);
    found
}

/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ref
/// pointer drops`; numbers of addresses and queues are hexadecimal. A socket that the kernel lists
/// twice, as when another is bound before it while the list is read, is one.
pub(super) fn parse_sockets(text: &str, is_ipv6: bool) -> Vec<Socket> {
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, port) = words.get(1)?.rsplit_once(':')?;
        let (_, waiting) = words.get(4)?.split_once(':')?;
        Some(Socket {
            port: u16::from_str_radix(port, 16).ok()?,
            is_ipv6,
            inode: words.get(9)?.parse().ok()?,
            drops: words.get(12)?.parse().ok()?,
            waiting_bytes: u64::from_str_radix(waiting, 16).ok()?,
        })
    };
    let mut seen = HashSet::new();
    let found = text.lines().skip(1).filter_map(parse).take(SOCKETS_MAX);
    found.filter(|socket| seen.insert(socket.key())).collect()
}

pub(super) fn softnet(proc: &Path) -> Vec<Softnet> {
    parse_softnet(&read(proc, "softnet_stat"))
}

/// One line per CPU, hexadecimal columns; the thirteenth is the CPU's number, because offline CPUs
/// are omitted. Kernels before 5.10 lack it.
pub(super) fn parse_softnet(text: &str) -> Vec<Softnet> {
    let parse = |(index, line): (usize, &str)| {
        let counts: Vec<u64> =
            line.split_whitespace().map_while(|word| u64::from_str_radix(word, 16).ok()).collect();
        Some(Softnet {
            cpu: counts.get(12).map_or(index, |&cpu| cpu as usize),
            processed: *counts.first()?,
            dropped: *counts.get(1)?,
            squeezed: *counts.get(2)?,
            steered: counts.get(9).copied().unwrap_or(0),
        })
    };
    text.lines().enumerate().filter_map(parse).collect()
}

/// None without `tc` or without counters.
pub(super) fn qdisc(device: &str) -> Qdisc {
    let told = tool::output("tc", &["-s", "-j", "qdisc", "show", "dev", device]);
    parse_qdisc(&told.unwrap_or_default())
}

/// Disciplines that contain others (`mq`, `htb`) already include their counts.
pub(super) fn parse_qdisc(json: &str) -> Qdisc {
    #[derive(Deserialize)]
    struct Line {
        #[serde(default)]
        root: bool,
        #[serde(default)]
        drops: u64,
        #[serde(default)]
        requeues: u64,
        #[serde(default)]
        overlimits: u64,
    }
    let lines: Vec<Line> = serde_json::from_str(json).unwrap_or_default();
    let root = lines.iter().filter(|line| line.root);
    root.fold(Qdisc::default(), |sum, line| Qdisc {
        drops: sum.drops.saturating_add(line.drops),
        requeues: sum.requeues.saturating_add(line.requeues),
        overlimits: sum.overlimits.saturating_add(line.overlimits),
    })
}

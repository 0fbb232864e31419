//! The kernel's counters of one host, and the change between two readings.
//!
//! Where each value comes from:
//!
//! | value | source |
//! | --- | --- |
//! | [`Device`] | `/proc/net/dev` |
//! | [`Udp`] | `/proc/net/snmp`, `/proc/net/snmp6` |
//! | [`Socket`] | `/proc/net/udp`, `/proc/net/udp6` |
//! | [`Softnet`] | `/proc/net/softnet_stat` |
//! | [`Qdisc`] | `tc -s qdisc`; nothing where `tc` is not installed |
//! | [`Thread`] | `/proc/PID/task/TID/schedstat`, or `stat` where the kernel has none |
//! | [`CpuTime`] | `/proc/stat` |
//! | [`Interrupts`] | `/proc/interrupts`, `/proc/softirqs` |
//! | [`Throttle`] | `cpu.stat` of the processes' control groups |
//!
//! All of it is read in the network namespace of the host. A counter that a kernel lacks is 0.

mod interrupts;
mod net;
mod processes;
mod time;

pub use interrupts::Interrupts;
pub use net::{Device, Qdisc, Socket, Softnet, Udp};
pub use processes::{Thread, Throttle};
pub(crate) use processes::{group_file, parse_stat, parse_throttle as throttle_of, stat_file};
pub use time::CpuTime;
pub(crate) use time::{cpus as cpu_times, stolen};

use crate::{Result, namespace};
use cpu::CpuList;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A host to read, and the selected counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its network namespace, as `ip netns` knows it; `None`: that of this process.
    pub netns: Option<String>,
    /// Its network device. Its polling threads belong to the host.
    pub device: Option<String>,
    /// Its CPUs. Their `ksoftirqd` belong to the host. None: all.
    pub cpus: Option<CpuList>,
    /// The processes whose threads are read.
    pub pids: Vec<u32>,
}

/// The kernel's counters of a host, each since its own start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Start of the reading: nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The device, where one was named.
    pub device: Option<Device>,
    /// All its queueing disciplines together.
    pub qdisc: Qdisc,
    /// UDP over IPv4.
    pub udp4: Udp,
    /// UDP over IPv6.
    pub udp6: Udp,
    /// UDP sockets.
    pub sockets: Vec<Socket>,
    /// Packets that each CPU of the host received from devices. The kernel counts that for all of
    /// its namespaces together.
    pub softnet: Vec<Softnet>,
    /// Threads of the processes.
    pub threads: Vec<Thread>,
    /// Kernel threads that work for the host: `napi/DEVICE-…` and `ksoftirqd/CPU`.
    pub kernel_threads: Vec<Thread>,
    /// Time of each CPU of the host by kind.
    pub cpus: Vec<CpuTime>,
    /// How long the processes' control groups were throttled.
    pub throttle: Throttle,
}

/// UDP sockets of the calling thread's network namespace, each once.
pub fn sockets() -> Vec<Socket> {
    net::sockets(Path::new("/proc"))
}

impl Reading {
    /// Reads the host.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the device is not there.
    pub fn take(host: &Host) -> Result<Self> {
        namespace::within(host.netns.as_deref(), || Self::read(host, Path::new("/proc")))
    }

    fn read(host: &Host, proc: &Path) -> Result<Self> {
        let now = clock_gettime(ClockId::Monotonic);
        let is_ours =
            |cpu: usize| host.cpus.as_ref().is_none_or(|cpus| cpus.as_slice().contains(&cpu));
        // Packet counters are read first and together: the rest takes milliseconds.
        let device = host.device.as_deref().map(|name| net::device(proc, name)).transpose()?;
        let (udp4, udp6) = net::udp(proc);
        let sockets = net::sockets(proc);
        let mut softnet = net::softnet(proc);
        softnet.retain(|line| is_ours(line.cpu));
        let mut cpus = time::cpus(proc);
        cpus.retain(|time| is_ours(time.cpu));
        Ok(Self {
            at_ns: now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
            device,
            qdisc: host.device.as_deref().map(net::qdisc).unwrap_or_default(),
            udp4,
            udp6,
            sockets,
            softnet,
            threads: processes::threads(proc, &host.pids),
            kernel_threads: processes::kernel_threads(proc, host.device.as_deref(), is_ours),
            cpus,
            throttle: processes::throttle(proc, Path::new("/sys/fs/cgroup"), &host.pids),
        })
    }

    /// The change since `earlier`, of the same host. A new object counts from 0, one that no longer
    /// exists is omitted, and no number is below 0.
    pub fn since(&self, earlier: &Self) -> Change {
        let (new, old) = (self, earlier);
        let wall_ns = new.at_ns.saturating_sub(old.at_ns);
        let time_since = |now: &CpuTime, then: &CpuTime| now.since(then, wall_ns);
        Change {
            seconds: wall_ns as f64 / 1e9,
            device: new.device.map(|device| device.since(&old.device.unwrap_or_default())),
            qdisc: new.qdisc.since(&old.qdisc),
            udp: new.udp4.since(&old.udp4).plus(&new.udp6.since(&old.udp6)),
            sockets: each(&new.sockets, &old.sockets, Socket::key, Socket::since),
            softnet: each(&new.softnet, &old.softnet, |line| line.cpu, Softnet::since),
            threads: each(&new.threads, &old.threads, Thread::key, Thread::since),
            kernel_threads: each(
                &new.kernel_threads,
                &old.kernel_threads,
                Thread::key,
                Thread::since,
            ),
            cpus: each(&new.cpus, &old.cpus, |time| time.cpu, time_since),
            throttle: new.throttle.since(&old.throttle),
        }
    }
}

/// Each of `new`, less the one of `old` with the same key.
fn each<T: Clone + Default, K: Ord>(
    new: &[T],
    old: &[T],
    key: impl Fn(&T) -> K,
    since: impl Fn(&T, &T) -> T,
) -> Vec<T> {
    let nothing = T::default();
    let old: BTreeMap<K, &T> = old.iter().map(|then| (key(then), then)).collect();
    let before = |now: &T| old.get(&key(now)).copied().unwrap_or(&nothing);
    new.iter().map(|now| since(now, before(now))).collect()
}

/// Their sum, which cannot overflow with the kernel's numbers.
pub(crate) fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// The change between two readings of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Time between both.
    pub seconds: f64,
    /// The device, where one was named.
    pub device: Option<Device>,
    /// Its queueing disciplines.
    pub qdisc: Qdisc,
    /// UDP over IPv4 and IPv6.
    pub udp: Udp,
    /// UDP sockets that were there at the later reading.
    pub sockets: Vec<Socket>,
    /// Each CPU of the host.
    pub softnet: Vec<Softnet>,
    /// Threads of the processes that were there at the later reading.
    pub threads: Vec<Thread>,
    /// Kernel threads that work for the host.
    pub kernel_threads: Vec<Thread>,
    /// Each CPU of the host.
    pub cpus: Vec<CpuTime>,
    /// How long the processes' control groups were throttled.
    pub throttle: Throttle,
}

impl Change {
    /// CPU seconds of the processes, and those of kernel threads that work for the host.
    pub fn cpu_seconds(&self) -> (f64, f64) {
        let sum = |threads: &[Thread]| total(threads.iter().map(|t| t.cpu_ns)) as f64 / 1e9;
        (sum(&self.threads), sum(&self.kernel_threads))
    }
}

#[cfg(test)]
mod tests;

//! A machine's properties that affect measurements.
//!
//! Two results are comparable if the manifests of their machines agree in all relevant values.
//! Values that always change, such as the load, are in [`CurrentState`] and are not relevant;
//! values that identify the machine are in [`Identity`], and are included only on request.

mod cpu;
mod device;
mod diff;
mod ethtool;
mod kernel;
mod now;

pub use cpu::{Cache, Core, Cpu, Frequency, IdleState, Policy};
pub use device::{Device, Interrupt, devices_up, interrupts};
pub use diff::{Difference, diff, leaves};
pub use kernel::{Kernel, Virtualisation};
pub use now::{Busy, CurrentState};

use crate::Result;
use crate::machine::Machine;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;

/// Version of the format of a manifest.
pub const SCHEMA: u32 = 1;

/// A machine's properties.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Sixteen hexadecimal digits: equal if all relevant values are equal.
    pub fingerprint: String,
    /// Its CPUs.
    pub cpu: Cpu,
    /// Their frequencies.
    pub frequency: Frequency,
    /// The hypervisor and control groups.
    pub virtualisation: Virtualisation,
    /// Its kernel.
    pub kernel: Kernel,
    /// Network devices by name.
    pub devices: BTreeMap<String, Device>,
    /// Settings of the network stack and of the scheduler (sysctl(8)) by name.
    pub sysctls: BTreeMap<String, String>,
    /// Whether the kernel tracks connections (conntrack), which costs a lookup per packet.
    pub conntrack: bool,
    /// The measuring program.
    pub software: Software,
    /// Values that always change.
    pub now: CurrentState,
    /// The machine's identity, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// The measuring program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Software {
    /// Its version.
    pub version: String,
    /// The commit of its source, with a `+` for uncommitted changes; empty if unknown.
    pub commit: String,
    /// The compiler.
    pub rustc: String,
    /// How it was built: `release`, `debug`.
    pub profile: String,
    /// Its target CPU (`-C target-cpu`), by default `generic`.
    pub target_cpu: String,
}

/// The machine's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its name.
    pub host_name: String,
    /// Link addresses by device.
    pub link_addresses: BTreeMap<String, String>,
    /// All of the kernel's command line.
    pub command_line: String,
}

/// The parts of a machine to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestOptions {
    /// Network devices; without any, [`devices_up`].
    pub devices: Vec<String>,
    /// Whether the machine's identity is included.
    pub identify: bool,
}

impl Manifest {
    /// Reads a machine. The load of this one is watched for half a second.
    ///
    /// # Errors
    /// A device is not there.
    pub fn take(machine: &Machine, look: &ManifestOptions, software: Software) -> Result<Self> {
        let mut names = look.devices.clone();
        if names.is_empty() {
            names = devices_up(machine);
        }
        let devices: BTreeMap<_, _> = names
            .into_iter()
            .map(|name| Ok((name.clone(), Device::read(machine, &name)?)))
            .collect::<Result<_>>()?;
        let mut manifest = Self {
            schema: SCHEMA,
            fingerprint: String::new(),
            cpu: Cpu::read(machine),
            frequency: Frequency::read(machine),
            virtualisation: Virtualisation::read(machine),
            kernel: Kernel::read(machine),
            sysctls: sysctls(machine),
            conntrack: machine.has("proc/sys/net/netfilter/nf_conntrack_max"),
            software,
            now: CurrentState::watch(machine),
            identity: look.identify.then(|| identify(machine, devices.keys())),
            devices,
        };
        manifest.fingerprint = manifest.hash();
        Ok(manifest)
    }

    /// Reads a manifest from JSON.
    ///
    /// # Errors
    /// It is none, or one of another [`SCHEMA`].
    pub fn parse(json: &str) -> Result<Self> {
        let manifest: Self = serde_json::from_str(json)
            .map_err(|error| format!("this is not a manifest of a machine: {error}"))?;
        match manifest.schema {
            SCHEMA => Ok(manifest),
            other => Err(format!("a manifest of schema {other}; this program reads {SCHEMA}")),
        }
    }

    /// The hash of all relevant values. It identifies manifests; it does not protect against
    /// forgery.
    fn hash(&self) -> String {
        let mut hash = Sha1::new();
        for (path, value) in leaves(self).into_iter().filter(|(path, _)| diff::matters(path)) {
            hash.update(format!("{path}={value}\n"));
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Settings of receiving, sending and waiting for packets.
const SYSCTLS: [&str; 30] = [
    "kernel.numa_balancing",
    "kernel.perf_event_paranoid",
    "kernel.randomize_va_space",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rt_runtime_us",
    "kernel.timer_migration",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.dev_weight",
    "net.core.gro_normal_batch",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_early_demux",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_early_demux",
    "net.ipv4.udp_mem",
    "net.ipv4.udp_rmem_min",
    "vm.swappiness",
];

/// The file of a setting.
pub(crate) fn sysctl_file(name: &str) -> String {
    format!("proc/sys/{}", name.replace('.', "/"))
}

fn sysctls(machine: &Machine) -> BTreeMap<String, String> {
    let read = |name: &&str| {
        let value = machine.read(&sysctl_file(name))?;
        Some(((*name).to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    SYSCTLS.iter().filter_map(read).collect()
}

fn identify<'a>(machine: &Machine, devices: impl Iterator<Item = &'a String>) -> Identity {
    let address = |name: &String| {
        Some((name.clone(), machine.read(&format!("sys/class/net/{name}/address"))?))
    };
    Identity {
        host_name: machine.read("proc/sys/kernel/hostname").unwrap_or_default(),
        link_addresses: devices.filter_map(address).collect(),
        command_line: machine.read("proc/cmdline").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;

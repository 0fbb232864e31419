//! The plan of settings, with reasons.

use super::{Setting, is_alike};
use crate::Result;
use crate::machine::Machine;
use crate::manifest::{interrupts, sysctl_file};
use crate::mask;
use cpu::CpuList;
use std::fmt;
use std::str::FromStr;

/// Bytes a socket may ask for as its buffer: 16 MiB hold what comes at 1 M queries a second while
/// a server stops for 20 ms.
const BUFFER_MAX: i64 = 16 << 20;
/// Packets that wait for a CPU that they were steered to; the kernel's own is 1,000.
const BACKLOG: i64 = 16_384;
/// Packets that a CPU takes before it lets others run; the kernel's own is 300.
const BUDGET: i64 = 600;

/// A kind of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// How large sockets may make their buffers.
    Buffers,
    /// How many packets a CPU takes, and lets wait.
    Budget,
    /// That CPUs run as fast as they can.
    Governor,
    /// Which CPU serves an interrupt of the device.
    Irq,
    /// Which CPUs packets are steered to.
    Rps,
    /// Which CPUs use a send queue.
    Xps,
    /// That threads poll the device, each on its CPU.
    Threads,
    /// Busy polling of sockets.
    BusyPoll,
}

impl Part {
    /// All there are.
    pub const ALL: [Self; 8] = [
        Self::Buffers,
        Self::Budget,
        Self::Governor,
        Self::Irq,
        Self::Rps,
        Self::Xps,
        Self::Threads,
        Self::BusyPoll,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Buffers => "buffers",
            Self::Budget => "budget",
            Self::Governor => "governor",
            Self::Irq => "irq",
            Self::Rps => "rps",
            Self::Xps => "xps",
            Self::Threads => "threads",
            Self::BusyPoll => "busy-poll",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|part| part.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a kind of settings: {names}"))
    }
}

/// The requested settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The device that packets come by, and the CPUs that are to take them.
    pub device: Option<(String, CpuList)>,
    /// Whether threads of the kernel poll the device, instead of interrupts.
    pub threads: bool,
    /// Busy polling of waiting sockets, microseconds.
    pub busy_poll_us: Option<u32>,
    /// Parts to leave alone.
    pub skip: Vec<Part>,
}

/// A setting that is to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub setting: Setting,
    /// The kind it is of.
    pub part: Part,
    /// The current value.
    pub before: String,
    /// The new value.
    pub after: String,
}

impl Change {
    /// The file that holds the setting, or the device whose polling threads it moves.
    pub fn name(&self) -> String {
        match &self.setting {
            Setting::File(file) => format!("/{file}"),
            Setting::Polling(device) => format!("CPUs of the polling threads of {device}"),
        }
    }
}

/// The changes that `options` need; settings that this machine does not have
/// are left out.
///
/// # Errors
/// The device is not there, or none of the CPUs is.
pub fn plan(machine: &Machine, options: &Options) -> Result<Vec<Change>> {
    let mut planner = Planner { machine, skip: &options.skip, changes: Vec::new() };
    for (name, least) in [("rmem_max", BUFFER_MAX), ("wmem_max", BUFFER_MAX)] {
        planner.raise(Part::Buffers, &format!("net.core.{name}"), least);
    }
    for (name, least) in [("netdev_max_backlog", BACKLOG), ("netdev_budget", BUDGET)] {
        planner.raise(Part::Budget, &format!("net.core.{name}"), least);
    }
    planner.govern();
    if let Some(microseconds) = options.busy_poll_us {
        for name in ["net.core.busy_poll", "net.core.busy_read"] {
            planner.set(Part::BusyPoll, &sysctl_file(name), &microseconds.to_string());
        }
    }
    if let Some((device, cpus)) = &options.device {
        planner.steer(device, cpus, options.threads)?;
    }
    Ok(planner.changes)
}

struct Planner<'a> {
    machine: &'a Machine,
    skip: &'a [Part],
    changes: Vec<Change>,
}

impl Planner<'_> {
    /// Where the file is there and says something else.
    fn set(&mut self, part: Part, file: &str, after: &str) {
        let Some(before) = self.machine.read(file) else { return };
        if !self.skip.contains(&part) && !is_alike(file, &before, after) {
            let (setting, after) = (Setting::File(file.to_owned()), after.to_owned());
            self.changes.push(Change { setting, part, before, after });
        }
    }

    /// Never lowers.
    fn raise(&mut self, part: Part, name: &str, least: i64) {
        let file = sysctl_file(name);
        if self.machine.number(&file).is_some_and(|number| number < least) {
            self.set(part, &file, &least.to_string());
        }
    }

    fn govern(&mut self) {
        let folder = "sys/devices/system/cpu/cpufreq";
        for policy in self.machine.list(folder).iter().filter(|name| name.starts_with("policy")) {
            let choice = format!("{folder}/{policy}/scaling_available_governors");
            let known = self.machine.read(&choice).unwrap_or_default();
            if known.split_whitespace().any(|governor| governor == "performance") {
                let file = format!("{folder}/{policy}/scaling_governor");
                self.set(Part::Governor, &file, "performance");
            }
        }
    }

    /// Interrupts and queues of a device to the CPUs that are to take its packets.
    fn steer(&mut self, device: &str, cpus: &CpuList, threads: bool) -> Result<()> {
        let folder = format!("sys/class/net/{device}");
        if device.is_empty() || device.contains('/') || !self.machine.has(&folder) {
            return Err(format!("there is no device {device} (`ip link` lists the devices)"));
        }
        let at = |index: usize| cpus.as_slice().get(index % cpus.as_slice().len().max(1));
        if cpus.as_slice().is_empty() {
            return Err("which CPUs take the packets is missing".into());
        }
        for (index, interrupt) in interrupts(self.machine, device).iter().enumerate() {
            let file = format!("proc/irq/{}/smp_affinity_list", interrupt.number);
            // The receive and send side of a queue belong together.
            let cpu = at(queue_of(&interrupt.name).unwrap_or(index))
                .map(ToString::to_string)
                .unwrap_or_default();
            self.set(Part::Irq, &file, &cpu);
        }
        let queues = self.machine.list(&format!("{folder}/queues"));
        let of_kind = |kind: &str| -> Vec<_> {
            queues.iter().filter(|name| name.starts_with(kind)).cloned().collect()
        };
        let (receive, send) = (of_kind("rx-"), of_kind("tx-"));
        // With a queue for each CPU, the card spreads packets, and steering would cost a hop more.
        let steered = if receive.len() < cpus.as_slice().len() || is_soft(self.machine, &folder) {
            mask::write(cpus.as_slice())
        } else {
            mask::write(&[])
        };
        // A polling thread has a CPU already.
        let polls = threads || self.machine.number(&format!("{folder}/threaded")) == Some(1);
        for queue in receive.iter().filter(|_| !polls) {
            self.set(Part::Rps, &format!("{folder}/queues/{queue}/rps_cpus"), &steered);
        }
        for (index, queue) in send.iter().enumerate().filter(|_| send.len() > 1) {
            let cpu: Vec<usize> = at(index).copied().into_iter().collect();
            self.set(Part::Xps, &format!("{folder}/queues/{queue}/xps_cpus"), &mask::write(&cpu));
        }
        if threads && !self.skip.contains(&Part::Threads) {
            self.set(Part::Threads, &format!("{folder}/threaded"), "1");
            self.changes.push(Change {
                setting: Setting::Polling(device.to_owned()),
                part: Part::Threads,
                before: String::new(),
                after: cpus.to_string(),
            });
        }
        Ok(())
    }
}

/// The number at the end of an interrupt's name, such as `virtio2-input.0` or `eth0-TxRx-3`.
fn queue_of(name: &str) -> Option<usize> {
    let digits = name.rfind(|c: char| !c.is_ascii_digit()).map_or(name, |at| &name[at + 1..]);
    digits.parse().ok()
}

/// Whether a device is made of software: it has no interrupts that could be moved.
fn is_soft(machine: &Machine, folder: &str) -> bool {
    !machine.has(&format!("{folder}/device"))
}

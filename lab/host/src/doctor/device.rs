//! Rules for a network device.

use super::Severity::{Costs, Invalid};
use super::{Finding, Purpose};
use crate::manifest::{Device, Manifest};
use crate::mask;
use cpu::CpuList;

/// The devices that a rule checks.
pub(super) struct ManifestOptions<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) purpose: &'a Purpose,
    pub(super) name: &'a str,
    pub(super) device: &'a Device,
}

pub(super) type Rule = fn(&ManifestOptions<'_>) -> Option<Finding>;

impl ManifestOptions<'_> {
    /// `dunlin lab tune` for this device.
    fn tune(&self) -> String {
        let cpus: CpuList = self.purpose.cpus().iter().copied().collect();
        format!("dunlin lab tune --device {} --cpus {cpus}", self.name)
    }

    /// CPUs that packets are steered to.
    fn steered(&self) -> CpuList {
        let lists = self.device.rps.values().filter_map(|text| mask::parse(text));
        lists.flat_map(|list| list.as_slice().to_vec()).collect()
    }

    /// The CPUs of `cpus` that must not receive packets.
    fn strangers(&self, cpus: &CpuList) -> CpuList {
        let ours = self.purpose.cpus();
        let strangers =
            cpus.as_slice().iter().filter(|cpu| !ours.is_empty() && !ours.contains(cpu));
        strangers.copied().collect()
    }
}

pub(super) fn pause(look: &ManifestOptions<'_>) -> Option<Finding> {
    let is_on = |name| look.device.pause.get(name).is_some_and(|value| value == "on");
    let name = look.name;
    (is_on("rx") || is_on("tx")).then(|| Finding {
        severity: Invalid,
        what: format!("{name} may pause the other end, or be paused by it (flow control)"),
        why:
            "one full ring slows down all that is on the switch, generator included: what is lost \
              is never sent, and looks like a generator that cannot do more"
                .into(),
        remedy: format!("ethtool -A {name} rx off tx off"),
    })
}

pub(super) fn one_queue(look: &ManifestOptions<'_>) -> Option<Finding> {
    let workers = look.purpose.cpus().len();
    let is_alone = look.device.rx_queues == 1 && look.steered().as_slice().is_empty();
    (workers > 1 && is_alone).then(|| Finding {
        severity: Invalid,
        what: format!("{} has one receive queue for {workers} workers", look.name),
        why: "one CPU takes all packets for all of them: more workers then answer no more".into(),
        remedy: format!(
            "ethtool -L {} combined {workers}, where the card has them; else steer: {}",
            look.name,
            look.tune()
        ),
    })
}

pub(super) fn steered_elsewhere(look: &ManifestOptions<'_>) -> Option<Finding> {
    let strangers = look.strangers(&look.steered());
    (!strangers.as_slice().is_empty()).then(|| Finding {
        severity: Invalid,
        what: format!("{} steers packets to CPU {strangers}, where no worker is (RPS)", look.name),
        why: "that CPU runs the network stack, and each packet changes caches on its way: what is \
              measured is two CPUs"
            .into(),
        remedy: look.tune(),
    })
}

pub(super) fn interrupts_elsewhere(look: &ManifestOptions<'_>) -> Option<Finding> {
    let lists = look.device.interrupts.values().filter_map(|list| list.parse::<CpuList>().ok());
    let all: CpuList = lists.flat_map(|list| list.as_slice().to_vec()).collect();
    let strangers = look.strangers(&all);
    (!strangers.as_slice().is_empty()).then(|| Finding {
        severity: Costs,
        what: format!(
            "interrupts of {} may be served by CPU {strangers}, where no worker is",
            look.name
        ),
        why: "which CPU pays for receiving is then a matter of luck, and differs from run to run"
            .into(),
        remedy: look.tune(),
    })
}

pub(super) fn hash(look: &ManifestOptions<'_>) -> Option<Finding> {
    let fields = &look.device.rss_udp4;
    let has_ports = fields.contains("L4 bytes");
    let is_blind = !fields.is_empty() && !has_ports && look.device.rx_queues > 1;
    is_blind.then(|| Finding {
        severity: Costs,
        what: format!("{} spreads datagrams over its queues by addresses alone", look.name),
        why: "all that one generator sends from one address comes by one queue, and to one CPU"
            .into(),
        remedy: format!("ethtool -N {} rx-flow-hash udp4 sdfn", look.name),
    })
}

pub(super) fn far_node(look: &ManifestOptions<'_>) -> Option<Finding> {
    let node = look.device.node;
    let is_far = |cpu: &usize| {
        let core = look.manifest.cpu.cores.iter().find(|core| core.cpu == *cpu);
        core.is_some_and(|core| core.node != node)
    };
    let far: CpuList = look.purpose.cpus().iter().copied().filter(is_far).collect();
    (node >= 0 && !far.as_slice().is_empty()).then(|| Finding {
        severity: Costs,
        what: format!("{} is at node {node}, CPU {far} is not", look.name),
        why: "each packet crosses between sockets, and so does each miss in a cache".into(),
        remedy: format!("choose CPUs of node {node} (`dunlin lab manifest` lists nodes)"),
    })
}

pub(super) fn generic_xdp(look: &ManifestOptions<'_>) -> Option<Finding> {
    (look.device.xdp == "generic").then(|| Finding {
        severity: Costs,
        what: format!("{} runs an XDP program in generic mode", look.name),
        why:
            "it runs after the kernel has made its own buffer of each packet, which is what XDP is \
              there to save"
                .into(),
        remedy: format!(
            "use a driver that has XDP, or remove it: ip link set {} xdpgeneric off",
            look.name
        ),
    })
}

pub(super) fn backlog(look: &ManifestOptions<'_>) -> Option<Finding> {
    let packets: i64 = look.manifest.sysctls.get("net.core.netdev_max_backlog")?.parse().ok()?;
    let is_short = packets <= 1_000 && !look.steered().as_slice().is_empty();
    is_short.then(|| Finding {
        severity: Costs,
        what: format!(
            "{} steers packets, and {packets} may wait (net.core.netdev_max_backlog)",
            look.name
        ),
        why: format!(
            "at 200,000 a second the next are lost once their CPU has been away for {} ms",
            packets / 200
        ),
        remedy: "dunlin lab tune".into(),
    })
}

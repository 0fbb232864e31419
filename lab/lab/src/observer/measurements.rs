//! Measurements from the samples of both hosts.

use std::time::Duration;

use lab_echo::PortCounts;
use lab_host::counters::{Change, CpuTime, Host, Thread};
use lab_load::{Options, Path, QueryCounts, Report, THREAD};

use super::{Endpoints, HostSample, processes};
use crate::limits::JOINED;
use crate::verdict::{
    Balance, CompetingProcess, Drops, LoadResult, Measurements, SideUse, SocketSpread,
};

/// If one other process used at least this share of the CPU time of all others, it is named alone.
const ALONE: f64 = 0.9;
/// The share of a CPU's time that rounding does not explain: the kernel reports thread times in
/// ticks of 10 ms, and user time is what a tick found.
const ROUNDED: f64 = 0.1;

/// CPU time of one thread, and its time in the run queue, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CpuUse {
    cpu_s: f64,
    waited_s: f64,
}

impl CpuUse {
    fn of(cpu_ns: u64, waited_ns: u64) -> Self {
        Self { cpu_s: cpu_ns as f64 / 1e9, waited_s: waited_ns as f64 / 1e9 }
    }

    fn by(thread: &Thread) -> Self {
        Self::of(thread.cpu_ns, thread.run_delay_ns)
    }
}

/// The change between two samples of one side.
struct SampleDelta<'a> {
    host: &'a Host,
    change: Change,
    looks: [&'a HostSample; 2],
    /// The other side, and its processes, which count as other processes.
    other: (&'a str, &'a [u32]),
    /// Whether none of the generator's threads had ended before the later sample.
    is_whole: bool,
}

impl SampleDelta<'_> {
    /// Other processes on the host's CPUs: `most_s` at most, as a thread that came from another CPU
    /// is taken to have run here all the time.
    fn taker(&self, most_s: f64) -> Option<CompetingProcess> {
        let cpus = self.host.cpus.as_ref().map_or(&[][..], |cpus| cpus.as_slice());
        let [before, after] = self.looks;
        let found = processes::between(&before.running, &after.running, cpus, &self.host.pids);
        let (mut all_s, mut ended_s, mut busiest_s) = (0.0, 0.0, 0.0f64);
        for time in &self.change.cpus {
            let on = found.cpus.get(&time.cpu).copied().unwrap_or_default();
            // User time of no living process: its process has ended, such as a compiler.
            // A tick may have found a program where a thread of the kernel's ran most of the time.
            let unattributed_s = seconds(time.user_ns) - on.user_s - self.kernel_threads_s();
            let is_much = unattributed_s >= self.change.seconds * ROUNDED;
            let gone_s = if is_much && self.is_whole { unattributed_s } else { 0.0 };
            let here_s = (on.strangers_s + gone_s).min(used_s(time));
            (all_s, ended_s) = (all_s + here_s, ended_s + gone_s);
            busiest_s = busiest_s.max(here_s);
        }
        let cpu_s = f64::min(all_s, most_s);
        let first = found.strangers.first().filter(|(.., seconds)| *seconds >= ended_s);
        let (name, seconds) = match first {
            Some((name, pid, seconds)) => (self.known_as(name, *pid), *seconds),
            None => ("processes that have ended".to_owned(), ended_s),
        };
        let others = if seconds < all_s * ALONE { " and others" } else { "" };
        let name = format!("{name}{others}");
        (all_s > 0.0).then(|| CompetingProcess { name, cpu_s, most_s: busiest_s.min(cpu_s) })
    }

    /// CPU time of kernel threads by the scheduler's exact count.
    fn kernel_threads_s(&self) -> f64 {
        self.change.kernel_threads.iter().map(|thread| CpuUse::by(thread).cpu_s).sum()
    }

    fn known_as(&self, name: &str, pid: u32) -> String {
        let (role, pids) = self.other;
        match pids.contains(&pid) {
            true => format!("{role}, {name} ({pid}),"),
            false => format!("{name} ({pid})"),
        }
    }

    /// A side with this CPU time.
    fn side(&self, own: &[CpuUse]) -> SideUse {
        let cpus = &self.change.cpus;
        let sum = |of: fn(&CpuTime) -> f64| cpus.iter().map(of).sum::<f64>();
        let most = |all: &mut dyn Iterator<Item = f64>| all.fold(0.0, f64::max);
        let process_s: f64 = own.iter().map(|thread| thread.cpu_s).sum();
        let left_s = (sum(used_s) - process_s).max(0.0);
        let competing = self.taker(left_s);
        let left_s = left_s - competing.as_ref().map_or(0.0, |taker| taker.cpu_s);
        let system_s = sum(|time| seconds(time.system_ns)).max(self.kernel_threads_s());
        // No side waits for the result of a kernel thread that waits for a CPU.
        let kernel: Vec<CpuUse> = self.change.kernel_threads.iter().map(CpuUse::by).collect();
        let all = || own.iter().chain(&kernel);
        let busy = all().map(|thread| thread.cpu_s);
        SideUse {
            cpus: cpus.len() as f64,
            process_s,
            // The rest is the kernel's, its threads and interrupts, as far as it
            // is not user time.
            kernel_s: left_s.min(system_s + sum(interrupted_s)),
            busiest_s: most(&mut busy.chain(cpus.iter().map(interrupted_s))),
            waited_s: most(&mut all().map(|thread| thread.waited_s)),
            competing,
            steal_s: most(&mut cpus.iter().map(|time| seconds(time.steal_ns))),
            throttled_s: seconds(self.change.throttle.time_ns),
            stopped: self.looks.iter().any(|look| look.stopped),
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn used_s(time: &CpuTime) -> f64 {
    seconds(time.total_ns() - time.idle_ns - time.steal_ns)
}

fn interrupted_s(time: &CpuTime) -> f64 {
    seconds(time.irq_ns + time.softirq_ns)
}

/// CPU time of the generator's threads until the last query was due; none where some have ended
/// before.
fn generating(change: &Change, report: &Report) -> Option<Vec<CpuUse>> {
    let ours = change.threads.iter().filter(|thread| thread.name.starts_with(THREAD));
    let spent: Vec<CpuUse> = ours.map(CpuUse::by).collect();
    (spent.len() == report.threads.len()).then_some(spent)
}

/// The measurements of a run: samples before it, when the last query had been sent, and after
/// it; what was counted at the server's port alone; from its beginning to the second one it was so
/// many seconds, and a CPU stood still so long.
pub(super) fn gather(
    options: &Options,
    endpoints: &Endpoints,
    report: &Report,
    looks: [&HostSample; 3],
    own_port: Option<PortCounts>,
    seconds: f64,
    stall: Option<Duration>,
) -> Measurements {
    let [before, sent, after] = looks;
    let client = after.client.since(&before.client);
    let server = after.server.as_ref().zip(before.server.as_ref());
    let server = server.map(|(after, before)| {
        let mut change = after.since(before);
        if let Some(counts) = own_port {
            count_own_port(&mut change, counts, endpoints);
        }
        change
    });
    let change = sent.client.since(&before.client);
    let generating = generating(&change, report);
    let is_whole = generating.is_some();
    let looks = [before, sent];
    let in_run = sent.server.as_ref().zip(before.server.as_ref());
    let server_side = endpoints.server.as_ref().zip(in_run).map(|(host, (sent, before))| {
        let change = sent.since(before);
        let own: Vec<CpuUse> = change.threads.iter().map(CpuUse::by).collect();
        let other = ("the generator", endpoints.client.pids.as_slice());
        SampleDelta { host, change, looks, other, is_whole }.side(&own)
    });
    let other = ("the server", endpoints.server_pids());
    let generator = SampleDelta { host: &endpoints.client, change, looks, other, is_whole };
    let own = generating.unwrap_or_else(|| {
        report.threads.iter().map(|thread| CpuUse::of(thread.cpu_ns, thread.delay_ns)).collect()
    });
    let is_at_sockets =
        |server: &&Change| endpoints.is_one_host() || !is_past(&report.counts, server);
    let mut drops = drops(endpoints, &report.counts, server.as_ref(), &client);
    // A generator that bypasses its network stack has rings beside its sockets.
    let at_rings: u64 = report.threads.iter().map(|thread| thread.dropped).sum();
    drops.generator_socket = drops.generator_socket.map(|at_sockets| at_sockets + at_rings);
    Measurements {
        load: load(options, report, seconds, stall),
        balance: match endpoints.is_one_host() || matches!(options.path, Path::Tcp { .. }) {
            true => at_generator(&report.counts),
            false => balance(options.path.joins(), &report.counts, server.as_ref(), &client),
        },
        drops,
        server: server_side,
        generator: Some(generator.side(&own)),
        flows: server
            .as_ref()
            .filter(is_at_sockets)
            .map(|server| flows(options, endpoints, server, sent)),
        ceiling: None,
    }
}

/// Replaces the datagrams of the whole network stack by those of the server's port.
fn count_own_port(server: &mut Change, counts: PortCounts, endpoints: &Endpoints) {
    let dropped: u64 = endpoints.sockets(&server.sockets).map(|socket| socket.drops).sum();
    server.udp.in_datagrams = counts.arrived.saturating_sub(dropped);
    server.udp.out_datagrams = counts.left;
}

fn load(options: &Options, report: &Report, seconds: f64, stall: Option<Duration>) -> LoadResult {
    let counts = &report.counts;
    LoadResult {
        open: options.is_open(),
        seconds,
        planned: counts.planned,
        sent: counts.sent,
        unsent: counts.unsent,
        answered: counts.answered,
        late: counts.late,
        timeouts: counts.timeouts,
        wrong: counts.wrong,
        stalled_us: stall.map(|longest| longest.as_nanos() as f64 / 1e3),
        lateness_us: report.times.lateness.value_at_quantile(0.999) as f64 / 1e3,
    }
}

/// Packets that a device handles as one where they are of one flow (segmentation, GRO) are fewer
/// than datagrams, so its count cannot be used for them.
fn packets(device: u64, datagrams: u64) -> Option<u64> {
    (device as f64 * JOINED >= datagrams as f64).then_some(device)
}

/// All messages the generator has read.
fn read(counts: &QueryCounts) -> u64 {
    counts.answered + counts.late + counts.wrong + counts.unexpected
}

/// Whether the server answers without its sockets (AF_XDP, XDP_TX, AF_PACKET): more was read than
/// they have sent. Then no counter of its sockets describes its answers.
fn is_past(counts: &QueryCounts, server: &Change) -> bool {
    read(counts) as f64 > server.udp.out_datagrams as f64 * JOINED
}

/// Counters of one network stack do not distinguish both sides, and a segment of TCP may hold
/// several messages or none.
fn at_generator(counts: &QueryCounts) -> Balance {
    Balance { sent: Some(counts.sent), read_generator: Some(read(counts)), ..Balance::default() }
}

fn balance(joins: bool, counts: &QueryCounts, server: Option<&Change>, client: &Change) -> Balance {
    let read = read(counts);
    let mut balance = at_generator(counts);
    let server_device = server.and_then(|server| server.device.as_ref());
    let at_sockets = server.filter(|server| !is_past(counts, server)).map(|server| server.udp);
    balance.read_server = at_sockets.map(|udp| udp.in_datagrams);
    balance.answered_server = at_sockets.map(|udp| udp.out_datagrams);
    let came = balance.read_server.unwrap_or(0);
    // For joined queries the count of a device is unusable, although fewer of them may have arrived
    // than it has counted packets.
    let least = if joins { counts.sent.max(came) } else { came };
    let left = client.device.as_ref().and_then(|device| packets(device.tx_packets, least));
    balance.left_generator = left;
    balance.arrived_server = server_device
        .and_then(|device| packets(device.rx_packets, came))
        .filter(|_| left.is_some() || client.device.is_none());
    let arrived = client.device.as_ref().and_then(|device| packets(device.rx_packets, read));
    balance.left_server = server_device
        .and_then(|device| packets(device.tx_packets, read))
        .filter(|_| arrived.is_some());
    balance.arrived_generator = arrived;
    balance
}

fn drops(
    endpoints: &Endpoints,
    counts: &QueryCounts,
    server: Option<&Change>,
    client: &Change,
) -> Drops {
    let softnet = |change: &Change| change.softnet.iter().map(|line| line.dropped).sum::<u64>();
    let devices = (server.and_then(|s| s.device.as_ref()), client.device.as_ref());
    let at_server = server
        .map(|server| endpoints.sockets(&server.sockets).map(|socket| socket.drops).sum::<u64>());
    let at_client = client.udp.receive_buffer_errors;
    // In one network stack all errors are counted together.
    let at_client = match endpoints.is_one_host() {
        true => at_client.saturating_sub(at_server.unwrap_or(0)),
        false => at_client,
    };
    // A socket that only reserves the port for a server with AF_XDP or AF_PACKET drops everything.
    let is_at_sockets = |server: &Change| endpoints.is_one_host() || !is_past(counts, server);
    Drops {
        server_socket: at_server.filter(|_| server.is_some_and(is_at_sockets)),
        server_softnet: server.map(softnet),
        // A packet that one end of a pair drops counts as not sent at the other end.
        server_device: devices.0.map(|d| d.rx_drops + devices.1.map_or(0, |other| other.tx_drops)),
        generator_socket: Some(at_client),
        generator_softnet: Some(softnet(client)),
        generator_device: devices
            .1
            .map(|d| d.rx_drops + devices.0.map_or(0, |other| other.tx_drops)),
        qdisc: Some(client.qdisc.drops + server.map_or(0, |server| server.qdisc.drops)),
        qdisc_overlimits: Some(
            client.qdisc.overlimits + server.map_or(0, |server| server.qdisc.overlimits),
        ),
    }
}

fn flows(
    options: &Options,
    endpoints: &Endpoints,
    server: &Change,
    sent: &HostSample,
) -> SocketSpread {
    let waiting = |inode| {
        let all = sent.server.as_ref().map_or(&[][..], |reading| &reading.sockets);
        endpoints.sockets(all).find(|socket| socket.inode == inode).map_or(0, |s| s.waiting_bytes)
    };
    let sockets = || endpoints.sockets(&server.sockets);
    SocketSpread {
        sources: (options.channels_each() * options.threads) as u64,
        dropped: sockets().map(|socket| socket.drops).collect(),
        waiting: sockets().map(|socket| waiting(socket.inode)).collect(),
    }
}

#[cfg(test)]
mod tests;

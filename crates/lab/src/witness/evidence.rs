//! What the looks at both hosts come to.

use lab_host::counters::{Change, Host};
use lab_load::{Options, Path, Report, Tally};

use super::processes::strangers;
use super::{Look, Place};
use crate::limits::JOINED;
use crate::verdict::{Balance, Drops, Evidence, Flows, Load, Side, Taker};

/// The share of all that strangers used from which on one of them is named alone.
const ALONE: f64 = 0.9;

/// What came between two looks at one side.
struct Between<'a> {
    host: &'a Host,
    change: Change,
    looks: [&'a Look; 2],
    known: &'a [u32],
}

impl Between<'_> {
    /// Who else ran on the host's CPUs, and what all of them used: `most` at most, as a thread that
    /// came from another CPU is taken to have run here all the time.
    fn taken(&self, most: f64) -> (Option<Taker>, f64) {
        let cpus = self.host.cpus.as_ref().map_or(&[][..], |cpus| cpus.as_slice());
        let [before, after] = self.looks;
        let found = strangers(&before.running, &after.running, cpus, self.known);
        let all: f64 = found.iter().map(|(.., seconds)| seconds).sum();
        let first = found.into_iter().next();
        let taker = first.map(|(name, pid, seconds)| {
            let others = if seconds < all * ALONE { " and others" } else { "" };
            Taker { name: format!("{name} ({pid}){others}"), cpu_s: all.min(most) }
        });
        (taker, all.min(most))
    }

    /// The side, whose own threads ran and waited so long.
    fn side(&self, process_s: f64, waited_s: f64) -> Side {
        let cpus = &self.change.cpus;
        let sum = |of: fn(&lab_host::counters::CpuTime) -> u64| {
            cpus.iter().map(of).sum::<u64>() as f64 / 1e9
        };
        let used = sum(|cpu| cpu.total_ns() - cpu.idle_ns - cpu.steal_ns);
        let (taken_by, taken) = self.taken((used - process_s).max(0.0));
        Side {
            cpus: cpus.len() as f64,
            process_s,
            // All that nobody else has used is the kernel's: its threads, interrupts.
            kernel_s: (used - process_s - taken).max(0.0),
            waited_s,
            taken_by,
            steal_s: sum(|cpu| cpu.steal_ns),
            throttled_s: self.change.throttle.time_ns as f64 / 1e9,
            stopped: self.looks.iter().any(|look| look.stopped),
        }
    }
}

/// The evidence of a run: looks before it, when the last question had been sent, and after it.
pub(super) fn gather(
    options: &Options,
    place: &Place,
    report: &Report,
    looks: [&Look; 3],
) -> Evidence {
    let [before, sent, after] = looks;
    let client = after.client.since(&before.client);
    let server = after.server.as_ref().zip(before.server.as_ref());
    let server = server.map(|(after, before)| after.since(before));
    let mut known = place.server_pids().to_vec();
    known.extend(&place.client.pids);
    let between = |host, change| Between { host, change, looks: [before, sent], known: &known };
    let seconds = |ns: u64| ns as f64 / 1e9;
    let used: u64 = report.threads.iter().map(|thread| thread.cpu_ns).sum();
    let waited: u64 = report.threads.iter().map(|thread| thread.delay_ns).sum();
    let generator = between(&place.client, sent.client.since(&before.client));
    let in_run = sent.server.as_ref().zip(before.server.as_ref());
    let server_side = place.server.as_ref().zip(in_run).map(|(host, (sent, before))| {
        let change = sent.since(before);
        let sum = |of: fn(&lab_host::counters::Thread) -> u64| {
            seconds(change.threads.iter().map(of).sum())
        };
        let (process_s, waited_s) = (sum(|t| t.cpu_ns), sum(|t| t.run_delay_ns));
        between(host, change).side(process_s, waited_s)
    });
    let is_at_sockets = |server: &&Change| place.is_one_host() || !is_past(&report.tally, server);
    Evidence {
        load: load(options, report, generator.change.seconds),
        balance: match place.is_one_host() || matches!(options.path, Path::Tcp { .. }) {
            true => at_generator(&report.tally),
            false => balance(options.path.joins(), &report.tally, server.as_ref(), &client),
        },
        drops: drops(place, &report.tally, server.as_ref(), &client),
        server: server_side,
        generator: Some(generator.side(seconds(used), seconds(waited))),
        flows: server
            .as_ref()
            .filter(is_at_sockets)
            .map(|server| flows(options, place, server, sent)),
        ceiling: None,
    }
}

fn load(options: &Options, report: &Report, seconds: f64) -> Load {
    let tally = &report.tally;
    Load {
        open: options.is_open(),
        seconds,
        planned: tally.planned,
        sent: tally.sent,
        unsent: tally.unsent,
        answered: tally.answered,
        late: tally.late,
        timeouts: tally.timeouts,
        wrong: tally.wrong,
        lateness_us: report.times.lateness.value_at_quantile(0.999) as f64 / 1e3,
    }
}

/// Packets that a device handles as one where they are of one flow (segmentation, GRO) are fewer
/// than datagrams: then it says nothing of these.
fn packets(device: u64, datagrams: u64) -> Option<u64> {
    (device as f64 * JOINED >= datagrams as f64).then_some(device)
}

/// All messages the generator has read.
fn read(tally: &Tally) -> u64 {
    tally.answered + tally.late + tally.wrong + tally.unexpected
}

/// Whether the server answers past its sockets (AF_XDP, XDP_TX, AF_PACKET): more was read than
/// they have sent. Then nothing that is counted at them is of what it answers.
fn is_past(tally: &Tally, server: &Change) -> bool {
    read(tally) as f64 > server.udp.out_datagrams as f64 * JOINED
}

/// What both sides count in one network stack cannot be told apart, and a segment of TCP may hold
/// several messages or none.
fn at_generator(tally: &Tally) -> Balance {
    Balance { sent: Some(tally.sent), read_generator: Some(read(tally)), ..Balance::default() }
}

fn balance(joins: bool, tally: &Tally, server: Option<&Change>, client: &Change) -> Balance {
    let read = read(tally);
    let mut balance = at_generator(tally);
    let server_device = server.and_then(|server| server.device.as_ref());
    let at_sockets = server.filter(|server| !is_past(tally, server)).map(|server| server.udp);
    balance.read_server = at_sockets.map(|udp| udp.in_datagrams);
    balance.answered_server = at_sockets.map(|udp| udp.out_datagrams);
    let came = balance.read_server.unwrap_or(0);
    // Of queries that were joined a device says nothing, though fewer of them may have come than it
    // has counted packets.
    let least = if joins { tally.sent.max(came) } else { came };
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

fn drops(place: &Place, tally: &Tally, server: Option<&Change>, client: &Change) -> Drops {
    let softnet = |change: &Change| change.softnet.iter().map(|line| line.dropped).sum::<u64>();
    let devices = (server.and_then(|s| s.device.as_ref()), client.device.as_ref());
    let at_server =
        server.map(|server| place.sockets(&server.sockets).map(|socket| socket.drops).sum::<u64>());
    let at_client = client.udp.receive_buffer_errors;
    // In one network stack all errors are counted together.
    let at_client = match place.is_one_host() {
        true => at_client.saturating_sub(at_server.unwrap_or(0)),
        false => at_client,
    };
    // A socket that holds the port for one that answers past it drops all.
    let is_at_sockets = |server: &Change| place.is_one_host() || !is_past(tally, server);
    Drops {
        server_socket: at_server.filter(|_| server.is_some_and(is_at_sockets)),
        server_softnet: server.map(softnet),
        // What a device has no room for at its end of a pair, the other end counts as not sent.
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

fn flows(options: &Options, place: &Place, server: &Change, sent: &Look) -> Flows {
    let waiting = |inode| {
        let all = sent.server.as_ref().map_or(&[][..], |reading| &reading.sockets);
        place.sockets(all).find(|socket| socket.inode == inode).map_or(0, |s| s.waiting_octets)
    };
    let sockets = || place.sockets(&server.sockets);
    Flows {
        sources: (options.lanes_each() * options.threads) as u64,
        dropped: sockets().map(|socket| socket.drops).collect(),
        waiting: sockets().map(|socket| waiting(socket.inode)).collect(),
    }
}

#[cfg(test)]
mod tests;

//! Measurements that a verdict is based on. An unknown value is absent, never 0.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// All measurements of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurements {
    /// The generator's own counts.
    pub load: LoadResult,
    /// Where packets were counted.
    pub balance: Balance,
    /// Where packets were dropped.
    pub drops: Drops,
    /// The server's side of the machine; absent for a server on another machine.
    pub server: Option<SideUse>,
    /// The generator's side.
    pub generator: Option<SideUse>,
    /// How queries spread over the server's sockets.
    pub flows: Option<SocketSpread>,
    /// The rate of an echo in the same place, before and after the run.
    pub ceiling: Option<Ceiling>,
}

impl Measurements {
    /// These measurements without the counters of a network stack that counted datagrams of others,
    /// such as those of a resolver to and from other servers: its sockets received more than was
    /// sent, and no device counts what arrived.
    pub(super) fn without_foreign_datagrams(&self) -> Cow<'_, Self> {
        let (balance, drops) = (&self.balance, &self.drops);
        let taken = balance.read_server.map(|read| read + drops.server_socket.unwrap_or(0));
        let is_foreign = taken.zip(balance.sent).is_some_and(|(taken, sent)| taken > sent);
        if balance.arrived_server.is_some() || !is_foreign {
            return Cow::Borrowed(self);
        }
        let own = Balance { read_server: None, answered_server: None, ..balance.clone() };
        Cow::Owned(Self { balance: own, ..self.clone() })
    }
}

/// The generator's own counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Whether queries went out by a plan (open loop), or as answers came (closed loop).
    pub open: bool,
    /// Its length, seconds.
    pub seconds: f64,
    /// Queries due by the plan; in a closed loop those sent.
    pub planned: u64,
    /// Queries sent.
    pub sent: u64,
    /// Queries that the kernel refused, or that no thread sent in time.
    pub unsent: u64,
    /// Right answers in time.
    pub answered: u64,
    /// Right answers after their time; each was counted as a timeout before.
    pub late: u64,
    /// Queries without an answer in time.
    pub timeouts: u64,
    /// Answers with wrong content.
    pub wrong: u64,
    /// How late one query in a thousand was sent, µs (p99.9).
    pub lateness_us: f64,
    /// The longest stall of one of its CPUs: nothing ran although a timer was due, µs.
    pub stalled_us: Option<f64>,
}

impl LoadResult {
    /// Queries that did not get a right answer in time.
    pub fn lost(&self) -> u64 {
        self.planned.saturating_sub(self.answered)
    }

    /// Right answers in time, a second.
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.seconds.max(f64::EPSILON)
    }
}

/// The eight places at which packets of a run were counted, in the order they pass them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Sent by the generator.
    pub sent: Option<u64>,
    /// Left its host (tx of its device).
    pub left_generator: Option<u64>,
    /// Arrived at the server's device (rx).
    pub arrived_server: Option<u64>,
    /// Read by the server's sockets (UDP InDatagrams, or packets to its port where the stack has
    /// other datagrams, too); absent where they cannot have read what was
    /// answered, as of a server without its network stack.
    pub read_server: Option<u64>,
    /// Answered (UDP OutDatagrams, or packets from its port); absent where the one above is.
    pub answered_server: Option<u64>,
    /// Left the server's host (tx).
    pub left_server: Option<u64>,
    /// Arrived at the generator's device (rx).
    pub arrived_generator: Option<u64>,
    /// Read by the generator.
    pub read_generator: Option<u64>,
}

impl Balance {
    /// The places with their counts, in order.
    pub fn places(&self) -> [(&'static str, Option<u64>); 8] {
        [
            ("sent by the generator", self.sent),
            ("left its host", self.left_generator),
            ("arrived at the server's device", self.arrived_server),
            ("read by the server's sockets", self.read_server),
            ("answered by the server", self.answered_server),
            ("left the server's host", self.left_server),
            ("arrived at the generator's device", self.arrived_generator),
            ("read by the generator", self.read_generator),
        ]
    }
}

/// Packets the kernels dropped, by place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// At full receive buffers of the server's sockets (RcvbufErrors).
    pub server_socket: Option<u64>,
    /// On the way from the server's device to its sockets (softnet_stat).
    pub server_softnet: Option<u64>,
    /// By the server's device.
    pub server_device: Option<u64>,
    /// At the generator's sockets, and its rings where it bypasses the network stack.
    pub generator_socket: Option<u64>,
    /// On the way from the generator's device to its sockets.
    pub generator_softnet: Option<u64>,
    /// By the generator's device.
    pub generator_device: Option<u64>,
    /// By queueing disciplines of either device.
    pub qdisc: Option<u64>,
    /// How often a queueing discipline made packets wait for their turn (overlimits).
    pub qdisc_overlimits: Option<u64>,
}

/// One side of the bench: a program, and what the kernel does for it, on the CPUs it may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideUse {
    /// Number of CPUs that it may use.
    pub cpus: f64,
    /// CPU time of its processes, seconds.
    pub process_s: f64,
    /// CPU time of kernel threads and interrupts on its CPUs, seconds.
    pub kernel_s: f64,
    /// CPU time of the thread that used most, of its processes or of the kernel for it, seconds:
    /// one that has no more cannot use the other CPUs.
    pub busiest_s: f64,
    /// The longest time in the run queue of one of these threads, seconds.
    pub waited_s: f64,
    /// Other processes that ran on its CPUs.
    pub competing: Option<CompetingProcess>,
    /// Steal time of the CPU that lost most, seconds.
    pub steal_s: f64,
    /// How long its control group was throttled, on all CPUs together, seconds.
    pub throttled_s: f64,
    /// Whether one of its processes was found stopped (state T).
    pub stopped: bool,
}

impl SideUse {
    /// The used share of the side's CPUs, or of one CPU by its busiest thread, whichever is higher.
    pub fn busy(&self, seconds: f64) -> f64 {
        let all = (self.process_s + self.kernel_s) / (self.cpus * seconds).max(f64::EPSILON);
        all.max(self.busiest_s / seconds.max(f64::EPSILON)).min(1.0)
    }
}

/// Other processes on a CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompetingProcess {
    /// The name and PID of the process that ran most, such as `stress (4711)`, and whether it was
    /// not alone.
    pub name: String,
    /// The CPU time of all of them, seconds.
    pub cpu_s: f64,
    /// Their time on the CPU where they ran most, seconds.
    pub most_s: f64,
}

/// How queries spread over the server's sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketSpread {
    /// Pairs of address and port the generator asks from.
    pub sources: u64,
    /// Packets each socket of the server dropped (`/proc/net/udp`).
    pub dropped: Vec<u64>,
    /// Bytes that waited in each when the last query had been sent.
    pub waiting: Vec<u64>,
}

/// Answers a second of a bare echo, of the same model in the same place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// How the echo received and sent, such as `recvmmsg`.
    pub model: String,
    /// Before the run.
    pub before: f64,
    /// After it.
    pub after: f64,
}

impl Ceiling {
    /// The mean of both measurements.
    pub fn middle(&self) -> f64 {
        f64::midpoint(self.before, self.after)
    }

    /// The difference of both, as a share of the higher one.
    pub fn drift(&self) -> f64 {
        1.0 - self.before.min(self.after) / self.before.max(self.after).max(f64::EPSILON)
    }
}

//! Floods: the server's memory stays within its budget, and a regular client beside the flood is
//! served nearly as well as without it.
//!
//! By itself this is the short form: any build, three seconds of each flood, on a machine that may
//! be doing other things, so that no answer is judged by its time, but that it comes within a
//! second. `make campaign-floods-attacks` is the campaign: a release build, a minute of each flood
//! at ten times the rate, and twice the idle p99 as the limit. All else is asserted in both alike.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `DUNLIN_FLOOD_SECONDS` | of each flood (3) |
//! | `DUNLIN_FLOOD_RATE` | datagrams a second (5000); a tenth of it on connections |
//! | `DUNLIN_FLOOD_ONLY` | the names of floods, with commas between them (all) |
//! | `DUNLIN_FLOOD_SLACK` | µs that the regular p99 may be over twice the idle one (not judged) |
//! | `DUNLIN_FLOOD_PRIORITY` | real-time priority of the server (10); 0: that of other processes |

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use conformance::Result;
use conformance::environment::{TestFolder, number, root};
use conformance::flood::Kind;
use conformance::hosts::{CLIENTS, Hosts, SERVER, kernel_counters, reset_peak, resident};
use conformance::load;
use conformance::regular_client::Service;
use conformance::server::{Launch, Server, Software};
use serde_json::Value;
use test_support::wait;

/// Bytes that the budget adds to the idle server's and to the tables it was configured to have:
/// tasks of connections, the allocator's slack, stacks that were not touched before.
const MARGIN: u64 = 8 << 20;
const STREAM_MIB: u64 = 16;
const LIMIT_MIB: u64 = 4;
/// Answers a regular client keeps.
const SHARE_MIN: f64 = 0.99;
/// The first addresses of the regular client, without and beside a flood.
const FIRST: [usize; 2] = [10_000, 30_000];

/// What the server counted since it began.
#[derive(Clone, Copy)]
struct Counted {
    received: u64,
    dropped: u64,
    accepted: u64,
}

impl Counted {
    fn read(server: &Server) -> Result<Self> {
        let status = server.status()?;
        let threads = || status["threads"].as_array().into_iter().flatten();
        let dropped = threads().filter_map(|thread| thread["dropped"].as_object());
        Ok(Self {
            received: threads().filter_map(|thread| thread["received"].as_u64()).sum(),
            dropped: dropped.flat_map(|reasons| reasons.values()).filter_map(Value::as_u64).sum(),
            accepted: status["streams"]["accepted"].as_u64().unwrap_or_default(),
        })
    }
}

/// One flood and what came of it.
struct Trial {
    kind: Kind,
    steps: u64,
    server: Counted,
    kernel: Counters,
    budget: u64,
    peak: u64,
    /// Over UDP and TCP: idle, and beside the flood.
    idle: (Service, Service),
    beside: (Service, Service),
}

#[test]
#[ignore = "slow: statistical, under load"]
fn floods_leave_memory_and_polite_clients_alone() {
    if !root("network namespaces") {
        return;
    }
    let folder = TestFolder::new("floods").unwrap();
    let zones = [load::zone(&folder.path).unwrap()];
    let hosts = Hosts::up().unwrap();
    hosts.enter_clients().unwrap();
    let sections = format!(
        "[streams]\nmemory = \"{STREAM_MIB}MiB\"\nconnections = 2048\nper_client = 64\n\
         idle = \"5s\"\n\
         [limits]\nmemory = \"{LIMIT_MIB}MiB\"\n[limits.rate]\nper_second = 1000\n"
    );
    // On a machine that does other things too, the server's host must not be one of them.
    let priority = number("DUNLIN_FLOOD_PRIORITY", 10);
    let policy = if priority > 0 { "--fifo" } else { "--other" };
    let priority = priority.to_string();
    let within =
        ["ip", "netns", "exec", &hosts.server, "chrt", policy, &priority, "taskset", "-c", "0"];
    let launch = Launch {
        address: Some(SERVER),
        keys: "workers = 1",
        sections: &sections,
        within: &within,
        ..Launch::new(Software::Dunlin, &zones)
    };
    println!("{HEAD}");
    let mut wrong = Vec::new();
    let only = std::env::var("DUNLIN_FLOOD_ONLY").unwrap_or_default();
    let is_wanted =
        |kind: &Kind| only.is_empty() || only.split(',').any(|name| name == kind.name());
    for kind in Kind::ALL.into_iter().filter(is_wanted) {
        // A server for each: what one flood left in memory is not the next one's.
        let mut server = launch.start(&folder.path).unwrap();
        let trial = flood(kind, &mut server).unwrap();
        println!("{}", trial.row());
        wrong.extend(trial.excess());
        wrong.extend(trial.faults());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn flood(kind: Kind, server: &mut Server) -> Result<Trial> {
    let seconds = number("DUNLIN_FLOOD_SECONDS", 3) as f64;
    let rate = number("DUNLIN_FLOOD_RATE", 5_000);
    let idle = regular(FIRST[0], (seconds / 4.0).max(1.0))?;
    let budget = resident(server.id())?.0 + ((STREAM_MIB + LIMIT_MIB) << 20) + MARGIN;
    reset_peak(server.id())?;
    let (before, counted) = (kernel_counters(server.id())?, Counted::read(server)?);
    // It takes all of its CPU, on which the server's host receives as well: that goes first. Where
    // times are not judged, other processes may be busy, beside which an idle one never runs.
    let within: &[&str] = if slack().is_some() { &["chrt", "--idle", "0"] } else { &["nice"] };
    let mut flood = start(within, kind.name(), seconds, rate)?;
    // The flood is there before the regular client comes, and ends after it.
    wait::until_ok("the flood comes", || {
        let now = kernel_counters(server.id())?;
        match (received(kind, &difference(&before, &now)), flood.try_wait()) {
            (0, Ok(None)) => Err("not".to_owned()),
            (_, Err(error)) => Err(error.to_string()),
            // It ended: what the host received of it is judged below.
            _ => Ok(()),
        }
    });
    let beside = regular(FIRST[1], seconds * 0.8)?;
    let steps = finish(flood)?.trim().parse().map_err(|_| "a flood tells its steps")?;
    server.check_alive()?;
    let (after, now) = (kernel_counters(server.id())?, Counted::read(server)?);
    let server_counted = Counted {
        received: now.received - counted.received,
        dropped: now.dropped - counted.dropped,
        accepted: now.accepted - counted.accepted,
    };
    let peak = resident(server.id())?.1;
    let kernel = difference(&before, &after);
    Ok(Trial { kind, steps, server: server_counted, kernel, budget, peak, idle, beside })
}

type Counters = BTreeMap<String, u64>;

fn difference(before: &Counters, after: &Counters) -> Counters {
    let since = |name: &str, count: u64| {
        count.saturating_sub(before.get(name).copied().unwrap_or_default())
    };
    after.iter().map(|(name, count)| (name.clone(), since(name, *count))).collect()
}

/// What of a flood the kernel of the server's host saw: datagrams, SYNs, connections, or bytes of
/// answers.
fn received(kind: Kind, kernel: &Counters) -> u64 {
    let count = |name: &str| kernel.get(name).copied().unwrap_or_default();
    match kind {
        Kind::UniqueNames | Kind::SpoofedSources | Kind::Malformed => {
            count("Udp.InDatagrams") + count("Udp.RcvbufErrors")
        }
        Kind::HalfOpen => count("Tcp.InSegs"),
        Kind::LargeAnswers => count("IpExt.OutOctets"),
        Kind::Connects | Kind::SlowReaders | Kind::Hostile => count("Tcp.PassiveOpens"),
    }
}

/// Microseconds that the regular p99 may be over twice the idle one, where times are judged.
fn slack() -> Option<u64> {
    let slack = std::env::var("DUNLIN_FLOOD_SLACK").ok();
    slack.map(|text| text.parse().expect("a number"))
}

/// Asks politely. The client shares a CPU with the flood, which takes all of it: it goes first,
/// since what is asked is how the server serves it, not how the generator's host does.
fn regular(first: usize, seconds: f64) -> Result<(Service, Service)> {
    let response = finish(start(&["chrt", "--fifo", "50"], "regular", seconds, first as u64)?)?;
    let mut lines = response.lines().map(Service::parse);
    let mut next = || lines.next().flatten().ok_or("the regular client tells two lines");
    Ok((next()?, next()?))
}

fn start(within: &[&str], what: &str, seconds: f64, number: u64) -> Result<Child> {
    let mut command = Command::new("taskset");
    command.args(["-c", "1"]).args(within).arg(env!("CARGO_BIN_EXE_flood")).arg(what);
    command.args([SERVER.to_string(), CLIENTS.0.to_string()]);
    command.args([seconds.to_string(), number.to_string()]);
    command.stdout(Stdio::piped()).spawn().map_err(|e| format!("taskset: {e}"))
}

fn finish(child: Child) -> Result<String> {
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("it ended with {}", output.status)),
    }
}

const HEAD: &str = "\
| flood | made | host received | server received, dropped | RSS, MiB of \
| answers UDP, TCP | p99 UDP, µs | p99 TCP, µs |
| --- | --- | --- | --- | --- | --- | --- | --- |";

impl Trial {
    /// How much of that there must be for the flood to have happened.
    fn received_min(&self) -> u64 {
        match self.kind {
            Kind::LargeAnswers => self.steps / 4 * 64_000,
            Kind::SlowReaders | Kind::Hostile => self.steps.min(1_000) / 2,
            _ => self.steps / 2,
        }
    }

    /// Whether the server itself counted it: messages, or connections.
    fn is_counted(&self) -> bool {
        match self.kind {
            // The kernel answers a SYN; the server hears of a connection only when it is open.
            Kind::HalfOpen => true,
            Kind::UniqueNames | Kind::SpoofedSources | Kind::Malformed => {
                self.server.received >= self.steps / 2
            }
            Kind::LargeAnswers => self.server.received >= self.steps / 4,
            Kind::Connects | Kind::SlowReaders | Kind::Hostile => {
                self.server.accepted >= self.received_min()
            }
        }
    }

    /// What of the memory is over the budget.
    fn excess(&self) -> Option<String> {
        let (kind, peak, budget) = (self.kind.name(), self.peak, self.budget);
        let told = || format!("{kind}: {peak} bytes in RAM, over the budget of {budget}");
        (peak > budget).then(told)
    }

    /// All else that is wrong.
    fn faults(&self) -> Vec<String> {
        let slack = slack();
        let mut faults = Vec::new();
        let mut check = |right: bool, what: String| {
            if !right {
                faults.push(format!("{}: {what}", self.kind.name()));
            }
        };
        let (received, wanted) = (received(self.kind, &self.kernel), self.received_min());
        check(received >= wanted, format!("only {received} of {wanted} came"));
        check(self.is_counted(), "the server does not count it".into());
        let transports = [("UDP", self.idle.0, self.beside.0), ("TCP", self.idle.1, self.beside.1)];
        for (transport, idle, beside) in transports {
            let share = beside.share();
            check(share >= SHARE_MIN, format!("{share:.4} of the answers over {transport}"));
            let (limit, p99) = (slack.map(|slack| 2 * idle.p99 + slack), beside.p99);
            let is_soon = limit.is_none_or(|limit| p99 <= limit);
            check(is_soon, format!("p99 over {transport} is {p99} µs, limit {limit:?}"));
        }
        faults
    }

    fn row(&self) -> String {
        let mebi = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        format!(
            "| {} | {} | {} | {}, {} | {:.1} of {:.1} | {:.2} %, {:.2} % | {} → {} | {} → {} |",
            self.kind.name(),
            self.steps,
            received(self.kind, &self.kernel),
            self.server.received,
            self.server.dropped,
            mebi(self.peak),
            mebi(self.budget),
            100.0 * self.beside.0.share(),
            100.0 * self.beside.1.share(),
            self.idle.0.p99,
            self.beside.0.p99,
            self.idle.1.p99,
            self.beside.1.p99
        )
    }
}

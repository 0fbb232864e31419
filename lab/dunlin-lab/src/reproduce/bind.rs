//! Sumisho Computer Systems, "BIND multi-core / process performance test" (2008): resolvers on 1 to
//! N cores, all hits and all misses, by a ramp.
use super::Reproduction;
use crate::bench::{Spread, address, closed_loop, questions};
use cpu::CpuList;
use lab::record::{RunRecord, record};
use lab::relay::{Path, Relay};
use lab::servers::{Server, ServerKind, ServerSetup, Zone};
use lab_host::hosts::{Hosts, Side};
use lab_host::namespace;
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::query::QueryFormat;
use lab_load::{LoadMode, Options, QuerySource};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::Rtype;

/// Where the authoritative server answers, on the server's host.
const AUTHORITY: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 0, 0, 53), 5_301);
/// Where a relay to it answers, with a delay or a limit. Another address, because the port is the
/// same for all forwarders of BIND.
const RELAY: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 0, 0, 54), 5_301);
/// Top-level domains of the study, and second-level names in each.
const DOMAINS: usize = 20;
const NAMES: usize = 1_000;
/// Processes of the study's last step: two addresses with two ports each.
const PROCESSES: usize = 4;
/// The second address of the server's host.
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 3);
/// Buckets of a ramp.
const BUCKET_NS: u64 = 500_000_000;

/// The source ports of a resolver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ports {
    Random,
    One,
    Eight,
}

/// How a resolver queries the authoritative server.
#[derive(Clone, Copy)]
struct Outgoing {
    ports: Ports,
    server: (Ipv4Addr, u16),
}

impl From<Ports> for Outgoing {
    fn from(ports: Ports) -> Self {
        Self { ports, server: AUTHORITY }
    }
}

/// The resolvers' testbed: an authoritative server for all names, at another core.
struct Testbed {
    hosts: Hosts,
    folder: PathBuf,
    zone: Zone,
    _authority: Server,
}

/// Runs the study.
///
/// # Errors
/// As `Reproduction::run`.
pub fn run(study: &mut Reproduction<'_>) -> Result<(), String> {
    study.remarks.push(
        "Resolvers forward to one authoritative server on the generator's CPU, over the loopback \
         device; the study resolved from the Internet"
            .into(),
    );
    study.remarks.push(
        "Limits on outstanding queries: BIND recursive-clients 50,000, Unbound 8,192 a thread; a \
         server that reaches one answers SERVFAIL, which counts as wrong, or drops the query"
            .into(),
    );
    let world = Testbed::new(study)?;
    for (key, what, is_unique) in
        [("hits-cores", "100 % hits", false), ("unique-cores", "unique names", true)]
    {
        let original = match is_unique {
            false => "32,368 (1 core), 54,174 (2), 81,296 (4), 106,508 (8): 3.2 times",
            true => "4,194 (1 core), 6,608 (4), 10,552 (8): 2.5 times",
        };
        study.step(key, &format!("BIND on 1 to N cores, {what}"), original);
        for cpus in core_counts(&study.server_cpus()?) {
            let count = cpus.as_slice().len();
            let label = format!("{count} core{}", if count == 1 { "" } else { "s" });
            world.ramps(study, &label, "bind", &cpus, Ports::Random.into(), is_unique)?;
        }
        let all = study.server_cpus()?;
        let key = key.replace("cores", "servers");
        study.step(&key, &format!("Other resolvers, all cores, {what}"), "BIND 9.5.0 beside 9.4.2");
        for name in ["unbound", "dunlin"] {
            world.ramps(study, name, name, &all, Ports::Random.into(), is_unique)?;
        }
    }
    delays(study, &world)?;
    source_ports(study, &world)?;
    processes(study, &world)
}

/// The first one, two, … of these CPUs.
fn core_counts(cpus: &CpuList) -> Vec<CpuList> {
    let all = cpus.as_slice();
    (1..=all.len()).map(|count| all[..count].iter().copied().collect()).collect()
}

/// The path to the authoritative server: the kernel's netem is missing on many machines.
fn delays(study: &mut Reproduction<'_>, world: &Testbed) -> Result<(), String> {
    let all = study.server_cpus()?;
    let (delay, limit) = (Duration::from_millis(10), 100_000_000);
    for (key, title, delay, bits_per_second) in [
        ("relay", "through a relay without delay", Duration::ZERO, 0),
        ("delay", "20 ms to the authoritative server", delay, 0),
        ("limit", "100 Mbit/s to the authoritative server", Duration::ZERO, limit),
        ("delay-limit", "20 ms and 100 Mbit/s", delay, limit),
    ] {
        let original = "the path to the Internet had 100 Mbit/s; its delay is not known";
        study.step(key, &format!("BIND, unique names, {title}"), original);
        let space = world.hosts.options().namespace(Side::Server);
        let cpus = world.hosts.options().cpus(Side::Client)?;
        let (relay, path) = (SocketAddr::from(RELAY), Path { delay, bits_per_second });
        let through = Relay::start((Some(&space), &cpus), relay, AUTHORITY.into(), path)?;
        let outgoing = Outgoing { ports: Ports::Random, server: RELAY };
        world.ramps(study, "bind", "bind", &all, outgoing, true)?;
        let [passed, dropped] = [&through.counters.passed, &through.counters.dropped]
            .map(|counter| counter.load(Ordering::Relaxed));
        study
            .remarks
            .push(format!("{title}: the relay passed {passed} datagrams on and dropped {dropped}"));
    }
    study.remarks.push(
        "A relay on the generator's CPU delays each direction by 10 ms, and limits it to 100 \
         Mbit/s with Ethernet headers"
            .into(),
    );
    Ok(())
}

fn source_ports(study: &mut Reproduction<'_>, world: &Testbed) -> Result<(), String> {
    let all = study.server_cpus()?;
    let original = "9.5.0 with the pool on 8 cores: 5,646; without 9,888";
    for (key, title, name, ports) in [
        ("one-port", "BIND, unique names, one source port", "bind", Ports::One),
        ("random-ports", "BIND, unique names, random source ports", "bind", Ports::Random),
        ("eight-ports", "Unbound, unique names, eight source ports", "unbound", Ports::Eight),
        ("dunlin-one-port", "Dunlin, unique names, one source port", "dunlin", Ports::One),
        ("dunlin-eight-ports", "Dunlin, unique names, eight source ports", "dunlin", Ports::Eight),
    ] {
        study.step(key, title, original);
        world.ramps(study, name, name, &all, ports.into(), true)?;
    }
    study.remarks.push(
        "BIND has no source-port pool any more: its axis is one port against random ones. Dunlin \
         has 16 ports per thread that change, or with `fixed_ports` as many as its step says"
            .into(),
    );
    Ok(())
}

/// A process pinned to each core, all asked at once: on two addresses with two ports each.
fn processes(study: &mut Reproduction<'_>, world: &Testbed) -> Result<(), String> {
    let own = study.server_cpus()?;
    let cpus: Vec<usize> = own.as_slice().iter().copied().take(PROCESSES).collect();
    for (key, what, original, is_unique) in [
        (
            "processes",
            "hits",
            "four: 32,002, 32,830, 32,254 and 32,186; one on 8 cores 106,508",
            false,
        ),
        (
            "processes-unique",
            "unique names",
            "9.4.2: 2,584, 2,584, 2,584 and 2,536; 9.5.0 with the pool: 1,916, 2,084, 1,416, 1,414",
            true,
        ),
    ] {
        let title = format!("One BIND process pinned to each core, {what}, all at once");
        if cpus.len() < 2 {
            study.skip(key, &title, original, "servers have 1 CPU here; two are needed");
            continue;
        }
        study.step(key, &title, original);
        world.second_address()?;
        for _ in 0..study.repeats {
            let mut servers = Vec::new();
            let mut loads = Vec::new();
            for (number, cpu) in cpus.iter().enumerate() {
                let one: CpuList = std::iter::once(*cpu).collect();
                servers.push(world.start(study, "bind", &one, Ports::Random.into(), number)?);
                let server = address_of(number);
                loads.push(Options { server, ..world.closed(study, is_unique)? });
            }
            for (cpu, run) in cpus.iter().zip(at_once(&loads)?) {
                study.add(&format!("process on CPU {cpu}"), *cpu as f64, false, run)?;
            }
        }
    }
    Ok(())
}

/// The address of the process of this number.
fn address_of(number: usize) -> SocketAddr {
    let mut at = address();
    if number >= 2 {
        at.set_ip(SECOND.into());
    }
    at.set_port(at.port() + (number % 2) as u16);
    at
}

/// Runs all loads at the same time.
fn at_once(loads: &[Options]) -> Result<Vec<RunRecord>, String> {
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let run =
            |load| scope.spawn(move || record("processes", BTreeMap::new(), load, &[], None, stop));
        let threads: Vec<_> = loads.iter().map(run).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a load panicked".into()))
        };
        threads.into_iter().map(join).collect()
    })
}

impl Testbed {
    fn new(study: &mut Reproduction<'_>) -> Result<Self, String> {
        let hosts = study.hosts()?;
        let folder = study.bench.folder.0.clone();
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        let mut config = format!(
            "[server]\nlisten = [\"{}\"]\nworkers = 1\ndata_dir = \"\"\ndrain = \"0s\"\n\
             [admin]\nsocket = \"\"\n",
            SocketAddr::from(AUTHORITY)
        );
        let file = folder.join("tld.zone");
        let text = "$TTL 3600\n@ SOA ns hostmaster 1 7200 1800 86400 60\n@ NS ns\n\
                    ns A 192.0.2.53\nwww A 192.0.2.80\n* A 192.0.2.1\n";
        fs::write(&file, text).map_err(told)?;
        for number in 0..DOMAINS {
            let _ = write!(config, "[[zone]]\nname = \"t{number}\"\nfile = {file:?}\n");
        }
        let zone = Zone::open("t0", &file)?;
        let setup = ServerSetup {
            address: AUTHORITY.into(),
            cpus: hosts.options().cpus(Side::Client)?,
            threads: Some(1),
            zone: zone.clone(),
            folder: folder.join("authority"),
            netns: Some(hosts.options().namespace(Side::Server)),
            interface: None,
        };
        let kind = ServerKind::named("dunlin")?;
        let binary = study.binary(kind)?;
        let authority = kind.start_with(&config, &binary, &setup, setup.netns.as_deref())?;
        Ok(Self { hosts, folder, zone, _authority: authority })
    }

    /// Gives the server's host its second address.
    fn second_address(&self) -> Result<(), String> {
        let options = self.hosts.options();
        let device = options.device(Side::Server);
        let first = address().ip();
        for (side, line) in [
            (Side::Server, format!("address replace {SECOND}/32 dev {device}")),
            (Side::Client, format!("route replace {SECOND}/32 via {first}")),
        ] {
            namespace::within(Some(&options.namespace(side)), || run_tool("ip", &line))?;
        }
        Ok(())
    }

    /// Starts a resolver with an empty cache, at the address of its number.
    fn start(
        &self,
        study: &Reproduction<'_>,
        name: &str,
        cpus: &CpuList,
        outgoing: Outgoing,
        number: usize,
    ) -> Result<Server, String> {
        let kind = ServerKind::named(name)?;
        let setup = ServerSetup {
            address: address_of(number),
            cpus: cpus.clone(),
            threads: None,
            zone: self.zone.clone(),
            folder: self.folder.join(format!("{name}-{number}")),
            netns: Some(self.hosts.options().namespace(Side::Server)),
            interface: None,
        };
        let config = forwarder(kind, &setup, outgoing)?;
        let from = self.hosts.options().namespace(Side::Client);
        kind.start_with(&config, &study.binary(kind)?, &setup, Some(&from))
    }

    /// A closed loop, by which the highest rate of a ramp is chosen.
    fn closed(&self, study: &Reproduction<'_>, is_unique: bool) -> Result<Options, String> {
        let spread = Spread { flows: 64, by_address: true };
        let asks = queries(is_unique)?;
        let load = closed_loop(&self.hosts, asks, spread, 1_000, study.length_ns)?;
        Ok(Options { timeout_ns: 1_000_000_000, ..load })
    }

    /// Ramps to failure, each at a fresh process with an empty cache.
    fn ramps(
        &self,
        study: &mut Reproduction<'_>,
        label: &str,
        name: &str,
        cpus: &CpuList,
        outgoing: Outgoing,
        is_unique: bool,
    ) -> Result<(), String> {
        let closed = self.closed(study, is_unique)?;
        let length_ns = BUCKET_NS.min(study.length_ns);
        let short = Options { length_ns, interval_ns: length_ns, ..closed.clone() };
        let mut highest = None;
        for _ in 0..study.repeats {
            let top = match highest {
                Some(top) => top,
                None => {
                    let _server = self.start(study, name, cpus, outgoing, 0)?;
                    let stop = &AtomicBool::new(false);
                    let run = record("highest", BTreeMap::new(), &short, &[], None, stop)?;
                    *highest.insert((run.derived.answered_rate * 1.6).max(2_000.0))
                }
            };
            let _server = self.start(study, name, cpus, outgoing, 0)?;
            let rate = Rate::Ramp(top / 20.0, top);
            let ramp = Options {
                when: LoadMode::Open(Arrivals { rate, spacing: Spacing::Even, burst: 1 }),
                interval_ns: BUCKET_NS.min(closed.length_ns),
                ..closed.clone()
            };
            study.run_as(label, cpus.as_slice().len() as f64, true, &ramp)?;
        }
        Ok(())
    }
}

/// Runs a command whose words have blanks between them.
fn run_tool(tool: &str, line: &str) -> Result<(), String> {
    let output = Command::new(tool).args(line.split_whitespace()).output();
    let output = output.map_err(|error| format!("{tool}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("`{tool} {line}`: {said}")),
    }
}

/// One name, or names that were never asked before below 20 times 1,000 others.
fn queries(is_unique: bool) -> Result<QuerySource, String> {
    // A resolver answers a query without RD by an error, or from its cache.
    let form = QueryFormat { recursion: true, ..QueryFormat::default() };
    if !is_unique {
        return QuestionSet::from_pattern("www.t0", 1, Rtype::A, form).map(questions);
    }
    let count = DOMAINS * NAMES;
    let pattern = format!("n{{i}}.t{{i%{DOMAINS}}}");
    let set = Arc::new(QuestionSet::from_pattern(&pattern, count, Rtype::A, form)?);
    let what = QuestionSpec { set, order: Order::Given, unique: 1.0, nxdomain: 0.0, under: None };
    Ok(QuerySource::Questions(what.into()))
}

/// The config of a forwarder with these source ports.
fn forwarder(kind: &ServerKind, setup: &ServerSetup, outgoing: Outgoing) -> Result<String, String> {
    let Outgoing { ports, server } = outgoing;
    let text = kind.forwarding(setup, server.into())?;
    let (before, inserted) = match (kind.name, ports) {
        ("bind", Ports::One) => ("};\ncontrols", "  query-source address * port 5400;\n"),
        ("unbound", Ports::Eight) => (
            "remote-control:",
            "  outgoing-port-avoid: 0-65535\n  outgoing-port-permit: 5400-5407\n  \
             outgoing-range: 8\n",
        ),
        ("dunlin", Ports::One) => (" }\n[cache]", ", fixed_ports = 1"),
        ("dunlin", Ports::Eight) => (" }\n[cache]", ", fixed_ports = 8"),
        _ => return Ok(text),
    };
    Ok(text.replacen(before, &format!("{inserted}{before}"), 1))
}

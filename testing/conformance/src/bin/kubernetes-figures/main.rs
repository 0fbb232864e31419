//! `make bench-kubernetes`: memory, first answers, latency and outages of Dunlin, and of CoreDNS,
//! with 10,000 services and 100,000 endpoints on one API server. Each tenth service is headless,
//! with a hundred endpoints. More than a limit fails the run.
//!
//! `DUNLIN_SERVICES` is another number of services, `DUNLIN_CHURN_SECONDS` another time of changes.
#![allow(missing_docs, reason = "a program")]

mod churn;
mod outages;

use cluster::{Cluster, Part, objects};
use conformance::Result;
use conformance::client::ask_udp;
use conformance::environment::{TestFolder, number};
use conformance::limits::Patience;
use conformance::names::name;
use conformance::queries::{Edns, Query};
use conformance::reply::Reply;
use conformance::server::{Launch, Server, Software};
use domain::base::iana::Rtype;
use serde_json::{Value, json};
use std::net::SocketAddrV4;
use std::path::Path;
use std::time::{Duration, Instant};
use test_support::wait;

/// Slices of a headless service, each with ten endpoints; every tenth service has one of a hundred.
const SLICES: usize = 10;
const CHANGES: usize = 300;
const THREADS: usize = 8;
const PORTS: [(&str, &str, u16); 1] = [("http", "TCP", 8080)];

/// Compares figures with their limits.
#[derive(Debug, Default)]
struct Verdict {
    missed: usize,
}

impl Verdict {
    fn judge(&mut self, what: &str, value: f64, limit: f64) {
        let missed = value > limit;
        println!("{what:60} {value:9.3}  (limit {limit}){}", if missed { "  MISSED" } else { "" });
        self.missed += usize::from(missed);
    }
}

fn main() -> Result<()> {
    let mut cluster = Cluster::start(cluster::find()?)?;
    let begun = Instant::now();
    let services = number("DUNLIN_SERVICES", 10_000) as usize;
    let headless = services / 10;
    fill(&cluster, services - headless, headless);
    churn::fill(&cluster);
    let endpoints = headless * SLICES * 10;
    println!("{services} services, {endpoints} endpoints created in {:.0?}", begun.elapsed());
    let folder = TestFolder::new("kubernetes-figures")?;
    let load = churn::Load { rate: 500, seconds: number("DUNLIN_CHURN_SECONDS", 300) as u32 };
    let mut verdict = Verdict::default();
    let mut resident = Vec::new();
    for software in [Software::Dunlin, Software::CoreDns] {
        let server = measure(&cluster, software, headless, &folder.path, &mut verdict)?;
        resident.push(memory(&server, "VmRSS"));
        late(&cluster, &server, software.name())?;
        churn::measure(&cluster, &server, software.name(), load, &mut verdict)?;
        if software == Software::Dunlin {
            outages::measure(&mut cluster, &server, &mut verdict)?;
        }
    }
    if let [ours, theirs] = resident[..] {
        verdict.judge("resident memory ÷ that of CoreDNS", ours as f64 / theirs as f64, 0.25);
    }
    from_disk(cluster, headless, &folder.path, &mut verdict)?;
    match verdict.missed {
        0 => Ok(()),
        missed => Err(format!("{missed} figures are above their limits")),
    }
}

fn in_parts(count: usize, act: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for part in 0..THREADS {
            let act = &act;
            scope.spawn(move || (part..count).step_by(THREADS).for_each(act));
        }
    });
}

fn fill(cluster: &Cluster, cluster_ip: usize, headless: usize) {
    cluster.create(&objects::namespace("shop"));
    in_parts(cluster_ip, |at| {
        drop(cluster.create(&objects::service("shop", &format!("ip-{at}"), &PORTS, json!({}))));
    });
    in_parts(headless, |at| {
        let service = format!("web-{at}");
        cluster.create(&objects::headless("shop", &service, &PORTS));
        let all: Vec<Value> =
            (0..SLICES * 10).map(|number| objects::endpoint(&address(at, number))).collect();
        let each = if at % 10 == 0 { 100 } else { 10 };
        for (number, part) in all.chunks(each).enumerate() {
            let slice = format!("{service}-{number}");
            cluster.create(&objects::slice("shop", &slice, &service, &PORTS, part));
        }
    });
}

fn address(service: usize, number: usize) -> String {
    let at = service * 100 + number;
    format!("10.{}.{}.{}", 16 + at / 62_500, at / 250 % 250, 1 + at % 250)
}

fn launch(software: Software, cluster: &Cluster, labels: &str, folder: &Path) -> Result<Server> {
    let kubeconfig = cluster.kubeconfig();
    let sections = match (software, labels) {
        (Software::Dunlin, labels) => format!(
            "[kubernetes]\nzones = [\"cluster.local\"]\nkubeconfig = {kubeconfig:?}\n\
             labels = {labels:?}\n"
        ),
        (_, labels) => {
            let labels = if labels.is_empty() { String::new() } else { format!("labels {labels}") };
            format!(
                "kubernetes cluster.local in-addr.arpa ip6.arpa {{\n kubeconfig {}\n \
                 startup_timeout 120s\n {labels}\n}}\n",
                kubeconfig.display()
            )
        }
    };
    Launch { sections: &sections, ..Launch::new(software, &[]) }.start(folder)
}

/// The number of addresses in the reply, and one for a truncated one.
fn addresses(server: SocketAddrV4, text: &str) -> usize {
    let mut query = Query::new(name(text), Rtype::A);
    query.edns = Some(Edns::new(4096));
    let patience = Patience { timeout: Duration::from_millis(50), tries: 1 };
    let replies = ask_udp(server, &[query.to_wire()], patience).unwrap_or_default();
    let reply = replies.into_iter().flatten().next();
    // A hundred addresses do not fit: a truncated reply is right, too.
    let count = |reply: Reply| reply.answer.len() + usize::from(reply.tc);
    reply.map_or(0, |bytes| count(Reply::read(&bytes)))
}

fn wait_for(server: &Server, text: &str, is_there: bool) -> Result<Duration> {
    let begun = Instant::now();
    while (addresses(server.address, text) > 0) != is_there {
        if begun.elapsed() > wait::deadline() {
            return Err(format!("{text}: no answer\n{}", server.log_end()));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(begun.elapsed())
}

/// A figure of `/proc/PID/status`, in KiB.
fn memory(server: &Server, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id()));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.unwrap_or_default()
}

fn last(headless: usize) -> String {
    format!("web-{}.shop.svc.cluster.local", headless - 1)
}

fn measure(
    cluster: &Cluster,
    software: Software,
    headless: usize,
    folder: &Path,
    verdict: &mut Verdict,
) -> Result<Server> {
    let who = software.name();
    let empty = {
        let server = launch(software, cluster, "no=object", &folder.join("empty"))?;
        std::thread::sleep(Duration::from_secs(5));
        memory(&server, "VmRSS")
    };
    let begun = Instant::now();
    let server = launch(software, cluster, "", &folder.join("full"))?;
    wait_for(&server, &last(headless), true)?;
    let first = begun.elapsed();
    println!("{who}: first right answer from the API server {first:.2?} after its start");
    std::thread::sleep(Duration::from_secs(20));
    let (steady, peak) = (memory(&server, "VmRSS"), memory(&server, "VmHWM"));
    let endpoints = (headless * SLICES * 10) as u64;
    let of_each = steady.saturating_sub(empty) * 1024 / endpoints;
    println!("{who}: {steady} KiB resident, {empty} KiB without objects, {peak} KiB at most");
    println!("{who}: {of_each} B for each ready headless endpoint, services included");
    if software == Software::Dunlin {
        verdict.judge("first right answer from the API server, s", first.as_secs_f64(), 5.0);
        verdict.judge("bytes for each ready headless endpoint", of_each as f64, 350.0);
        verdict.judge("most of the first list ÷ resident", peak as f64 / steady as f64, 1.5);
    }
    Ok(server)
}

/// Services that come one at a time.
fn late(cluster: &Cluster, server: &Server, who: &str) -> Result<()> {
    let mut times = Vec::new();
    for at in 0..CHANGES {
        let (service, slice) = (format!("late-{who}-{at}"), format!("late-{who}-{at}-a"));
        cluster.create(&objects::headless("shop", &service, &PORTS));
        let endpoint = [objects::endpoint(&format!("10.200.{}.{}", at / 250, at % 250))];
        cluster.create(&objects::slice("shop", &slice, &service, &PORTS, &endpoint));
        times.push(wait_for(server, &format!("{service}.shop.svc.cluster.local"), true)?);
    }
    times.sort_unstable();
    let what = "from the API server's reply to a write to the first right answer";
    churn::show(who, what, &times);
    Ok(())
}

/// A restart while the API server is away.
fn from_disk(
    mut cluster: Cluster,
    headless: usize,
    folder: &Path,
    verdict: &mut Verdict,
) -> Result<()> {
    let folder = folder.join("full");
    cluster.kill(Part::ApiServer);
    let begun = Instant::now();
    let server = launch(Software::Dunlin, &cluster, "", &folder)?;
    wait_for(&server, &last(headless), true)?;
    verdict.judge("first right answer from disk, s", begun.elapsed().as_secs_f64(), 1.0);
    Ok(())
}

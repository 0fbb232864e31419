//! The generator beside dnsperf, in what both mean the same: a closed loop against one server.

mod common;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::skip;
use lab::statistics::median;
use lab_echo::{Echo, Model};
use lab_load::names::{Order, Set, What};
use lab_load::query::Form;
use lab_load::{Asks, Options, When};

/// What the server wastes on each query: it is the limit, whoever asks.
const SPIN: Duration = Duration::from_micros(100);
const ROUNDS: usize = 5;
const SECONDS: u64 = 1;
const UNDER_WAY: usize = 20;
/// How far both may lie apart, as a share: other tests and a build may run beside.
const APART: f64 = 0.25;

/// Answers a second, and how long one took in the mean, µs.
type Figures = (f64, f64);

fn with_dnsperf(server: SocketAddr, names: &Path) -> Figures {
    let (ip, port) = (server.ip().to_string(), server.port().to_string());
    let (seconds, under_way) = (SECONDS.to_string(), UNDER_WAY.to_string());
    let output = Command::new("dnsperf")
        .args(["-s", &ip, "-p", &port, "-l", &seconds, "-q", &under_way, "-d"])
        .arg(names)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let figure = |name: &str| {
        let line = said.lines().find(|line| line.trim().starts_with(name));
        let words = line.and_then(|line| line.split_once(':')).map(|(_, behind)| behind);
        let number = words.and_then(|words| words.split_whitespace().next()?.parse::<f64>().ok());
        number.unwrap_or_else(|| panic!("no {name} in {said}"))
    };
    (figure("Queries per second"), figure("Average Latency (s)") * 1e6)
}

fn with_ours(server: SocketAddr, names: &Path) -> Figures {
    let form = Form { recursion: true, edns: false, dnssec: false };
    let set = Arc::new(Set::read(names, form).unwrap());
    let what = What { set, order: Order::Given, unique: 0.0, nxdomain: 0.0, under: None };
    let options = Options {
        when: When::Closed { outstanding: UNDER_WAY, rate_max: None },
        length_ns: SECONDS * 1_000_000_000,
        ..Options::new(server, Asks::Questions(what.into()))
    };
    let report = lab_load::run(&options, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let mean_ns = report.mean_of_answered(&report.times.service).unwrap();
    (report.rate(), mean_ns / 1e3)
}

#[test]
fn a_closed_loop_gives_what_dnsperf_gives() {
    if Command::new("dnsperf").arg("-h").output().is_err() {
        return skip("dnsperf is not here: apt install dnsperf");
    }
    let names = std::env::temp_dir().join(format!("dunlin-dnsperf-{}", std::process::id()));
    let text: String = (0..500).map(|n| format!("svc-{n}.ns-1.svc.cluster.local A\n")).collect();
    std::fs::write(&names, text).unwrap();
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let options =
        lab_echo::Options { spin: SPIN, ..lab_echo::Options::new(listen, Model::Recvmmsg) };
    let echo = Echo::start(options).unwrap();
    // In turns: what else this machine does meets both.
    let both: Vec<(Figures, Figures)> = (0..ROUNDS)
        .map(|_| (with_dnsperf(echo.address(), &names), with_ours(echo.address(), &names)))
        .collect();
    std::fs::remove_file(&names).unwrap();
    let ratio = |of: fn(&Figures) -> f64| {
        median(&both.iter().map(|(theirs, ours)| of(ours) / of(theirs)).collect::<Vec<_>>())
            .unwrap()
    };
    for (what, ratio) in [("rate", ratio(|f| f.0)), ("mean latency", ratio(|f| f.1))] {
        assert!((ratio - 1.0).abs() <= APART, "{what}: {ratio:.2} of dnsperf's: {both:?}");
    }
    let most = 1.0 / SPIN.as_secs_f64();
    assert!(both.iter().all(|(_, ours)| ours.0 <= most * 1.02), "no server answers so: {both:?}");
}

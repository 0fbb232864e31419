//! The generator beside dnsperf, in what both mean the same: a closed loop against one server.
//!
//! The server takes its time instead of being slow, so that the figures are those of the loop and
//! hardly of what else this machine does. How fast both can be, `make bench-lab-generator` says.

use test_support::skip;

use crate::common::{Server, options, run, yes};
use lab_load::{LoadMode, Options};
use skip::skip;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// From a query to its answer.
const TAKES: Duration = Duration::from_millis(50);
const UNDER_WAY: usize = 50;
const SECONDS: u64 = 1;
const ROUNDS: usize = 3;
/// How far both may lie apart, as a share: other tests and a build may run beside.
const APART: f64 = 0.2;

/// Answers a second, and how long one took in the mean, ms.
#[derive(Clone, Copy, Debug)]
struct Figures {
    rate: f64,
    mean_ms: f64,
}

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
    let mean_ms = figure("Average Latency (s)") * 1e3;
    Figures { rate: figure("Queries per second"), mean_ms }
}

fn with_ours(server: &Server) -> Figures {
    let options = Options {
        when: LoadMode::Closed { outstanding: UNDER_WAY, rate_max: None },
        length_ns: SECONDS * 1_000_000_000,
        timeout_ns: 5_000_000_000,
        channels: 1,
        ..options(server)
    };
    let report = run(&options);
    let mean_ns = report.mean_of_answered(&report.times.service).unwrap();
    Figures { rate: report.rate(), mean_ms: mean_ns / 1e6 }
}

#[test]
fn a_closed_loop_gives_what_dnsperf_gives() {
    if Command::new("dnsperf").arg("-h").output().is_err() {
        return skip("dnsperf is not here: apt install dnsperf");
    }
    let names = std::env::temp_dir().join(format!("dunlin-dnsperf-{}", std::process::id()));
    let text: String = (0..500).map(|n| format!("n{n}.example A\n")).collect();
    std::fs::write(&names, text).unwrap();
    let server = Server::udp(|_, query| vec![(TAKES, yes(query))]);
    // In turns: what else this machine does meets both.
    let both: Vec<[Figures; 2]> =
        (0..ROUNDS).map(|_| [with_dnsperf(server.address, &names), with_ours(&server)]).collect();
    std::fs::remove_file(&names).unwrap();
    // Others can only make it slower: each one's best round is the least disturbed.
    let best = |who: usize, of: fn(&Figures) -> f64| {
        both.iter().map(|round| of(&round[who])).fold(0.0, f64::max)
    };
    for (what, of) in [
        ("rate", (|figures| figures.rate) as fn(&Figures) -> f64),
        ("speed", |figures| 1.0 / figures.mean_ms),
    ] {
        let ratio = best(1, of) / best(0, of);
        assert!((ratio - 1.0).abs() <= APART, "{what}: {ratio:.2} of dnsperf's: {both:?}");
    }
    let most = UNDER_WAY as f64 / TAKES.as_secs_f64();
    assert!(best(1, |figures| figures.rate) <= most * 1.05, "no server answers so: {both:?}");
    assert!(best(1, |figures| 1.0 / figures.mean_ms) <= 1.0 / 50.0, "nor so soon: {both:?}");
}

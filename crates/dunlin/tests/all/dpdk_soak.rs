//! A server on a memif under a steady load by the lab's generator, for some seconds, or for as long
//! as `make campaign-xdp-memif` says: no answer is wrong, none is lost.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `DUNLIN_SOAK_SECONDS` | length (5) |
//! | `DUNLIN_SOAK_RATE` | queries a second (0.8 of the most) |
use crate::dpdk::{MAC, serve_with, status};
use crate::memif_end::environment;
use crate::soak::{NAMES, number, records, run};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::query::QueryFormat;
use lab_load::{DpdkPeer, LoadMode, Options, Oracle, Path as Way, QuerySource, Snapshot};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use test_support::dpdk;
use test_support::folder::Folder;
use wire::{Name, NameBuf, Rtype};

/// Queries under way at most, fewer than a ring has entries: the generator, which may be delayed,
/// has room for all answers.
const UNDER_WAY: usize = 8_192;

fn load(folder: &Path, port: u16, when: LoadMode, length: Duration) -> Options {
    let form = QueryFormat::default();
    let set = QuestionSet::from_pattern("n{i}.a.test", NAMES as usize, Rtype::A, form);
    let set = Arc::new(set.expect("names"));
    let what = QuestionSpec { set, order: Order::Uniform, unique: 0.0, nxdomain: 0.0, under: None };
    let origin = NameBuf::from_text(b"a.test", Name::ROOT).expect("a name");
    let oracle = Oracle::read(&folder.join("a.test.zone"), origin.as_name()).expect("a zone");
    let socket = folder.join("memif");
    let socket = socket.display();
    let peer = DpdkPeer {
        device: format!("net_memif77,role=client,socket={socket},socket-abstract=no,rsize=14"),
        server_mac: MAC,
        library: dpdk::library().expect("DPDK"),
    };
    Options {
        when,
        length_ns: length.as_nanos() as u64,
        path: Way::Dpdk,
        dpdk: Some(peer),
        sources: "10.1.0.0/24".parse().ok(),
        channels: 16,
        outstanding_max: UNDER_WAY,
        oracle: Some(Arc::new(oracle)),
        check_one_in: 16,
        ..Options::new(
            SocketAddr::from((Ipv4Addr::new(192, 0, 2, 53), port)),
            QuerySource::Questions(Box::new(what)),
        )
    }
}

/// Time in which the machine gave its CPUs to others, in all, in ticks of 10 ms.
fn steal() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    line.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// The second with the slowest answers: when, answers, p99 and steal, for the report.
fn worst_second(before: &mut u64, worst: &mut (u64, String), seen: &Snapshot) {
    let now = steal();
    let stolen_ms = 10 * (now - std::mem::replace(before, now));
    let slowest = seen.times.response.max();
    if slowest > worst.0 {
        let (at, counts) = (seen.until_ns / 1_000_000_000, &seen.counts);
        let text = format!(
            "second {at}: {} of {} answered, slowest {:?}, {stolen_ms} ms of CPUs stolen",
            counts.answered,
            counts.sent,
            Duration::from_nanos(slowest)
        );
        *worst = (slowest, text);
    }
}

#[test]
#[ignore = "slow: statistical, under load"]
fn load_over_memif_has_no_wrong_and_no_lost_answer() {
    if environment().is_none() {
        return;
    }
    let length = Duration::from_secs(number("DUNLIN_SOAK_SECONDS", 5).into());
    let folder = Folder::new("dpdk-soak");
    let mut served = serve_with(&folder, "workers = 1\n", &records(0, NAMES));
    let port = served.address.port();
    let closed = LoadMode::Closed { outstanding: 256, rate_max: None };
    let report = run(&load(&folder, port, closed, Duration::from_secs(2)));
    let busy = Duration::from_nanos(report.busy_ns).as_secs_f64();
    let most = (report.counts.answered as f64 / busy) as u32;
    let rate = number("DUNLIN_SOAK_RATE", most / 10 * 8);
    eprintln!("{rate} a second of {most}");
    let (rate, spacing) = (Rate::Constant(rate.into()), Spacing::Even);
    let open = LoadMode::Open(Arrivals { rate, spacing, burst: 1 });
    let (mut before, mut worst) = (steal(), (0, String::new()));
    let report =
        lab_load::run(&load(&folder, port, open, length), &AtomicBool::new(false), &mut |seen| {
            worst_second(&mut before, &mut worst, seen);
        });
    let report = report.expect("a load");
    let counts = &report.counts;
    eprintln!("{counts:?}\nworst {}\n{:?}", worst.1, report.threads);
    let device = &status(&folder)["dpdk"]["devices"][0];
    eprintln!("lost by the server: {}", device["lost"]);
    assert!(counts.checked > 0 && counts.wrong == 0, "{counts:?}");
    assert_eq!(counts.answered, counts.sent, "{counts:?}");
    served.end();
}

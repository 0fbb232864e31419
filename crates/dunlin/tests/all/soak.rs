//! A server on AF_XDP under a steady load while its records change: for some seconds, or for as
//! long as `make campaign-xdp-soak` says. Needs root.
use crate::pair::{Wire, is_root};
use crate::served::{NOERROR, Served, ask_within, binary, holds, rcode, zone};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::query::QueryFormat;
use lab_load::{LoadMode, Options, Oracle, Path as Way, QuerySource, Report};
use rustix::thread::disable_transparent_huge_pages;
use serde_json::Value;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};
use test_support::wait;
use wire::{Name, NameBuf, Rtype};

const AT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 53);

/// Names in the queries of the load.
pub const NAMES: u32 = 10_000;

/// A number from an environment variable of a campaign, or the default.
pub fn number(variable: &str, otherwise: u32) -> u32 {
    let told = std::env::var(variable).ok().map(|count| count.parse().expect("a number"));
    told.unwrap_or(otherwise)
}

/// A zone of this many names; each lot has other names.
pub fn records(lot: u32, count: u32) -> String {
    let head = format!("$TTL 1\n@ SOA ns root {lot} 60 60 60 1\n@ NS ns\nns A 192.0.2.1\n");
    (0..count).fold(head, |mut text, n| {
        writeln!(text, "n{n} A 10.{}.{}.{}", lot % 256, n / 256 % 256, n % 256).expect("text");
        text
    })
}

fn serve(wire: &Wire, folder: &Path, changes: u32) -> Served {
    let config = format!(
        "port = \"xdp\"\nlisten = [\"192.0.2.1:53\"]\n[xdp]\ninterface = \"s0\"\n\
         [admin]\nsocket = \"{}\"\n{}{}",
        folder.join("admin").display(),
        zone("steady.test"),
        zone("changing.test")
    );
    let zones = [records(0, NAMES), records(1, changes)];
    let files = [("steady.test.zone", zones[0].as_str()), ("changing.test.zone", &zones[1])];
    let program = binary().get_program().to_str().expect("a path").to_owned();
    Served::start_by(&mut wire.command(&program), folder, &config, &files)
}

fn status(folder: &Path) -> Value {
    let words = ["status", "-o", "json", "--socket"];
    let asked = binary().args(words).arg(folder.join("admin")).output().expect("it runs");
    serde_json::from_slice(&asked.stdout).expect("a status")
}

fn resident_bytes(folder: &Path) -> u64 {
    status(folder)["process"]["resident_bytes"].as_u64().expect("bytes")
}

/// A steady load; one answer in 16 is compared with the zone.
fn load(wire: &Wire, folder: &Path, rate: u32, length: Duration) -> Options {
    let form = QueryFormat { recursion: true, ..QueryFormat::default() };
    let set = QuestionSet::from_pattern("n{i}.steady.test", NAMES as usize, Rtype::A, form);
    let set = Arc::new(set.expect("names"));
    let what = QuestionSpec { set, order: Order::Uniform, unique: 0.0, nxdomain: 0.0, under: None };
    let steady = NameBuf::from_text(b"steady.test", Name::ROOT).expect("a name");
    let oracle = Oracle::read(&folder.join("steady.test.zone"), steady.as_name()).expect("a zone");
    Options {
        when: LoadMode::Open(Arrivals {
            rate: Rate::Constant(rate.into()),
            spacing: Spacing::Even,
            burst: 1,
        }),
        length_ns: length.as_nanos() as u64,
        path: Way::Xdp,
        netns: Some(wire.client_name().to_owned()),
        oracle: Some(Arc::new(oracle)),
        check_one_in: 16,
        ..Options::new(AT, QuerySource::Questions(Box::new(what)))
    }
}

/// Answers a second with so many queries in flight that both sides always have work.
fn most(wire: &Wire, folder: &Path, length: Duration) -> u32 {
    let when = LoadMode::Closed { outstanding: 256, rate_max: None };
    let Report { counts, busy_ns, .. } = run(&Options { when, ..load(wire, folder, 1, length) });
    assert!(counts.answered > 0 && counts.wrong == 0, "{counts:?}");
    (counts.answered as f64 / Duration::from_nanos(busy_ns).as_secs_f64()) as u32
}

/// Runs a load to its end.
pub fn run(options: &Options) -> Report {
    lab_load::run(options, &AtomicBool::new(false), &mut |_| {}).expect("a load")
}

/// Gives the server another lot of records, and waits until it answers one of them.
fn change(wire: &Wire, folder: &Path, lot: u32, count: u32) {
    let (new, file) = (folder.join("new"), folder.join("changing.test.zone"));
    std::fs::write(&new, records(lot, count)).and_then(|()| std::fs::rename(&new, file)).unwrap();
    // Under this load a query may be lost, and is repeated.
    let ask = || ask_within(AT, "n1.changing.test", Duration::from_secs(1));
    wait::until_value(
        &format!("an answer of lot {lot}"),
        || wire.in_client(ask),
        |reply| {
            reply.as_ref().is_some_and(|reply| {
                assert_eq!(rcode(reply), NOERROR, "lot {lot}");
                holds(reply, &[10, lot as u8, 0, 1])
            })
        },
    );
}

/// At rest, each frame must be free or in one of the rings.
fn expect_all_frames(folder: &Path) {
    let queue = || status(folder)["xdp"]["queues"][0].take();
    let queue = wait::until_value("all frames in a place", queue, |queue| {
        let places = queue["places"].as_object().expect("places");
        let sum: u64 = places.values().map(|count| count.as_u64().expect("a count")).sum();
        Some(sum) == queue["frames"].as_u64()
    });
    eprintln!("frames: {}; lost: {}", queue["places"], queue["lost"]);
    assert_eq!((&queue["lost"]["stray"], &queue["lost"]["invalid"]), (&0.into(), &0.into()));
}

#[test]
#[ignore = "slow: statistical, under load"]
fn load_and_changes_give_no_wrong_answer_lost_frame_or_growth() {
    if !is_root() {
        return;
    }
    let length = Duration::from_secs(number("DUNLIN_SOAK_SECONDS", 10).into());
    let changes = number("DUNLIN_SOAK_CHANGES", 100);
    let folder = std::env::temp_dir().join(format!("dunlin-soak-{}", std::process::id()));
    let wire = Wire::new();
    // The server inherits it. Otherwise khugepaged may merge partly used pages at any time, and
    // resident memory grows without an allocation.
    disable_transparent_huge_pages(true).expect("any process may");
    let _served = serve(&wire, &folder, changes);
    expect_all_frames(&folder);
    let most = most(&wire, &folder, (length / 10).min(Duration::from_secs(10)));
    let rate = number("DUNLIN_SOAK_RATE", most / 10 * 8);
    eprintln!("{rate} a second of {most}");
    let options = load(&wire, &folder, rate, length);
    let load = spawn(move || run(&options));
    let (begun, mut lot, mut before) = (Instant::now(), 1, 0);
    while !load.is_finished() {
        lot += 1;
        change(&wire, &folder, lot, changes);
        if before == 0 && begun.elapsed() > length / 10 {
            before = resident_bytes(&folder);
        }
        // A change a second.
        sleep((begun + Duration::from_secs(u64::from(lot) - 1)).duration_since(Instant::now()));
    }
    let after = resident_bytes(&folder);
    let Report { counts, .. } = load.join().expect("it ends");
    eprintln!("{lot} lots of {changes}; from {before} bytes to {after}; {counts:?}");
    assert!(counts.checked > 0 && counts.wrong == 0);
    assert!(counts.answered > counts.sent / 2, "most are answered");
    assert!(lot > 2 && after <= before + before / 10, "from {before} bytes to {after}");
    expect_all_frames(&folder);
    let _ = std::fs::remove_dir_all(folder);
}

//! Whether verdicts are right: something is broken on purpose, and the verdict must name it.
//!
//! Real parts on the two-host bench: an echo, the generator, the kernel between them.
//! `DUNLIN_TRIES` says how often each is tried; all verdicts must be right, which they are on a
//! machine that does nothing else. `DUNLIN_VERDICT_PAGE` says where the page is written.

mod bench;

use bench::{CLIENT, CpuHog, SERVER, Spinner, TestBench};
use lab::ceiling::EchoBaseline;
use lab::observer::RunResult;
use lab::output::Table;
use lab::verdict::{Cause, Verdict};
use lab_echo::Model;
use lab_host::hosts::Side;
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::query::QueryFormat;
use lab_load::{LoadMode, Options, Path, QuerySource};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use test_support::skip::skip;
use wire::Rtype;

/// Queries a second that are offered. Even a slow machine answers so many with an echo.
const RATE: f64 = 10_000.0;
/// A spin that leaves half of that: 200 µs a query are 5,000 a second.
const SPIN_NS: u64 = 200_000;

/// Bytes of a slow server's buffer: what waits in a larger one is late, and has not died.
const BUFFER: usize = 256 << 10;

/// A load of a second on the stage.
fn load() -> Options {
    let form = QueryFormat::default();
    let set = QuestionSet::from_pattern("svc-{i}.example", 1_000, Rtype::A, form).unwrap();
    let set = Arc::new(set);
    let what = QuestionSpec { set, order: Order::Given, unique: 0.0, nxdomain: 0.0, under: None };
    let arrivals = Arrivals { rate: Rate::Constant(RATE), spacing: Spacing::Even, burst: 1 };
    Options {
        when: LoadMode::Open(arrivals),
        length_ns: 1_000_000_000,
        timeout_ns: 400_000_000,
        channels: 64,
        cpus: vec![1],
        netns: Some(bench::netns(CLIENT)),
        ..Options::new(bench::ADDRESS, QuerySource::Questions(what.into()))
    }
}

/// An echo with nothing wrong.
fn fine() -> Spinner {
    Spinner { model: Model::Recvmmsg, spin_ns: 0, sockets: 1, buffer: 0 }
}

/// The run of `options` while only `server` runs.
fn judged(bench: &TestBench, server: &Spinner, options: &Options) -> RunResult {
    let server = bench.start(server);
    measure(options, &[server.id()])
}

fn measure(options: &Options, pids: &[u32]) -> RunResult {
    let stop = AtomicBool::new(false);
    lab::observer::measure(options, pids, &stop, &mut |_| {}).unwrap()
}

fn in_bursts(options: Options) -> Options {
    let arrivals = Arrivals { rate: Rate::Constant(RATE), spacing: Spacing::Even, burst: 64 };
    Options { when: LoadMode::Open(arrivals), ..options }
}

fn stopped(bench: &TestBench) -> RunResult {
    let server = bench.start(&fine());
    let id = server.id();
    // After the first of the intervals.
    let options = Options { interval_ns: 300_000_000, ..load() };
    let stop = AtomicBool::new(false);
    let run = lab::observer::measure(&options, &[id], &stop, &mut |_| bench::stop(id)).unwrap();
    bench::go_on(id);
    run
}

/// A load whose process stands still for a while, with all its threads and timers; of so few
/// queries that those it then owes fit into any ring.
fn stalled(bench: &TestBench) -> RunResult {
    let server = bench.start(&fine());
    let _stopper = bench::stop_us_for("0.06");
    measure(&at(RATE / 5.0), &[server.id()])
}

fn hogged(bench: &TestBench, side: Side) -> RunResult {
    if side == CLIENT {
        let server = bench.start(&fine());
        let hogged = || {
            let _hog = CpuHog::on(side);
            measure(&load(), &[server.id()])
        };
        return bench.plainly(side, hogged).0;
    }
    let (server, _plain) = bench.plainly(side, || bench.start(&fine()));
    bench::start_as("--rr", bench::ASKING);
    let _hog = CpuHog::on(side);
    measure(&load(), &[server.id()])
}

/// A server that is asked for half as much again as it answers, between two looks at an echo. It
/// has 2 µs of work with each query, and queries are joined: else it may cost no more to
/// answer than to ask, and who asks is busy first.
fn overloaded(bench: &TestBench) -> RunResult {
    let server = bench.start(&Spinner { spin_ns: 2_000, ..fine() });
    let stop = AtomicBool::new(false);
    let joined = Options { path: Path::Udp { segments: true }, ..load() };
    let when = LoadMode::Closed { outstanding: 1_024, rate_max: None };
    let most = lab_load::run(&Options { when, ..joined.clone() }, &stop, &mut |_| {}).unwrap();
    let options = Options { when: at(most.rate() * 1.5).when, ..joined };
    let echo = EchoBaseline::in_place(Model::Recvmmsg, &options, &[server.id()]).unwrap();
    let run = || Ok(measure(&options, &[server.id()]));
    echo.around(&options, &stop, run).unwrap()
}

/// A server whose answers bypass its sockets. The load is a closed loop, because an open loop
/// without loss needs no packet balance. It has few queries, because a generator that waits for due
/// times uses its CPU.
fn past_the_sockets(bench: &TestBench) -> RunResult {
    let when = LoadMode::Closed { outstanding: 16, rate_max: Some(RATE / 5.0) };
    judged(bench, &Spinner { model: Model::AfXdp, ..fine() }, &Options { when, ..load() })
}

fn at(rate: f64) -> Options {
    let arrivals = Arrivals { rate: Rate::Constant(rate), spacing: Spacing::Even, burst: 1 };
    Options { when: LoadMode::Open(arrivals), ..load() }
}

/// A fault, its cause, the words of the verdict, and the function that creates it.
type Scenario = (&'static str, Cause, &'static str, fn(&TestBench) -> RunResult);

const SCENARIOS: [Scenario; 14] = [
    ("the server spins 200 µs for each query", Cause::Server, "socket", |bench| {
        judged(bench, &Spinner { spin_ns: SPIN_NS, buffer: BUFFER, ..fine() }, &load())
    }),
    ("the generator spins 200 µs for each query", Cause::Generator, "ms late", |bench| {
        judged(bench, &fine(), &Options { spin_ns: SPIN_NS, ..load() })
    }),
    ("the link takes 2 Mbit/s (tbf)", Cause::Network, "tc -s qdisc", |bench| {
        let _narrow = bench.narrow();
        judged(bench, &fine(), &load())
    }),
    ("the link loses 5 of 100 (cls_bpf)", Cause::Network, "packet balance", |bench| {
        let _lossy = bench.lossy();
        judged(bench, &fine(), &load())
    }),
    ("the server's socket has a buffer of 4 KiB", Cause::Server, "RcvbufErrors", |bench| {
        judged(bench, &Spinner { buffer: 4_096, ..fine() }, &in_bursts(load()))
    }),
    (
        "a busy SCHED_FIFO process on the server's core",
        Cause::Host,
        "the server did not get its CPU: sh (",
        |bench| hogged(bench, SERVER),
    ),
    (
        "a busy SCHED_FIFO process on the generator's core",
        Cause::Host,
        "the generator kept no plan: sh (",
        |bench| hogged(bench, CLIENT),
    ),
    (
        "the generator is stopped for 60 ms (SIGSTOP), as a virtual machine can be",
        Cause::Host,
        "stood still",
        stalled,
    ),
    ("the server is stopped (SIGSTOP)", Cause::Server, "state T", stopped),
    (
        "one source port for two sockets (SO_REUSEPORT)",
        Cause::Generator,
        "of the server's 2 sockets 1",
        |bench| {
            let server = Spinner { spin_ns: SPIN_NS, sockets: 2, buffer: BUFFER, ..fine() };
            judged(bench, &server, &Options { channels: 1, ..load() })
        },
    ),
    (
        "nothing; the load is 1.5 times what the server can answer",
        Cause::Server,
        "busy",
        overloaded,
    ),
    ("nothing; the load is 5,000,000 queries a second", Cause::Generator, "ms late", |bench| {
        judged(bench, &fine(), &at(5e6))
    }),
    (
        "nothing; the server answers on AF_XDP, in a closed loop",
        Cause::Offered,
        "no more were asked",
        past_the_sockets,
    ),
    ("nothing", Cause::Offered, "answered in time", |bench| judged(bench, &fine(), &load())),
];

#[test]
#[ignore = "campaign: what else the machine does is a cause of its own; make bench-lab-verdict"]
fn verdicts_name_the_injected_fault() {
    if let Some(missing) = bench::missing() {
        return skip(&missing);
    }
    let tries = std::env::var("DUNLIN_TRIES").map_or(1, |text| text.parse().unwrap());
    let bench = TestBench::up();
    let head = ["fault", "expected", "right", "one of the verdicts"];
    let mut table = Table::new(head).texts(4);
    let mut wrong = Vec::new();
    for (name, expected, words, run) in SCENARIOS {
        let is_right = |run: &&RunResult| {
            let Verdict { cause, because } = &run.verdict;
            *cause == expected && because.contains(words)
        };
        let found: Vec<RunResult> = (0..tries).map(|_| run(&bench)).collect();
        let right = found.iter().filter(is_right).count();
        wrong.extend(found.iter().filter(|run| !is_right(run)).map(|run| {
            let RunResult { verdict, measurements, .. } = run;
            format!("{name}: {expected} and {words:?} expected, but {verdict}\n{measurements:#?}")
        }));
        let said = found[0].verdict.to_string();
        println!("{name}: {said}");
        let right = format!("{right} of {}", found.len());
        table.row([name, expected.name(), &right, &said]);
    }
    drop(bench);
    if let Ok(page) = std::env::var("DUNLIN_VERDICT_PAGE") {
        std::fs::write(&page, text(&table)).unwrap_or_else(|e| panic!("{page}: {e}"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The page.
fn text(table: &Table) -> String {
    let run = |program: &str, words: &[&str]| {
        let output = std::process::Command::new(program).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let (date, kernel) = (run("date", &["-u", "+%-d %B %Y"]), run("uname", &["-sr"]));
    format!(
        "# Verdicts\n\nThis test injects a fault into the two-host bench, and the verdict must \
         name it: 10,000 queries a second for a second, with one CPU for each side. Written by \
         `make bench-lab-verdict`.\n\n{date}, {kernel}, {} CPUs.\n\n{}",
        run("nproc", &[]),
        table.markdown()
    )
}

//! Whether verdicts are right: something is broken on purpose, and the verdict must name it.
//!
//! Real parts on the two-host bench: an echo, the generator, the kernel between them.
//! `DUNLIN_TRIES` says how often each is tried, and then all must be right; without it one right
//! verdict will do. `DUNLIN_VERDICT_PAGE` says where the page is written.

mod common;
#[path = "verdict/stage.rs"]
mod stage;

use common::skip;
use lab::ceiling::Bare;
use lab::output::Table;
use lab::verdict::{Cause, Verdict};
use lab::witness::Measured;
use lab_echo::Model;
use lab_host::hosts::Side;
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::{Order, Set, What};
use lab_load::query::Form;
use lab_load::{Asks, Options, Path, When};
use stage::{CLIENT, Hog, SERVER, Spinner, Stage};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wire::Rtype;

/// Questions a second that are offered. Even a slow machine answers so many with an echo.
const RATE: f64 = 10_000.0;
/// A spin that leaves half of that: 200 µs a question are 5,000 a second.
const SPIN_NS: u64 = 200_000;

/// How often something is broken until its verdict is right, where no number of tries is asked for.
const TRIES_MAX: usize = 3;

/// Octets of a slow server's buffer: what waits in a larger one is late, and has not died.
const BUFFER: usize = 256 << 10;

/// A load of a second on the stage.
fn load() -> Options {
    let form = Form::default();
    let set = Set::from_pattern("svc-{i}.example", 1_000, Rtype::A, form).unwrap();
    let set = Arc::new(set);
    let what = What { set, order: Order::Given, unique: 0.0, nxdomain: 0.0, under: None };
    let arrivals = Arrivals { rate: Rate::Constant(RATE), spacing: Spacing::Even, burst: 1 };
    Options {
        when: When::Open(arrivals),
        length_ns: 1_000_000_000,
        timeout_ns: 400_000_000,
        lanes: 64,
        cpus: vec![1],
        netns: Some(stage::netns(CLIENT)),
        ..Options::new(stage::ADDRESS, Asks::Questions(what.into()))
    }
}

/// An echo with nothing wrong.
fn fine() -> Spinner {
    Spinner { model: Model::Recvmmsg, spin_ns: 0, sockets: 1, buffer: 0 }
}

/// What the generator sees of `options` while nothing but `server` is there.
fn judged(stage: &Stage, server: &Spinner, options: &Options) -> Measured {
    let server = stage.start(server);
    measure(options, &[server.id()])
}

fn measure(options: &Options, pids: &[u32]) -> Measured {
    let stop = AtomicBool::new(false);
    lab::witness::measure(options, pids, &stop, &mut |_| {}).unwrap()
}

fn in_bursts(options: Options) -> Options {
    let arrivals = Arrivals { rate: Rate::Constant(RATE), spacing: Spacing::Even, burst: 64 };
    Options { when: When::Open(arrivals), ..options }
}

fn stopped(stage: &Stage) -> Measured {
    let server = stage.start(&fine());
    let id = server.id();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        stage::stop(id);
    });
    let measured = measure(&load(), &[id]);
    stopper.join().unwrap();
    stage::go_on(id);
    measured
}

/// A load whose process stands still for a while, with all its threads and timers; of so few
/// questions that those it then owes fit into any ring.
fn stalled(stage: &Stage) -> Measured {
    let server = stage.start(&fine());
    let _stopper = stage::stop_us_for("0.06");
    measure(&at(RATE / 5.0), &[server.id()])
}

fn hogged(stage: &Stage, side: Side) -> Measured {
    if side == CLIENT {
        let server = stage.start(&fine());
        let hogged = || {
            let _hog = Hog::on(side);
            measure(&load(), &[server.id()])
        };
        return stage.plainly(side, hogged).0;
    }
    let (server, _plain) = stage.plainly(side, || stage.start(&fine()));
    stage::start_as("--rr", stage::ASKING);
    let _hog = Hog::on(side);
    measure(&load(), &[server.id()])
}

/// A server that is asked for half as much again as it answers, between two looks at an echo. It
/// has 2 µs of work with each question, and questions are joined: else it may cost no more to
/// answer than to ask, and who asks is busy first.
fn overloaded(stage: &Stage) -> Measured {
    let server = stage.start(&Spinner { spin_ns: 2_000, ..fine() });
    let stop = AtomicBool::new(false);
    let joined = Options { path: Path::Udp { segments: true }, ..load() };
    let when = When::Closed { outstanding: 1_024, rate_max: None };
    let most = lab_load::run(&Options { when, ..joined.clone() }, &stop, &mut |_| {}).unwrap();
    let options = Options { when: at(most.rate() * 1.5).when, ..joined };
    let echo = Bare::in_place(Model::Recvmmsg, &options, &[server.id()]).unwrap();
    let run = || Ok(measure(&options, &[server.id()]));
    echo.around(&options, &stop, run).unwrap()
}

/// A server whose sockets see nothing of what it answers. Asked by a closed loop, as an open one
/// in which all is answered needs no balance; by few questions, as a generator that waits for when
/// each is due is busy waiting.
fn past_the_sockets(stage: &Stage) -> Measured {
    let when = When::Closed { outstanding: 16, rate_max: Some(RATE / 5.0) };
    judged(stage, &Spinner { model: Model::AfXdp, ..fine() }, &Options { when, ..load() })
}

fn at(rate: f64) -> Options {
    let arrivals = Arrivals { rate: Rate::Constant(rate), spacing: Spacing::Even, burst: 1 };
    Options { when: When::Open(arrivals), ..load() }
}

/// What is broken, whose fault it is, what the verdict has to say, and how one breaks it.
type Scenario = (&'static str, Cause, &'static str, fn(&Stage) -> Measured);

const SCENARIOS: [Scenario; 14] = [
    ("the server spins 200 µs a question", Cause::Server, "socket", |stage| {
        judged(stage, &Spinner { spin_ns: SPIN_NS, buffer: BUFFER, ..fine() }, &load())
    }),
    ("the generator spins 200 µs a question", Cause::Generator, "ms late", |stage| {
        judged(stage, &fine(), &Options { spin_ns: SPIN_NS, ..load() })
    }),
    ("the link takes 2 Mbit/s (tbf)", Cause::Network, "tc -s qdisc", |stage| {
        let _narrow = stage.narrow();
        judged(stage, &fine(), &load())
    }),
    ("the link loses 5 of 100 (cls_bpf)", Cause::Network, "packet balance", |stage| {
        let _lossy = stage.lossy();
        judged(stage, &fine(), &load())
    }),
    ("the server's socket has a buffer of 4 KiB", Cause::Server, "RcvbufErrors", |stage| {
        judged(stage, &Spinner { buffer: 4_096, ..fine() }, &in_bursts(load()))
    }),
    (
        "a SCHED_FIFO hog on the server's core",
        Cause::Host,
        "the server did not get its CPU: sh (",
        |stage| hogged(stage, SERVER),
    ),
    (
        "a SCHED_FIFO hog on the generator's core",
        Cause::Host,
        "the generator kept no plan: sh (",
        |stage| hogged(stage, CLIENT),
    ),
    (
        "the generator is stopped for 60 ms (SIGSTOP), as its whole machine might be",
        Cause::Host,
        "stood still",
        stalled,
    ),
    ("the server is stopped (SIGSTOP)", Cause::Server, "state T", stopped),
    (
        "one source port for two sockets (SO_REUSEPORT)",
        Cause::Generator,
        "of the server's 2 sockets 1",
        |stage| {
            let server = Spinner { spin_ns: SPIN_NS, sockets: 2, buffer: BUFFER, ..fine() };
            judged(stage, &server, &Options { lanes: 1, ..load() })
        },
    ),
    (
        "nothing; half as much again is asked as the server answers",
        Cause::Server,
        "busy",
        overloaded,
    ),
    ("nothing; 5,000,000 a second are asked for", Cause::Generator, "ms late", |stage| {
        judged(stage, &fine(), &at(5e6))
    }),
    (
        "nothing; the server answers past its sockets (AF_XDP), in a closed loop",
        Cause::Offered,
        "no more were asked",
        past_the_sockets,
    ),
    ("nothing", Cause::Offered, "answered in time", |stage| judged(stage, &fine(), &load())),
];

#[test]
fn verdicts_name_what_was_broken() {
    if let Some(missing) = stage::missing() {
        return skip(&missing);
    }
    let tries: Option<usize> = std::env::var("DUNLIN_TRIES").ok().map(|text| text.parse().unwrap());
    let stage = Stage::up();
    let head = ["what is broken", "expected", "right", "the verdict, once"];
    let mut table = Table::new(head).texts(4);
    let mut wrong = Vec::new();
    for (name, expected, words, run) in SCENARIOS {
        let is_right = |measured: &&Measured| {
            let Verdict { cause, because } = &measured.verdict;
            *cause == expected && because.contains(words)
        };
        let found: Vec<Measured> = match tries {
            Some(tries) => (0..tries).map(|_| run(&stage)).collect(),
            // Others may use this machine, too: that is a cause of its own, and then a verdict on
            // what was broken is asked for again.
            None => {
                let mut measured = run(&stage);
                for _ in 1..TRIES_MAX {
                    if !is_right(&&measured) {
                        measured = run(&stage);
                    }
                }
                vec![measured]
            }
        };
        let right = found.iter().filter(is_right).count();
        wrong.extend(found.iter().filter(|measured| !is_right(measured)).map(|measured| {
            let Measured { verdict, evidence, .. } = measured;
            format!("{name}: {expected} and {words:?} expected, but {verdict}\n{evidence:#?}")
        }));
        let said = found[0].verdict.to_string();
        println!("{name}: {said}");
        let right = format!("{right} of {}", found.len());
        table.row([name, expected.name(), &right, &said]);
    }
    drop(stage);
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
        "# Verdicts\n\nSomething is broken on purpose on the two-host bench, and the verdict must \
         name it: 10,000 questions a second for a second, a CPU for each side. Written by `make \
         campaign-verdict`; one right verdict of three in `make test`.\n\n{date}, {kernel}, {} \
         CPUs.\n\n{}",
        run("nproc", &[]),
        table.markdown()
    )
}

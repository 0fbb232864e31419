//! Loads by io_uring.

mod common;
#[path = "../../../tests/skip.rs"]
mod skip;

use common::{Server, nobody, now, options, run, yes};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::{Options, Path, Sources, When};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const MILLISECOND: u64 = 1_000_000;

/// Options by io_uring, where there is one; else says so, and fails where nothing may be skipped
/// (`CI` or `DUNLIN_REQUIRE_ALL` is set).
fn uring(server: &Server) -> Option<Options> {
    let options = Options { path: Path::Uring { segments: true }, ..options(server) };
    let one = Options { queries_max: Some(1), ..options.clone() };
    match lab_load::run(&one, &AtomicBool::new(false), &mut |_| {}) {
        Ok(_) => Some(options),
        Err(missing) => {
            skip::skip(&missing.to_string());
            None
        }
    }
}

fn open(rate: f64) -> When {
    When::Open(Arrivals { rate: Rate::Constant(rate), spacing: Spacing::Even, burst: 1 })
}

#[test]
fn more_is_answered_than_there_are_buffers() {
    let server = Server::udp(|_, query| now(yes(query)));
    let Some(options) = uring(&server) else { return };
    let timeout_ns = 10_000 * MILLISECOND;
    let options = Options { threads: 2, lanes: 6, queries_max: Some(4_000), timeout_ns, ..options };
    for segments in [true, false] {
        let (path, length_ns) = (Path::Uring { segments }, 20_000 * MILLISECOND);
        let tally = run(&Options { path, length_ns, ..options.clone() }).tally;
        assert_eq!((tally.answered, tally.unsent, tally.unexpected), (4_000, 0, 0), "{tally:?}");
    }
    assert_eq!(server.asked.load(Ordering::Relaxed), 8_001);
}

#[test]
fn an_open_loop_keeps_its_plan_and_waits_without_work() {
    let server = Server::udp(|_, query| now(yes(query)));
    let Some(options) = uring(&server) else { return };
    let timeout_ns = 10_000 * MILLISECOND;
    let report = run(&Options { when: open(500.0), lanes: 3, timeout_ns, ..options });
    assert_eq!((report.tally.planned, report.tally.answered), (100, 100));
    // 60 µs before each of 100 queries are spent waking up; the rest of 200 ms is slept through.
    let used: u64 = report.threads.iter().map(|thread| thread.cpu_ns).sum();
    assert!(used < 100 * MILLISECOND, "{used} ns of CPU time");
}

#[test]
fn times_are_those_that_answers_took() {
    let server = Server::udp(|_, query| vec![(Duration::from_millis(10), yes(query))]);
    let Some(options) = uring(&server) else { return };
    let report = run(&options);
    assert!(report.tally.answered > 10, "{:?}", report.tally);
    assert!(report.times.service.min() >= 10 * MILLISECOND);
}

#[test]
fn sockets_are_replaced_and_answers_to_old_ones_are_none_of_the_new() {
    let server = Server::udp(|_, query| now(yes(query)));
    let Some(options) = uring(&server) else { return };
    let sources: Option<Sources> = "127.1.0.0/16".parse().ok();
    let options = Options { churn_ns: Some(2 * MILLISECOND), lanes: 4, sources, ..options };
    let tally = run(&Options { when: open(5_000.0), ..options }).tally;
    assert_eq!((tally.planned, tally.unexpected), (1_000, 0));
    assert!(tally.answered > 900, "{tally:?}");
}

/// Every other answer is late, and some are for nobody: each query has one end.
#[test]
fn every_query_has_one_end() {
    let turn = AtomicUsize::new(0);
    let server = Server::udp(move |_, query| match turn.fetch_add(1, Ordering::Relaxed) % 4 {
        0 => vec![],
        1 => vec![(Duration::from_millis(150), yes(query))],
        2 => [now(yes(query)), now(yes(query))].concat(),
        _ => now(yes(query)),
    });
    let Some(options) = uring(&server) else { return };
    let timeout_ns = 80 * MILLISECOND;
    let (length_ns, queries_max) = (20_000 * MILLISECOND, Some(200));
    let options = Options { timeout_ns, length_ns, queries_max, lanes: 3, ..options };
    let tally = run(&options).tally;
    assert_eq!(tally.open(), 0, "{tally:?}");
    assert!(tally.timeouts >= 90 && tally.answered > 0 && tally.unexpected > 0, "{tally:?}");
}

#[test]
fn where_nobody_listens_all_times_out() {
    let server = Server::udp(|_, query| now(yes(query)));
    let Some(options) = uring(&server) else { return };
    let options = Options { server: nobody(), timeout_ns: 50 * MILLISECOND, ..options };
    let tally = run(&Options { when: open(2_000.0), lanes: 2, ..options }).tally;
    assert_eq!((tally.planned, tally.answered, tally.open()), (400, 0, 0), "{tally:?}");
}

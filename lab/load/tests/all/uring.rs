//! Loads by io_uring.

use test_support::skip;

use crate::common::{Server, no_listener, now, options, run, yes};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::{LoadMode, Options, Path, Sources};
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

fn open(rate: f64) -> LoadMode {
    LoadMode::Open(Arrivals { rate: Rate::Constant(rate), spacing: Spacing::Even, burst: 1 })
}

#[test]
fn more_answers_than_buffers_are_received() {
    let server = Server::udp(|_, query| now(yes(query)));
    let Some(options) = uring(&server) else { return };
    let timeout_ns = 10_000 * MILLISECOND;
    let options =
        Options { threads: 2, channels: 6, queries_max: Some(4_000), timeout_ns, ..options };
    for segments in [true, false] {
        let (path, length_ns) = (Path::Uring { segments }, 20_000 * MILLISECOND);
        let counts = run(&Options { path, length_ns, ..options.clone() }).counts;
        assert_eq!(
            (counts.answered, counts.unsent, counts.unexpected),
            (4_000, 0, 0),
            "{counts:?}"
        );
    }
    assert_eq!(server.asked.load(Ordering::Relaxed), 8_001);
}

#[test]
fn an_open_loop_keeps_its_plan_and_waits_without_work() {
    let server = Server::udp(|_, query| now(yes(query)));
    let Some(options) = uring(&server) else { return };
    let timeout_ns = 10_000 * MILLISECOND;
    let report = run(&Options { when: open(500.0), channels: 3, timeout_ns, ..options });
    assert_eq!((report.counts.planned, report.counts.answered), (100, 100));
    // 60 µs before each of 100 queries are spent waking up; the rest of 200 ms is slept through.
    let used: u64 = report.threads.iter().map(|thread| thread.cpu_ns).sum();
    assert!(used < 100 * MILLISECOND, "{used} ns of CPU time");
}

#[test]
fn answer_times_match_the_server_delays() {
    let server = Server::udp(|_, query| vec![(Duration::from_millis(10), yes(query))]);
    let Some(options) = uring(&server) else { return };
    let report = run(&options);
    assert!(report.counts.answered > 10, "{:?}", report.counts);
    assert!(report.times.service.min() >= 10 * MILLISECOND);
}

#[test]
fn answers_to_replaced_sockets_are_ignored() {
    let server = Server::udp(|_, query| now(yes(query)));
    let Some(options) = uring(&server) else { return };
    let sources: Option<Sources> = "127.1.0.0/16".parse().ok();
    let options = Options { churn_ns: Some(2 * MILLISECOND), channels: 4, sources, ..options };
    let counts = run(&Options { when: open(5_000.0), ..options }).counts;
    assert_eq!((counts.planned, counts.unexpected), (1_000, 0));
    assert!(counts.answered > 100, "{counts:?}");
}

/// Every other answer is late, and some match no query: each query ends once.
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
    let options = Options { timeout_ns, length_ns, queries_max, channels: 3, ..options };
    let counts = run(&options).counts;
    assert_eq!(counts.open(), 0, "{counts:?}");
    assert!(counts.timeouts >= 90 && counts.answered > 0 && counts.unexpected > 0, "{counts:?}");
}

#[test]
fn without_a_listener_all_queries_time_out() {
    let server = Server::udp(|_, query| now(yes(query)));
    let Some(options) = uring(&server) else { return };
    let options = Options { server: no_listener(), timeout_ns: 50 * MILLISECOND, ..options };
    let counts = run(&Options { when: open(2_000.0), channels: 2, ..options }).counts;
    assert_eq!((counts.planned, counts.answered, counts.open()), (400, 0, 0), "{counts:?}");
}

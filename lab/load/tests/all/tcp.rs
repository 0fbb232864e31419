//! Loads over TCP.

use crate::common::{Server, no_listener, now, options, run, yes};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::{LoadMode, Options, Path};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn tcp(server: &Server, queries_per_connection: Option<u64>) -> Options {
    let path = Path::Tcp { queries_per_connection };
    Options { path, timeout_ns: 60_000_000_000, ..options(server) }
}

#[test]
fn queries_share_a_connection() {
    let server = Server::tcp(u64::MAX, |_, query| now(yes(query)));
    let report =
        run(&Options { queries_max: Some(500), length_ns: 5_000_000_000, ..tcp(&server, None) });
    let counts = report.counts;
    assert_eq!((counts.answered, counts.timeouts, counts.unexpected), (500, 0, 0));
    assert_eq!((counts.connections, counts.cut), (1, 0));
}

#[test]
fn connections_are_renewed_after_their_query_limit() {
    let server = Server::tcp(u64::MAX, |_, query| now(yes(query)));
    let options = tcp(&server, Some(25));
    let report =
        run(&Options { queries_max: Some(500), length_ns: 5_000_000_000, channels: 2, ..options });
    assert_eq!((report.counts.answered, report.counts.timeouts), (500, 0));
    assert!((20..=22).contains(&report.counts.connections), "{}", report.counts.connections);
}

#[test]
fn closed_connections_are_reopened() {
    // A connection ends with its 10th answer, whatever else is under way on it.
    let server = Server::tcp(10, |_, query| now(yes(query)));
    let report =
        run(&Options { timeout_ns: 50_000_000, length_ns: 1_000_000_000, ..tcp(&server, None) });
    let counts = report.counts;
    assert!(counts.connections >= 2 && counts.answered >= 20, "{counts:?}");
    assert_eq!(counts.answered + counts.timeouts, counts.sent);
    assert!(server.asked.load(Ordering::Relaxed) >= counts.answered);
}

#[test]
fn reopened_connections_use_another_source_port() {
    let server = Server::tcp(10, |_, query| now(yes(query)));
    let report = run(&Options {
        timeout_ns: 50_000_000,
        length_ns: 1_000_000_000,
        channels: 2,
        source_port: Some(20_710),
        ..tcp(&server, None)
    });
    let counts = report.counts;
    assert!(counts.connections >= 4 && counts.answered >= 40, "{counts:?}");
}

#[test]
fn an_open_loop_over_tcp_keeps_its_plan() {
    let server = Server::tcp(u64::MAX, |_, query| vec![(Duration::from_micros(100), yes(query))]);
    let rate = Rate::Constant(500.0);
    let when = LoadMode::Open(Arrivals { rate, spacing: Spacing::Poisson, burst: 1 });
    let report = run(&Options { when, channels: 3, threads: 2, ..tcp(&server, None) });
    assert_eq!((report.counts.answered, report.counts.unsent), (report.counts.planned, 0));
    assert_eq!(report.counts.connections, 4);
}

#[test]
fn queries_without_a_connection_are_unsent() {
    let server = Server::udp(|_, _| vec![]);
    let rate = Rate::Constant(1_000.0);
    let when = LoadMode::Open(Arrivals { rate, spacing: Spacing::Even, burst: 1 });
    let report = run(&Options { server: no_listener(), when, ..tcp(&server, None) });
    assert_eq!((report.counts.planned, report.counts.unsent, report.counts.sent), (200, 200, 0));
}

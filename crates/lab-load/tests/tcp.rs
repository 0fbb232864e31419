//! Loads over TCP.

mod common;

use common::{Server, nobody, now, options, run, yes};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::{Options, Path, When};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn tcp(server: &Server, queries_per_connection: Option<u64>) -> Options {
    Options { path: Path::Tcp { queries_per_connection }, ..options(server) }
}

#[test]
fn queries_share_a_connection() {
    let server = Server::tcp(u64::MAX, |_, query| now(yes(query)));
    let report =
        run(&Options { queries_max: Some(500), length_ns: 5_000_000_000, ..tcp(&server, None) });
    let tally = report.tally;
    assert_eq!((tally.answered, tally.timeouts, tally.unexpected), (500, 0, 0));
    assert_eq!((tally.connections, tally.cut), (1, 0));
}

#[test]
fn connections_are_renewed_after_their_share() {
    let server = Server::tcp(u64::MAX, |_, query| now(yes(query)));
    let options = tcp(&server, Some(25));
    let report =
        run(&Options { queries_max: Some(500), length_ns: 5_000_000_000, lanes: 2, ..options });
    assert_eq!((report.tally.answered, report.tally.timeouts), (500, 0));
    assert!((20..=22).contains(&report.tally.connections), "{}", report.tally.connections);
}

#[test]
fn a_connection_that_the_server_ends_is_opened_again() {
    // A connection ends with its 10th answer, whatever else is under way on it.
    let server = Server::tcp(10, |_, query| now(yes(query)));
    let report =
        run(&Options { timeout_ns: 50_000_000, length_ns: 1_000_000_000, ..tcp(&server, None) });
    let tally = report.tally;
    assert!(tally.connections >= 2 && tally.answered >= 20, "{tally:?}");
    assert_eq!(tally.answered + tally.timeouts, tally.sent);
    assert!(server.asked.load(Ordering::Relaxed) >= tally.answered);
}

#[test]
fn a_connection_that_is_opened_again_asks_from_another_port_than_it_was_told() {
    let server = Server::tcp(10, |_, query| now(yes(query)));
    let report = run(&Options {
        timeout_ns: 50_000_000,
        length_ns: 1_000_000_000,
        lanes: 2,
        source_port: Some(20_710),
        ..tcp(&server, None)
    });
    let tally = report.tally;
    assert!(tally.connections >= 4 && tally.answered >= 40, "{tally:?}");
}

#[test]
fn an_open_loop_over_tcp_keeps_its_plan() {
    let server = Server::tcp(u64::MAX, |_, query| vec![(Duration::from_micros(100), yes(query))]);
    let rate = Rate::Constant(500.0);
    let when = When::Open(Arrivals { rate, spacing: Spacing::Poisson, burst: 1 });
    let report = run(&Options { when, lanes: 3, threads: 2, ..tcp(&server, None) });
    assert_eq!((report.tally.answered, report.tally.unsent), (report.tally.planned, 0));
    assert_eq!(report.tally.connections, 4);
}

#[test]
fn what_nobody_takes_is_unsent() {
    let server = Server::udp(|_, _| vec![]);
    let rate = Rate::Constant(1_000.0);
    let when = When::Open(Arrivals { rate, spacing: Spacing::Even, burst: 1 });
    let report = run(&Options { server: nobody(), when, ..tcp(&server, None) });
    assert_eq!((report.tally.planned, report.tally.unsent, report.tally.sent), (200, 200, 0));
}

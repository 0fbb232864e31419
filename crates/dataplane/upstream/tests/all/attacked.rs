//! A client that queries names which no server answers, and what other clients notice: over real
//! sockets.

use crate::client_thread::{ClientThread, FakeServer, answer, answered};
use crate::stream_server::{Authority, CertificateOptions, End, StreamServer, plain};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use upstream::limits::QUERIES_MAX;
use upstream::{StatusView, UpstreamAddress};

const ATTACKER: SocketAddr = client(66);
const OTHER: SocketAddr = client(9);
const PATIENCE: Duration = Duration::from_secs(5);

const fn client(number: u8) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, number)), 5353)
}

/// Whether a name is one of those that are never answered.
fn is_void(query: &[u8]) -> bool {
    query[13..].to_ascii_lowercase().starts_with(b"void")
}

fn voids(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|n| format!("void-{n}.example.net.")).collect()
}

fn send(
    thread: &mut ClientThread,
    from: SocketAddr,
    names: &[String],
) -> Vec<crate::client_thread::Reply> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut got = Vec::new();
    thread.client = from;
    thread.send(&names, &mut got);
    got
}

fn udp() -> FakeServer {
    FakeServer::start(|query, _| match is_void(query) {
        true => vec![],
        false => vec![answer(query, 60, 1)],
    })
}

fn answer_some(end: &mut End) {
    while let Some(query) = end.next_query() {
        if !is_void(&query) {
            end.send(&answer(&plain(&query), 60, 1));
        }
    }
}

/// Four hundred such names a second, ten at once, for some seconds; then others ask, a hundred
/// names a second. Every one of them gets its answer.
fn check(mut thread: ClientThread) {
    let names = |what: &str, count| -> Vec<String> {
        (0..count).map(|n| format!("{what}-{n}.example.net.")).collect()
    };
    // The server is known.
    for name in names("before", 20) {
        assert_eq!(thread.query_one(&name), answered(1));
    }
    let (begun, tick) = (Instant::now(), Duration::from_millis(25));
    let (mut query_count, mut got) = (names("then", 100).into_iter(), Vec::new());
    for turn in 0..160 {
        send(&mut thread, ATTACKER, &voids(10 * turn, 10));
        // Other clients sent nothing for three seconds.
        if turn >= 120 {
            let names: Vec<_> = query_count.by_ref().take(3).collect();
            got.extend(send(&mut thread, OTHER, &names));
        }
        let end = begun + tick * (turn as u32 + 1);
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            thread.turn(&mut got, left);
        }
    }
    let is_answer = |got: &&crate::client_thread::Reply| **got == answered(1);
    let until = Instant::now() + PATIENCE;
    while got.iter().filter(is_answer).count() < 100 && Instant::now() < until {
        thread.turn(&mut got, Duration::from_millis(10));
    }
    assert_eq!(got.iter().filter(is_answer).count(), 100);
    assert_eq!(StatusView::server([&thread.upstream_client.view()], 0).up, 1);
}

#[test]
fn datagram_server_answers_others_while_a_client_asks_in_vain() {
    let server = udp();
    check(ClientThread::new(&[server.address]));
    let (one, other) = (udp(), udp());
    check(ClientThread::new(&[one.address, other.address]));
}

#[test]
fn tcp_server_answers_others_while_a_client_asks_in_vain() {
    let server = StreamServer::start(answer_some);
    check(ClientThread::over(vec![server.tcp()], None));
}

#[test]
fn tls_server_answers_others_while_a_client_asks_in_vain() {
    let authority = Authority::new();
    let signed = authority.sign("dns.example", CertificateOptions::default());
    let server = StreamServer::start_tls(Some(signed), answer_some);
    check(ClientThread::over(vec![server.tls("dns.example")], authority.trust()));
}

#[test]
fn greedy_client_leaves_room_for_others() {
    for server in [UpstreamAddress::from(udp().address), StreamServer::start(answer_some).tcp()] {
        let mut thread = ClientThread::over(vec![server], None);
        thread.client = OTHER;
        assert_eq!(thread.query_one("before.example.net."), answered(1));
        thread.frozen_at = Some(crate::client_thread::now());
        let reported = send(&mut thread, ATTACKER, &voids(0, QUERIES_MAX)).len();
        assert!(
            (QUERIES_MAX / 2 - 1..=QUERIES_MAX / 2).contains(&reported),
            "{reported} were refused"
        );
        thread.turn(&mut Vec::new(), Duration::ZERO);
        let own = StatusView::own(&[thread.upstream_client.view()]);
        assert_eq!((own.crowded, own.waiting), (reported as u64, (QUERIES_MAX - reported) as u64));
        let names: Vec<_> = (0..500).map(|n| format!("other-{n}.example.net.")).collect();
        let mut got = send(&mut thread, OTHER, &names);
        thread.wait(&mut got, 500, PATIENCE);
        assert!(got.iter().all(|got| *got == answered(1)) && got.len() == 500);
        // A client that no longer waits makes room.
        thread.frozen_at = None;
        thread.later = Duration::from_secs(10);
        let mut got = Vec::new();
        let until = Instant::now() + PATIENCE;
        while thread.upstream_client.has_deferred() && Instant::now() < until {
            thread.turn(&mut got, Duration::from_millis(10));
        }
        assert_eq!(got.len(), QUERIES_MAX - reported);
        assert!(send(&mut thread, ATTACKER, &voids(9_000, 100)).is_empty());
    }
}

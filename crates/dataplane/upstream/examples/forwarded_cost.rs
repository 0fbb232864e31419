//! What a query costs over UDP, TCP and TLS, and what opening TLS costs: microseconds of processor
//! time of the thread that sends it, the kernel's part included.
//!
//!   cargo run --release --package upstream --example forwarded_cost
#[path = "../tests/all/client_thread.rs"]
mod client_thread;
#[path = "../tests/all/stream_server.rs"]
mod stream_server;

use client_thread::{ClientThread, FakeServer, answer};
use rustls::HandshakeKind;
use std::time::Duration;
use stream_server::{Authority, CertificateOptions, End, StreamServer};
use upstream::UpstreamAddress;

/// Queries under way at once, as a burst brings them.
const BURST: usize = 32;
const BURSTS: usize = 1_000;
const HANDSHAKES: usize = 300;
const PATIENCE: Duration = Duration::from_secs(8);

fn main() {
    let authority = Authority::new();
    let certificate = || Some(authority.sign("dns.example", CertificateOptions::default()));
    let datagrams = FakeServer::start(|query, _| vec![reply(query)]);
    let plain = StreamServer::start(answer_all);
    let enciphered = StreamServer::start_tls(certificate(), answer_all);
    println!("queries in bursts of {BURST}, each of another name; least of 3 rounds");
    for (what, address) in [
        ("UDP", UpstreamAddress::from(datagrams.address)),
        ("TCP", plain.tcp()),
        ("TLS", enciphered.tls("dns.example")),
    ] {
        let mut thread = ClientThread::over(vec![address], authority.trust());
        let micros =
            (0..3).map(|round| micros_per_query(&mut thread, round)).min_by(f64::total_cmp);
        println!("{what}: {:.2} us a query", micros.unwrap_or_default());
    }
    println!("a query that opens TLS, median of {HANDSHAKES}; of it the longest turn");
    for (what, kind, is_new) in
        [("full", HandshakeKind::Full, true), ("resumed", HandshakeKind::Resumed, false)]
    {
        let (whole, turn) = handshakes(&authority, is_new, kind);
        println!("{what}: {whole:.0} us, {turn:.0} us");
    }
}

/// Microseconds a query.
fn micros_per_query(thread: &mut ClientThread, round: usize) -> f64 {
    let names = |burst: usize| -> Vec<String> {
        (0..BURST).map(|n| format!("r{round}-b{burst}-n{n}.example.net.")).collect()
    };
    let before = thread.query_time();
    for burst in 0..BURSTS {
        let names = names(burst);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(thread.query(&names, PATIENCE).len(), BURST);
    }
    micros(thread.query_time() - before, BURST * BURSTS)
}

/// Microseconds of a query that opens a connection, and of the longest turn at it: with a
/// session that is remembered, or by one who remembers none.
fn handshakes(authority: &Authority, is_new: bool, kind: HandshakeKind) -> (f64, f64) {
    let tls = Some(authority.sign("dns.example", CertificateOptions::default()));
    let server = StreamServer::start_tls(tls, |end| {
        if let Some(query) = end.next_query() {
            end.send(&reply(&query));
        }
    });
    let thread = || ClientThread::over(vec![server.tls("dns.example")], authority.trust());
    let mut only = thread();
    only.query_one("first.example.net.");
    let (mut wholes, mut turns) = (Vec::new(), Vec::new());
    for n in 0..HANDSHAKES {
        only.rest(Duration::from_millis(5));
        if is_new {
            only = thread();
        }
        let before = only.query_time();
        only.query_one(&format!("name-{n}.example.net."));
        wholes.push(only.query_time() - before);
        turns.push(only.longest_turn());
    }
    let sessions = server.sessions.lock().expect("no thread has panicked");
    let such = sessions.iter().filter(|session| **session == kind).count();
    assert!(such >= HANDSHAKES - 1, "{such} of {HANDSHAKES} were {kind:?}");
    (median(wholes), median(turns))
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    micros(times[times.len() / 2], 1)
}

fn micros(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / count as f64
}

fn answer_all(end: &mut End) {
    while let Some(query) = end.next_query() {
        end.send(&reply(&query));
    }
}

fn reply(query: &[u8]) -> Vec<u8> {
    answer(&stream_server::plain(query), 60, 1)
}

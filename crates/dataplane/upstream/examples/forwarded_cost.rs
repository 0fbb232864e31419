//! What an answer costs by UDP, TCP and TLS, and what opening TLS costs, on the thread that asks:
//! microseconds of its processor time, the kernel's part included.
//!
//!   cargo run --release --package upstream --example forwarded_cost
#[path = "../tests/all/ends.rs"]
mod ends;
#[path = "../tests/all/scene.rs"]
mod scene;

use ends::{Authority, End, Says, Streamed};
use rustls::HandshakeKind;
use scene::{Fake, Scene, answer};
use std::time::Duration;
use upstream::UpstreamAddress;

/// Questions under way at once, as a burst brings them.
const BURST: usize = 32;
const BURSTS: usize = 1_000;
const HANDSHAKES: usize = 300;
const PATIENCE: Duration = Duration::from_secs(8);

fn main() {
    let authority = Authority::new();
    let certificate = || Some(authority.sign("dns.example", Says::default()));
    let datagrams = Fake::start(|question, _| vec![reply(question)]);
    let plain = Streamed::start(answer_all);
    let enciphered = Streamed::start_tls(certificate(), answer_all);
    println!("questions in bursts of {BURST}, each of another name; least of 3 rounds");
    for (what, address) in [
        ("UDP", UpstreamAddress::from(datagrams.address)),
        ("TCP", plain.tcp()),
        ("TLS", enciphered.tls("dns.example")),
    ] {
        let mut scene = Scene::over(vec![address], authority.trust());
        let micros = (0..3).map(|round| questions(&mut scene, round)).min_by(f64::total_cmp);
        println!("{what}: {:.2} us a question", micros.unwrap_or_default());
    }
    println!("a question that opens TLS, median of {HANDSHAKES}; of it the longest turn");
    for (what, kind, is_new) in
        [("full", HandshakeKind::Full, true), ("resumed", HandshakeKind::Resumed, false)]
    {
        let (whole, turn) = handshakes(&authority, is_new, kind);
        println!("{what}: {whole:.0} us, {turn:.0} us");
    }
}

/// Microseconds a question.
fn questions(scene: &mut Scene, round: usize) -> f64 {
    let names = |burst: usize| -> Vec<String> {
        (0..BURST).map(|n| format!("r{round}-b{burst}-n{n}.example.net.")).collect()
    };
    let before = scene.asking_time();
    for burst in 0..BURSTS {
        let names = names(burst);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(scene.query(&names, PATIENCE).len(), BURST);
    }
    micros(scene.asking_time() - before, BURST * BURSTS)
}

/// Microseconds of a question that opens a connection, and of the longest turn at it: with a
/// session that is remembered, or by one who remembers none.
fn handshakes(authority: &Authority, is_new: bool, kind: HandshakeKind) -> (f64, f64) {
    let tls = Some(authority.sign("dns.example", Says::default()));
    let server = Streamed::start_tls(tls, |end| {
        if let Some(question) = end.question() {
            end.say(&reply(&question));
        }
    });
    let scene = || Scene::over(vec![server.tls("dns.example")], authority.trust());
    let mut only = scene();
    only.ask_one("first.example.net.");
    let (mut wholes, mut turns) = (Vec::new(), Vec::new());
    for n in 0..HANDSHAKES {
        only.rest(Duration::from_millis(5));
        if is_new {
            only = scene();
        }
        let before = only.asking_time();
        only.ask_one(&format!("name-{n}.example.net."));
        wholes.push(only.asking_time() - before);
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
    while let Some(question) = end.question() {
        end.say(&reply(&question));
    }
}

fn reply(question: &[u8]) -> Vec<u8> {
    answer(&ends::plain(question), 60, 1)
}

//! Captures that tcpdump made: times and queries are those that were sent.

use test_support::spaces::{Spaces, within};
use test_support::{skip, wait};

use lab_load::arrivals::Rate;
use lab_load::names::QuestionSet;
use lab_load::query::QueryFormat;
use skip::skip;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const QUERIES: usize = 20;

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// `q{n}.example A`, with ID `n`.
fn query(n: usize) -> Vec<u8> {
    let label = format!("q{n}");
    let mut message = vec![0, n as u8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, label.len() as u8];
    message.extend(label.as_bytes());
    message.extend(b"\x07example\x00\x00\x01\x00\x01");
    message
}

/// Waits until a file holds what it is to hold.
fn await_in(file: &Path, holds: impl Fn(&[u8]) -> bool) {
    wait::until_true("tcpdump has written that", || {
        std::fs::read(file).is_ok_and(|bytes| holds(&bytes))
    });
}

/// Writes what comes to a server into `file`; returns when it does.
fn capture(words: &[&str], file: &Path, server: &UdpSocket) -> Child {
    let address = server.local_addr().unwrap();
    let filter = format!("inbound and udp dst port {}", address.port());
    let mut tcpdump = Command::new("tcpdump");
    // Without a length, its buffer holds 8 packets, and the kernel drops the others.
    tcpdump.args(words).args(["-s", "512", "-U", "--immediate-mode", "-w"]).arg(file).arg(filter);
    let child = tcpdump.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The file is there before anything is seen: this is not a query, but is captured.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    await_in(file, |bytes| {
        socket.send_to(b"no query", address).unwrap();
        bytes.len() > 24
    });
    child
}

/// Sends the queries; when each was, at the earliest and at the latest.
fn send(to: &UdpSocket) -> Vec<(u64, u64)> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to.local_addr().unwrap()).unwrap();
    let one = |n| {
        let before = now_ns();
        socket.send(&query(n)).unwrap();
        // Once it is received, it has been captured.
        let mut buffer = [0; 512];
        while to.recv(&mut buffer).is_ok_and(|len| buffer[..len] != query(n)) {}
        (before, now_ns())
    };
    (0..QUERIES).map(one).collect()
}

#[test]
fn capture_times_and_queries_match_tcpdump() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        return skip("tcpdump is not here: apt install tcpdump");
    }
    if !rustix::process::geteuid().is_root() {
        return skip("tcpdump needs root");
    }
    // In a namespace: it sees what it is sent, and nothing of other tests.
    let spaces = Spaces::new("tcpdump");
    spaces.run("ip -n {s} link set lo up");
    within(&spaces.server, times_and_queries_match);
}

fn times_and_queries_match() {
    let file = std::env::temp_dir().join(format!("dunlin-tcpdump-{}.pcap", std::process::id()));
    for words in [&["-i", "lo"][..], &["-i", "any", "--time-stamp-precision=nano"]] {
        let _ = std::fs::remove_file(&file);
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut tcpdump = capture(words, &file, &server);
        let sent = send(&server);
        await_in(&file, |bytes| bytes.windows(11).any(|part| part == b"q19\x07example"));
        // An interrupt has it end in order.
        let id = rustix::process::Pid::from_child(&tcpdump);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        assert!(tcpdump.wait().unwrap().success());
        let Ok(Rate::Captured(times)) = format!("times:{}", file.display()).parse() else {
            panic!("no captured times")
        };
        assert_eq!((times.len(), times[0]), (QUERIES, 0), "{words:?}");
        // tcpdump does not print the first time; it lies within known bounds.
        for (time, (before, after)) in times.iter().zip(&sent) {
            let (earliest, latest) = (before.saturating_sub(sent[0].1), after - sent[0].0);
            assert!((earliest..=latest).contains(time), "{words:?}: {time} {earliest} {latest}");
        }
        let form = QueryFormat { recursion: true, ..QueryFormat::default() };
        assert_eq!(QuestionSet::read(&file, form).unwrap().len(), QUERIES);
    }
    std::fs::remove_file(&file).unwrap();
}

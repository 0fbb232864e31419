//! A client that asks for names which no server answers: others get their answers all the same.
//!
//! The server that is asked is this test's own: it answers all names but those, and says nothing
//! of those or answers them too late.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use conformance::environment::TestFolder;
use conformance::paced_client::{Outcome, answer, ask, query, wait_for};
use conformance::server::{Launch, Server, Software};
use test_support::wait;

const TRUTH: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Who asks in vain, and how many names a second.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);
const RATE: u32 = 400;
/// How many names are asked in vain before others ask.
const BETWEEN: u32 = 3 * RATE;
/// How long the server takes for the names it answers too late.
const LATE: Duration = Duration::from_millis(1_300);

/// Serves until it is over: `void…` is never answered, `late…` too late.
fn serve(socket: &UdpSocket, over: &AtomicBool) {
    let mut late = Vec::new();
    let mut buf = [0; 4096];
    while !over.load(Ordering::Relaxed) {
        late.retain(|(at, message, from): &(Instant, Vec<u8>, _)| {
            let is_due = *at <= Instant::now();
            if is_due {
                socket.send_to(message, from).unwrap();
            }
            !is_due
        });
        let Ok((len, from)) = socket.recv_from(&mut buf) else { continue };
        let label = buf[13..17].to_ascii_lowercase();
        match &label[..] {
            b"void" => {}
            b"late" => late.push((Instant::now() + LATE, answer(&buf[..len], 60), from)),
            _ => drop(socket.send_to(&answer(&buf[..len], 60), from).unwrap()),
        }
    }
}

/// Asks for names in vain until it is over, each once, and counts them.
fn attack(server: SocketAddrV4, what: &str, over: &AtomicBool, asked: &AtomicU32) {
    let socket = UdpSocket::bind((ATTACKER, 0)).unwrap();
    socket.connect(server).unwrap();
    let begun = Instant::now();
    for number in 0_u32.. {
        let due = begun + Duration::from_secs(1) * number / RATE;
        sleep(due.saturating_duration_since(Instant::now()));
        if over.load(Ordering::Relaxed) {
            return;
        }
        let query = query(&format!("{what}-{number}.example"));
        // Nothing listens for the replies, which ICMP reports now and then.
        let _ = socket.send(&query);
        asked.store(number, Ordering::Relaxed);
    }
}

fn names(what: &str, count: u32) -> Vec<String> {
    (0..count).map(|number| format!("{what}-{number}.example")).collect()
}

fn failed(dunlin: &Server, what: &str, count: u32, rate: u32) -> Vec<Outcome> {
    let outcomes = ask(dunlin.address, &names(what, count), rate).unwrap();
    outcomes.into_iter().filter(|outcome| !outcome.is_right(&[TRUTH])).collect()
}

#[test]
#[ignore = "slow: statistical, under load"]
fn client_that_asks_in_vain_costs_others_nothing() {
    let folder = TestFolder::new("attacked").unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let sections = format!("[forward]\n\".\" = [\"{}\"]\n", socket.local_addr().unwrap());
    let launch = Launch::new(Software::Dunlin, &[]);
    let launch = Launch { sections: &sections, keys: "workers = 2", ..launch };
    let mut dunlin = launch.start(&folder.path).unwrap();
    let over = AtomicBool::new(false);
    scope(|threads| {
        threads.spawn(|| serve(&socket, &over));
        // Threads end whatever is found out.
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for(&mut dunlin, "ready.example").unwrap();
            for what in ["void", "late"] {
                check(&dunlin, what);
            }
        }));
        over.store(true, Ordering::Relaxed);
        found.unwrap_or_else(|why| std::panic::resume_unwind(why));
    });
}

/// What others lose while names of this kind are asked for, at any rate and after any pause.
fn check(dunlin: &Server, what: &str) {
    let (over, asked) = (AtomicBool::new(false), AtomicU32::new(0));
    scope(|threads| {
        threads.spawn(|| attack(dunlin.address, what, &over, &asked));
        let mut lost = Vec::new();
        for (round, (count, rate)) in
            [(3, 1), (60, 20), (100, 10_000), (438, 438)].into_iter().enumerate()
        {
            let enough = asked.load(Ordering::Relaxed) + BETWEEN;
            let is_enough = || asked.load(Ordering::Relaxed) >= enough;
            wait::until_true("more is asked in vain", is_enough);
            let failed = failed(dunlin, &format!("other-{what}-{round}"), count, rate);
            println!("{what}: {} of {count} at {rate} a second", failed.len());
            if failed.len() as u32 * 100 > count {
                lost.push((count, rate, failed));
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(lost.is_empty(), "{what}: {lost:?}");
    });
}

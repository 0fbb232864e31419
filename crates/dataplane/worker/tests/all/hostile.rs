//! What hostile clients of streams cost a polite one beside them, and what is counted of it.

use crate::common::{
    Running, ask, closes, connect, connect_from, drip, framed, read_message, start,
};
use packet::DropReason;
use rustix::net::sockopt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use test_support::wait;
use worker::limits::CONNECTION_BYTES_MAX;
use worker::{Ending, StreamLimits, WorkerTotals};

/// Queries of a polite client beside hostile ones, at least.
const QUERIES: u32 = 40;

/// Limits under which nothing ends because its time is over, so that no answer waits for that.
fn patient() -> StreamLimits {
    let hour = Duration::from_secs(3_600);
    StreamLimits { idle_max: hour, query_max: hour, reply_max: hour, ..Default::default() }
}

/// Sends queries of a polite client on one connection while `attack` runs, until it has had its
/// effect. Each must be answered meanwhile.
fn besiege(
    running: &Running,
    query: &[u8],
    has_effect: impl Fn(&Running) -> bool,
    attack: impl Fn(&AtomicBool) + Sync,
) {
    let over = AtomicBool::new(false);
    let mut polite = connect(running);
    assert_eq!(ask(&mut polite, b"here"), b"here");
    thread::scope(|scope| {
        scope.spawn(|| attack(&over));
        let mut asked = 0;
        wait::until_true("the attack has its effect", || {
            assert!(!ask(&mut polite, query).is_empty());
            asked += 1;
            asked >= QUERIES && has_effect(running)
        });
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(ask(&mut polite, b"still here"), b"still here");
}

fn ended(running: &Running, ending: Ending) -> u64 {
    running.streams.connections().ended(ending)
}

fn is_over_budget(running: &Running) -> bool {
    ended(running, Ending::Budget) > 0
}

fn is_over(over: &AtomicBool) -> bool {
    over.load(Ordering::Relaxed)
}

#[test]
fn connect_flood_uses_up_only_its_own_connections() {
    let limits = StreamLimits { connections_max: 48, per_client_max: 48, ..patient() };
    let running = start(limits);
    let address = running.addresses[0];
    let mut resting = connect_from(9, address);
    assert_eq!(ask(&mut resting, b"before"), b"before");
    let is_flooded = |running: &Running| ended(running, Ending::Evicted) > 1_000;
    besiege(&running, b"quick", is_flooded, |over| {
        // Only the server can close these.
        let mut open = Vec::new();
        while !is_over(over) {
            open.push(connect_from(66, address));
            if open.len() == 400 {
                // A newcomer gets in, and is answered, as long as the flood holds all places.
                assert_eq!(ask(&mut connect_from(7, address), b"new"), b"new");
                open.clear();
            }
        }
    });
    // It was idle all the time, and is not the one that is closed for the flood.
    assert_eq!(ask(&mut resting, b"after"), b"after");
    assert_eq!(running.streams.connections().buffered, 0);
    running.stop();
}

#[test]
fn idle_clients_give_way_to_a_new_one() {
    let limits = StreamLimits { connections_max: 20, per_client_max: 2, ..Default::default() };
    let running = start(limits);
    let address = running.addresses[0];
    // Two threads accept: only who is in before the others come is the oldest for certain.
    let mut oldest = connect_from(10, address);
    running.wait_until("the oldest", |connections| connections.open == 1);
    let _silent: Vec<_> = (11..30).map(|n| connect_from(n, address)).collect();
    running.wait_until("full", |connections| connections.open == 20);
    let mut newcomers: Vec<_> = (30..40).map(|n| connect_from(n, address)).collect();
    for stream in &mut newcomers {
        assert_eq!(ask(stream, b"new"), b"new");
    }
    assert!(closes(&mut oldest, Duration::from_secs(5)), "it was idle longest");
    running.wait_until("so many evicted", |connections| connections.ended(Ending::Evicted) == 10);
    running.wait_until("as many as may be", |connections| connections.open <= 20);
}

/// Asks for more than both sides' socket buffers hold, and does not read it.
fn gorge(n: u8, server: SocketAddr) -> TcpStream {
    let mut stream = connect_from(n, server);
    stream.write_all(&framed(b"65535").repeat(400)).unwrap();
    stream
}

#[test]
fn unread_answers_never_exceed_the_budget() {
    let memory_max = 8 * CONNECTION_BYTES_MAX;
    let running = start(StreamLimits { memory_max, ..patient() });
    let (streams, address) = (&running.streams, running.addresses[0]);
    let watched = AtomicBool::new(true);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while watched.load(Ordering::Relaxed) {
                most = most.max(streams.connections().buffered);
                thread::yield_now();
            }
            most as usize
        });
        besiege(&running, b"65535", is_over_budget, |over| {
            let mut open = Vec::new();
            while !is_over(over) {
                let before = streams.connections().accepted;
                open.push(gorge(66, address));
                open.truncate(100);
                wait::until_true("it is accepted", || streams.connections().accepted > before);
            }
        });
        watched.store(false, Ordering::Relaxed);
        let most = watcher.join().unwrap();
        assert!((memory_max / 4..=memory_max).contains(&most), "{most} of {memory_max} bytes");
    });
    let totals = running.stop();
    assert!(totals.dropped[DropReason::Unsent as usize] > 0, "{totals:?}");
}

#[test]
fn unfinished_queries_never_exceed_the_budget() {
    let memory_max = 4 * CONNECTION_BYTES_MAX;
    let running = start(StreamLimits { memory_max, ..patient() });
    // Queries but for their last byte, of 120 connections: more than there may be.
    let query = framed(&[b'q'; 65_535]);
    besiege(&running, &query[2..], is_over_budget, |over| {
        let mut open = Vec::new();
        while !is_over(over) {
            let mut stream = connect_from(66, running.addresses[0]);
            // It may be cut off while it still writes.
            let _ = stream.write_all(&query[..query.len() - 1]);
            open.push(stream);
            if open.len() > 120 {
                open.clear();
            }
            assert!(running.streams.connections().buffered as usize <= memory_max);
        }
    });
    running.stop();
}

#[test]
fn query_flood_on_one_connection_leaves_others_their_turns() {
    let running = start(patient());
    let replied = |running: &Running| WorkerTotals::sum(running.streams.counters()).replied;
    besiege(
        &running,
        b"quick",
        |running| replied(running) > 10_000,
        |over| {
            // As many connections as there are threads, and then some.
            thread::scope(|scope| {
                for n in 60..64 {
                    let mut writer = connect_from(n, running.addresses[0]);
                    let mut reader = writer.try_clone().unwrap();
                    scope.spawn(move || {
                        let queries = framed(b"flood").repeat(1_000);
                        while !is_over(over) && writer.write_all(&queries).is_ok() {}
                        let _ = writer.shutdown(std::net::Shutdown::Write);
                    });
                    scope
                        .spawn(move || while reader.read(&mut [0; 65_536]).is_ok_and(|n| n > 0) {});
                }
            });
        },
    );
    running.stop();
}

#[test]
fn slow_queries_are_cut_off() {
    let query_max = Duration::from_millis(400);
    let running = start(StreamLimits { query_max, ..Default::default() });
    besiege(
        &running,
        b"quick",
        |running| ended(running, Ending::SlowQuery) == 40,
        |over| {
            let mut open: Vec<_> =
                (0..40).map(|_| connect_from(66, running.addresses[0])).collect();
            drip(&mut open, || is_over(over));
        },
    );
    assert_eq!(running.streams.connections().buffered, 0);
    running.stop();
}

#[test]
fn client_that_resets_during_a_reply_is_forgotten() {
    let running = start(patient());
    let address = running.addresses[0];
    let broken = 50;
    besiege(
        &running,
        b"60000",
        |running| ended(running, Ending::Error) == broken,
        |_| {
            for _ in 0..broken {
                let mut stream = gorge(66, address);
                assert_eq!(read_message(&mut stream).len(), 65_535);
                sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                // Dropped, it is reset instead of closed.
            }
        },
    );
    running.wait_until("forgotten", |connections| {
        connections.ended(Ending::Error) == broken && connections.buffered == 0
    });
    let totals = running.stop();
    assert!(totals.dropped[DropReason::Unsent as usize] > 0, "{totals:?}");
}

#[test]
fn half_closed_client_gets_its_answers_or_is_cut_off() {
    let reply_max = Duration::from_millis(500);
    let running = start(StreamLimits { reply_max, ..Default::default() });
    let address = running.addresses[0];
    let mut reads = gorge(66, address);
    reads.shutdown(std::net::Shutdown::Write).unwrap();
    for _ in 0..400 {
        assert_eq!(read_message(&mut reads).len(), 65_535);
    }
    assert!(closes(&mut reads, Duration::from_secs(5)));
    let lazy = gorge(66, address);
    lazy.shutdown(std::net::Shutdown::Write).unwrap();
    running.wait_until("cut off", |connections| connections.ended(Ending::SlowReader) == 1);
    assert_eq!(running.streams.connections().ended(Ending::ByClient), 1);
}

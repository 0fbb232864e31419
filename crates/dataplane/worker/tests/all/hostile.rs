//! What hostile clients of streams cost a polite one beside them, and what is counted of it.

use crate::common::{Running, ask, closes, connect, connect_from, framed, read_message, start};
use packet::DropReason;
use rustix::net::sockopt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use worker::limits::CONNECTION_BYTES_MAX;
use worker::{Ending, StreamLimits};

/// How long a polite client puts up with a hostile one.
const SIEGE: Duration = Duration::from_millis(1_500);
/// Maximum time of an answer: long enough for a busy machine, and shorter than the deadlines of
/// other clients.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends queries of a polite client on one connection while `attack` runs. Each must be answered in
/// time.
fn besiege(running: &Running, query: &[u8], attack: impl Fn(&AtomicBool) + Sync) {
    let over = AtomicBool::new(false);
    let mut polite = connect(running);
    assert_eq!(ask(&mut polite, b"here"), b"here");
    thread::scope(|scope| {
        scope.spawn(|| attack(&over));
        let begin = Instant::now();
        while begin.elapsed() < SIEGE {
            let asked = Instant::now();
            assert!(!ask(&mut polite, query).is_empty());
            assert!(asked.elapsed() < PATIENCE, "it took {:?}", asked.elapsed());
            thread::sleep(Duration::from_millis(2));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(ask(&mut polite, b"still here"), b"still here");
}

fn is_over(over: &AtomicBool) -> bool {
    over.load(Ordering::Relaxed)
}

#[test]
fn connect_flood_uses_up_only_its_own_connections() {
    let limits = StreamLimits { connections_max: 48, per_client_max: 48, ..Default::default() };
    let running = start(limits);
    let address = running.addresses[0];
    let mut resting = connect_from(9, address);
    assert_eq!(ask(&mut resting, b"before"), b"before");
    besiege(&running, b"quick", |over| {
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
    let connections = running.streams.connections();
    assert!(connections.ended(Ending::Evicted) > 0, "{connections:?}");
    assert_eq!(connections.buffered, 0);
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
    let running = start(StreamLimits { memory_max, ..Default::default() });
    let address = running.addresses[0];
    let watched = AtomicBool::new(true);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while watched.load(Ordering::Relaxed) {
                most = most.max(running.streams.connections().buffered);
                thread::yield_now();
            }
            most as usize
        });
        besiege(&running, b"65535", |over| {
            let mut open = Vec::new();
            while !is_over(over) {
                open.push(gorge(66, address));
                open.truncate(100);
                thread::sleep(Duration::from_millis(5));
            }
        });
        watched.store(false, Ordering::Relaxed);
        let most = watcher.join().unwrap();
        assert!((memory_max / 4..=memory_max).contains(&most), "{most} of {memory_max} bytes");
    });
    let connections = running.streams.connections();
    assert!(connections.ended(Ending::Budget) > 0, "{connections:?}");
    let totals = running.stop();
    assert!(totals.dropped[DropReason::Unsent as usize] > 0, "{totals:?}");
}

#[test]
fn unfinished_queries_never_exceed_the_budget() {
    let memory_max = 4 * CONNECTION_BYTES_MAX;
    let running = start(StreamLimits { memory_max, ..Default::default() });
    // Queries but for their last byte, of 120 connections: more than there may be.
    let query = framed(&[b'q'; 65_535]);
    besiege(&running, &query[2..], |over| {
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
    let connections = running.streams.connections();
    assert!(connections.ended(Ending::Budget) > 0, "{connections:?}");
    running.stop();
}

#[test]
fn query_flood_on_one_connection_leaves_others_their_turns() {
    let running = start(StreamLimits::default());
    besiege(&running, b"quick", |over| {
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
                scope.spawn(move || while reader.read(&mut [0; 65_536]).is_ok_and(|n| n > 0) {});
            }
        });
    });
    let totals = running.stop();
    assert!(totals.replied > 1_000, "{totals:?}");
}

#[test]
fn slow_queries_are_cut_off() {
    let query_max = Duration::from_millis(400);
    let running = start(StreamLimits { query_max, ..Default::default() });
    besiege(&running, b"quick", |over| {
        let mut open: Vec<_> = (0..40).map(|_| connect_from(66, running.addresses[0])).collect();
        while !is_over(over) {
            for stream in &mut open {
                let _ = stream.write_all(&[1]);
            }
            thread::sleep(Duration::from_millis(40));
        }
    });
    let connections = running.streams.connections();
    assert_eq!(connections.ended(Ending::SlowQuery), 40, "{connections:?}");
    assert_eq!(connections.buffered, 0);
    running.stop();
}

#[test]
fn client_that_resets_during_a_reply_is_forgotten() {
    let running = start(StreamLimits::default());
    let address = running.addresses[0];
    let broken = 50;
    besiege(&running, b"60000", |over| {
        for _ in 0..broken {
            let mut stream = gorge(66, address);
            assert_eq!(read_message(&mut stream).len(), 65_535);
            sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            // Dropped, it is reset instead of closed.
        }
        while !is_over(over) {
            thread::sleep(Duration::from_millis(5));
        }
    });
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

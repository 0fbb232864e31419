//! DNS over TCP as clients see it (RFC 7766).

use crate::common::{ask, closes, connect, drip, framed, pause_between_uses, read_message, start};
use packet::DropReason;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use test_support::wait;
use worker::{Ending, FailureCause, StreamLimits, Streams};

#[test]
fn both_families_answer_several_queries_a_connection() {
    let running = start(StreamLimits::default());
    for &address in &running.addresses {
        let mut stream = TcpStream::connect(address).unwrap();
        assert_eq!(ask(&mut stream, b"one"), b"one");
        assert_eq!(ask(&mut stream, b"two"), b"two");
    }
    let totals = running.stop();
    assert_eq!((totals.received, totals.replied), (4, 4));
}

#[test]
fn query_may_arrive_byte_by_byte() {
    let running = start(StreamLimits::default());
    let mut stream = connect(&running);
    for byte in framed(b"slowly") {
        stream.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(read_message(&mut stream), b"slowly");
}

#[test]
fn pipelined_queries_are_answered_in_order_and_dropped_ones_skipped() {
    let running = start(StreamLimits::default());
    let mut stream = connect(&running);
    let mut queries = Vec::new();
    for number in 0..2_000 {
        queries.extend(framed(format!("number {number}").as_bytes()));
        queries.extend(framed(b""));
    }
    stream.write_all(&queries).unwrap();
    for number in 0..2_000 {
        assert_eq!(read_message(&mut stream), format!("number {number}").as_bytes());
    }
    assert_eq!(ask(&mut stream, b"after"), b"after");
    let totals = running.stop();
    assert_eq!((totals.replied, totals.dropped[DropReason::Short as usize]), (2_001, 2_000));
}

#[test]
fn queries_and_replies_have_up_to_65535_bytes() {
    let running = start(StreamLimits::default());
    let mut stream = connect(&running);
    assert_eq!(ask(&mut stream, &[b'q'; 65_535]), [b'q'; 65_535]);
    assert_eq!(ask(&mut stream, b"65535"), [b'x'; 65_535]);
}

#[test]
fn half_closed_client_still_gets_its_answers() {
    let running = start(StreamLimits::default());
    let mut stream = connect(&running);
    stream.write_all(&[framed(b"last"), framed(b"words"), vec![0, 9, b'?']].concat()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_message(&mut stream), b"last");
    assert_eq!(read_message(&mut stream), b"words");
    assert!(closes(&mut stream, Duration::from_secs(5)));
}

#[test]
fn client_that_does_not_read_blocks_no_other_and_is_cut_off() {
    let reply_max = Duration::from_millis(800);
    let running = start(StreamLimits { reply_max, ..Default::default() });
    let mut lazy = connect(&running);
    // More replies than the socket buffers of both sides hold.
    let queries = framed(b"65535").repeat(1_000);
    lazy.write_all(&queries).unwrap();
    let begin = Instant::now();
    let mut fast_reader = connect(&running);
    while begin.elapsed() < Duration::from_millis(400) {
        assert_eq!(ask(&mut fast_reader, b"quick"), b"quick");
    }
    running.wait_until("cut off", |connections| connections.ended(Ending::SlowReader) == 1);
    assert!(begin.elapsed() >= reply_max / 2);
    running.wait_until("forgotten", |connections| connections.buffered == 0);
    assert_eq!(ask(&mut fast_reader, b"still here"), b"still here");
    let totals = running.stop();
    assert!(totals.dropped[DropReason::Unsent as usize] > 0, "{totals:?}");
}

#[test]
fn silence_and_unfinished_queries_are_cut_off() {
    let [idle_max, query_max] = [300, 400].map(Duration::from_millis);
    let running = start(StreamLimits { idle_max, query_max, ..Default::default() });
    let begin = Instant::now();
    let mut silent = connect(&running);
    let mut dripping = connect(&running);
    std::thread::scope(|scope| {
        let mut writer = [dripping.try_clone().unwrap()];
        scope.spawn(move || drip(&mut writer, || false));
        assert!(closes(&mut silent, wait::deadline()));
        assert!(closes(&mut dripping, wait::deadline()));
    });
    assert!(begin.elapsed() >= query_max);
    let connections = running.streams.connections();
    assert_eq!(connections.ended(Ending::Idle), 1, "{connections:?}");
    assert_eq!(connections.ended(Ending::SlowQuery), 1, "{connections:?}");
    assert_eq!((connections.open, connections.buffered), (0, 0));
}

#[test]
fn connections_are_limited_in_all_and_for_each_client() {
    let limits = StreamLimits { connections_max: 4, per_client_max: 3, ..Default::default() };
    let running = start(limits);
    let mut open: Vec<_> = (0..3).map(|_| connect(&running)).collect();
    for stream in &mut open {
        assert_eq!(ask(stream, b"in"), b"in");
        pause_between_uses();
    }
    // Asking again, the first is no longer the one idle longest.
    assert_eq!(ask(&mut open[0], b"still in"), b"still in");
    let mut fourth = connect(&running);
    assert!(closes(&mut open[1], Duration::from_secs(5)), "one too many of a client");
    assert_eq!(ask(&mut fourth, b"in"), b"in");

    let other = || TcpStream::connect(running.addresses[1]).unwrap();
    let mut others = [other()];
    assert_eq!(ask(&mut others[0], b"in"), b"in");
    pause_between_uses();
    let mut fifth = other();
    assert!(closes(&mut open[2], Duration::from_secs(5)), "the client with most makes room");
    assert_eq!(ask(&mut fifth, b"in"), b"in");
    for stream in [&mut open[0], &mut fourth, &mut others[0]] {
        assert_eq!(ask(stream, b"stays"), b"stays");
    }
    let connections = running.streams.connections();
    assert_eq!((connections.accepted, connections.open), (6, 4));
    assert_eq!(connections.ended(Ending::Evicted), 2);

    drop((open, fourth, others, fifth));
    running.wait_until("free again", |connections| connections.open == 0);
    assert_eq!(running.streams.connections().ended(Ending::ByClient), 4);
}

#[test]
fn stop_answers_received_queries_and_does_not_wait_for_idle_clients() {
    let idle_max = Duration::from_secs(3_600);
    let running = start(StreamLimits { idle_max, ..Default::default() });
    let mut idle = connect(&running);
    let mut active = connect(&running);
    assert_eq!(ask(&mut idle, b"hello"), b"hello");
    assert_eq!(ask(&mut active, b"hello"), b"hello");
    active.write_all(&framed(b"60000").repeat(20)).unwrap();
    let reader = std::thread::spawn(move || {
        let replies = (0..20).map(|_| read_message(&mut active).len());
        (replies.sum::<usize>(), closes(&mut active, wait::deadline()))
    });
    running.streams.stop();
    assert_eq!(reader.join().unwrap(), (20 * 60_000, true));
    assert!(closes(&mut idle, Duration::from_secs(2)));
    assert!(TcpStream::connect(running.addresses[0]).is_err());
    assert!(running.failures.try_recv().is_err());
}

/// The kernel has told them that they are connected: a restart is not to cut them off.
#[test]
fn stop_serves_clients_that_wait_to_be_accepted() {
    let listener = worker::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting: Vec<_> = (0..200).map(|_| crate::common::connect_from(1, address)).collect();
    for stream in &mut waiting {
        stream.write_all(&framed(b"in time")).unwrap();
    }
    let limits = StreamLimits { per_client_max: 500, ..Default::default() };
    let running = crate::common::start_at(vec![listener], limits, Arc::new(|_| false));
    assert_eq!(running.stop().replied, 200);
    for stream in &mut waiting {
        assert_eq!(read_message(stream), b"in time");
    }
}

#[test]
fn panic_ends_the_thread_and_is_reported() {
    let running = start(StreamLimits::default());
    connect(&running).write_all(&framed(b"panic")).unwrap();
    let failure = running.failures.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(failure.thread.starts_with("streams-"), "{failure}");
    assert!(
        matches!(&failure.cause, FailureCause::Panic(message) if message.ends_with(": told to")),
        "{failure}"
    );
}

#[test]
fn inherited_listener_is_served_in_any_mode() {
    // For both families, and one that waits: as systemd may pass it.
    let listener = TcpListener::bind("[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let limits = StreamLimits::default();
    let _running = crate::common::start_at(vec![listener], limits, Arc::new(|_| false));
    for address in ["127.0.0.1", "::1"] {
        let mut stream = TcpStream::connect((address, port)).unwrap();
        let client = stream.local_addr().unwrap().to_string();
        assert_eq!(ask(&mut stream, b"who"), client.as_bytes(), "an IPv4 client is one");
    }
}

#[test]
fn impossible_limits_are_refused() {
    let memory_max = 2 * 2 * worker::limits::CONNECTION_BYTES_MAX;
    for (limits, threads, fine) in [
        (StreamLimits::default(), 0, false),
        (StreamLimits::default(), worker::limits::STREAM_THREADS_MAX + 1, false),
        (StreamLimits { memory_max, ..Default::default() }, 2, true),
        (StreamLimits { memory_max: memory_max - 1, ..Default::default() }, 2, false),
        (StreamLimits { connections_max: 0, ..Default::default() }, 1, false),
        (StreamLimits { per_client_max: 0, ..Default::default() }, 1, false),
    ] {
        let apps = (0..threads).map(|_| crate::common::Echo).collect();
        let (no_connection, unheard) = (Arc::new(|_| false), Arc::new(|_| {}));
        let started = Streams::start(Vec::new(), apps, limits, no_connection, unheard);
        assert_eq!(started.is_ok(), fine, "{limits:?}, {threads} threads");
    }
}

//! Connections that move from one set of stream threads to the next, as in a hot restart, without a
//! notice to their clients.

use crate::common::{
    Running, ask, connect, connect_from, framed, read_message, read_message_or_end, start, start_at,
};
use rustix::net::sockopt;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use test_support::wait;
use worker::{Connections, Ending, HandedConnection, StreamLimits, WorkerTotals};

/// Ends one set of threads, and starts the next one at the same listeners with its connections.
fn succeed(running: Running, listeners: &[TcpListener]) -> (Running, Connections, WorkerTotals) {
    let connections = running.streams.connection_counters().to_vec();
    let counters = running.streams.counters().to_vec();
    let handed = running.streams.hand_over();
    assert!(running.failures.try_recv().is_err());
    let listeners = listeners.iter().map(|listener| listener.try_clone().unwrap()).collect();
    let new_process = start_at(listeners, StreamLimits::default(), Arc::new(|_| false));
    new_process.streams.adopt(handed);
    (new_process, Connections::sum(&connections), WorkerTotals::sum(&counters))
}

/// Queries that a client writes at once.
const BATCH: u64 = 20;

/// Batches that may be unanswered: their replies are more than the kernel has room for, so that the
/// server has to wait, while they themselves fit into the room for what it reads. If they did not,
/// Linux since 6.17 might stop the connection for ever: having dropped the last query for want of
/// room, it drops that client's acknowledgements, too, as beyond the window.
const BATCHES_MAX: usize = 100;

/// Writes numbered queries, many ahead of their answers and some with long answers, and reads one
/// answer for each in order, until `over`; returns their number.
fn pipeline(mut writer: TcpStream, over: &AtomicBool) -> u64 {
    let query = |number: u64| match number % 10 {
        0 => b"40000".to_vec(),
        _ => format!("query {number}").into_bytes(),
    };
    sockopt::set_socket_recv_buffer_size(&writer, 65_536).unwrap();
    let mut reader = writer.try_clone().unwrap();
    let (ahead, behind) = mpsc::sync_channel(BATCHES_MAX);
    thread::scope(|scope| {
        let asked = scope.spawn(move || {
            let mut number = 0;
            while !over.load(Ordering::Relaxed) {
                ahead.send(()).unwrap();
                // Cut anywhere, so that queries are handed over half read.
                let mut bytes = Vec::new();
                for _ in 0..BATCH {
                    number += 1;
                    bytes.extend(framed(&query(number)));
                }
                for part in bytes.chunks(37) {
                    writer.write_all(part).unwrap();
                }
            }
            writer.shutdown(Shutdown::Write).unwrap();
            number
        });
        let mut answered = 0;
        while let Some(message) = read_message_or_end(&mut reader) {
            answered += 1;
            match query(answered) {
                query if query == b"40000" => assert_eq!(message.len(), 40_000),
                query => assert_eq!(message, query, "answer {answered}"),
            }
            if answered % BATCH == 0 {
                behind.recv().unwrap();
            }
        }
        assert_eq!(answered, asked.join().unwrap());
        answered
    })
}

#[test]
fn no_byte_is_lost_or_doubled_while_connections_move() {
    let listeners = ["127.0.0.1:0", "[::1]:0"];
    let listeners = listeners.map(|a| worker::listen(a.parse().unwrap()).unwrap());
    let copies = listeners.iter().map(|listener| listener.try_clone().unwrap()).collect();
    let mut running = start_at(copies, StreamLimits::default(), Arc::new(|_| false));
    let address = running.addresses[0];
    let over = AtomicBool::new(false);
    let (mut received, mut handed) = (0, 0);
    thread::scope(|scope| {
        let streams = (0..6).map(|_| connect(&running));
        let clients: Vec<_> =
            streams.map(|stream| scope.spawn(|| pipeline(stream, &over))).collect();
        // Connections that arrive while no thread accepts wait for the new process.
        let (admit, admitted) = mpsc::channel();
        let newcomers = scope.spawn(move || {
            let connect = |()| connect_from(3, address);
            let ask = |mut stream| assert_eq!(ask(&mut stream, b"new"), b"new");
            admitted.into_iter().map(connect).map(ask).count() as u64
        });
        for _ in 0..20 {
            let replied = || WorkerTotals::sum(running.streams.counters()).replied;
            wait::until_value("replies of these threads", replied, |replied| *replied > 200);
            (0..20).for_each(|_| admit.send(()).unwrap());
            let (new_process, connections, totals) = succeed(running, &listeners);
            running = new_process;
            received += totals.received;
            handed += connections.ended(Ending::HandedOver);
            let cut = [Ending::Error, Ending::SlowReader, Ending::Stopped, Ending::Evicted];
            assert!(cut.iter().all(|e| connections.ended(*e) == 0), "{connections:?}");
        }
        over.store(true, Ordering::Relaxed);
        drop(admit);
        let asked: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        let asked = asked + newcomers.join().unwrap();
        let totals = running.stop();
        assert_eq!(received + totals.received, asked);
    });
    assert!(handed >= 6 * 20, "{handed} handed over");
}

#[test]
fn half_read_query_is_finished_by_the_new_process() {
    let listeners = [worker::listen("127.0.0.1:0".parse().unwrap()).unwrap()];
    let copies = listeners.iter().map(|listener| listener.try_clone().unwrap()).collect();
    let running = start_at(copies, StreamLimits::default(), Arc::new(|_| false));
    let mut stream = connect(&running);
    let query = framed(b"in two halves");
    stream.write_all(&query[..5]).unwrap();
    running.wait_until("half read", |connections| connections.buffered > 0);
    let handed = running.streams.hand_over();
    let [HandedConnection { inbox, peer, client, .. }] = &handed[..] else { panic!("{handed:?}") };
    assert_eq!((&inbox[..], *peer), (&query[..5], stream.local_addr().unwrap()));
    assert_eq!(peer, client);
    let new_process = start_at(listeners.into(), StreamLimits::default(), Arc::new(|_| false));
    new_process.streams.adopt(handed);
    stream.write_all(&query[5..]).unwrap();
    assert_eq!(read_message(&mut stream), b"in two halves");
    assert_eq!(new_process.streams.connections().accepted, 1);
}

#[test]
fn missing_proxy_header_is_read_by_the_new_process() {
    let limits = StreamLimits::default();
    let running = crate::common::start_behind(limits, |_| true);
    let mut stream = connect(&running);
    running.wait_until("open", |connections| connections.open == 1);
    let handed = running.streams.hand_over();
    assert!(handed[0].header_due);
    let new_process = crate::common::start_behind(limits, |_| true);
    new_process.streams.adopt(handed);
    let header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x01\x12\x34\0\x35";
    stream.write_all(&[header, &framed(b"who")[..]].concat()).unwrap();
    assert_eq!(read_message(&mut stream), b"192.0.2.7:4660");
    assert_eq!(ask(&mut stream, b"who"), b"192.0.2.7:4660");
}

/// Waits until replies are written no more, as the kernel has no room for them.
fn wait_until_stuck(running: &Running) {
    let replied = || WorkerTotals::sum(running.streams.counters()).replied;
    let (mut last, mut since) = (replied(), Instant::now());
    wait::until_true("no more replies are written", || {
        if replied() != last {
            (last, since) = (replied(), Instant::now());
        }
        running.streams.connections().buffered > 0 && since.elapsed() >= STUCK
    });
}

/// How long nothing is written to one who does not read until that is taken for so.
const STUCK: Duration = Duration::from_millis(700);

#[test]
fn client_that_does_not_read_delays_no_hot_restart() {
    // Its own deadline is not what ends it.
    let reply_max = Duration::from_secs(3_600);
    let running = start(StreamLimits { reply_max, ..Default::default() });
    let mut lazy = connect_from(66, running.addresses[0]);
    lazy.write_all(&framed(b"65535").repeat(400)).unwrap();
    let mut polite = connect(&running);
    assert_eq!(ask(&mut polite, b"before"), b"before");
    wait_until_stuck(&running);
    let counters = running.streams.connection_counters().to_vec();
    let handed = running.streams.hand_over();
    let connections = Connections::sum(&counters);
    assert_eq!(connections.ended(Ending::SlowReader), 1, "{connections:?}");
    assert_eq!((handed.len(), connections.ended(Ending::HandedOver)), (1, 1));
    let new_process = start(StreamLimits::default());
    new_process.streams.adopt(handed);
    assert_eq!(ask(&mut polite, b"after"), b"after");
}

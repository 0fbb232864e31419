//! DNS over TCP as clients see it (RFC 7766).

use packet::{Drop, Packet, Transport, Verdict};
use plane::{App, Cause, Failure, OnFailure, StreamLimits, Streams, Totals, listen};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Sends back what it gets; a number asks for a reply of so many octets instead.
struct Echo;

impl App for Echo {
    fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
        let [packet] = packets else { panic!("a stream's slice has one packet") };
        assert_eq!(packet.transport, Transport::Stream);
        assert_eq!(packet.buf.len(), 65_535);
        let text = std::str::from_utf8(packet.message()).unwrap_or_default();
        assert!(text != "panic", "told to");
        if let Ok(len) = text.parse() {
            packet.buf[..len].fill(b'x');
            packet.len = len;
        }
        packet.verdict = match packet.len {
            0 => Verdict::Drop(Drop::Short),
            _ => Verdict::Reply,
        };
    }

    fn park(&mut self) {}
}

struct Running {
    streams: Streams,
    addresses: Vec<SocketAddr>,
    failures: mpsc::Receiver<Failure>,
}

fn start(limits: StreamLimits) -> Running {
    let v4 = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let v6 = listen("[::1]:0".parse().unwrap()).unwrap();
    let addresses = vec![v4.local_addr().unwrap(), v6.local_addr().unwrap()];
    let (sender, failures) = mpsc::channel();
    let on_failure: OnFailure = Arc::new(move |failure| sender.send(failure).unwrap());
    let streams = Streams::start(vec![v4, v6], Echo, limits, on_failure).unwrap();
    Running { streams, addresses, failures }
}

fn connect(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(running.addresses[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

fn read_message(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message).unwrap();
    message
}

fn ask(stream: &mut TcpStream, message: &[u8]) -> Vec<u8> {
    stream.write_all(&framed(message)).unwrap();
    read_message(stream)
}

/// Whether the server closes within `wait`, having said nothing.
fn closes(stream: &mut TcpStream, wait: Duration) -> bool {
    stream.set_read_timeout(Some(wait)).unwrap();
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn both_families_answer_several_queries_a_connection() {
    let running = start(StreamLimits::default());
    for &address in &running.addresses {
        let mut stream = TcpStream::connect(address).unwrap();
        assert_eq!(ask(&mut stream, b"one"), b"one");
        assert_eq!(ask(&mut stream, b"two"), b"two");
    }
    let counters = running.streams.counters().clone();
    running.streams.stop();
    let totals = Totals::sum([&counters]);
    assert_eq!((totals.received, totals.replied), (4, 4));
}

#[test]
fn a_query_may_come_octet_by_octet() {
    let running = start(StreamLimits::default());
    let mut stream = connect(&running);
    for octet in framed(b"slowly") {
        stream.write_all(&[octet]).unwrap();
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
    let counters = running.streams.counters().clone();
    running.streams.stop();
    let totals = Totals::sum([&counters]);
    assert_eq!((totals.replied, totals.dropped[Drop::Short as usize]), (2_001, 2_000));
}

#[test]
fn queries_and_replies_have_up_to_65535_octets() {
    let running = start(StreamLimits::default());
    let mut stream = connect(&running);
    assert_eq!(ask(&mut stream, &[b'q'; 65_535]), [b'q'; 65_535]);
    assert_eq!(ask(&mut stream, b"65535"), [b'x'; 65_535]);
}

#[test]
fn a_client_that_closes_its_side_still_gets_its_answers() {
    let running = start(StreamLimits::default());
    let mut stream = connect(&running);
    stream.write_all(&[framed(b"last"), framed(b"words"), vec![0, 9, b'?']].concat()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_message(&mut stream), b"last");
    assert_eq!(read_message(&mut stream), b"words");
    assert!(closes(&mut stream, Duration::from_secs(5)));
}

#[test]
fn one_who_does_not_read_blocks_nobody_and_is_cut_off() {
    let idle_max = Duration::from_millis(800);
    let running = start(StreamLimits { idle_max, ..Default::default() });
    let mut lazy = connect(&running);
    // More replies than the socket buffers of both sides hold.
    let queries = framed(b"65535").repeat(1_000);
    lazy.write_all(&queries).unwrap();
    let begin = Instant::now();
    let mut brisk = connect(&running);
    while begin.elapsed() < Duration::from_millis(400) {
        assert_eq!(ask(&mut brisk, b"quick"), b"quick");
    }
    std::thread::sleep(Duration::from_millis(800));
    let connections = running.streams.connections();
    assert!(connections.closed >= 1, "the lazy one is still there: {connections:?}");
    let counters = running.streams.counters().clone();
    running.streams.stop();
    let totals = Totals::sum([&counters]);
    assert!(totals.dropped[Drop::Unsent as usize] > 0, "{totals:?}");
    assert_eq!(totals.received, totals.replied + totals.dropped.iter().sum::<u64>());
}

#[test]
fn silence_and_unfinished_queries_are_cut_off() {
    let idle_max = Duration::from_millis(300);
    let running = start(StreamLimits { idle_max, ..Default::default() });
    let begin = Instant::now();
    let mut silent = connect(&running);
    let mut dripping = connect(&running);
    std::thread::scope(|scope| {
        let mut writer = dripping.try_clone().unwrap();
        scope.spawn(move || {
            // One octet each 50 ms: never silent, never finished.
            while writer.write_all(&[1]).is_ok() && begin.elapsed() < Duration::from_secs(3) {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        assert!(closes(&mut silent, Duration::from_secs(2)));
        assert!(closes(&mut dripping, Duration::from_secs(2)));
    });
    assert!(begin.elapsed() >= idle_max);
}

#[test]
fn connections_are_limited_in_all_and_for_each_client() {
    let limits = StreamLimits { connections_max: 4, per_client_max: 3, ..Default::default() };
    let running = start(limits);
    let mut open: Vec<_> = (0..3).map(|_| connect(&running)).collect();
    for stream in &mut open {
        assert_eq!(ask(stream, b"in"), b"in");
    }
    assert!(closes(&mut connect(&running), Duration::from_secs(2)), "one too many of a client");
    let mut other = TcpStream::connect(running.addresses[1]).unwrap();
    assert_eq!(ask(&mut other, b"in"), b"in");
    let mut fifth = TcpStream::connect(running.addresses[1]).unwrap();
    assert!(closes(&mut fifth, Duration::from_secs(2)), "one too many in all");
    assert_eq!(running.streams.connections().refused, 2);

    drop(open);
    let deadline = Instant::now() + Duration::from_secs(5);
    while running.streams.connections().closed < 3 {
        assert!(Instant::now() < deadline, "places of closed connections stay taken");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(ask(&mut connect(&running), b"again"), b"again");
}

#[test]
fn stopping_answers_what_has_come_and_waits_for_nobody_idle() {
    let running = start(StreamLimits::default());
    let mut idle = connect(&running);
    let mut active = connect(&running);
    assert_eq!(ask(&mut idle, b"hello"), b"hello");
    assert_eq!(ask(&mut active, b"hello"), b"hello");
    active.write_all(&framed(b"60000").repeat(20)).unwrap();
    let begin = Instant::now();
    let reader = std::thread::spawn(move || {
        let replies = (0..20).map(|_| read_message(&mut active).len());
        (replies.sum::<usize>(), closes(&mut active, Duration::from_secs(2)))
    });
    running.streams.stop();
    assert!(begin.elapsed() < Duration::from_secs(3));
    assert_eq!(reader.join().unwrap(), (20 * 60_000, true));
    assert!(closes(&mut idle, Duration::from_secs(2)));
    assert!(TcpStream::connect(running.addresses[0]).is_err());
    assert!(running.failures.try_recv().is_err());
}

#[test]
fn a_panic_ends_the_thread_and_is_reported() {
    let running = start(StreamLimits::default());
    connect(&running).write_all(&framed(b"panic")).unwrap();
    let failure = running.failures.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(failure.thread, "streams");
    assert!(matches!(&failure.cause, Cause::Panic(message) if message == "told to"), "{failure}");
}

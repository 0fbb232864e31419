//! Deferred replies over streams.

use crate::common::{closes, framed, read_message, read_message_or_end};
use packet::{DropReason, Ingress, Packet, Transport, Verdict};
use rustix::event::{EventfdFlags, eventfd};
use std::io::{ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use test_support::wait;
use worker::limits::DEFERRED_PER_CONNECTION_MAX;
use worker::{App, Ending, HandedConnection, StreamLimits, Streams, WorkerTotals, listen};

/// Echoes, but defers messages that begin with `later` until `now` arrives; drops `later drop`, and
/// passes connections with `stream` on.
struct Patient {
    waker: OwnedFd,
    deferred: Vec<(SocketAddr, Ingress, Vec<u8>)>,
    /// How many are deferred, for the test.
    count: Arc<AtomicUsize>,
    /// Connections that were passed on.
    passed_on: Arc<Mutex<Vec<HandedConnection>>>,
}

impl App for Patient {
    fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
        for packet in packets {
            packet.verdict = Verdict::Reply;
            if packet.message().starts_with(b"later") {
                self.deferred.push((packet.peer, packet.origin, packet.message().to_vec()));
                packet.verdict = Verdict::Deferred;
                self.count.fetch_add(1, Ordering::SeqCst);
            } else if packet.message() == b"stream" {
                packet.verdict = Verdict::Stream;
            } else if packet.message() == b"now" {
                rustix::io::write(&self.waker, &1u64.to_ne_bytes()).unwrap();
            }
        }
    }

    fn park(&mut self) {}

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.waker.as_fd())
    }

    fn poll_deferred(&mut self, _now: Duration, send: &mut dyn FnMut(&Packet<'_>, Duration)) {
        rustix::io::read(&self.waker, &mut [0; 8]).unwrap();
        self.count.store(0, Ordering::SeqCst);
        for (peer, origin, mut bytes) in self.deferred.drain(..) {
            let len = bytes.len();
            let mut packet = Packet::new(&mut bytes, len, peer, Transport::Stream);
            packet.origin = origin;
            packet.verdict = match packet.message() {
                b"later drop" => Verdict::Drop(DropReason::Short),
                _ => Verdict::Reply,
            };
            send(&packet, Duration::from_millis(7));
        }
    }

    fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    fn take_connection(&mut self, connection: HandedConnection) {
        self.passed_on.lock().unwrap().push(connection);
    }
}

/// A thread, its address, and how many messages it defers.
fn start() -> (Streams, SocketAddr, impl Fn() -> usize) {
    let (streams, address, count, _) = start_passing();
    (streams, address, count)
}

type PassedOn = Arc<Mutex<Vec<HandedConnection>>>;

/// The same, and the connections that it passes on.
fn start_passing() -> (Streams, SocketAddr, impl Fn() -> usize, PassedOn) {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let (count_of_app, passed_on) = (count.clone(), PassedOn::default());
    let apps = vec![Patient {
        waker,
        deferred: Vec::new(),
        count: count_of_app,
        passed_on: passed_on.clone(),
    }];
    let on_failure = Arc::new(|failure| panic!("{failure}"));
    let limits = StreamLimits::default();
    let streams =
        Streams::start(vec![listener], apps, limits, Arc::new(|_| false), on_failure).unwrap();
    (streams, address, move || count.load(Ordering::SeqCst), passed_on)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn say(stream: &mut TcpStream, messages: &[&str]) {
    let bytes: Vec<u8> = messages.iter().flat_map(|text| framed(text.as_bytes())).collect();
    stream.write_all(&bytes).unwrap();
}

fn stop(streams: Streams) -> WorkerTotals {
    let counters = streams.counters().to_vec();
    streams.stop();
    let totals = WorkerTotals::sum(&counters);
    assert_eq!(totals.received, totals.replied + totals.dropped.iter().sum::<u64>());
    assert_eq!(totals.received, totals.latency.counts.iter().sum::<u64>());
    totals
}

#[test]
fn deferred_reply_delays_no_other_client() {
    let (streams, address, _) = start();
    let mut stream = connect(address);
    say(&mut stream, &["later 1", "at once", "later drop", "later 2", "now"]);
    for text in ["at once", "now", "later 1", "later 2"] {
        assert_eq!(read_message(&mut stream), text.as_bytes());
    }
    let totals = stop(streams);
    assert_eq!((totals.received, totals.dropped[DropReason::Short as usize]), (5, 1));
}

#[test]
fn half_closed_client_gets_its_deferred_replies() {
    let (streams, address, deferred) = start();
    let (mut stream, mut other) = (connect(address), connect(address));
    say(&mut stream, &["later 1", "later 2"]);
    stream.shutdown(Shutdown::Write).unwrap();
    wait::until_eq("deferred queries", deferred, 2);
    assert!(!closes(&mut stream.try_clone().unwrap(), Duration::from_millis(200)));
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    say(&mut other, &["now"]);
    assert_eq!(read_message(&mut stream), b"later 1");
    assert_eq!(read_message(&mut stream), b"later 2");
    assert_eq!(read_message_or_end(&mut stream), None);
    stop(streams);
}

#[test]
fn deferred_replies_of_a_connection_are_bounded() {
    let (streams, address, deferred) = start();
    let (mut stream, mut other) = (connect(address), connect(address));
    let texts: Vec<String> =
        (0..3 * DEFERRED_PER_CONNECTION_MAX).map(|n| format!("later {n}")).collect();
    say(&mut stream, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    for some in texts.chunks(DEFERRED_PER_CONNECTION_MAX) {
        wait::until_eq("deferred queries", &deferred, DEFERRED_PER_CONNECTION_MAX);
        say(&mut other, &["now"]);
        for text in some {
            assert_eq!(read_message(&mut stream), text.as_bytes());
        }
        stream.set_nonblocking(true).unwrap();
        let more = stream.peek(&mut [0]);
        assert!(more.is_err_and(|why| why.kind() == ErrorKind::WouldBlock), "no more is answered");
        stream.set_nonblocking(false).unwrap();
    }
    stop(streams);
}

#[test]
fn deferred_reply_to_a_closed_connection_is_counted() {
    let (streams, address, deferred) = start();
    let mut other = connect(address);
    let mut stream = connect(address);
    say(&mut stream, &["later 1"]);
    wait::until_eq("deferred queries", deferred, 1);
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    wait::until_eq("open connections", || streams.connections().open, 1);
    say(&mut other, &["now"]);
    assert_eq!(read_message(&mut other), b"now");
    let totals = stop(streams);
    assert_eq!(totals.dropped[DropReason::Unsent as usize], 1);
}

/// Of its end the kernel would tell again and again.
#[test]
fn client_that_leaves_deferred_replies_is_closed_at_once() {
    for is_shut in [false, true] {
        let (streams, address, deferred) = start();
        let mut other = connect(address);
        let mut stream = connect(address);
        say(&mut stream, &["later 1"].repeat(DEFERRED_PER_CONNECTION_MAX));
        if is_shut {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        wait::until_eq("deferred queries", deferred, DEFERRED_PER_CONNECTION_MAX);
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        drop(stream);
        let what = format!("open connections, half closed before: {is_shut}");
        wait::until_eq(&what, || streams.connections().open, 1);
        say(&mut other, &["now"]);
        assert_eq!(read_message(&mut other), b"now");
        let totals = stop(streams);
        assert_eq!(totals.dropped[DropReason::Unsent as usize], DEFERRED_PER_CONNECTION_MAX as u64);
    }
}

#[test]
fn connection_is_passed_on_with_its_message_once_all_before_is_answered_and_comes_back() {
    let (streams, address, deferred, passed_on) = start_passing();
    let (mut stream, mut other) = (connect(address), connect(address));
    say(&mut stream, &["first", "later 1", "stream", "behind"]);
    assert_eq!(read_message(&mut stream), b"first");
    wait::until_eq("deferred queries", deferred, 1);
    assert!(passed_on.lock().unwrap().is_empty(), "a reply is due");
    say(&mut other, &["now"]);
    assert_eq!(read_message(&mut stream), b"later 1");
    wait::until_eq("connections passed on", || passed_on.lock().unwrap().len(), 1);
    let mut connection = passed_on.lock().unwrap().pop().unwrap();
    assert_eq!(connection.inbox, [framed(b"stream"), framed(b"behind")].concat());
    assert_eq!(streams.connections().ended(Ending::Transfer), 1);
    connection.inbox.drain(..framed(b"stream").len());
    streams.adopt(vec![connection]);
    assert_eq!(read_message(&mut stream), b"behind");
    say(&mut stream, &["last"]);
    assert_eq!(read_message(&mut stream), b"last");
    // What was passed on was not received here.
    assert_eq!(stop(streams).received, 5);
}

//! A server whose every answer is scripted.

use test_support::ports;

use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::query::QueryFormat;
use lab_load::{Options, QuerySource, Report, Snapshot};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::Rtype;

pub const FORM: QueryFormat =
    QueryFormat { recursion: true, edns: false, dnssec: false, option: None };

/// The replies to the n-th query, from 0: each a delay and a message.
pub type Script = dyn Fn(u64, &[u8]) -> Vec<(Duration, Vec<u8>)> + Send + Sync;

/// An address without a listener.
pub fn no_listener() -> SocketAddr {
    ports::free_address(Ipv4Addr::LOCALHOST).into()
}

/// A server on the loopback network, until this is dropped.
pub struct Server {
    pub address: SocketAddr,
    /// Queries that came.
    pub asked: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        // A thread in accept notices it then.
        let _ = TcpStream::connect(self.address);
        self.thread.take().map(JoinHandle::join);
    }
}

/// A message that says yes to a query.
pub fn yes(query: &[u8]) -> Vec<u8> {
    answer(query, 0)
}

/// An answer without records.
pub fn answer(query: &[u8], rcode: u8) -> Vec<u8> {
    let mut message = query.to_vec();
    message[2] |= 0x80;
    message[3] = rcode;
    message
}

/// With a record A of 192.0.2.1.
pub fn address(query: &[u8]) -> Vec<u8> {
    let mut message = yes(query);
    message[7] = 1;
    message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    message
}

/// At once.
pub fn now(message: Vec<u8>) -> Vec<(Duration, Vec<u8>)> {
    vec![(Duration::ZERO, message)]
}

/// The name that a query asks for, as text.
pub fn name(query: &[u8]) -> String {
    wire::Name::parse(&query[12..]).unwrap().to_string()
}

impl Server {
    pub fn udp(
        script: impl Fn(u64, &[u8]) -> Vec<(Duration, Vec<u8>)> + Send + Sync + 'static,
    ) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        let (asked, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stop) = (asked.clone(), done.clone());
        let thread = std::thread::spawn(move || serve_udp(&socket, &script, &count, &stop));
        Self { address, asked, done, thread: Some(thread) }
    }

    /// Each connection is served in its order; `last` queries end it.
    pub fn tcp(
        last: u64,
        script: impl Fn(u64, &[u8]) -> Vec<(Duration, Vec<u8>)> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stop, script) = (asked.clone(), done.clone(), Arc::new(script));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let (script, count) = (script.clone(), count.clone());
                std::thread::spawn(move || serve_tcp(stream, last, &*script, &count));
            }
        });
        Self { address, asked, done, thread: Some(thread) }
    }
}

fn serve_udp(socket: &UdpSocket, script: &Script, asked: &AtomicU64, done: &AtomicBool) {
    let mut waiting = BinaryHeap::new();
    let mut buffer = [0; 4_096];
    while !done.load(Ordering::Relaxed) {
        let next = waiting
            .peek()
            .map(|Reverse((at, ..)): &Reverse<(Instant, u64, SocketAddr, Vec<u8>)>| *at);
        let pause = next
            .map_or(Duration::from_millis(20), |at| at.saturating_duration_since(Instant::now()));
        socket.set_read_timeout(Some(pause.max(Duration::from_micros(1)))).unwrap();
        if let Ok((len, peer)) = socket.recv_from(&mut buffer) {
            let (number, now) = (asked.fetch_add(1, Ordering::Relaxed), Instant::now());
            for (delay, message) in script(number, &buffer[..len]) {
                match delay {
                    Duration::ZERO => _ = socket.send_to(&message, peer),
                    _ => waiting.push(Reverse((now + delay, number, peer, message))),
                }
            }
        }
        while let Some(Reverse((at, ..))) = waiting.peek()
            && *at <= Instant::now()
        {
            let Reverse((.., peer, message)) = waiting.pop().unwrap();
            let _ = socket.send_to(&message, peer);
        }
    }
}

fn serve_tcp(mut stream: TcpStream, last: u64, script: &Script, asked: &AtomicU64) {
    for _ in 0..last {
        let mut len = [0; 2];
        if stream.read_exact(&mut len).is_err() {
            return;
        }
        let mut query = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut query).unwrap();
        for (delay, message) in script(asked.fetch_add(1, Ordering::Relaxed), &query) {
            std::thread::sleep(delay);
            let mut framed = (message.len() as u16).to_be_bytes().to_vec();
            framed.extend(message);
            // In two pieces, as streams may come.
            let half = framed.len() / 2;
            let sent =
                stream.write_all(&framed[..half]).and_then(|()| stream.write_all(&framed[half..]));
            if sent.is_err() {
                return;
            }
        }
    }
}

/// Asks `server` for 100 names, in a closed loop of 10, for 200 ms; timeout 300 ms.
pub fn options(server: &Server) -> Options {
    options_at(server.address)
}

/// The same for a server elsewhere.
pub fn options_at(server: SocketAddr) -> Options {
    let set = Arc::new(QuestionSet::from_pattern("n{i}.example", 100, Rtype::A, FORM).unwrap());
    let what = QuestionSpec { set, order: Order::Given, unique: 0.0, nxdomain: 0.0, under: None };
    Options {
        when: lab_load::LoadMode::Closed { outstanding: 10, rate_max: None },
        length_ns: 200_000_000,
        timeout_ns: 300_000_000,
        interval_ns: 50_000_000,
        ..Options::new(server, QuerySource::Questions(Box::new(what)))
    }
}

/// Runs a load, and holds it to what every load keeps.
pub fn run(options: &Options) -> Report {
    let mut snapshots: Vec<Snapshot> = Vec::new();
    let stop = AtomicBool::new(false);
    let report = lab_load::run(options, &stop, &mut |seen| snapshots.push(seen.clone())).unwrap();
    let counts = report.counts;
    assert_eq!(counts.open(), 0, "every query has one end: {counts:?}");
    assert_eq!(counts.sent, counts.planned - counts.unsent);
    assert_eq!(report.times.response.len(), counts.planned, "what has no answer is in it");
    assert_eq!(report.times.service.len(), counts.sent);
    assert_eq!(report.times.lateness.len(), counts.sent);
    assert_eq!(counts.rcodes.iter().sum::<u64>(), counts.answered + counts.wrong);
    let sum = |field: fn(&lab_load::QueryCounts) -> u64| -> u64 {
        snapshots.iter().map(|seen| field(&seen.counts)).sum()
    };
    assert_eq!(sum(|counts| counts.answered), counts.answered, "snapshots make up the whole");
    assert_eq!(sum(|counts| counts.planned), counts.planned);
    assert_eq!(snapshots.last().unwrap().whole, counts);
    assert_eq!(report.series.len(), snapshots.len());
    report
}

//! Stream threads on loopback, and clients of them.

use packet::{DropReason, Packet, Transport, Verdict};
use rustix::net::{AddressFamily, SocketType};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use test_support::wait;
use worker::{App, IsProxy, OnFailure, StreamLimits, Streams, ThreadFailure, WorkerTotals, listen};

/// Sends back what it gets; a number asks for a reply of this many bytes instead, `who` for the
/// client's address.
pub struct Echo;

impl App for Echo {
    fn burst(&mut self, packets: &mut [Packet<'_>], _now: Duration) {
        let [packet] = packets else { panic!("a stream's slice has one packet") };
        assert_eq!(packet.context.transport, Transport::Stream);
        assert_eq!(packet.buf.len(), 65_535);
        let text = std::str::from_utf8(packet.message()).unwrap_or_default();
        assert!(text != "panic", "told to");
        if let Ok(len) = text.parse() {
            packet.buf[..len].fill(b'x');
            packet.len = len;
        } else if text == "who" {
            let client = packet.context.client.to_string();
            packet.buf[..client.len()].copy_from_slice(client.as_bytes());
            packet.len = client.len();
        }
        packet.verdict = match packet.len {
            0 => Verdict::Drop(DropReason::Short),
            _ => Verdict::Reply,
        };
    }

    fn park(&mut self) {}
}

pub struct Running {
    pub streams: Streams,
    pub addresses: Vec<SocketAddr>,
    pub failures: mpsc::Receiver<ThreadFailure>,
}

impl Running {
    /// Waits until the connections are as they should be.
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&worker::Connections) -> bool) {
        wait::until_value(what, || self.streams.connections(), is_so);
    }

    /// Stops, and tells what was counted of messages: each once.
    pub fn stop(self) -> WorkerTotals {
        let counters = self.streams.counters().to_vec();
        self.streams.stop();
        assert!(self.failures.try_recv().is_err());
        let totals = WorkerTotals::sum(&counters);
        assert_eq!(totals.received, totals.replied + totals.dropped.iter().sum::<u64>());
        assert_eq!(totals.received, totals.latency.counts.iter().sum::<u64>());
        totals
    }
}

pub fn start(limits: StreamLimits) -> Running {
    start_behind(limits, |_| false)
}

/// Two threads that listen on both families; `is_proxy` tells who has to send a header.
pub fn start_behind(
    limits: StreamLimits,
    is_proxy: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
) -> Running {
    let listeners = ["127.0.0.1:0", "[::1]:0"].map(|a| listen(a.parse().unwrap()).unwrap());
    start_at(listeners.into(), limits, Arc::new(is_proxy))
}

pub fn start_at(listeners: Vec<TcpListener>, limits: StreamLimits, is_proxy: IsProxy) -> Running {
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let (sender, failures) = mpsc::channel();
    let on_failure: OnFailure = Arc::new(move |failure| sender.send(failure).unwrap());
    let apps = vec![Echo, Echo];
    let streams = Streams::start(listeners, apps, limits, is_proxy, on_failure).unwrap();
    Running { streams, addresses, failures }
}

pub fn connect(running: &Running) -> TcpStream {
    ready(TcpStream::connect(running.addresses[0]).unwrap())
}

/// A connection from another address than the others': 127.0.0.`n`.
pub fn connect_from(n: u8, server: SocketAddr) -> TcpStream {
    let fd = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&fd, &SocketAddr::from(([127, 0, 0, n], 0))).unwrap();
    rustix::net::connect(&fd, &server).unwrap();
    ready(fd.into())
}

fn ready(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

pub fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

/// The next message; nothing if the server has closed after the last.
pub fn read_message_or_end(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    match stream.read(&mut length[..1]).unwrap() {
        0 => return None,
        _ => stream.read_exact(&mut length[1..]).unwrap(),
    }
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message).unwrap();
    Some(message)
}

pub fn read_message(stream: &mut TcpStream) -> Vec<u8> {
    read_message_or_end(stream).expect("an answer")
}

pub fn ask(stream: &mut TcpStream, message: &[u8]) -> Vec<u8> {
    stream.write_all(&framed(message)).unwrap();
    read_message(stream)
}

/// Lets so much time pass that the order of connections by their last use is known.
pub fn pause_between_uses() {
    std::thread::sleep(2 * worker::limits::USED_AGAIN);
}

/// Writes a byte every now and then, so that a query is never silent and never finished, until the
/// server closes or it is over.
pub fn drip(streams: &mut [TcpStream], is_over: impl Fn() -> bool) {
    // To each: `any` would stop at the first that is open.
    let mut write = || streams.iter_mut().filter_map(|stream| stream.write_all(&[1]).ok()).count();
    while !is_over() && write() > 0 {
        std::thread::sleep(Duration::from_millis(40));
    }
}

/// Whether the server closes within `wait`, having said nothing.
pub fn closes(stream: &mut TcpStream, wait: Duration) -> bool {
    stream.set_read_timeout(Some(wait)).unwrap();
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

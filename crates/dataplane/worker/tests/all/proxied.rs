//! Clients behind a proxy that speaks the PROXY protocol, version 2.

use crate::common::{
    Running, ask, closes, connect, connect_from, framed, pause_between_uses, read_message,
    start_behind,
};
use std::io::Write;
use std::net::{IpAddr, TcpStream};
use std::time::Duration;
use worker::{Ending, StreamLimits};

/// The only proxy: 127.0.0.`PROXY`.
const PROXY: u8 = 80;

fn start(limits: StreamLimits) -> Running {
    start_behind(limits, |address| address == IpAddr::from([127, 0, 0, PROXY]))
}

/// The header for a client at 192.0.2.`n`, port 4,660.
fn header(n: u8) -> Vec<u8> {
    let addresses = [192, 0, 2, n, 198, 51, 100, 1, 0x12, 0x34, 0, 53];
    [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", &addresses[..]].concat()
}

fn proxied(running: &Running, n: u8) -> TcpStream {
    let mut stream = connect_from(PROXY, running.addresses[0]);
    stream.write_all(&header(n)).unwrap();
    stream
}

#[test]
fn answer_goes_to_the_proxied_client() {
    let running = start(StreamLimits::default());
    let mut stream = proxied(&running, 7);
    assert_eq!(ask(&mut stream, b"who"), b"192.0.2.7:4660");
    assert_eq!(ask(&mut stream, b"who"), b"192.0.2.7:4660", "the header comes once");

    let mut at_once = connect_from(PROXY, running.addresses[0]);
    at_once.write_all(&[header(8), framed(b"who"), framed(b"too")].concat()).unwrap();
    assert_eq!(read_message(&mut at_once), b"192.0.2.8:4660");
    assert_eq!(read_message(&mut at_once), b"too");

    let mut local = connect_from(PROXY, running.addresses[0]);
    local.write_all(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0").unwrap();
    let proxy = local.local_addr().unwrap().to_string();
    assert_eq!(ask(&mut local, b"who"), proxy.as_bytes());
}

#[test]
fn proxy_header_may_arrive_byte_by_byte() {
    let running = start(StreamLimits::default());
    let mut stream = connect_from(PROXY, running.addresses[0]);
    for byte in [header(7), framed(b"who")].concat() {
        stream.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(read_message(&mut stream), b"192.0.2.7:4660");
}

#[test]
fn proxy_without_a_header_is_not_served() {
    let query_max = Duration::from_millis(300);
    let running = start(StreamLimits { query_max, ..Default::default() });
    let mut bare = connect_from(PROXY, running.addresses[0]);
    bare.write_all(&framed(b"who")).unwrap();
    assert!(closes(&mut bare, Duration::from_secs(5)));
    let mut text = connect_from(PROXY, running.addresses[0]);
    text.write_all(b"PROXY TCP4 192.0.2.1 198.51.100.1 4660 53\r\n").unwrap();
    assert!(closes(&mut text, Duration::from_secs(5)));
    let mut silent = connect_from(PROXY, running.addresses[0]);
    let mut half = connect_from(PROXY, running.addresses[0]);
    half.write_all(&header(7)[..20]).unwrap();
    assert!(closes(&mut silent, Duration::from_secs(5)));
    assert!(closes(&mut half, Duration::from_secs(5)));
    let connections = running.streams.connections();
    assert_eq!(connections.ended(Ending::ProxyHeader), 2, "{connections:?}");
    assert_eq!(connections.ended(Ending::SlowQuery), 2, "{connections:?}");
    assert_eq!(running.stop().received, 0);
}

#[test]
fn header_of_an_unlisted_peer_is_not_read() {
    let running = start(StreamLimits::default());
    let mut stream = connect(&running);
    let client = stream.local_addr().unwrap().to_string();
    assert_eq!(ask(&mut stream, b"who"), client.as_bytes());
    // For other clients a header is the begin of a message.
    stream.write_all(&header(7)).unwrap();
    assert!(!closes(&mut stream, Duration::from_millis(200)));
    assert_eq!(running.streams.connections().ended(Ending::ProxyHeader), 0);
}

#[test]
fn limits_are_those_of_the_proxied_client() {
    let running = start(StreamLimits { per_client_max: 2, ..Default::default() });
    let mut others: Vec<_> = (10..20).map(|n| proxied(&running, n)).collect();
    for stream in &mut others {
        assert_eq!(ask(stream, b"in"), b"in");
    }
    let mut same: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = proxied(&running, 7);
            assert_eq!(ask(&mut stream, b"in"), b"in");
            pause_between_uses();
            stream
        })
        .collect();
    assert!(closes(&mut same[0], Duration::from_secs(5)), "one too many");
    for stream in same[1..].iter_mut().chain(&mut others) {
        assert_eq!(ask(stream, b"stays"), b"stays");
    }
    assert_eq!(running.streams.connections().ended(Ending::Evicted), 1);
}

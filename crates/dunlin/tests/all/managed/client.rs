//! Queries of clients, each sent once.
use crate::served::{holds, query};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use test_support::wait::deadline;

/// An address with a privileged port that no other run of these tests uses.
pub fn free_address(test: u8) -> SocketAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    (Ipv4Addr::new(127, 50 + test, high, low), 53).into()
}

/// A UDP socket of this client.
pub fn socket(client: [u8; 4]) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::from(client), 0)).expect("a socket");
    socket.set_read_timeout(Some(deadline())).expect("a timeout");
    socket
}

/// Sends bytes from this client; returns the reply.
pub fn exchange(client: [u8; 4], server: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let socket = socket(client);
    // Connected, it receives no late reply that is for an earlier socket on this port.
    socket.connect(server).expect("connected");
    socket.send(bytes).expect("sent");
    let mut reply = vec![0; 4096];
    let len = loop {
        match socket.recv(&mut reply) {
            // A stop of this machine may interrupt the call (signal(7)).
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => break received.expect("an answer over UDP"),
        }
    };
    reply.truncate(len);
    reply
}

pub fn exchange_over_tcp(server: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).expect("connected");
    stream.set_read_timeout(Some(deadline())).expect("a timeout");
    let message = [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    stream.write_all(&message).expect("sent");
    let mut len = [0; 2];
    stream.read_exact(&mut len).expect("an answer over TCP");
    let mut reply = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut reply).expect("an answer over TCP");
    reply
}

/// Queries an address over UDP.
pub fn ask(server: SocketAddr, name: &str) -> Vec<u8> {
    exchange([127, 0, 0, 1], server, &query(name))
}

/// Whether the name has this address, over UDP and over TCP.
pub fn expect(server: SocketAddr, name: &str, address: [u8; 4]) {
    for reply in [ask(server, name), exchange_over_tcp(server, &query(name))] {
        assert!(holds(&reply, &address), "{name}: {reply:x?}");
    }
}

/// A query with an EDNS option.
pub fn query_with(name: &str, code: u8, data: &[u8]) -> Vec<u8> {
    let mut query = query(name);
    let len = query.len();
    let option = [&[0, code, 0, data.len() as u8], data].concat();
    query[len - 1] = option.len() as u8;
    query.extend_from_slice(&option);
    query
}

/// Status line and body of a page.
pub fn get(server: SocketAddr, page: &str) -> String {
    let mut stream = TcpStream::connect(server).expect("connected");
    stream.set_read_timeout(Some(deadline())).expect("a timeout");
    write!(stream, "GET {page} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut told = String::new();
    stream.read_to_string(&mut told).expect("a page");
    told
}

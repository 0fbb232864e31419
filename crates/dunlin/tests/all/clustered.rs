//! A server beside a real API server, and what it answers as text.
use crate::served::Served;
use cluster::Cluster;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;
use test_support::wait;
use wire::{Name, NameBuf, Records, Rtype, skip_name};

/// Between two queries of a client that asks all the time.
pub const POLL: Duration = Duration::from_millis(20);

/// The records of a reply to this question: its code, then each record as text, in order. `None`:
/// no reply came.
pub fn answer(server: SocketAddr, name: &str, rtype: Rtype) -> Option<String> {
    exchange(server, name, rtype).map(|reply| text(&reply))
}

/// The same for a client that a resolver names (RFC 7871).
pub fn answer_to(client: [u8; 4], server: SocketAddr, name: &str, rtype: Rtype) -> Option<String> {
    let option = [&[0, 8, 0, 8, 0, 1, 32, 0], &client[..]].concat();
    exchange_with(&option, server, name, rtype).map(|reply| text(&reply))
}

/// The reply to this question. `None`: none came.
pub fn exchange(server: SocketAddr, name: &str, rtype: Rtype) -> Option<Vec<u8>> {
    exchange_with(&[], server, name, rtype)
}

/// The same with these options of EDNS.
fn exchange_with(options: &[u8], server: SocketAddr, name: &str, rtype: Rtype) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    // Recursion is desired; EDNS with 4096 bytes.
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).expect("a name");
    query.extend(name.as_name().as_bytes());
    query.extend(rtype.0.to_be_bytes());
    query.extend([0, 1, 0, 0, 41, 16, 0, 0, 0, 0, 0, 0, options.len() as u8]);
    query.extend(options);
    socket.connect(server).expect("connected");
    // A refused port fails the one or the other.
    socket.send(&query).ok()?;
    let mut reply = vec![0; 4096];
    let len = socket.recv(&mut reply).ok()?;
    reply.truncate(len);
    Some(reply)
}

fn text(reply: &[u8]) -> String {
    let code = match reply[3] & 15 {
        0 => "NOERROR".to_owned(),
        2 => "SERVFAIL".to_owned(),
        3 => "NXDOMAIN".to_owned(),
        5 => "REFUSED".to_owned(),
        code => code.to_string(),
    };
    let answers_at = skip_name(reply, 12).expect("a question") + 4;
    let count = u16::from_be_bytes([reply[6], reply[7]]);
    let records = Records::new(reply, answers_at, count.into()).map(|record| {
        let record = record.expect("a record");
        let mut room = [0; 4096];
        let data = record.expand(&mut room).expect("data");
        format!("{} {}", record.rtype, shown(record.rtype, data))
    });
    let records: BTreeSet<String> = records.collect();
    std::iter::once(code).chain(records).collect::<Vec<_>>().join("; ")
}

fn shown(rtype: Rtype, data: &[u8]) -> String {
    let name = |bytes: &[u8]| Name::parse(bytes).expect("a name").to_string();
    let address = |ip: IpAddr| ip.to_string();
    match (rtype, data.len()) {
        (Rtype::A, 4) => address(Ipv4Addr::from(<[u8; 4]>::try_from(data).unwrap()).into()),
        (Rtype::AAAA, 16) => address(Ipv6Addr::from(<[u8; 16]>::try_from(data).unwrap()).into()),
        (Rtype::SRV, _) => {
            format!("{} {}", u16::from_be_bytes([data[4], data[5]]), name(&data[6..]))
        }
        (Rtype::PTR | Rtype::CNAME | Rtype::NS | Rtype::SOA, _) => name(data),
        (Rtype::TXT, _) => String::from_utf8_lossy(&data[1..]).into_owned(),
        _ => format!("{data:?}"),
    }
}

/// Asks until the answer is this one.
pub fn expect(server: SocketAddr, name: &str, rtype: Rtype, expected: &str) {
    let found = || answer(server, name, rtype);
    wait::until_eq(&format!("{name} {rtype}"), found, Some(expected.to_owned()));
}

/// A section `[kubernetes]` for a kubeconfig, with more keys.
pub fn section(kubeconfig: &Path, more: &str) -> String {
    let file = kubeconfig.display();
    format!("[kubernetes]\nzones = [\"cluster.local\"]\nkubeconfig = \"{file}\"\n{more}\n")
}

/// Starts a server that watches a cluster as its administrator.
pub fn serve(test: &str, cluster: &Cluster, more: &str) -> Served {
    Served::start(test, &section(&cluster.kubeconfig(), more), &[])
}

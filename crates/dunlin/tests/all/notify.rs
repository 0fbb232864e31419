//! NOTIFY and TSIG, as other servers and clients send them.
use crate::served::{HEAD, NOERROR, REFUSED, Served, query, rcode, zone};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use test_support::skip::skip;
use test_support::wait::deadline;

const FORMERR: u8 = 1;
const NOTAUTH: u8 = 9;
/// Forwarding changes what a thread waits for.
const FORWARD: &str = "[forward]\n\"forwarded.test\" = [\"127.0.0.1:9\"]\n";

/// A NOTIFY about a zone; `rtype` is 6 (SOA) in a correct one.
fn notify(zone: &str, rtype: u8) -> Vec<u8> {
    let mut message = query(zone);
    message[2] = 0x24;
    let type_at = 12 + zone.len() + 3;
    message[type_at] = rtype;
    message
}

fn send(served: &Served, message: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(deadline())).expect("a timeout");
    socket.send_to(message, served.address).expect("sent");
    let mut reply = [0; 4096];
    let len = socket.recv(&mut reply).expect("a reply");
    assert_eq!((&reply[..2], reply[2] & 0xf8), (&message[..2], 0xa0), "it answers this NOTIFY");
    reply[..len].to_vec()
}

fn send_over_tcp(served: &Served, message: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(served.address).expect("a connection");
    stream.set_read_timeout(Some(deadline())).expect("a timeout");
    let framed = [&(message.len() as u16).to_be_bytes(), message].concat();
    stream.write_all(&framed).expect("sent");
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("a length");
    let mut reply = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut reply).expect("a reply");
    reply
}

#[test]
fn notify_makes_a_zone_read_its_file_over_udp_and_tcp() {
    for (test, forward) in [("notify", ""), ("notify_forward", FORWARD)] {
        let config = forward.to_owned() + &zone("a.test");
        let served = Served::start(test, &config, &[("a.test.zone", HEAD)]);
        let reply = send(&served, &notify("a.test", 6));
        assert_eq!((rcode(&reply), reply[2]), (NOERROR, 0xa4), "QR, NOTIFY and AA: {reply:x?}");
        served.expect_line("NOTIFY", "a.test.");
        served.expect_line("zone loaded", "a.test.");
        // Those of the next second are answered at once, and the zone looks once more.
        for _ in 0..5 {
            assert_eq!(rcode(&send(&served, &notify("a.test", 6))), NOERROR);
            assert_eq!(rcode(&send_over_tcp(&served, &notify("a.test", 6))), NOERROR);
        }
        served.expect_line("NOTIFY", "a.test.");
        served.expect_line("zone loaded", "a.test.");
    }
}

#[test]
fn notify_that_is_not_obeyed_is_answered_with_the_reason() {
    let served = Served::start("notify_refused", &zone("a.test"), &[("a.test.zone", HEAD)]);
    assert_eq!(rcode(&send(&served, &notify("b.test", 6))), NOTAUTH);
    assert_eq!(rcode(&send(&served, &notify("a.test", 1))), FORMERR);
    let config = "[acl]\nnotify_from = [\"192.0.2.1\"]\n".to_owned() + &zone("a.test");
    let served = Served::start("notify_acl", &config, &[("a.test.zone", HEAD)]);
    assert_eq!(rcode(&send(&served, &notify("a.test", 6))), REFUSED);
    assert_eq!(rcode(&send_over_tcp(&served, &notify("a.test", 6))), REFUSED);
    assert_eq!(rcode(&served.ask("ns.a.test")), NOERROR, "it may still query");
}

#[test]
fn notify_of_ldns_is_obeyed() {
    if Command::new("ldns-notify").arg("-v").stdout(Stdio::null()).spawn().is_err() {
        return skip("ldns-notify (Debian: ldnsutils)");
    }
    let served = Served::start("notify_ldns", &zone("a.test"), &[("a.test.zone", HEAD)]);
    let (port, ip) = (served.address.port().to_string(), served.address.ip().to_string());
    let mut command = Command::new("ldns-notify");
    command.args(["-z", "a.test", "-s", "2", "-p", &port, &ip]);
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("flags: qr aa"), "{text}");
    served.expect_line("NOTIFY", "a.test.");
}

#[test]
fn kdig_is_told_that_its_key_is_unknown() {
    let served = Served::start("tsig", &zone("a.test"), &[("a.test.zone", HEAD)]);
    let (port, ip) = (served.address.port().to_string(), format!("@{}", served.address.ip()));
    let mut command = Command::new("kdig");
    command.args([&ip, "-p", &port, "-y", "hmac-sha256:key.test:c2VjcmV0", "ns.a.test", "A"]);
    let Ok(output) = command.output() else { return skip("kdig (Debian: knot-dnsutils)") };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("status: BADKEY"), "{text}");
    let tsig = text.lines().find(|line| line.contains("TSIG\thmac-sha256.")).expect("a TSIG");
    assert!(tsig.starts_with("key.test.") && tsig.contains("BADKEY 0"), "{tsig}");
}

//! Every feature under the restrictions of the unit.
use super::Place;
use super::client::{
    ask, exchange, exchange_over_tcp, expect, free_address, get, query_with, socket,
};
use super::machine::Machine;
use crate::served::{HEAD, NOERROR, holds, query, rcode, zone};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use test_support::wait::{until, until_true};

/// A client whose queries are forwarded.
const PROXY: [u8; 4] = [127, 0, 0, 9];
/// A client above its rate. Other clients have no limit.
const GREEDY: [u8; 4] = [127, 0, 0, 7];

/// A config with every feature.
pub fn config(place: Place, more: &str) -> String {
    let Place { dns, ops } = place;
    let api = api(place);
    format!(
        r#"
[server]
listen = ["{dns}"]
workers = 2
pin = true
steering = "cpu"
drain = "1s"
{more}
[server.cookies]
enabled = true
[limits]
exempt = ["127.0.0.1/32", "127.0.0.9/32", "198.51.100.0/24"]
[limits.rate]
per_second = 50
[limits.responses]
per_second = 5
[proxy]
from = ["127.0.0.9/32"]
[ops]
listen = "{ops}"
[store]
kind = "redb"
[api]
listen = "{api}"
[log]
format = "json"
[log.queries]
sample = 1
file = "/var/log/dunlin/queries.log"
[dnstap]
socket = "/run/dunlin/tap.sock"
"#
    ) + &zone("a.test")
}

/// One feature.
type Exercise = (&'static str, fn(&Machine, Place));

/// Every feature of a running server. None may end it.
pub const EXERCISES: &[Exercise] = &[
    ("answers, with cookies and keepalive", answers),
    ("loads a zone that changes, refuses a bad one, and saves the good", loads_zones),
    ("reloads on SIGHUP, and logs its counters on SIGUSR1", hears_signals),
    ("tells of itself", tells_of_itself),
    ("shows metrics and health", shows_pages),
    ("limits who asks too much", limits),
    ("answers whom a proxy forwards, and logs the client", takes_headers),
    ("sends dnstap to its reader", sends_dnstap),
    ("keeps records that are written over HTTP", keeps_records),
    ("feeds the watchdog", feeds_the_watchdog),
];

fn answers(_: &Machine, Place { dns, .. }: Place) {
    expect(dns, "ns.a.test", [192, 0, 2, 1]);
    let cookie = exchange([127, 0, 0, 1], dns, &query_with("ns.a.test", 10, b"12345678"));
    assert!(holds(&cookie, b"\0\x0a\0\x1812345678"), "RFC 9018: {cookie:x?}");
    let kept = exchange_over_tcp(dns, &query_with("ns.a.test", 11, &[]));
    assert!(holds(&kept, &[0, 11, 0, 2]), "RFC 7828: {kept:x?}");
}

fn loads_zones(machine: &Machine, Place { dns, .. }: Place) {
    machine.write("a.test.zone", &format!("{HEAD}new A 192.0.2.2\n"));
    until_true("the zone is loaded", || holds(&ask(dns, "new.a.test"), &[192, 0, 2, 2]));
    machine.write("a.test.zone", "broken\n");
    until_true("the zone is refused", || machine.log().contains("a.test.zone:1:"));
    assert_eq!(rcode(&ask(dns, "new.a.test")), NOERROR);
    machine.told(&["test", "-s", "/var/lib/dunlin/zones/a.test.zone"]);
}

fn hears_signals(machine: &Machine, Place { dns, .. }: Place) {
    machine.write("a.test.zone", HEAD);
    machine.do_systemctl(&["kill", "--signal=HUP", "dunlin"]);
    until_true("it is reloaded", || machine.log().contains("\"reloaded\""));
    assert!(!holds(&ask(dns, "new.a.test"), &[192, 0, 2, 2]));
    machine.do_systemctl(&["kill", "--signal=USR1", "dunlin"]);
    until_true("its counters", || machine.log().contains("\"counters\""));
}

/// The exit status is 1 while dnstap has no reader.
fn status(machine: &Machine) -> Value {
    let output = machine.run(&["dunlin", "status", "-o", "json"]);
    let told = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {told}"))
}

fn tells_of_itself(machine: &Machine, _: Place) {
    let status = status(machine);
    assert_eq!(status["state"], "serving", "{status}");
    assert!(status["process"]["resident_bytes"].as_u64() > Some(1 << 20), "{status}");
    let lines = machine.told(&["sh", "-c", "dunlin top --interval 100ms | head -2"]);
    assert_eq!(lines.lines().count(), 2, "{lines}");
}

fn shows_pages(_: &Machine, Place { ops, .. }: Place) {
    let metrics = get(ops, "/metrics");
    assert!(metrics.contains("\ndunlin_queries_total{"), "{metrics}");
    for page in ["/healthz", "/readyz"] {
        let told = get(ops, page);
        assert!(told.starts_with("HTTP/1.1 200 "), "{page}: {told}");
    }
}

fn limits(machine: &Machine, Place { dns, .. }: Place) {
    let greedy = socket(GREEDY);
    for _ in 0..400 {
        greedy.send_to(&query("ns.a.test"), dns).expect("sent");
    }
    for reason in ["rate_limited", "response_limited"] {
        until(reason, || {
            let status = status(machine);
            let threads = status["threads"].as_array()?;
            let dropped = threads.iter().filter_map(|thread| thread["dropped"][reason].as_u64());
            (dropped.sum::<u64>() > 0).then_some(())
        });
    }
}

/// The PROXY header of a client, 198.51.100.7 (PROXY protocol, §2.2).
fn header(server: SocketAddr) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c\xc6\x33\x64\x07".to_vec();
    header.extend_from_slice(&[127, 0, 0, 1]);
    header.extend_from_slice(&[4321u16.to_be_bytes(), server.port().to_be_bytes()].concat());
    header
}

fn takes_headers(machine: &Machine, Place { dns, .. }: Place) {
    let question = [header(dns), query("forwarded.a.test")].concat();
    let reply = exchange(PROXY, dns, &question);
    assert_eq!(reply[..2], query("forwarded.a.test")[..2], "{reply:x?}");
    until("the client is logged", || {
        let log = machine.told(&["cat", "/var/log/dunlin/queries.log"]);
        let mut lines = log.lines();
        lines.any(|l| l.contains("198.51.100.7") && l.contains("forwarded.a.test")).then_some(())
    });
}

/// A reader of dnstap, from Debian.
fn start_reader(machine: &Machine) -> Child {
    let words = ["setpriv", "--reuid=dunlin", "--regid=dunlin", "--clear-groups", "fstrm_capture"];
    machine
        .command(&[&words[..], &["-t", "protobuf:dnstap.Dnstap"]].concat())
        .args(["-u", "/run/dunlin/tap.sock", "-w", "/run/dunlin/tap"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nsenter runs")
}

fn sends_dnstap(machine: &Machine, Place { dns, .. }: Place) {
    let mut reader = start_reader(machine);
    until_true("the reader", || status(machine)["tap"]["dnstap_connected"] == true);
    ask(dns, "tapped.a.test");
    // nsenter ends with the reader.
    let below = format!("/proc/{0}/task/{0}/children", reader.id());
    let child = std::fs::read_to_string(below).expect("nsenter's child");
    let child = child.trim().parse().ok().and_then(Pid::from_raw).expect("a process");
    until("the message and its reply", || {
        // It writes its file when it ends.
        kill_process(child, Signal::HUP).expect("it runs");
        let count = machine.run(&["grep", "-ao", "tapped", "/run/dunlin/tap"]).stdout;
        (count.split(|byte| *byte == b'\n').count() > 2).then_some(())
    });
    kill_process(child, Signal::TERM).expect("it runs");
    reader.wait().expect("it ends");
    let told = machine.told(&["dnstap-read", "-y", "/run/dunlin/tap"]);
    assert!(told.contains("AUTH_RESPONSE") && told.contains("tapped.a.test"), "{told}");
}

fn keeps_records(machine: &Machine, place: Place) {
    let script = "DUNLIN_TOKEN=$(dunlin token create me --grant 'read,write,zones b.test') && \
                  export DUNLIN_TOKEN && dunlin zones create b.test --nameserver ns.b.test. && \
                  dunlin records set b.test www.b.test A --ttl 60 192.0.2.5 && \
                  dunlin records get b.test www.b.test A && test -s /var/lib/dunlin/records.wal";
    let script = format!("export DUNLIN_API=http://{} && {script}", api(place));
    let told = machine.told(&["sh", "-c", &script]);
    assert!(told.contains("192.0.2.5"), "{told}");
    expect(place.dns, "www.b.test", [192, 0, 2, 5]);
}

fn feeds_the_watchdog(machine: &Machine, _: Place) {
    let fed = || machine.property("WatchdogTimestampMonotonic");
    let before = fed();
    until_true("another sign of life", || fed() != before);
}

fn api(place: Place) -> SocketAddr {
    (place.ops.ip(), 8053).into()
}

/// Addresses of a server in this test.
pub fn place(test: u8) -> Place {
    let dns = free_address(test);
    Place { dns, ops: (dns.ip(), 9153).into() }
}

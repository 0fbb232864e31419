//! A server that is asked past its kernel's network stack, by a kernel at the other end of a pair
//! of interfaces. Needs root.
#[path = "../../port-xdp/tests/kernel/wire.rs"]
mod wire;

mod served;

use rustix::process::Signal;
use serde_json::Value;
use served::{HEAD, NOERROR, Served, ask, ask_over_tcp, binary, holds, rcode, zone};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use wire::{Wire, is_root};

const AT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 53);
/// What the section of the server begins with.
const XDP: &str = "port = \"xdp\"\nlisten = [\"192.0.2.1:53\"]\nuser = \"65534\"\n\
                   group = \"65534\"\nxdp.interface = \"s0\"\n";

fn folder(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("dunlin-{test}-{}", std::process::id()))
}

/// Starts a server in the server's namespace, with these keys of its section first.
fn serve(wire: &Wire, folder: &Path, keys: &str) -> Served {
    let program = binary().get_program().to_str().expect("a path").to_owned();
    let config = keys.replace("xdp.interface", "\n[xdp]\ninterface")
        + &format!("[admin]\nsocket = \"{}\"\n", folder.join("admin").display())
        + "[ops]\nlisten = \"127.0.0.1:9153\"\n"
        + &zone("a.test");
    Served::start_by(&mut wire.command(&program), folder, &config, &[("a.test.zone", HEAD)])
}

fn status(folder: &Path) -> Value {
    let socket = folder.join("admin");
    let asked = Command::new(binary().get_program())
        .args(["status", "-o", "json", "--socket"])
        .arg(socket)
        .output()
        .expect("it runs");
    serde_json::from_slice(&asked.stdout).expect("a status")
}

fn metrics(wire: &Wire) -> String {
    wire.in_server(|| {
        let mut stream = TcpStream::connect("127.0.0.1:9153").expect("connected");
        let request = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("metrics");
        text
    })
}

fn is_answer(reply: &[u8]) -> bool {
    rcode(reply) == NOERROR && holds(reply, &[192, 0, 2, 1])
}

#[test]
fn a_question_past_the_kernel_gets_its_answer() {
    if !is_root() {
        return;
    }
    let (wire, folder) = (Wire::new(), folder("xdp"));
    let mut served = serve(&wire, &folder, XDP);
    assert!(served.start.iter().any(|line| line.contains("served past the kernel")));
    for _ in 0..10 {
        assert!(is_answer(&wire.in_client(|| ask(AT, "ns.a.test"))));
    }
    assert!(is_answer(&wire.in_client(|| ask_over_tcp(AT, "ns.a.test"))));
    wire.ping("192.0.2.1");
    let status = status(&folder);
    let xdp = &status["xdp"];
    assert_eq!((&xdp["interface"], &xdp["mode"]), (&"s0".into(), &"native".into()));
    assert_eq!(xdp["failed"], Value::Null);
    assert_eq!((&xdp["passed"]["taken"], &xdp["passed"]["unchecked"]), (&10.into(), &0.into()));
    assert!(xdp["queues"][0]["lost"].as_object().expect("counts").values().all(|n| *n == 0));
    let metrics = metrics(&wire);
    for line in [
        "dunlin_xdp_state{interface=\"s0\",mode=\"native\"} 1",
        "dunlin_xdp_packets_total{interface=\"s0\",result=\"taken\"} 10",
        "dunlin_xdp_lost_total{interface=\"s0\",queue=\"0\",reason=\"ring_full\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    assert!(wire.has_program());
    served.signal(Signal::TERM);
    served.signal(Signal::INT);
    assert_eq!(served.status(), Some(0));
    assert!(!wire.has_program());
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn where_it_cannot_be_had_sockets_serve_and_the_reason_is_told() {
    if !is_root() {
        return;
    }
    let (wire, folder) = (Wire::new(), folder("xdp-none"));
    let served = serve(&wire, &folder, &XDP.replace("\"s0\"", "\"lo\""));
    assert!(served.start.iter().any(|line| line.contains("served by sockets alone")));
    assert!(is_answer(&wire.in_client(|| ask(AT, "ns.a.test"))));
    let xdp = &status(&folder)["xdp"];
    let failed = xdp["failed"].as_str().expect("a reason");
    assert!(failed.contains("lower its MTU"), "{failed}");
    let line = "dunlin_xdp_state{interface=\"lo\",mode=\"socket\"} 1";
    assert!(metrics(&wire).contains(line));
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn what_passes_never_breaks_however_the_server_ends() {
    if !is_root() {
        return;
    }
    let (wire, folder) = (Wire::new(), folder("xdp-kill"));
    let listener = wire.in_server(|| TcpListener::bind("192.0.2.1:7").expect("a listener"));
    let mut stream = wire.in_client(|| TcpStream::connect("192.0.2.1:7").expect("connected"));
    let (mut other, _) = listener.accept().expect("it connected");
    let mut passes = || {
        stream.write_all(&[7; 100_000]).expect("sent");
        let mut octets = vec![0; 100_000];
        other.read_exact(&mut octets).expect("received");
    };
    for round in 0..6 {
        let mut served = serve(&wire, &folder, XDP);
        assert!(is_answer(&wire.in_client(|| ask(AT, "ns.a.test"))));
        assert!(wire.has_program());
        passes();
        wire.ping("192.0.2.1");
        let signal = if round % 2 == 0 { Signal::KILL } else { Signal::INT };
        served.signal(signal);
        served.status();
        assert!(!wire.has_program(), "round {round}");
        passes();
        wire.ping("192.0.2.1");
    }
    let _ = std::fs::remove_dir_all(folder);
}

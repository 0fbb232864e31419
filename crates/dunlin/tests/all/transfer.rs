//! Transfers to other servers, as their tools ask for them.
use crate::served::ask_over_tcp;
use crate::update::{Scene, lacks_tools};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use test_support::wait::{self, deadline};

const ON: &str = "[transfer]\nenabled = true\n";
const ALLOW: &str = "[transfer]\nenabled = true\nallow = [\"127.0.0.0/8\"]\n";

/// Adds so many records to `z.example`.
fn fill(scene: &Scene, count: usize) {
    let (mut text, file) = (String::new(), scene.file("many.zone"));
    for number in 0..count {
        let [a, b] = (number as u16).to_be_bytes();
        writeln!(text, "many-{number} 60 A 10.0.{a}.{b}").expect("a String takes all");
    }
    fs::write(&file, text).expect("a file");
    let file = file.to_str().expect("UTF-8");
    scene.api(&["records", "import", "z.example", file, "--yes"]);
}

/// The records in the lines of a zone file, or of `dig`.
pub fn records(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with(';') && !line.trim().is_empty());
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

pub fn served(scene: &Scene) -> BTreeSet<String> {
    records(&scene.local(&["zones", "dump", "z.example"]))
}

#[test]
fn key_with_read_for_a_zone_gets_it_and_no_other_client_does() {
    if lacks_tools() {
        return;
    }
    let scene = Scene::start_with("transfer-tools", ON);
    fill(&scene, 5_000);
    let whole = scene.key("whole", "read z.example", "--tsig");
    let whole = whole.to_str().expect("UTF-8");
    let transferred =
        scene.dig(&["-k", whole, "+onesoa", "+noall", "+answer", "z.example", "AXFR"]);
    assert_eq!(records(&transferred), served(&scene));
    let all = scene.dig(&["-k", whole, "z.example", "AXFR"]);
    assert!(!all.contains("verify") && all.contains("XFR size: 500"), "{all}");
    let serial = scene.serial();
    fs::write(scene.file("one.zone"), "one 60 A 192.0.2.9\n").expect("a file");
    let file = scene.file("one.zone");
    let file = file.to_str().expect("UTF-8");
    // What has changed is known from the first question on.
    let since = format!("IXFR={serial}");
    let current = scene.dig(&["-k", whole, "+noall", "+answer", "z.example", &since]);
    assert_eq!(current.lines().count(), 1, "{current}");
    scene.api(&["records", "import", "z.example", file, "--yes"]);
    for transport in ["+tcp", "+notcp"] {
        let args = ["-k", whole, transport, "+noall", "+answer", "z.example", &since];
        let changed = scene.dig(&args);
        let lines = changed.lines().count();
        assert!(lines == 5 && changed.contains("192.0.2.9"), "{transport}: {changed}");
    }
    let older = scene.dig(&["-k", whole, "+tcp", "z.example", "IXFR=1"]);
    assert!(older.contains("XFR size: 500"), "the whole zone: {older}");
    let part = scene.key("part", "read z.example ns.z.example A", "--tsig");
    let part = part.to_str().expect("UTF-8");
    for args in [
        &["-k", part, "z.example", "AXFR"][..],
        &["z.example", "AXFR"],
        &["-k", whole, "file.example", "AXFR"],
    ] {
        let failed = scene.dig(args);
        assert!(failed.contains("Transfer failed"), "{args:?}: {failed}");
    }
    let status = scene.local(&["status", "-o", "json"]);
    for counted in ["\"not_allowed\":3", "\"incremental\":2", "\"whole_instead\":1"] {
        let status = status.replace([' ', '\n'], "");
        assert!(status.contains(counted), "{counted}: {status}");
    }
}

#[test]
fn transfers_are_refused_unless_they_are_configured() {
    if lacks_tools() {
        return;
    }
    let scene = Scene::start("transfer-off");
    let key = scene.key("whole", "read *", "--tsig");
    let key = key.to_str().expect("UTF-8");
    for args in [&["-k", key][..], &[]] {
        let failed = scene.dig(&[args, &["z.example", "AXFR"]].concat());
        assert!(failed.contains("Transfer failed"), "{failed}");
    }
}

/// A query in a stream, for `z.example` or a name below it.
fn query(id: u8, below: &[u8], rtype: u8) -> Vec<u8> {
    let head = [0, id, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let message = [&head[..], below, b"\x01z\x07example\0", &[0, rtype, 0, 1]].concat();
    [&[0, message.len() as u8], &message[..]].concat()
}

/// The next message of a stream.
fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).expect("a length");
    let mut message = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut message).expect("a message");
    message
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(deadline())).expect("a timeout");
    stream
}

/// The records of a transfer's messages.
fn transferred(stream: &mut TcpStream, id: u8, count: usize) -> usize {
    let mut received = 0;
    while received < count {
        let message = receive(stream);
        assert_eq!((message[1], message[3] & 0xf), (id, 0), "in order, and without an error");
        received += usize::from(u16::from_be_bytes([message[6], message[7]]));
    }
    received
}

#[test]
fn connection_answers_queries_before_between_and_behind_transfers() {
    let scene = Scene::start_with("transfer-connection", ALLOW);
    fill(&scene, 4_000);
    let count = served(&scene).len() + 1;
    let mut stream = connect(scene.served.address);
    let queries = [
        query(1, b"", 6),
        query(2, b"", 252),
        query(3, b"\x02ns", 1),
        query(4, b"", 252),
        query(5, b"\x06many-7", 1),
    ];
    stream.write_all(&queries.concat()).expect("sent");
    for (id, answers) in [(1, 1), (2, count), (3, 1), (4, count), (5, 1)] {
        assert_eq!(transferred(&mut stream, id, answers), answers, "query {id}");
    }
    // A client that ends while it is served takes nothing with it.
    let mut gone = connect(scene.served.address);
    gone.write_all(&query(6, b"", 252)).expect("sent");
    receive(&mut gone);
    drop(gone);
    let reply = ask_over_tcp(scene.served.address, "ns.z.example");
    assert_eq!(reply[3] & 0xf, 0);
    let mut again = connect(scene.served.address);
    again.write_all(&query(7, b"", 252)).expect("sent");
    assert_eq!(transferred(&mut again, 7, count), count);
}

#[test]
fn most_of_a_thousand_transfers_at_once_are_refused_and_queries_are_answered() {
    let streams = "[streams]\nper_client = 2000\nidle = \"60s\"\n";
    let scene = Scene::start_with("transfer-flood", &format!("{streams}{ALLOW}"));
    // More than sockets hold: a transfer lasts until its client reads.
    let long = format!(" \"{}\"", "x".repeat(255)).repeat(8);
    for part in 0..10 {
        let mut text = String::new();
        for name in part * 500..(part + 1) * 500 {
            writeln!(text, "long-{name} 60 TXT{long}").expect("a String takes all");
        }
        let file = scene.file("long.zone");
        fs::write(&file, text).expect("a file");
        scene.api(&["records", "import", "z.example", file.to_str().expect("UTF-8"), "--yes"]);
    }
    // Beside them are the SOA record twice, an NS and an A record.
    let count = 5_004;
    let mut all: Vec<TcpStream> = (0..1_000).map(|_| connect(scene.served.address)).collect();
    for stream in &mut all {
        stream.write_all(&query(1, b"", 252)).expect("sent");
    }
    let status = || scene.local(&["status", "-o", "json"]).replace([' ', '\n'], "");
    let refused = || {
        let text = status();
        let count = text.split("\"full\":").nth(1).and_then(|rest| rest.split([',', '}']).next());
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    };
    wait::until_value("most transfers are refused", refused, |refused: &u32| *refused >= 900);
    let reply = ask_over_tcp(scene.served.address, "ns.z.example");
    assert_eq!(reply[3] & 0xf, 0);
    // Clients that are killed meanwhile leave nothing behind.
    drop(all);
    wait::until_true("no transfer is in progress", || status().contains("\"active\":0"));
    let mut stream = connect(scene.served.address);
    stream.write_all(&query(2, b"", 252)).expect("sent");
    assert_eq!(transferred(&mut stream, 2, count), count);
}

#[test]
fn transfers_under_writes_are_of_one_moment() {
    let scene = Scene::start_with("transfer-moment", ALLOW);
    let write = |round: u8| {
        let mut text = String::new();
        for name in 0..1_000 {
            writeln!(text, "many-{name} 60 A 10.0.0.{round}").expect("a String takes all");
        }
        let file = scene.file("moment.zone");
        fs::write(&file, text).expect("a file");
        let file = file.to_str().expect("UTF-8");
        scene.api(&["records", "import", "z.example", file, "--yes"]);
    };
    write(0);
    let count = served(&scene).len() + 1;
    let address = scene.served.address;
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut versions = BTreeSet::new();
            for _ in 0..100 {
                let mut stream = connect(address);
                stream.write_all(&query(1, b"", 252)).expect("sent");
                let (mut received, mut last) = (0, BTreeSet::new());
                while received < count {
                    let message = receive(&mut stream);
                    received += usize::from(u16::from_be_bytes([message[6], message[7]]));
                    let addresses = message.windows(6).filter(|w| w[..5] == [0, 4, 10, 0, 0]);
                    last.extend(addresses.map(|window| window[5]));
                }
                assert_eq!((received, last.len()), (count, 1), "{last:?}");
                versions.append(&mut last);
            }
            versions
        });
        for round in 1..200 {
            if reading.is_finished() {
                break;
            }
            write(round);
        }
        let versions = reading.join().expect("no panic");
        assert!(versions.len() > 1, "it was written meanwhile: {versions:?}");
    });
}

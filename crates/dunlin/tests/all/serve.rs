//! `dunlin serve`, for an operator and a client.
use crate::served::{HEAD, NOERROR, REFUSED, SERVFAIL, Served, holds, query, rcode, zone};
use rustix::process::Signal;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use test_support::wait::{self, deadline};

#[test]
fn zone_that_cannot_be_loaded_fails_alone() {
    let config = zone("good.test") + &zone("bad.test");
    let bad = format!("{HEAD}www A 192.0.2.256\n");
    let files = [("good.test.zone", HEAD), ("bad.test.zone", &bad)];
    let served = Served::start("fails_alone", &config, &files);
    assert!(holds(&served.ask("ns.good.test"), &[192, 0, 2, 1]));
    assert_eq!(rcode(&served.ask("www.elsewhere.test")), REFUSED);
    let reply = served.ask("www.bad.test");
    assert_eq!(rcode(&reply), SERVFAIL);
    assert!(holds(&reply, &[0, 15, 0, 2, 0, 14]), "EDE 14 (RFC 8914 §4.15): {reply:x?}");

    fs::write(served.folder.join("bad.test.zone"), format!("{HEAD}www A 192.0.2.7\n"))
        .expect("a file");
    served.expect_address("www.bad.test", [192, 0, 2, 7]);
}

#[test]
fn bad_file_leaves_the_old_zone() {
    let served = Served::start("old_zone", &zone("a.test"), &[("a.test.zone", HEAD)]);
    let file = served.folder.join("a.test.zone");
    fs::write(&file, format!("{HEAD}new A 192.0.2.2\nbroken\n")).expect("a file");
    let line = served.expect_line("a.test.zone:6:7: ", "missing");
    assert_eq!(line["level"], "ERROR");
    served.expect_line("refused", "as it was is served");
    assert!(holds(&served.ask("ns.a.test"), &[192, 0, 2, 1]));
    fs::write(&file, format!("{HEAD}new A 192.0.2.2\n")).expect("a file");
    served.expect_address("new.a.test", [192, 0, 2, 2]);
}

#[test]
fn tcp_gives_the_same_answer() {
    let served = Served::start("tcp", &zone("a.test"), &[("a.test.zone", HEAD)]);
    assert!(holds(&served.ask_over_tcp("ns.a.test"), &[192, 0, 2, 1]));
}

/// While the kernel enlarges the table of open files, accepting threads wait.
#[test]
fn table_of_open_files_has_room_for_all_streams_at_the_start() {
    let config = "[streams]\nconnections = 3000\n".to_owned() + &zone("a.test");
    let served = Served::start("room", &config, &[("a.test.zone", HEAD)]);
    let status = fs::read_to_string(format!("/proc/{}/status", served.child.id()));
    let status = status.expect("the process is there");
    let room = status.lines().find_map(|line| line.strip_prefix("FDSize:")).expect("proc(5)");
    assert!(room.trim().parse::<u32>().expect("a number") > 3000, "{room}");
}

/// If one of two servers answered responses, a forged query could start an endless loop.
#[test]
fn response_is_never_answered() {
    let served = Served::start("loops", &zone("a.test"), &[("a.test.zone", HEAD)]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut malformed = query("ns.a.test");
    malformed.truncate(14);
    for question in [query("ns.a.test"), query("x.elsewhere.test"), malformed] {
        socket.set_read_timeout(Some(deadline())).expect("a timeout");
        socket.send_to(&question, served.address).expect("sent");
        let mut reply = [0; 4096];
        let len = socket.recv(&mut reply).expect("a reply");
        socket.send_to(&reply[..len], served.address).expect("sent");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        assert!(socket.recv(&mut reply).is_err(), "a reply to a reply");
    }
    served.signal(Signal::USR1);
    let all = served.expect_line("counters", "\"all\"");
    assert_eq!((&all["replied"], &all["dropped"]), (&3.into(), &"response 3".into()), "{all}");
}

#[test]
fn each_address_comes_first_equally_often() {
    const ADDRESSES: usize = 5;
    const QUESTIONS: usize = 4_000;
    let records: String = (0..ADDRESSES).map(|n| format!("many A 192.0.2.{n}\n")).collect();
    let file = format!("{HEAD}{records}");
    let served = Served::start("rotation", &zone("a.test"), &[("a.test.zone", &file)]);
    let question = query("many.a.test");
    // The data of the first record: after the question, a pointer, type, class, TTL and length.
    let first = question.len() - 11 + 12;
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(deadline())).expect("a timeout");
    let mut counts = [0u32; ADDRESSES];
    for _ in 0..QUESTIONS {
        socket.send_to(&question, served.address).expect("sent");
        let mut reply = [0; 512];
        socket.recv(&mut reply).expect("a reply");
        counts[usize::from(reply[first + 3])] += 1;
    }
    let mean = QUESTIONS as f64 / ADDRESSES as f64;
    let chi_square: f64 = counts.iter().map(|n| (f64::from(*n) - mean).powi(2) / mean).sum();
    // Four degrees of freedom: a fair random order passes this in all but one of a million runs.
    assert!(chi_square < 33.4, "{counts:?}: chi-square {chi_square}");
}

#[test]
fn signals_reload_log_counters_and_end() {
    let mut served = Served::start("signals", &zone("a.test"), &[("a.test.zone", HEAD)]);
    served.signal(Signal::HUP);
    served.expect_line("zone loaded", "a.test.");
    assert_eq!(rcode(&served.ask("ns.a.test")), NOERROR);
    // Counters follow the replies of their burst, so they may come a moment later.
    let counters = || {
        served.signal(Signal::USR1);
        let all = served.expect_line("counters", "\"all\"");
        served.expect_line("imbalance", "mean");
        ["received", "replied"].map(|key| all[key].as_u64())
    };
    wait::until_eq("received and replied", counters, [Some(1), Some(1)]);
    served.end();
}

/// Secondaries do not transfer such a change.
#[test]
fn changed_file_with_the_same_serial_is_a_warning() {
    let served = Served::start("same-serial", &zone("a.test"), &[("a.test.zone", HEAD)]);
    std::fs::write(served.folder.join("a.test.zone"), format!("{HEAD}new A 192.0.2.9\n"))
        .expect("the file is written");
    served.expect_line("the zone has changed, but its serial is", "a.test.zone");
}

/// A zone signed for January 2026. Its signatures are refused at any other time.
const SIGNED: &str =
    include_str!("../../../control/source-file/src/signatures/zones/nsec-013.zone");

#[test]
fn signatures_that_resolvers_refuse_are_a_warning_and_in_the_status() {
    let socket = std::env::temp_dir().join(format!("dunlin-signed-{}", std::process::id()));
    let config = format!("[admin]\nsocket = \"{}\"\n{}", socket.display(), zone("example"));
    let served = Served::start("old-signatures", &config, &[("example.zone", SIGNED)]);
    if !served.start.iter().any(|line| line.contains("the signature of")) {
        served.expect_line("the signature of", "example.");
    }
    let status = crate::served::request(&socket, "GET", "/v1/status", "").expect("a status");
    let span = "\"signatures\":{\"expires_seconds\":1769817600,\"validity_seconds\":2592000}";
    assert!(status.replace(char::is_whitespace, "").contains(span), "{status}");
}

/// The server keeps answering with its last settings, and status works.
#[test]
fn draining_server_keeps_its_last_settings() {
    let name = format!("dunlin-drains-{}", std::process::id());
    let socket = std::env::temp_dir().join(name);
    let config = |drain: &str, more: &str| {
        let admin = format!("[admin]\nsocket = \"{}\"\n", socket.display());
        format!("drain = \"{drain}\"\n{admin}{more}{}", zone("a.test"))
    };
    let files = [("a.test.zone", HEAD)];
    let mut served = Served::start("drains", &config("60s", ""), &files);
    assert_eq!(rcode(&served.ask("ns.a.test")), NOERROR);
    let file = served.folder.join("dunlin.toml");
    let text = fs::read_to_string(&file).expect("a file");
    let rules = "[acl]\nquery = [\"192.0.2.0/24\"]\n";
    let changed = text.replace(&config("60s", ""), &config("4s", rules));
    assert_ne!(changed, text);
    fs::write(&file, changed).expect("a file");
    served.signal(Signal::HUP);
    served.expect_line("reloaded", "INFO");
    assert_eq!(rcode(&served.ask("ns.a.test")), REFUSED);
    served.signal(Signal::TERM);
    let ending = served.expect_line("draining", "seconds");
    assert_eq!(ending["seconds"], 4.0, "{ending}");
    assert_eq!(rcode(&served.ask("ns.a.test")), REFUSED);
    let told = |word: &str| {
        let output = crate::served::binary().args([word, "--socket"]).arg(&socket).output();
        let output = output.expect("the binary runs");
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    assert!(told("status")[0].contains("draining"), "{:?}", told("status"));
    assert!(told("reload")[0].contains("about to end"), "{:?}", told("reload"));
    assert_eq!(rcode(&served.ask("ns.a.test")), REFUSED);
    assert_eq!(served.status(), Some(0));
}

#[test]
fn invalid_config_starts_nothing() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong_config");
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("dunlin.toml");
    let serve = |text: &str| {
        fs::write(&file, text).expect("a file");
        let output = Command::new(env!("CARGO_BIN_EXE_dunlin"))
            .args(["serve", "-c"])
            .arg(&file)
            .output()
            .expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, told) = serve("[server]\nlisten = [\"here\"]\nworkerz = 1\n");
    assert_eq!(status, Some(1));
    assert!(told.contains("dunlin.toml:2:11: expected an address"), "{told}");
    assert!(told.contains("did you mean `workers`?"), "{told}");

    let (status, told) = serve("[server]\nlisten = [\"192.0.2.1:5300\"]\n");
    assert_eq!(status, Some(1));
    assert!(told.contains("cannot listen on 192.0.2.1:5300"), "{told}");
}

//! dnstap with our own reader, which disconnects and reconnects, and with Debian's tools.

use test_support::folder::Folder;
use test_support::skip;
use test_support::wait::until_true;

use crate::common::{answer, query};
use packet::{DropReason, Transport};
use query_samples::{DnstapSettings, TapSettings, TapThread};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tap::QueryTap;

const V4: &str = "192.0.2.1:1053";
const V6: &str = "[2001:db8::1]:2053";
const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";
const ACCEPT: u32 = 1;
const START: u32 = 2;
const STOP: u32 = 3;
const READY: u32 = 4;
const FINISH: u32 = 5;

fn settings(socket: &Path) -> TapSettings {
    let dnstap = DnstapSettings {
        one_in: 1,
        socket: socket.into(),
        identity: "ns1.example".into(),
        version: "dunlin test".into(),
    };
    TapSettings { dnstap: Some(dnstap), ..TapSettings::default() }
}

fn ask(tap: &mut QueryTap, name: &str) {
    answer(tap, V4.parse().unwrap(), Transport::Datagram, &query(name));
}

/// A frame of the stream.
enum Frame {
    Control(u32),
    Data,
}

/// A minimal reader.
struct Reader(UnixStream);

impl Reader {
    /// Accepts a connection, and reads its START.
    fn accept(listener: &UnixListener) -> Self {
        let mut reader = Self(listener.accept().unwrap().0);
        assert!(matches!(reader.read(), Frame::Control(READY)));
        reader.say(ACCEPT, CONTENT_TYPE);
        assert!(matches!(reader.read(), Frame::Control(START)));
        reader
    }

    fn number(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.0.read_exact(&mut bytes).expect("a number");
        u32::from_be_bytes(bytes)
    }

    fn bytes(&mut self, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.0.read_exact(&mut bytes).expect("all of a frame");
        bytes
    }

    fn read(&mut self) -> Frame {
        match self.number() {
            0 => {
                let len = self.number();
                let body = self.bytes(len);
                let (kind, field) = body.split_first_chunk().unwrap();
                let kind = u32::from_be_bytes(*kind);
                if kind == READY || kind == START {
                    let wanted = [&[0, 0, 0, 1, 0, 0, 0, 22], CONTENT_TYPE].concat();
                    assert_eq!(field, wanted);
                } else {
                    assert_eq!(field, b"");
                }
                Frame::Control(kind)
            }
            len => {
                assert!(self.bytes(len).len() > 60, "it tells a client, a time and a message");
                Frame::Data
            }
        }
    }

    fn say(&mut self, kind: u32, content_type: &[u8]) {
        let mut body = kind.to_be_bytes().to_vec();
        if !content_type.is_empty() {
            body.extend(1u32.to_be_bytes());
            body.extend((content_type.len() as u32).to_be_bytes());
            body.extend(content_type);
        }
        self.0.write_all(&[0; 4]).unwrap();
        self.0.write_all(&(body.len() as u32).to_be_bytes()).unwrap();
        self.0.write_all(&body).unwrap();
    }

    /// Reads to the STOP, sends FINISH, and returns the number of frames.
    fn read_to_end(&mut self) -> u64 {
        for frames in 0.. {
            if let Frame::Control(kind) = self.read() {
                assert_eq!(kind, STOP);
                self.say(FINISH, b"");
                return frames;
            }
        }
        unreachable!("a stream has an end")
    }
}

#[test]
fn disconnected_reader_is_reconnected() {
    let folder = Folder::new("again");
    let socket = folder.join("socket");
    // No reader at first: queries are buffered.
    let runner = TapThread::start(settings(&socket)).unwrap();
    let mut tap = runner.tap(1);
    ask(&mut tap, "early.example");
    until_true("the query to be seen", || runner.status().sampled == 1);
    assert!(!runner.status().dnstap_connected);
    let listener = UnixListener::bind(&socket).unwrap();
    let mut reader = Reader::accept(&listener);
    assert!(matches!(reader.read(), Frame::Data) && matches!(reader.read(), Frame::Data));
    until_true("to be told connected", || runner.status().dnstap_connected);

    drop(reader);
    until_true("its end to be seen", || !runner.status().dnstap_connected);
    ask(&mut tap, "later.example");
    let mut reader = Reader::accept(&listener);
    until_true("the rest to be sent", || runner.status().dnstap_sent == 4);
    let ending = std::thread::spawn(move || runner.stop());
    assert_eq!(reader.read_to_end(), 2);
    ending.join().unwrap();
}

#[test]
fn stalled_reader_loses_counted_messages() {
    let folder = Folder::new("stuck");
    let socket = folder.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let runner = TapThread::start(settings(&socket)).unwrap();
    let mut tap = runner.tap(1);
    let mut reader = Reader::accept(&listener);
    let mut asked = 0;
    while runner.status().dnstap_lost == 0 {
        ask(&mut tap, "stuck.example");
        asked += 1;
        assert!(asked < 100_000_000);
    }
    until_true("all to be seen", || runner.status().sampled == asked);
    let before = runner.status();
    let waiting = (asked - before.lost) * 2 - before.dnstap_sent - before.dnstap_lost;
    assert!(waiting > 0 && before.dnstap_connected);
    // It continues reading: buffered frames arrive, and nothing more is lost.
    let reading = std::thread::spawn(move || reader.read_to_end());
    until_true("the rest to be sent", || {
        let now = runner.status();
        assert_eq!(now.dnstap_lost, before.dnstap_lost);
        now.dnstap_sent == before.dnstap_sent + waiting
    });
    runner.stop();
    assert_eq!(reading.join().unwrap(), before.dnstap_sent + waiting);
}

#[test]
fn reader_of_another_content_type_gets_nothing() {
    let folder = Folder::new("else");
    let socket = folder.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let runner = TapThread::start(settings(&socket)).unwrap();
    let mut tap = runner.tap(1);
    ask(&mut tap, "else.example");
    for _ in 0..2 {
        let mut reader = Reader(listener.accept().unwrap().0);
        assert!(matches!(reader.read(), Frame::Control(READY)));
        reader.say(ACCEPT, b"protobuf:something.Else");
        let gone = reader.0.read(&mut [0; 8]);
        // Closed with everything read, or with our answer unread.
        let reset = |error: std::io::Error| error.kind() == ErrorKind::ConnectionReset;
        assert!(gone.is_ok_and(|len| len == 0) || reader.0.read(&mut [0]).is_err_and(reset));
    }
    assert_eq!(runner.status().dnstap_sent, 0);
}

#[test]
fn stop_is_bounded_without_finish() {
    let folder = Folder::new("mute");
    let socket = folder.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let runner = TapThread::start(settings(&socket)).unwrap();
    let _mute = Reader::accept(&listener);
    until_true("to be told connected", || runner.status().dnstap_connected);
    let started = Instant::now();
    runner.stop();
    let took = started.elapsed();
    assert!(took >= query_samples::limits::FINISH_MAX, "{took:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
}

/// Whether a tool exists. Fails if nothing may be skipped.
fn present(tool: &str, package: &str) -> bool {
    let found = Command::new(tool).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Ok(mut child) = found {
        // They end without arguments, except those that read standard input.
        let _ = child.kill();
        let _ = child.wait();
        return true;
    }
    skip::skip(&format!("{tool} is missing, install {package}"));
    false
}

/// A running `fstrm_capture`.
struct Capture(Child);

impl Capture {
    fn start(socket: &Path, file: &Path) -> Self {
        let child = Command::new("fstrm_capture")
            .args(["-t", "protobuf:dnstap.Dnstap", "-u"])
            .arg(socket)
            .arg("-w")
            .arg(file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("fstrm_capture starts");
        Self(child)
    }

    /// Stops it, so that it completes its file.
    fn end(&mut self) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::TERM).expect("it is ours");
        self.0.wait().expect("it ends");
    }
}

impl std::ops::Drop for Capture {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output of a tool for a file.
fn decode(tool: &[&str], file: &Path) -> String {
    let output = Command::new(tool[0]).args(&tool[1..]).arg(file).output().expect(tool[0]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn debian_tools_read_our_messages() {
    let tools = [
        ("fstrm_capture", "fstrm-bin"),
        ("dnstap-read", "bind9-dnsutils"),
        ("dnstap-ldns", "dnstap-ldns"),
    ];
    if !tools.into_iter().all(|(tool, package)| present(tool, package)) {
        return;
    }
    let folder = Folder::new("debian");
    let (socket, file) = (folder.join("socket"), folder.join("capture"));
    let mut capture = Capture::start(&socket, &file);
    let runner = TapThread::start(settings(&socket)).unwrap();
    until_true("a connection", || runner.status().dnstap_connected);
    let mut tap = runner.tap(1);
    for turn in 0..100 {
        let (client, transport): (SocketAddr, _) = match turn % 2 {
            0 => (V4.parse().unwrap(), Transport::Datagram),
            _ => (V6.parse().unwrap(), Transport::Stream),
        };
        answer(&mut tap, client, transport, &query(&format!("n{turn}.example")));
    }
    crate::common::drop(&mut tap, V4.parse().unwrap(), &query("no.example"), DropReason::Denied);
    until_true("all to be sent", || runner.status().dnstap_sent == 201);
    assert_eq!(runner.status().dnstap_lost, 0);
    runner.stop();
    capture.end();
    check_yaml(&decode(&["dnstap-read", "-y"], &file));
    check_yaml(&decode(&["dnstap-ldns", "-y", "-r"], &file));
}

/// Finds all queries in a tool's YAML. Some tools quote addresses.
fn check_yaml(yaml: &str) {
    let yaml = yaml.replace('"', "");
    let messages: Vec<&str> = yaml.split("\n---").filter(|text| text.contains("type:")).collect();
    let with = |what: &[&str]| {
        messages.iter().filter(|text| what.iter().all(|what| text.contains(what))).count()
    };
    assert_eq!(with(&["type: AUTH_QUERY", "query_time: !!timestamp 20"]), 101, "{yaml}");
    let answered = ["type: AUTH_RESPONSE", "response_time: !!timestamp 20", "NOERROR", "192.0.2.1"];
    assert_eq!(with(&answered), 100, "{yaml}");
    for turn in 0..100 {
        assert_eq!(with(&[&format!("n{turn}.example.")]), 2, "query and response {turn}: {yaml}");
    }
    let v6 = ["family: INET6\n", "TCP", "query_address: 2001:db8::1", "query_port: 2053"];
    assert_eq!(with(&v6), 100, "{yaml}");
    let v4 = ["family: INET\n", "UDP", "query_address: 192.0.2.1", "query_port: 1053"];
    assert_eq!(with(&v4), 101, "{yaml}");
    assert_eq!(with(&["identity: ns1.example", "version: dunlin test"]), 201, "{yaml}");
}

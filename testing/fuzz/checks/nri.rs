//! What must hold for any bytes of a container runtime.
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use nri::limits::{CONTAINERS_MAX, FRAME_BYTES_MAX, OPEN_MAX};
use nri::{LinuxCpu, Plugin};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::time::Duration;

/// Bytes that fit into the buffers of a socket, with all replies to them.
const LEN_MAX: usize = 4_096;
const PLUGIN: u32 = 1;
const RESPONSE: u8 = 2;

/// What came of the bytes.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// The requests, in order, and why it ended.
    requests: Vec<String>,
    end: String,
    /// Logical connection, stream and kind of each reply.
    replies: Vec<(u32, u32, u8)>,
}

/// Sends the bytes behind the first to a plugin, whole and in parts of the length that the first
/// names: both lead to the same requests, the same replies and the same end.
pub fn check(bytes: &[u8]) {
    let Some((&length, sent)) = bytes.split_first() else { return };
    if sent.len() > LEN_MAX {
        return;
    }
    let whole = run(sent, LEN_MAX);
    // Few parts: each is a packet of the socket.
    let length = (usize::from(length) + 1).max(sent.len() / 64);
    assert_eq!(run(sent, length), whole);
}

fn run(sent: &[u8], length: usize) -> Outcome {
    // Each packet is one read, so the cuts stay where they are.
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.expect("a pair of sockets");
    let mut runtime = UnixStream::from(theirs);
    let mut plugin = Plugin::register(UnixStream::from(ours), "fuzz", "10").expect("registered");
    for part in sent.chunks(length) {
        runtime.write_all(part).expect("room");
    }
    runtime.shutdown(std::net::Shutdown::Write).expect("a socket");
    let (mut requests, mut calls) = (Vec::new(), Vec::new());
    let end = loop {
        match plugin.next(Duration::ZERO) {
            Ok(Some((call, request))) => {
                requests.push(format!("{request:?}"));
                calls.push(call);
                assert!(calls.len() <= OPEN_MAX);
                // Some are answered at once, others wait.
                if !requests.len().is_multiple_of(3) {
                    let call = calls.pop().expect("just pushed");
                    plugin.answer(call, Some(LinuxCpu::default())).expect("it is answered");
                }
            }
            // A packet without a whole request.
            Ok(None) => {}
            Err(error) => break error.to_string(),
        }
    };
    assert!(requests.len() <= CONTAINERS_MAX);
    // While the plugin lives: a socket that closes with unread bytes takes its replies with it.
    runtime.set_nonblocking(true).expect("a socket");
    Outcome { requests, end, replies: replies(&mut runtime) }
}

/// The heads of the replies, after the registration.
fn replies(runtime: &mut UnixStream) -> Vec<(u32, u32, u8)> {
    let (mut bytes, mut packet) = (Vec::new(), [0; 2 * LEN_MAX]);
    while let Ok(length @ 1..) = runtime.read(&mut packet) {
        bytes.extend_from_slice(&packet[..length]);
    }
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let (connection, frame) = (number(at), number(at + 4) as usize);
        assert!((10..=FRAME_BYTES_MAX).contains(&frame), "a reply is one frame here");
        assert_eq!(number(at + 8) as usize + 10, frame, "the message fills its frame");
        found.push((connection, number(at + 12), bytes[at + 16]));
        at += 8 + frame;
    }
    assert_eq!(at, bytes.len());
    let (first, rest) = found.split_first().expect("the registration");
    assert_eq!(*first, (2, 1, 1));
    assert!(rest.iter().all(|(connection, _, kind)| (*connection, *kind) == (PLUGIN, RESPONSE)));
    rest.to_vec()
}

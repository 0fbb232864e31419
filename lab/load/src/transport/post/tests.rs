use super::*;
use port::{Frame, FrameBurst};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

const OURS: LinkAddress = [2, 0, 0, 0, 0, 1];
const THEIRS: LinkAddress = [2, 0, 0, 0, 0, 2];

/// A device with one peer: this test.
struct Wire {
    queued: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    came: VecDeque<Vec<u8>>,
    /// How many it still takes.
    takes: usize,
    is_gone: bool,
    fd: File,
}

impl Frames for Wire {
    fn mtu(&self) -> usize {
        1_500
    }

    fn burst(&mut self, mut app: impl FnMut(&mut [Frame<'_>])) -> io::Result<FrameBurst> {
        if self.is_gone {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let mut came: Vec<Vec<u8>> = self.came.drain(..).collect();
        fn frame(buf: &mut Vec<u8>) -> Frame<'_> {
            let len = buf.len();
            Frame { buf, len, is_sent: false }
        }
        let mut frames: Vec<Frame<'_>> = Vec::new();
        frames.extend(came.iter_mut().map(frame));
        let received = frames.len();
        app(&mut frames);
        assert!(frames.iter().all(|frame| !frame.is_sent), "no frame is sent");
        Ok(FrameBurst { received, refused: 0 })
    }

    fn queue(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let mut room = vec![0; 1_792];
        // As few at once as no real device has.
        if self.queued.len() == 3 {
            return false;
        }
        let Some(len) = write(&mut room) else { return false };
        room.truncate(len);
        self.queued.push(room);
        true
    }

    fn flush(&mut self, mut told: impl FnMut(bool)) {
        for frame in self.queued.drain(..) {
            let is_taken = self.takes > 0;
            self.takes -= usize::from(is_taken);
            told(is_taken);
            self.sent.extend(is_taken.then_some(frame));
        }
    }

    fn is_stuck(&self) -> bool {
        false
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }
}

fn post(server: &str, channels: &[SocketAddr]) -> Post<Wire> {
    let (queued, sent, came) = (vec![], vec![], VecDeque::new());
    let fd = File::open("/dev/null").unwrap();
    let wire = Wire { queued, sent, came, takes: usize::MAX, is_gone: false, fd };
    Post::new(wire, server.parse().unwrap(), [OURS, THEIRS], channels.iter().copied())
}

fn batch(channel: usize, queries: &[&[u8]]) -> Batch {
    let mut batch = Batch::new();
    batch.channel = channel;
    for (id, query) in (0..).zip(queries) {
        batch.bytes.extend_from_slice(query);
        batch.end(u32::from(id), id);
    }
    batch
}

/// A frame from a peer to one of our channels.
fn frame(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let transport =
        ReplyPath { link: LinkHeader::new(THEIRS, OURS, from.port()), local: from.ip() };
    let mut head = vec![0; headers_len(&transport)];
    assert!(compose(&mut head, payload, &transport, to));
    [&head, payload].concat()
}

/// Channels and messages of the received frames.
fn received(post: &mut Post<Wire>) -> Vec<(usize, Vec<u8>)> {
    let mut shown = Vec::new();
    let clock = Clock::ahead(0);
    post.receive(&clock, &mut |channel, _, message| shown.push((channel, message.to_vec())));
    shown
}

#[test]
fn queries_leave_in_frames_and_answers_find_their_channels() {
    for (server, ours) in [
        ("192.0.2.1:53", ["198.51.100.7:4000", "198.51.100.8:4000", "198.51.100.7:4001"]),
        ("[2001:db8::1]:53", ["[2001:db8::7]:4000", "[2001:db8::8]:4000", "[2001:db8::7]:4001"]),
    ] {
        let ours = ours.map(|local| local.parse().unwrap());
        let mut post = post(server, &ours);
        for (channel, local) in ours.into_iter().enumerate() {
            let queries = [&b"..first"[..], b"..second", b"..third", b"..fourth", b"..fifth"];
            let batch = batch(channel, &queries);
            assert_eq!(post.send(&batch), Sent { taken: 5, refused: false });
            for (index, sent) in std::mem::take(&mut post.frames.sent).into_iter().enumerate() {
                // It is read as the server reads it, checksums and all.
                assert_eq!((&sent[..6], &sent[6..12]), (&THEIRS[..], &OURS[..]));
                let came = read(&sent).unwrap();
                assert_eq!((came.peer, came.local_port()), (local, 53));
                let query = &sent[came.at..came.at + came.len];
                assert_eq!(query, batch.query(index));
                post.frames.came.push_back(frame(post.server, local, query));
            }
            let expected: Vec<_> = (0..5).map(|i| (channel, batch.query(i).to_vec())).collect();
            assert_eq!(received(&mut post), expected);
        }
    }
}

#[test]
fn frames_of_other_addresses_match_no_channel() {
    let ours: SocketAddr = "198.51.100.7:4000".parse().unwrap();
    let mut post = post("192.0.2.1:53", &[ours]);
    let mut damaged = frame(post.server, ours, b"answer");
    *damaged.last_mut().unwrap() ^= 1;
    let elsewhere = ["198.51.100.7:4001", "198.51.100.8:4000"].map(|to| to.parse().unwrap());
    let others = ["192.0.2.2:53", "192.0.2.1:54"].map(|from| from.parse().unwrap());
    let came = others.map(|from| frame(from, ours, b"answer"));
    let went = elsewhere.map(|to| frame(post.server, to, b"answer"));
    post.frames.came.extend(came.into_iter().chain(went).chain([damaged, vec![0; 60]]));
    assert_eq!(received(&mut post), []);
    post.frames.came.push_back(frame(post.server, ours, b"answer"));
    assert_eq!(received(&mut post), [(0, b"answer".to_vec())]);
}

#[test]
fn frames_that_the_device_refuses_wait() {
    let mut post = post("192.0.2.1:53", &["198.51.100.7:4000".parse().unwrap()]);
    let mut batch = batch(0, &[&b"..one"[..], b"..two", b"..three", b"..four", b"..five"]);
    post.frames.takes = 4;
    assert_eq!(post.send(&batch), Sent { taken: 4, refused: false });
    assert!(post.is_stuck(), "it is asked again soon");
    batch.done = 4;
    assert_eq!(post.send(&batch), Sent::default());
    post.frames.takes = 4;
    assert_eq!(post.send(&batch), Sent { taken: 1, refused: false });
    assert!(!post.is_stuck());
    let sent: Vec<_> = post.frames.sent.iter().map(|sent| sent[42..].to_vec()).collect();
    let expected: Vec<_> = (0..5).map(|index| batch.query(index).to_vec()).collect();
    assert_eq!(sent, expected, "each once, in their order");
}

#[test]
fn a_lost_device_is_reported() {
    let mut post = post("192.0.2.1:53", &["198.51.100.7:4000".parse().unwrap()]);
    assert_eq!((received(&mut post), post.failure().is_none()), (vec![], true));
    post.frames.is_gone = true;
    assert_eq!(received(&mut post), []);
    assert_eq!(post.failure().map(io::Error::kind), Some(io::ErrorKind::NotConnected));
}

proptest! {
    /// However channels change, each address and port is found as the one channel that has it.
    #[test]
    fn a_channel_is_found_from_every_source(
        channels in prop::collection::hash_set((0..4u8, 0..4u16), 2..16),
        changes in prop::collection::vec((any::<prop::sample::Index>(), (0..4u8, 0..4u16)), 0..40),
    ) {
        let at = |(host, port)| SocketAddr::new([198, 51, 100, host].into(), 4_000 + port);
        let mut held: Vec<SocketAddr> = channels.into_iter().map(at).collect();
        let mut post = post("192.0.2.1:53", &held);
        for (channel, to) in changes {
            let (channel, to) = (channel.index(held.len()), at(to));
            // No two sockets of a host have the same address and port.
            if !held.contains(&to) {
                post.change(channel, to);
                held[channel] = to;
            }
        }
        for host in 0..4 {
            for port in 0..4 {
                let to = at((host, port));
                post.frames.came.push_back(frame(post.server, to, b"answer"));
                let expected = held.iter().position(|local| *local == to);
                prop_assert_eq!(received(&mut post).pop().map(|(channel, _)| channel), expected);
            }
        }
    }
}

//! A simulated kernel: the other ends of the rings, with all possible failures.

use crate::counts::FrameCounts;
use crate::limits::{CHUNK, FILLED_MAX, FRAMES, HEADROOM, RING, SMALL};
use crate::queue::{XdpDevice, XdpQueue};
use crate::ring::QueueRings;
use crate::ring::{Consumer, Producer, plain};
use crate::umem::Mapping;
use libc::xdp_desc;
use packet::frame::{ReplyPath, compose, headers_len, read};
use port::{Frames, Port, Udp};
use port_contract::{TestLink, contract};
use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The kernel's ends.
pub struct FakeKernel {
    fill: Consumer<u64>,
    receive: Producer<xdp_desc>,
    send: Consumer<xdp_desc>,
    complete: Producer<u64>,
    memory: Arc<Mapping>,
    readable: OwnedFd,
    waiting: usize,
    /// Whether the device is down, and sends nothing for now.
    pub is_down: bool,
    /// Whether it refuses to send.
    pub refuses: bool,
    /// Frames sent.
    pub wire: VecDeque<Vec<u8>>,
    /// Frames that were sent and are not given back yet.
    pub held: VecDeque<u64>,
    /// How many frames it sends on a call, and gives back after that.
    pub sends: usize,
    pub completes: usize,
}

impl XdpDevice for FakeKernel {
    fn send(&mut self) -> io::Result<bool> {
        if self.refuses {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for _ in 0..self.sends {
            let Some(frame) = self.send.pop() else { break };
            // SAFETY: the frame is the kernel's now, and within the memory.
            let bytes = unsafe {
                let at = self.memory.base().add(frame.addr as usize);
                std::slice::from_raw_parts(at, frame.len as usize)
            };
            self.wire.push_back(bytes.to_vec());
            self.held.push_back(frame.addr);
        }
        self.send.release();
        self.give_back();
        Ok(!self.is_down)
    }

    fn receive(&mut self) {
        self.waiting = 0;
        // It is 0 already when nothing was received.
        let _ = rustix::io::read(&self.readable, &mut [0; 8]);
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

impl FakeKernel {
    /// Gives back some sent frames.
    pub fn give_back(&mut self) {
        for _ in 0..self.completes.min(self.held.len()) {
            let frame = self.held.pop_front().expect("it is there");
            assert!(self.complete.push(frame), "there is room for all that can be sent");
        }
        self.complete.show();
    }

    /// Receives a frame; false: there is none to receive into.
    pub fn arrive(&mut self, bytes: &[u8]) -> bool {
        let Some(frame) = self.fill.pop() else { return false };
        self.fill.release();
        let addr = frame + u64::from(HEADROOM);
        // SAFETY: the frame is the kernel's until it is shown.
        unsafe {
            let at = self.memory.base().add(addr as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
        }
        self.report(xdp_desc { addr, len: bytes.len() as u32, options: 0 });
        true
    }

    /// Reports a frame, correct or not.
    pub fn report(&mut self, frame: xdp_desc) {
        assert!(self.receive.push(frame));
        self.receive.show();
        self.waiting += 1;
        rustix::io::write(&self.readable, &1u64.to_ne_bytes()).expect("a counter");
    }

    /// Reports a frame as sent, correct or not.
    pub fn report_sent(&mut self, address: u64) {
        assert!(self.complete.push(address));
        self.complete.show();
    }
}

/// A queue whose kernel does everything.
pub fn queue() -> XdpQueue<FakeKernel> {
    let memory = Arc::new(Mapping::anonymous((FRAMES * CHUNK) as usize).expect("memory"));
    let ((fill, filled), (received, receive)) = (plain(RING).unwrap(), plain(RING).unwrap());
    let ((send, to_send), (completed, complete)) = (plain(RING).unwrap(), plain(RING).unwrap());
    let kernel = FakeKernel {
        fill: filled,
        receive: received,
        send: to_send,
        complete: completed,
        memory: Arc::clone(&memory),
        readable: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd"),
        waiting: 0,
        is_down: false,
        refuses: false,
        wire: VecDeque::new(),
        held: VecDeque::new(),
        sends: 32,
        completes: usize::MAX,
    };
    let rings = QueueRings { fill, receive, send, complete };
    rings.send.pretend_to_want_wakes();
    rings.fill.pretend_to_want_wakes();
    XdpQueue::new(kernel, rings, memory, CHUNK, 1_500)
}

/// The fake as a port with two clients, each behind a link of its own.
struct FakeLink {
    port: Udp<XdpQueue<FakeKernel>>,
    clients: [SocketAddr; 2],
    got: [VecDeque<Vec<u8>>; 2],
}

impl FakeLink {
    fn new(clients: [&str; 2]) -> Self {
        let clients = clients.map(|client| client.parse().unwrap());
        Self { port: Udp::new(queue()), clients, got: Default::default() }
    }
}

/// A frame from one address to another, behind a tag.
fn frame(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let (theirs, ours) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let link = packet::frame::LinkHeader::new(theirs, ours, from.port()).behind(7);
    let way = ReplyPath { link, local: from.ip() };
    let mut head = vec![0; headers_len(&way)];
    assert!(compose(&mut head, payload, &way, to));
    [&head, payload].concat()
}

impl TestLink for FakeLink {
    type Port = Udp<XdpQueue<FakeKernel>>;

    fn port(&mut self) -> &mut Self::Port {
        &mut self.port
    }

    fn address(&self, client: usize) -> SocketAddr {
        self.clients[client]
    }

    fn send(&mut self, client: usize, payload: &[u8]) {
        let from = self.clients[client];
        let ours = if from.is_ipv4() { "192.0.2.53:53" } else { "[2001:db8::53]:53" };
        let frame = frame(from, ours.parse().unwrap(), payload);
        assert!(self.port.frames().device().arrive(&frame));
    }

    fn receive(&mut self, client: usize) -> Option<Vec<u8>> {
        while let Some(frame) = self.port.frames().device().wire.pop_front() {
            let datagram = read(&frame).expect("what is sent can be read");
            let to = SocketAddr::new(datagram.way.local, datagram.local_port());
            assert_eq!(datagram.peer.port(), 53);
            let nth = self.clients.iter().position(|client| *client == to).expect("a client");
            self.got[nth].push_back(frame[datagram.at..datagram.at + datagram.len].to_vec());
        }
        self.got[client].pop_front()
    }
}

contract!(v4_rings, FakeLink::new(["198.51.100.1:4001", "198.51.100.2:4002"]));
contract!(v6_rings, FakeLink::new(["[2001:db8:1::1]:4001", "[2001:db8:1::2]:4002"]));

fn echo(port: &mut Udp<XdpQueue<FakeKernel>>) -> port::Burst {
    let reply = |packets: &mut [packet::Packet<'_>]| {
        packets.iter_mut().for_each(|packet| packet.verdict = packet::Verdict::Reply);
    };
    port.burst(reply).expect("the fake cannot be unusable")
}

#[test]
fn frames_are_conserved_when_the_kernel_sends_nothing() {
    let mut link = FakeLink::new(["198.51.100.1:4001", "198.51.100.2:4002"]);
    link.port.frames().device().sends = 0;
    let (mut replied, mut unsent) = (0, 0);
    for _ in 0..3 * RING {
        link.send(0, b"q");
        let burst = echo(&mut link.port);
        replied += burst.replied;
        unsent += burst.dropped[packet::DropReason::Unsent as usize];
        assert_eq!(burst.received, 1, "reception goes on");
    }
    assert_eq!([replied, unsent], [RING as usize, 2 * RING as usize]);
    assert_eq!(link.port.frames().census()[3], RING as usize);
    let places = link.port.frames().counts().places();
    assert_eq!(
        places,
        FrameCounts { free: 1, fill: FILLED_MAX - 1, send: RING, ..FrameCounts::default() }
    );
    // All are sent once the device sends again.
    link.port.frames().device().sends = usize::MAX;
    for _ in 0..3 {
        echo(&mut link.port);
    }
    assert_eq!(link.port.frames().census(), [RING as usize, FILLED_MAX as usize, 0, 0]);
    assert_eq!(link.port.frames().device().wire.len(), RING as usize);
    let places = link.port.frames().counts().places();
    assert_eq!(places, FrameCounts { fill: FILLED_MAX, free: RING, ..FrameCounts::default() });
}

#[test]
fn frame_counts_are_readable_by_other_threads() {
    let mut link = FakeLink::new(["198.51.100.1:4001", "198.51.100.2:4002"]);
    let counts = Arc::clone(link.port.frames().counts());
    let is = |free, fill, receive, send, complete, sum| {
        assert_eq!(counts.places(), FrameCounts { free, fill, receive, send, complete });
        assert_eq!(counts.places().sum(), sum);
    };
    is(RING, FILLED_MAX, 0, 0, 0, FRAMES);
    (0..3).for_each(|_| link.send(0, b"q"));
    is(RING, FILLED_MAX - 3, 3, 0, 0, FRAMES);
    (link.port.frames().device().sends, link.port.frames().device().completes) = (1, 0);
    assert_eq!(echo(&mut link.port).replied, 3);
    // All were sent, and the driver has them.
    is(RING, FILLED_MAX - 3, 0, 0, 0, FRAMES - 3);
    link.port.frames().device().completes = 2;
    link.port.frames().device().give_back();
    is(RING, FILLED_MAX - 3, 0, 0, 2, FRAMES - 1);
    link.port.frames().device().give_back();
    assert_eq!(echo(&mut link.port).received, 0);
    is(RING, FILLED_MAX, 0, 0, 0, FRAMES);
}

#[test]
fn of_few_the_first_reply_leaves_before_the_others_are_answered() {
    let verdicts = |count: usize, first: packet::Verdict| {
        let mut link = FakeLink::new(["198.51.100.1:4001", "198.51.100.2:4002"]);
        // Frames to send stay in the ring, and are visible there.
        link.port.frames().device().sends = 0;
        let counts = Arc::clone(link.port.frames().counts());
        (0..count).for_each(|_| link.send(0, b"q"));
        let mut seen = Vec::new();
        let app = |packets: &mut [packet::Packet<'_>]| {
            let verdict = if seen.is_empty() { first } else { packet::Verdict::Reply };
            packets.iter_mut().for_each(|packet| packet.verdict = verdict);
            seen.push((packets.len(), counts.places().send));
        };
        assert_eq!(link.port.burst(app).expect("usable").received, count);
        seen
    };
    let reply = packet::Verdict::Reply;
    assert_eq!(verdicts(1, reply), [(1, 0)]);
    assert_eq!(verdicts(SMALL, reply), [(1, 0), (SMALL - 1, 1)]);
    assert_eq!(verdicts(SMALL, packet::Verdict::Deferred), [(1, 0), (SMALL - 1, 0)]);
    assert_eq!(verdicts(SMALL + 1, reply), [(SMALL + 1, 0)]);
}

#[test]
fn refused_replies_leave_while_queries_continue() {
    let mut link = FakeLink::new(["198.51.100.1:4001", "198.51.100.2:4002"]);
    link.port.frames().device().sends = 0;
    for _ in 0..RING + 10 {
        link.send(0, b"q");
        echo(&mut link.port);
    }
    assert!(link.port.is_stuck(), "it is to be asked again");
    link.port.frames().device().sends = 32;
    link.send(0, b"q");
    echo(&mut link.port);
    link.send(0, b"q");
    assert_eq!(echo(&mut link.port).replied, 1, "there is room again");
    while link.port.is_stuck() {
        assert_eq!(echo(&mut link.port).received, 0);
    }
    assert_eq!(link.port.frames().device().wire.len(), RING as usize + 1);
    // A device that is down is not called again and again.
    (link.port.frames().device().sends, link.port.frames().device().is_down) = (0, true);
    link.send(0, b"q");
    assert_eq!(echo(&mut link.port).replied, 1);
    assert!(!link.port.is_stuck());
}

#[test]
fn a_device_that_refuses_is_asked_again_with_the_next_reply() {
    let mut link = FakeLink::new(["198.51.100.1:4001", "198.51.100.2:4002"]);
    link.port.frames().device().refuses = true;
    for round in 1..=3 {
        link.send(0, b"q");
        assert_eq!(echo(&mut link.port).replied, 1, "its place in the ring is taken");
        assert_eq!(link.port.frames().counts().refusals(), round);
        assert!(!link.port.is_stuck(), "no reply waits for it");
    }
    link.port.frames().device().refuses = false;
    link.send(0, b"q");
    echo(&mut link.port);
    assert_eq!(link.port.frames().device().wire.len(), 4);
}

#[test]
fn what_the_kernel_does_not_have_is_not_taken_from_it() {
    let mut link = FakeLink::new(["198.51.100.1:4001", "198.51.100.2:4002"]);
    let beyond = u64::from(FRAMES * CHUNK);
    let free = u64::from((FRAMES - 1) * CHUNK);
    let kernel = link.port.frames().device();
    for addr in [beyond, u64::MAX, free] {
        kernel.report(xdp_desc { addr, len: 60, options: 0 });
        kernel.report_sent(addr);
    }
    assert_eq!(echo(&mut link.port), port::Burst::default());
    let queue = link.port.frames();
    assert_eq!(queue.counts().strays(), 6);
    // A length beyond the frame, and a part of a frame: the frame is free again.
    let filled = queue.device().fill.pop().expect("one");
    queue.device().report(xdp_desc { addr: filled + 256, len: CHUNK, options: 0 });
    let filled = queue.device().fill.pop().expect("one");
    queue.device().report(xdp_desc { addr: filled + 256, len: 60, options: libc::XDP_PKT_CONTD });
    assert_eq!(echo(&mut link.port), port::Burst::default());
    assert_eq!(link.port.frames().counts().strays(), 8);
    assert_eq!(link.port.frames().census()[2..], [0, 0]);
    link.send(0, b"goes on");
    assert_eq!(echo(&mut link.port).replied, 1);
}

#[derive(Clone, Debug)]
enum FakeEvent {
    Arrive(u8),
    Burst(bool),
    Late(u8),
    Flush,
    Sends(usize),
    Refuses(bool),
    Completes(usize),
    GiveBack,
    Stray(u64, u32),
    StrayCompletion(u64),
    Length(u32),
}

fn event() -> impl Strategy<Value = FakeEvent> {
    let beyond = u64::from(FRAMES * CHUNK)..u64::MAX;
    prop_oneof![
        4 => any::<u8>().prop_map(FakeEvent::Arrive),
        4 => any::<bool>().prop_map(FakeEvent::Burst),
        1 => (0..40u8).prop_map(FakeEvent::Late),
        1 => Just(FakeEvent::Flush),
        1 => prop_oneof![Just(0usize), 1..40usize, Just(usize::MAX)].prop_map(FakeEvent::Sends),
        1 => any::<bool>().prop_map(FakeEvent::Refuses),
        1 => prop_oneof![Just(0usize), 1..40usize, Just(usize::MAX)].prop_map(FakeEvent::Completes),
        1 => Just(FakeEvent::GiveBack),
        1 => (beyond.clone(), 0..CHUNK).prop_map(|(addr, len)| FakeEvent::Stray(addr, len)),
        1 => beyond.prop_map(FakeEvent::StrayCompletion),
        1 => (0..2 * CHUNK).prop_map(FakeEvent::Length),
    ]
}

/// Simulates one event.
fn happen(link: &mut FakeLink, event: FakeEvent) {
    match event {
        FakeEvent::Arrive(count) => (0..count).for_each(|nth| {
            let frame = frame(link.clients[0], "192.0.2.53:53".parse().unwrap(), &[nth]);
            link.port.frames().device().arrive(&frame);
        }),
        FakeEvent::Burst(is_answered) => {
            let verdict = match is_answered {
                true => packet::Verdict::Reply,
                false => packet::Verdict::Deferred,
            };
            let app = |packets: &mut [packet::Packet<'_>]| {
                packets.iter_mut().for_each(|packet| packet.verdict = verdict);
            };
            link.port.burst(app).expect("usable");
        }
        FakeEvent::Late(count) => (0..count).for_each(|len| {
            let write = |room: &mut [u8]| (len % 7 > 0).then(|| room.len().min(60));
            link.port.frames().queue(write);
        }),
        FakeEvent::Flush => link.port.flush(|_| {}),
        FakeEvent::Sends(count) => link.port.frames().device().sends = count,
        FakeEvent::Refuses(refuses) => link.port.frames().device().refuses = refuses,
        FakeEvent::Completes(count) => link.port.frames().device().completes = count,
        FakeEvent::GiveBack => link.port.frames().device().give_back(),
        FakeEvent::Stray(addr, len) => {
            link.port.frames().device().report(xdp_desc { addr, len, options: 0 });
        }
        FakeEvent::StrayCompletion(addr) => link.port.frames().device().report_sent(addr),
        FakeEvent::Length(len) => {
            let kernel = link.port.frames().device();
            if let Some(frame) = kernel.fill.pop() {
                kernel.fill.release();
                let addr = frame + u64::from(HEADROOM);
                kernel.report(xdp_desc { addr, len, options: 0 });
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// For all orders of events, no frame is lost or doubled, and reception continues.
    #[test]
    fn frames_are_conserved_under_every_fault(
        events in proptest::collection::vec(event(), 0..120)
    ) {
        let mut link = FakeLink::new(["198.51.100.1:4001", "198.51.100.2:4002"]);
        for event in events {
            happen(&mut link, event);
            let [.., lent, _] = link.port.frames().census();
            prop_assert_eq!(lent, link.port.frames().late());
        }
        let kernel = link.port.frames().device();
        (kernel.sends, kernel.completes, kernel.refuses) = (usize::MAX, usize::MAX, false);
        link.port.flush(|_| {});
        // Some more than the queue can hold.
        (0..100).for_each(|_| { echo(&mut link.port); });
        link.port.frames().device().give_back();
        echo(&mut link.port);
        prop_assert_eq!(link.port.frames().census(), [RING as usize, FILLED_MAX as usize, 0, 0]);
        let places = link.port.frames().counts().places();
        let expected = FrameCounts { free: RING, fill: FILLED_MAX, ..FrameCounts::default() };
        prop_assert_eq!(places, expected);
    }
}

//! Servers of all manners, and a network, with a clock and dice of our own.
use cache::{Key, Kind};
use forward::limits::{ASKS_MAX, WAITERS_MAX};
use forward::{Ask, Asked, Event, Forwarder, Group, Loss, Means, Order, QUESTION_LEN_MAX, State};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub const MILLI: u64 = 1000;
pub const SECOND: u64 = 1000 * MILLI;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }
}

/// How a server behaves.
#[derive(Clone, Copy, Default)]
pub struct Manner {
    pub round_trip: u64,
    /// Datagrams of a hundred that get lost.
    pub lost: u64,
    pub rcode: u8,
    pub truncates: bool,
    /// Sends what is no reply, in front of the reply.
    pub lies: bool,
    pub means: Means,
    /// How long a stream takes to open.
    pub opening: u64,
    /// Closes a stream after so many answers; 0: never.
    pub answers: u64,
    /// Lets nobody open a stream.
    pub refuses: bool,
}

pub const FAST: Manner = Manner {
    round_trip: MILLI,
    lost: 0,
    rcode: 0,
    truncates: false,
    lies: false,
    means: Means::Datagrams,
    opening: 0,
    answers: 0,
    refuses: false,
};
pub const SLOW: Manner = Manner { round_trip: 20 * MILLI, ..FAST };
pub const DEAD: Manner = Manner { lost: 100, ..FAST };
pub const STREAM: Manner = Manner { means: Means::Enciphered, opening: 40 * MILLI, ..FAST };
pub const SLOW_STREAM: Manner = Manner { round_trip: 20 * MILLI, ..STREAM };

/// What came of a client's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Answered,
    Failed,
}

/// When it arrives, from whom, at which socket, and what it says.
type Datagram = (u64, u16, u32, Vec<u8>);

/// A stream to a server, and what was asked there.
struct Stream {
    socket: u32,
    opens_at: u64,
    is_open: bool,
    ids: Vec<u16>,
    answered: u64,
}

pub struct World {
    state: Box<State>,
    asks: Vec<Ask>,
    random: Random,
    pub servers: Vec<Manner>,
    pub now: u64,
    /// Under way to us.
    flying: BinaryHeap<Reverse<Datagram>>,
    free: Vec<u16>,
    /// When each waiter began to wait.
    began: Vec<u64>,
    pub outcomes: Vec<(Outcome, u64)>,
    /// Where questions went, and how many of them by stream.
    pub sent: Vec<u64>,
    pub by_stream: u64,
    /// One a server, and how many there were.
    streams: Vec<Option<Stream>>,
    pub opened: u64,
}

impl World {
    pub fn new(servers: &[Manner]) -> Self {
        let mut asks = vec![Ask::FREE; ASKS_MAX];
        let mut state = Box::new(State::new(&mut asks));
        for (number, manner) in (0..).zip(servers) {
            let mut forwarder = Forwarder { state: &mut state, asks: &mut asks };
            forwarder.upstream(number).means = manner.means;
        }
        Self {
            state,
            asks,
            random: Random(7),
            servers: servers.to_vec(),
            now: SECOND,
            flying: BinaryHeap::new(),
            free: (0..WAITERS_MAX as u16).rev().collect(),
            began: vec![0; WAITERS_MAX],
            outcomes: Vec::new(),
            sent: vec![0; servers.len()],
            by_stream: 0,
            streams: servers.iter().map(|_| None).collect(),
            opened: 0,
        }
    }

    fn group(&self) -> Group {
        Group { first: 0, len: self.servers.len() as u16, mixes_case: true }
    }

    pub fn call<T>(
        &mut self,
        act: impl FnOnce(&mut Forwarder<'_>, u64, forward::Dice<'_>) -> T,
    ) -> T {
        let Self { state, asks, random, now, .. } = self;
        let mut forwarder = Forwarder { state, asks };
        act(&mut forwarder, *now, &mut || random.next())
    }

    pub fn ask(&mut self, number: u64) -> Asked {
        let name = name(number);
        let kind = Kind::new(1, 1, false, false);
        let (group, waiter) = (self.group(), self.free.pop().expect("enough waiters"));
        self.began[usize::from(waiter)] = self.now;
        let asked = self.call(|forwarder, now, dice| {
            let key = Key { hash: number.wrapping_mul(0x9e37_79b9_7f4a_7c15), kind, name: &name };
            forwarder.ask(&key, group, Some(waiter), now, dice)
        });
        if asked != Asked::Waits {
            self.free.push(waiter);
        }
        self.send();
        asked
    }

    /// Sends what was ordered: datagrams each over a socket of its own.
    fn send(&mut self) {
        while let Some(order) = self.call(|forwarder, _, _| forwarder.order()) {
            let mut buf = [0; QUESTION_LEN_MAX];
            let len = self.call(|forwarder, _, _| forwarder.compose(&order, &mut buf));
            let id = u16::from_be_bytes([buf[0], buf[1]]);
            let (socket, is_open, arrives_at) = match order.by_stream {
                true => self.stream(order.upstream, id),
                false => (self.random.next() as u32, true, self.now),
            };
            self.call(|forwarder, _, _| forwarder.sent(&order, socket, is_open));
            self.arrive(&order, socket, &buf[..len], arrives_at);
        }
    }

    /// The stream to a server, whether it is open, and from when on it is.
    fn stream(&mut self, server: u16, id: u16) -> (u32, bool, u64) {
        let number = usize::from(server);
        self.by_stream += 1;
        self.opened += u64::from(self.streams[number].is_none());
        let (socket, opens_at) =
            (self.random.next() as u32, self.now + self.servers[number].opening);
        let stream = self.streams[number].get_or_insert(Stream {
            socket,
            opens_at,
            is_open: false,
            ids: Vec::new(),
            answered: 0,
        });
        stream.ids.push(id);
        (stream.socket, stream.is_open, stream.opens_at.max(self.now))
    }

    /// Opens those streams whose time has come, or tells that they cannot be.
    fn open_streams(&mut self) {
        for server in 0..self.servers.len() {
            let Manner { refuses, lost, .. } = self.servers[server];
            let Some(stream) = &mut self.streams[server] else { continue };
            if stream.is_open || stream.opens_at > self.now || lost == 100 {
                continue;
            }
            stream.is_open = true;
            let (socket, ids) = (stream.socket, stream.ids.clone());
            if refuses {
                self.close(server, Loss::Refused);
                continue;
            }
            for id in ids {
                self.call(|forwarder, now, _| forwarder.open(socket, id, now));
            }
        }
    }

    pub fn close(&mut self, server: usize, loss: Loss) {
        let Some(stream) = self.streams[server].take() else { return };
        self.call(|forwarder, now, _| forwarder.upstream(server as u16).lose(loss, now));
        for id in stream.ids {
            let event =
                self.call(|forwarder, now, dice| forwarder.lose(stream.socket, id, now, dice));
            self.take(event);
        }
    }

    /// A reply came by stream; it is closed where that was the last one.
    fn count_answer(&mut self, server: usize, socket: u32, id: u16) {
        let last = self.servers[server].answers;
        let Some(stream) = &mut self.streams[server] else { return };
        if stream.socket == socket {
            stream.answered += 1;
            stream.ids.retain(|other| *other != id);
            if stream.answered == last {
                self.close(server, Loss::Closed);
            }
        }
    }

    /// A question arrives at a server, if it does.
    fn arrive(&mut self, order: &Order, socket: u32, question: &[u8], arrives_at: u64) {
        let manner = self.servers[usize::from(order.upstream)];
        self.sent[usize::from(order.upstream)] += 1;
        let is_lost = self.random.below(100) < manner.lost;
        if manner.lost == 100 || is_lost && !order.by_stream || order.by_stream && manner.refuses {
            return;
        }
        let mut reply = question.to_vec();
        reply[2] |= 0x80 | if manner.truncates && !order.by_stream { 2 } else { 0 };
        reply[3] = 0x80 | manner.rcode;
        let jitter = self.random.below(manner.round_trip / 4 + 1);
        let at = arrives_at + manner.round_trip + jitter;
        if manner.lies {
            for lie in lies(&reply) {
                self.flying.push(Reverse((at - 1, order.upstream, socket, lie)));
            }
            self.flying.push(Reverse((at - 1, order.upstream, socket ^ 1, reply.clone())));
        }
        self.flying.push(Reverse((at, order.upstream, socket, reply)));
    }

    /// Lets time pass, a millisecond a step.
    pub fn pass(&mut self, until: u64) {
        while self.now < until {
            self.now = (self.now + MILLI).min(until);
            self.open_streams();
            while self.flying.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
                let Some(Reverse((_, upstream, socket, message))) = self.flying.pop() else {
                    break;
                };
                let server = usize::from(upstream);
                let is_stream = self.streams[server].as_ref().is_some_and(|s| s.socket == socket);
                if self.servers[server].means != Means::Datagrams && !is_stream {
                    // The stream that it was for is no more.
                    continue;
                }
                let event = self.call(|forwarder, now, dice| {
                    forwarder.receive(socket, upstream, &message, now, dice)
                });
                self.take(event);
                if let Some(id) = message.first_chunk() {
                    self.count_answer(server, socket, u16::from_be_bytes(*id));
                }
            }
            while let Some(event) = self.call(|forwarder, now, dice| forwarder.expire(now, dice)) {
                self.take(event);
            }
        }
    }

    fn take(&mut self, event: Event) {
        self.send();
        let (ticket, outcome) = match event {
            Event::Nothing => return,
            Event::Late(_) => panic!("nothing was left to anybody"),
            Event::Answer(ticket) => (ticket, Outcome::Answered),
            Event::Failure(ticket) => (ticket, Outcome::Failed),
        };
        while let Some(waiter) = self.call(|forwarder, _, _| forwarder.take_waiter(ticket)) {
            self.outcomes.push((outcome, self.now - self.began[usize::from(waiter)]));
            self.free.push(waiter);
        }
        self.call(|forwarder, _, _| forwarder.end(ticket));
    }

    /// Asks so many questions of as many names, one a millisecond, and waits for all.
    pub fn load(&mut self, from: u64, count: u64) {
        for number in from..from + count {
            match self.ask(number) {
                Asked::Waits => {}
                Asked::Nobody | Asked::Full => self.outcomes.push((Outcome::Failed, 0)),
            }
            self.pass(self.now + MILLI);
        }
    }

    /// Waits until nothing is under way, and tells what came of all.
    pub fn end(&mut self) -> Sum {
        self.pass(self.now + 10 * SECOND);
        assert_eq!(self.free.len(), WAITERS_MAX, "everybody was told");
        assert!(self.call(|forwarder, _, _| forwarder.is_empty()));
        assert_eq!(self.call(|forwarder, _, _| forwarder.next_micros()), None);
        let failed = self.outcomes.iter().filter(|(outcome, _)| *outcome == Outcome::Failed);
        let late = self.outcomes.iter().filter(|(_, took)| *took > 100 * MILLI);
        Sum { all: self.outcomes.len(), failed: failed.count(), late: late.count() }
    }
}

#[derive(Debug)]
pub struct Sum {
    pub all: usize,
    pub failed: usize,
    pub late: usize,
}

pub fn name(number: u64) -> Vec<u8> {
    let label = format!("name-{number}");
    let mut name = vec![label.len() as u8];
    name.extend(label.bytes());
    name.extend(b"\x07example\x00");
    name
}

/// What is like a reply, and is none.
fn lies(reply: &[u8]) -> Vec<Vec<u8>> {
    let changed = |at: usize| {
        let mut lie = reply.to_vec();
        lie[at] ^= 0x20;
        lie
    };
    vec![
        changed(0),
        changed(1),
        changed(14),
        changed(reply.len() - 11 - 3),
        reply[..20].to_vec(),
        vec![],
        vec![0xff; 600],
    ]
}

//! Servers that are slow, lossy, dead or lying, with a clock and dice of our own.
use cache::{Key, Kind};
use forward::limits::{ASKS_MAX, WAITERS_MAX, WAITERS_OF_ASK_MAX};
use forward::{Ask, Asked, Event, Forwarder, Group, Order, QUESTION_LEN_MAX, State};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MILLI: u64 = 1000;
const SECOND: u64 = 1000 * MILLI;

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
struct Manner {
    round_trip: u64,
    /// Datagrams of a hundred that get lost.
    lost: u64,
    rcode: u8,
    truncates: bool,
    /// Sends what is no reply, in front of the reply.
    lies: bool,
}

const FAST: Manner = Manner { round_trip: MILLI, lost: 0, rcode: 0, truncates: false, lies: false };
const SLOW: Manner = Manner { round_trip: 20 * MILLI, ..FAST };
const DEAD: Manner = Manner { lost: 100, ..FAST };

/// What came of a client's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Answered,
    Failed,
}

/// When it arrives, from whom, at which socket, and what it says.
type Datagram = (u64, u16, u32, Vec<u8>);

struct World {
    state: Box<State>,
    asks: Vec<Ask>,
    random: Random,
    servers: Vec<Manner>,
    now: u64,
    /// Under way to us.
    flying: BinaryHeap<Reverse<Datagram>>,
    free: Vec<u16>,
    /// When each waiter began to wait.
    began: Vec<u64>,
    outcomes: Vec<(Outcome, u64)>,
    /// Where questions went, and how many of them by stream.
    sent: Vec<u64>,
    streams: u64,
}

impl World {
    fn new(servers: &[Manner]) -> Self {
        let mut asks = vec![Ask::FREE; ASKS_MAX];
        Self {
            state: Box::new(State::new(&mut asks)),
            asks,
            random: Random(7),
            servers: servers.to_vec(),
            now: SECOND,
            flying: BinaryHeap::new(),
            free: (0..WAITERS_MAX as u16).rev().collect(),
            began: vec![0; WAITERS_MAX],
            outcomes: Vec::new(),
            sent: vec![0; servers.len()],
            streams: 0,
        }
    }

    fn group(&self) -> Group {
        Group { first: 0, len: self.servers.len() as u16, mixes_case: true }
    }

    fn call<T>(&mut self, act: impl FnOnce(&mut Forwarder<'_>, u64, forward::Dice<'_>) -> T) -> T {
        let Self { state, asks, random, now, .. } = self;
        let mut forwarder = Forwarder { state, asks };
        act(&mut forwarder, *now, &mut || random.next())
    }

    fn ask(&mut self, number: u64) -> Asked {
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

    /// Sends what was ordered, each over a socket of its own.
    fn send(&mut self) {
        while let Some(order) = self.call(|forwarder, _, _| forwarder.order()) {
            let socket = self.random.next() as u32;
            let mut buf = [0; QUESTION_LEN_MAX];
            let len = self.call(|forwarder, _, _| {
                forwarder.sent(&order, socket);
                forwarder.compose(&order, &mut buf)
            });
            self.arrive(&order, socket, &buf[..len]);
        }
    }

    /// A question arrives at a server, if it does.
    fn arrive(&mut self, order: &Order, socket: u32, question: &[u8]) {
        let manner = self.servers[usize::from(order.upstream)];
        self.sent[usize::from(order.upstream)] += 1;
        if self.random.below(100) < manner.lost {
            return;
        }
        let mut reply = question.to_vec();
        reply[2] |= 0x80 | if manner.truncates { 2 } else { 0 };
        reply[3] = 0x80 | manner.rcode;
        let jitter = self.random.below(manner.round_trip / 4 + 1);
        let at = self.now + manner.round_trip + jitter;
        if manner.lies {
            for lie in lies(&reply) {
                self.flying.push(Reverse((at - 1, order.upstream, socket, lie)));
            }
            self.flying.push(Reverse((at - 1, order.upstream, socket ^ 1, reply.clone())));
        }
        self.flying.push(Reverse((at, order.upstream, socket, reply)));
    }

    /// Lets time pass, a millisecond a step.
    fn pass(&mut self, until: u64) {
        while self.now < until {
            self.now = (self.now + MILLI).min(until);
            while self.flying.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
                let Some(Reverse((_, upstream, socket, message))) = self.flying.pop() else {
                    break;
                };
                let event = self.call(|forwarder, now, dice| {
                    forwarder.receive(socket, upstream, &message, now, dice)
                });
                self.take(event);
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
            Event::Truncated(ticket, _) => {
                self.streams += 1;
                (ticket, Outcome::Answered)
            }
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
    fn load(&mut self, from: u64, count: u64) {
        for number in from..from + count {
            match self.ask(number) {
                Asked::Waits => {}
                Asked::Nobody | Asked::Full => self.outcomes.push((Outcome::Failed, 0)),
            }
            self.pass(self.now + MILLI);
        }
    }

    /// Waits until nothing is under way, and tells what came of all.
    fn end(&mut self) -> Sum {
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
struct Sum {
    all: usize,
    failed: usize,
    late: usize,
}

fn name(number: u64) -> Vec<u8> {
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

#[test]
fn the_fastest_server_is_asked() {
    let mut world = World::new(&[SLOW, FAST, SLOW]);
    world.load(0, 5000);
    let sum = world.end();
    assert_eq!((sum.all, sum.failed, sum.late), (5000, 0, 0));
    assert!(world.sent[1] > 4900, "{:?}", world.sent);
}

#[test]
fn a_dying_server_costs_little_and_its_return_is_seen() {
    let mut world = World::new(&[FAST, SLOW]);
    world.load(0, 1000);
    world.servers[0] = DEAD;
    world.load(1000, 9000);
    let asked_dead = world.sent[0];
    world.servers[0] = FAST;
    world.load(10_000, 40_000);
    let sum = world.end();
    assert_eq!((sum.all, sum.failed), (50_000, 0));
    println!("{sum:?}, {:?}", world.sent);
    assert!(sum.late * 100 <= 9000, "{sum:?}");
    assert!(asked_dead < 1200, "{asked_dead}");
    assert!(world.sent[0] > asked_dead + 5000, "{:?}", world.sent);
}

#[test]
fn one_in_five_lost_fails_nobody() {
    let lossy = Manner { lost: 20, ..FAST };
    let mut world = World::new(&[lossy, lossy]);
    world.load(0, 20_000);
    let sum = world.end();
    println!("{sum:?}");
    assert!(sum.failed * 1000 <= sum.all, "{sum:?}");
}

#[test]
fn nobody_there_is_told_at_once() {
    let mut world = World::new(&[DEAD, DEAD]);
    world.load(0, 2000);
    let (before, sent) = (world.outcomes.len(), world.sent.iter().sum::<u64>());
    world.load(2000, 10_000);
    let told_late = world.outcomes.iter().skip(before).filter(|(_, took)| *took > 0).count();
    let asked = world.sent.iter().sum::<u64>() - sent;
    let sum = world.end();
    assert_eq!((sum.all, sum.failed), (12_000, 12_000));
    // But for the questions that see whether somebody is back.
    assert!(told_late < 20, "{told_late}");
    assert!(asked < 20, "{asked}");
}

#[test]
fn who_cannot_answer_is_not_believed() {
    for rcode in [1, 2, 4, 5] {
        let mut world = World::new(&[Manner { rcode, ..FAST }, SLOW]);
        world.load(0, 2000);
        let sum = world.end();
        assert_eq!((sum.all, sum.failed, sum.late), (2000, 0, 0), "{rcode}");
        assert!(world.sent[0] < 100, "{:?}", world.sent);
    }
}

#[test]
fn lies_are_counted_and_change_nothing() {
    let mut world = World::new(&[Manner { lies: true, ..FAST }]);
    world.load(0, 1000);
    let sum = world.end();
    assert_eq!((sum.all, sum.failed, sum.late), (1000, 0, 0));
    let counts = world.call(|forwarder, _, _| forwarder.upstream(0).counts);
    assert_eq!((counts.answered, counts.mismatched), (1000, 8000));
}

#[test]
fn what_is_too_long_goes_by_stream() {
    let mut world = World::new(&[Manner { truncates: true, ..FAST }]);
    world.load(0, 100);
    let sum = world.end();
    assert_eq!((sum.all, sum.failed, world.streams), (100, 0, 100));
}

#[test]
fn who_asks_the_same_waits_for_the_same() {
    let mut world = World::new(&[SLOW]);
    for _ in 0..WAITERS_OF_ASK_MAX {
        assert_eq!(world.ask(1), Asked::Waits);
    }
    assert_eq!(world.ask(1), Asked::Full);
    assert_eq!(world.ask(2), Asked::Waits);
    let sum = world.end();
    assert_eq!((sum.all, sum.failed), (usize::from(WAITERS_OF_ASK_MAX) + 1, 0));
    assert_eq!(world.sent, [2]);
}

#[test]
fn a_full_table_is_told_and_comes_free_again() {
    let mut world = World::new(&[DEAD]);
    for number in 0..ASKS_MAX as u64 {
        assert_eq!(world.ask(number), Asked::Waits);
    }
    assert_eq!(world.ask(ASKS_MAX as u64), Asked::Full);
    let sum = world.end();
    assert_eq!((sum.all, sum.failed), (ASKS_MAX, ASKS_MAX));
    world.servers[0] = FAST;
    assert_eq!(world.ask(0), Asked::Waits);
    let sum = world.end();
    assert_eq!((sum.all, sum.failed), (ASKS_MAX + 1, ASKS_MAX));
}

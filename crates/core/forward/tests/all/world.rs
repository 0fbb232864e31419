//! Simulated servers and a simulated network, with its own clock and random numbers.
mod replies;

use cache::{CacheKey, QueryKind};
use forward::limits::{QUERIES_MAX, WAITERS_MAX};
use forward::{
    ForwardEvent, Forwarder, ForwarderState, PendingQuery, QUERY_LEN_MAX, QueryOutcome, StreamLoss,
    Transmission, UpstreamGroup, UpstreamHealth, UpstreamTransport,
};
use replies::{has_upper_case, lies, reply_of};
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
    /// Sends what is not a reply, in front of the reply.
    pub lies: bool,
    pub transport: UpstreamTransport,
    /// How long a stream takes to open.
    pub opening: u64,
    /// Closes a stream after this many answers; 0: never.
    pub answers: u64,
    /// Refuses streams.
    pub refuses: bool,
    /// Answers no client's question, but all others.
    pub only_probes: bool,
    /// The code of its replies to queries with an OPT record; 0: it understands them.
    pub opt_rcode: u8,
    /// Whether its errors are a header alone.
    pub bare_errors: bool,
    pub case: CaseManner,
}

/// What a server does with letters in upper case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaseManner {
    #[default]
    Keeps,
    /// Its replies have the question in lower case.
    Lowers,
    /// It has no such name.
    Denies,
    /// It does not reply.
    Ignores,
}

pub const FAST: Manner = Manner {
    round_trip: MILLI,
    lost: 0,
    rcode: 0,
    truncates: false,
    lies: false,
    transport: UpstreamTransport::Datagrams,
    opening: 0,
    answers: 0,
    refuses: false,
    only_probes: false,
    opt_rcode: 0,
    bare_errors: false,
    case: CaseManner::Keeps,
};
pub const SLOW: Manner = Manner { round_trip: 20 * MILLI, ..FAST };
pub const DEAD: Manner = Manner { lost: 100, ..FAST };
pub const STREAM: Manner =
    Manner { transport: UpstreamTransport::Enciphered, opening: 40 * MILLI, ..FAST };
pub const SLOW_STREAM: Manner = Manner { round_trip: 20 * MILLI, ..STREAM };

/// What came of a client's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Answered,
    Failed,
}

/// Names that no server can answer in time, and how many of them one client asks for.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Names a second, each another one.
    pub rate: u64,
    /// How long servers take for an answer to one; nothing: they never answer.
    pub late: Option<u64>,
}

/// Names with this number or a higher one belong to the attack.
const ATTACKED: u64 = 1 << 40;

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
    state: Box<ForwarderState>,
    queries: Vec<PendingQuery>,
    random: Random,
    pub servers: Vec<Manner>,
    pub now: u64,
    /// Under way to us.
    flying: BinaryHeap<Reverse<Datagram>>,
    free: Vec<u16>,
    /// When each waiter began to wait, and whether it is the attacker.
    began: Vec<(u64, bool)>,
    pub outcomes: Vec<(Outcome, u64)>,
    pub attack: Option<Attack>,
    /// Names the attacker has asked for, and what it is owed in thousandths of one.
    attacked: u64,
    attack_credit: u64,
    /// Answers to names of the attacker that were taken after it had been told of a failure.
    pub late_answer: u64,
    /// Queries that were not a client's, and when and to whom each was sent.
    pub probes: Vec<(u64, u16)>,
    /// Where clients' questions went, and how many of all by stream.
    pub sent: Vec<u64>,
    pub by_stream: u64,
    /// One a server, and how many there were.
    streams: Vec<Option<Stream>>,
    pub opened: u64,
}

impl World {
    pub fn new(servers: &[Manner]) -> Self {
        Self::seeded(7, servers)
    }

    /// A world whose servers were asked for so many names.
    pub fn loaded(servers: &[Manner], count: u64) -> Self {
        let mut world = Self::new(servers);
        world.load(0, count);
        world
    }

    pub fn seeded(seed: u64, servers: &[Manner]) -> Self {
        let mut queries = vec![PendingQuery::FREE; QUERIES_MAX];
        let mut state = Box::new(ForwarderState::new(&mut queries));
        for (number, manner) in (0..).zip(servers) {
            let mut forwarder = Forwarder { state: &mut state, queries: &mut queries };
            forwarder.upstream(number).transport = manner.transport;
        }
        Self {
            state,
            queries,
            random: Random(seed),
            servers: servers.to_vec(),
            now: SECOND,
            flying: BinaryHeap::new(),
            free: (0..WAITERS_MAX as u16).rev().collect(),
            began: vec![(0, false); WAITERS_MAX],
            outcomes: Vec::new(),
            attack: None,
            attacked: 0,
            attack_credit: 0,
            late_answer: 0,
            probes: Vec::new(),
            sent: vec![0; servers.len()],
            by_stream: 0,
            streams: servers.iter().map(|_| None).collect(),
            opened: 0,
        }
    }

    fn group(&self) -> UpstreamGroup {
        UpstreamGroup { first: 0, len: self.servers.len() as u16, mixes_case: true }
    }

    pub fn call<T>(
        &mut self,
        act: impl FnOnce(&mut Forwarder<'_>, u64, forward::RandomSource<'_>) -> T,
    ) -> T {
        let Self { state, queries, random, now, .. } = self;
        let mut forwarder = Forwarder { state, queries };
        act(&mut forwarder, *now, &mut || random.next())
    }

    pub fn query(&mut self, number: u64) -> QueryOutcome {
        let name = name(number);
        let kind = QueryKind::new(1, 1, false, false);
        let (group, waiter) = (self.group(), self.free.pop().expect("enough waiters"));
        self.began[usize::from(waiter)] = (self.now, number >= ATTACKED);
        let asked = self.call(|forwarder, now, random| {
            let key =
                CacheKey { hash: number.wrapping_mul(0x9e37_79b9_7f4a_7c15), kind, name: &name };
            forwarder.query(&key, group, Some(waiter), now, random)
        });
        if asked != QueryOutcome::Pending {
            self.free.push(waiter);
        }
        self.send();
        asked
    }

    /// Sends what was ordered: datagrams each over a socket of its own.
    fn send(&mut self) {
        while let Some(transmission) = self.call(|forwarder, _, _| forwarder.transmission()) {
            let mut buf = [0; QUERY_LEN_MAX];
            let len = self.call(|forwarder, _, _| forwarder.compose(&transmission, &mut buf));
            let id = u16::from_be_bytes([buf[0], buf[1]]);
            let (socket, is_open, arrives_at) = match transmission.by_stream {
                true => self.stream(transmission.upstream, id),
                false => (self.random.next() as u32, true, self.now),
            };
            self.call(|forwarder, _, _| forwarder.sent(&transmission, socket, is_open));
            self.arrive(&transmission, socket, &buf[..len], arrives_at);
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
                self.close(server, StreamLoss::Refused);
                continue;
            }
            for id in ids {
                self.call(|forwarder, now, _| forwarder.open(socket, id, now));
            }
        }
    }

    pub fn close(&mut self, server: usize, loss: StreamLoss) {
        let Some(stream) = self.streams[server].take() else { return };
        self.call(|forwarder, now, _| {
            forwarder.upstream(server as u16).record_stream_loss(loss, now)
        });
        for id in stream.ids {
            let event = self.call(|forwarder, now, random| {
                forwarder.record_stream_loss(stream.socket, id, now, random)
            });
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
                self.close(server, StreamLoss::Closed);
            }
        }
    }

    /// A question arrives at a server, if it does.
    fn arrive(
        &mut self,
        transmission: &Transmission,
        socket: u32,
        question: &[u8],
        arrives_at: u64,
    ) {
        let manner = self.servers[usize::from(transmission.upstream)];
        let label = question[13..].to_ascii_lowercase();
        let is_probe = !label.starts_with(b"name-");
        if !is_probe {
            self.sent[usize::from(transmission.upstream)] += 1;
        } else {
            self.probes.push((self.now, transmission.upstream));
        }
        let attack = self.attack.filter(|_| label.starts_with(b"name-109951"));
        let is_lost = self.random.below(100) < manner.lost;
        if manner.only_probes && !is_probe {
            return;
        }
        if manner.lost == 100
            || is_lost && !transmission.by_stream
            || transmission.by_stream && manner.refuses
        {
            return;
        }
        if manner.case == CaseManner::Ignores && has_upper_case(question) {
            return;
        }
        let reply = reply_of(&manner, question, transmission.by_stream);
        let jitter = self.random.below(manner.round_trip / 4 + 1);
        let late = match attack {
            Some(Attack { late: Some(late), .. }) => late,
            Some(Attack { late: None, .. }) => return,
            None => 0,
        };
        let at = arrives_at + manner.round_trip + jitter + late;
        if manner.lies {
            for lie in lies(&reply) {
                self.flying.push(Reverse((at - 1, transmission.upstream, socket, lie)));
            }
            self.flying.push(Reverse((at - 1, transmission.upstream, socket ^ 1, reply.clone())));
        }
        self.flying.push(Reverse((at, transmission.upstream, socket, reply)));
    }

    /// Lets time pass, a millisecond a step.
    pub fn pass(&mut self, until: u64) {
        while self.now < until {
            self.now = (self.now + MILLI).min(until);
            self.ask_in_vain();
            self.open_streams();
            while self.flying.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
                let Some(Reverse((_, upstream, socket, message))) = self.flying.pop() else {
                    break;
                };
                let server = usize::from(upstream);
                let is_stream = self.streams[server].as_ref().is_some_and(|s| s.socket == socket);
                if self.servers[server].transport != UpstreamTransport::Datagrams && !is_stream {
                    // The stream that it was for is no more.
                    continue;
                }
                let event = self.call(|forwarder, now, random| {
                    forwarder.receive(socket, upstream, &message, now, random)
                });
                self.take(event);
                if let Some(id) = message.first_chunk() {
                    self.count_answer(server, socket, u16::from_be_bytes(*id));
                }
            }
            while let Some(event) =
                self.call(|forwarder, now, random| forwarder.expire(now, random))
            {
                self.take(event);
            }
        }
    }

    /// Asks for what the attacker is about to ask for.
    fn ask_in_vain(&mut self) {
        let Some(Attack { rate, .. }) = self.attack else { return };
        self.attack_credit += rate;
        while self.attack_credit >= 1000 {
            self.attack_credit -= 1000;
            self.attacked += 1;
            self.query(ATTACKED + self.attacked);
        }
    }

    fn take(&mut self, event: ForwardEvent) {
        self.send();
        let (query_id, outcome) = match event {
            ForwardEvent::Nothing => return,
            ForwardEvent::Late(_) => panic!("nothing was left to anybody"),
            ForwardEvent::LateAnswer(_) => {
                self.late_answer += 1;
                return;
            }
            ForwardEvent::Answer(query_id) => (query_id, Outcome::Answered),
            ForwardEvent::Failure(query_id) => (query_id, Outcome::Failed),
        };
        while let Some(waiter) = self.call(|forwarder, _, _| forwarder.take_waiter(query_id)) {
            let (began, is_attacker) = self.began[usize::from(waiter)];
            if !is_attacker {
                self.outcomes.push((outcome, self.now - began));
            }
            self.free.push(waiter);
        }
        self.call(|forwarder, _, _| forwarder.end(query_id));
    }

    /// Asks so many questions of as many names, one a millisecond, and waits for all.
    pub fn load(&mut self, from: u64, count: u64) {
        self.load_every(MILLI, from, count);
    }

    /// Asks so many questions of as many names, one after so many microseconds each.
    pub fn load_every(&mut self, gap: u64, from: u64, count: u64) {
        for number in from..from + count {
            match self.query(number) {
                QueryOutcome::Pending => {}
                QueryOutcome::NoUpstream | QueryOutcome::Full => {
                    self.outcomes.push((Outcome::Failed, 0))
                }
            }
            self.pass(self.now + gap);
        }
    }

    /// Has the attacker ask no more, waits, and tells what came of all others.
    pub fn end_of_attack(&mut self) -> Sum {
        self.attack = self.attack.map(|attack| Attack { rate: 0, ..attack });
        self.end()
    }

    /// Waits for the end of all, which are so many questions; so many of them failed.
    #[track_caller]
    pub fn expect_end(&mut self, all: usize, failed: usize) -> Sum {
        let sum = self.end();
        assert_eq!((sum.all, sum.failed), (all, failed), "{sum:?}, {:?}", self.sent);
        sum
    }

    /// The same where none failed, and none was late.
    #[track_caller]
    pub fn expect_answers(&mut self, all: usize) {
        assert_eq!(self.expect_end(all, 0).late, 0);
    }

    /// Waits until nothing is under way, and tells what came of all.
    pub fn end(&mut self) -> Sum {
        self.pass(self.now + 10 * SECOND);
        assert_eq!(self.free.len(), WAITERS_MAX, "every client got an answer");
        assert!(self.call(|forwarder, _, _| forwarder.is_empty()));
        // But for probes of those that are down.
        let mut servers = 0..self.servers.len() as u16;
        let is_up = self.call(|forwarder, now, _| {
            servers.all(|number| forwarder.upstream(number).health(now) == UpstreamHealth::Up)
        });
        let next = self.call(|forwarder, _, _| forwarder.next_micros());
        assert!(next.is_none() || !is_up, "{next:?}");
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

//! One thread's `UpstreamClient` and a server beside it, in simulated time: nothing depends on the
//! speed of the machine.

use crate::client_thread::{image, run};
use answer::{Scratch, TtlLimits};
use compile::Image;
use image::ForwardRule;
use packet::{Packet, Transport, Verdict};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use upstream::{ResolverPlan, ServerMarks, UpstreamClient, UpstreamServers};
use wire::{Name, NameBuf, Rtype};

const LIFETIMES: TtlLimits = TtlLimits { ttl_min: 0, ttl_max: 86_400, negative_ttl_max: 3_600 };
/// Seconds that an answer is given after its end.
const STALE_MAX: u32 = 86_400;
const CLIENT: &str = "192.0.2.9:5353";
/// How far time advances while nothing happens.
const STEP: Duration = Duration::from_millis(5);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of the OPT record at the end of each query.
const OPT_LEN: usize = 11;
/// How long a query may continue after its client was answered.
const AFTERWARDS: Duration = Duration::from_secs(8);

/// What the server does with a query: see [`UpstreamState::set_behavior`].
#[derive(Clone, Debug)]
enum Behavior {
    /// It sends nothing.
    Silent,
    /// It sends a code, a TTL if there is an address, TTL and minimum if there is an SOA.
    Responds(u8, Option<u32>, Option<(u32, u32)>),
}

/// The server, whose socket may be gone.
struct UpstreamState {
    address: SocketAddr,
    socket: Option<UdpSocket>,
    behavior: Behavior,
    /// How long a reply takes, and the replies under way: when they leave, to whom.
    delay: Duration,
    in_flight: VecDeque<(Duration, SocketAddr, Vec<u8>)>,
    /// Received queries.
    query_count: usize,
}

impl UpstreamState {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        Self {
            address,
            socket: Some(socket),
            behavior: Behavior::Silent,
            delay: Duration::ZERO,
            in_flight: VecDeque::new(),
            query_count: 0,
        }
    }

    fn open(&mut self) {
        if self.socket.is_none() {
            let socket = UdpSocket::bind(self.address).unwrap();
            socket.set_nonblocking(true).unwrap();
            self.socket = Some(socket);
        }
    }

    /// Takes `nothing`, `gone`, or a code and its record: `NOERROR A 60`, `NXDOMAIN SOA 60 30`;
    /// before that, the seconds that a reply takes: `1.0 s`.
    fn set_behavior(&mut self, text: &str) {
        let (seconds, text) = match text.split_once(" s ") {
            Some((seconds, text)) => (seconds.parse().unwrap(), text),
            None => (0.0, text),
        };
        self.delay = Duration::from_secs_f64(seconds);
        let mut words = text.split(' ');
        let code = match words.next() {
            Some("nothing") => {
                self.open();
                self.behavior = Behavior::Silent;
                return;
            }
            Some("gone") => {
                self.socket = None;
                return;
            }
            Some("NOERROR") => 0,
            Some("FORMERR") => 1,
            Some("SERVFAIL") => 2,
            Some("NXDOMAIN") => 3,
            Some("REFUSED") => 5,
            other => panic!("not a behavior: {other:?}"),
        };
        self.open();
        let what = words.next();
        let numbers: Vec<u32> = words.map(|word| word.parse().unwrap()).collect();
        self.behavior = match (what, &numbers[..]) {
            (None, []) => Behavior::Responds(code, None, None),
            (Some("A"), [ttl]) => Behavior::Responds(code, Some(*ttl), None),
            (Some("SOA"), [ttl, minimum]) => Behavior::Responds(code, None, Some((*ttl, *minimum))),
            _ => panic!("not a behavior: {text}"),
        };
    }

    /// Answers what was received. Returns the number of queries for clients.
    fn turn(&mut self, now: Duration) -> usize {
        let (Some(socket), mut count, mut buf) = (&self.socket, 0, [0; 4096]) else { return 0 };
        while let Ok((len, from)) = socket.recv_from(&mut buf) {
            count += usize::from(!is_probe(&buf[..len]));
            if let Behavior::Responds(code, address, soa) = self.behavior {
                let opt_len = if buf[11] > 0 { OPT_LEN } else { 0 };
                let query = &buf[..len - opt_len];
                let reply = reply(query, code, address, soa);
                self.in_flight.push_back((now + self.delay, from, reply));
            }
        }
        self.query_count += count;
        while let Some((at, to, reply)) = self.in_flight.pop_front() {
            if at > now {
                self.in_flight.push_front((at, to, reply));
                break;
            }
            socket.send_to(&reply, to).unwrap();
        }
        count
    }
}

/// Whether a query is one of the client's own, for the name servers of the root.
fn is_probe(query: &[u8]) -> bool {
    query[12..].starts_with(&[0, 0, 2, 0, 1])
}

fn reply(query: &[u8], code: u8, address: Option<u32>, soa: Option<(u32, u32)>) -> Vec<u8> {
    let mut message = query.to_vec();
    message[2] |= 0x84;
    message[3] = 0x80 | code;
    message[7] = u8::from(address.is_some());
    message[9] = u8::from(soa.is_some());
    message[11] = 0;
    let mut put = |rtype: u8, ttl: u32, data: &[u8]| {
        // The owner is the query name, or the root.
        let owner: &[u8] = if rtype == 6 { &[0] } else { &[0xc0, 12] };
        message.extend(owner);
        message.extend([0, rtype, 0, 1]);
        message.extend(ttl.to_be_bytes());
        message.extend((data.len() as u16).to_be_bytes());
        message.extend(data);
    };
    if let Some(ttl) = address {
        put(1, ttl, &[192, 0, 2, 1]);
    }
    if let Some((ttl, minimum)) = soa {
        let numbers = [1, 1, 1, 1, minimum].map(u32::to_be_bytes).concat();
        put(6, ttl, &[&[0, 0][..], &numbers].concat());
    }
    message
}

/// A client, its server, and the time of a scenario.
pub struct Simulation {
    image: Image,
    rules: Vec<ForwardRule>,
    scratch: Box<Scratch>,
    upstream_client: UpstreamClient,
    server: UpstreamState,
    now: Duration,
}

impl Simulation {
    /// One that remembers a failure for this many seconds at first.
    pub fn new(failure_ttl: u32) -> Self {
        let server = UpstreamState::new();
        let (suffix, addresses) = (NameBuf::root(), vec![server.address.into()]);
        let groups = vec![UpstreamServers {
            first: 0,
            is_retired: false,
            suffix,
            addresses,
            // The scenarios count queries, also to servers that deny all names.
            mixes_case: false,
            fixed_ports: None,
            ttl_max: None,
            caches: true,
        }];
        let plan = ResolverPlan {
            serial: 0,
            groups,
            cache_len: 1 << 20,
            lifetimes: LIFETIMES,
            stale_max: STALE_MAX,
            failure_ttl,
            trust: None,
            marks: ServerMarks::new(0),
        };
        Self {
            image: image(),
            rules: vec![ForwardRule { suffix: NameBuf::root(), group: 0 }],
            scratch: Box::default(),
            upstream_client: UpstreamClient::new(plan).unwrap(),
            server,
            now: Duration::from_secs(1_000),
        }
    }

    /// What the server does from now on: see [`UpstreamState::set_behavior`].
    pub fn set_behavior(&mut self, text: &str) {
        self.server.set_behavior(text);
    }

    /// Advances time by this many seconds; what is under way continues.
    pub fn pass(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        let busy_end = end.min(self.now + AFTERWARDS);
        while self.now < busy_end {
            self.turn(&mut Vec::new());
        }
        self.now = end;
    }

    /// What comes of a query such as `www.example.net. A`: code, what the first record is and
    /// its TTL, the Extended DNS Error, the queries to the server since the last answer, and
    /// after how many seconds it came.
    pub fn query(&mut self, query: &str) -> String {
        let (begun, mut got) = (self.now, Vec::new());
        let message = compose(query);
        let mut bytes = message.clone();
        bytes.resize(4096, 0);
        let peer = CLIENT.parse().unwrap();
        let mut packet = Packet::new(&mut bytes, message.len(), peer, Transport::Datagram);
        self.upstream_client.begin(self.now);
        let Self { image, rules, scratch, upstream_client, now, .. } = self;
        run(image, rules, upstream_client, scratch, *now, &mut packet);
        got.extend(read(&packet));
        while got.is_empty() && self.now < begun + PATIENCE {
            self.turn(&mut got);
        }
        let took = self.now - begun;
        // A renewal is queried at once.
        while self.server.turn(self.now) > 0 {
            self.turn(&mut Vec::new());
        }
        let mut reported = got.pop().unwrap_or("silence".into());
        match mem::take(&mut self.server.query_count) {
            0 => {}
            query_count => write!(reported, " asked {query_count}").unwrap(),
        }
        if took > Duration::from_millis(50) {
            write!(reported, " after {:.1} s", took.as_secs_f64()).unwrap();
        }
        reported
    }

    /// Runs the server and the client once; time advances if neither had anything to do.
    fn turn(&mut self, got: &mut Vec<String>) {
        let served = self.server.turn(self.now);
        let Self { image, rules, scratch, upstream_client, now, .. } = self;
        let before = got.len();
        let mut take = |upstream_client: &mut UpstreamClient, packet: &mut Packet<'_>, _| {
            run(image, rules, upstream_client, scratch, *now, packet);
            got.extend(read(packet));
        };
        upstream_client.poll_deferred(*now, &mut take).unwrap();
        if served == 0 && got.len() == before {
            self.now += STEP;
        }
    }
}

fn compose(query: &str) -> Vec<u8> {
    let (name, rtype) = query.split_once(' ').expect("a name and a type");
    let rtype: Rtype = rtype.parse().unwrap_or_else(|_| panic!("a type: {query}"));
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).unwrap();
    bytes.extend(name.as_name().as_bytes());
    bytes.extend(rtype.0.to_be_bytes());
    bytes.extend([0, 1, 0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

fn read(packet: &Packet<'_>) -> Option<String> {
    if packet.verdict == Verdict::Deferred {
        return None;
    }
    assert_eq!(packet.verdict, Verdict::Reply);
    let message = packet.message();
    let mut reported = match message[3] & 0xf {
        0 => "NOERROR".to_owned(),
        2 => "SERVFAIL".to_owned(),
        3 => "NXDOMAIN".to_owned(),
        code => format!("code {code}"),
    };
    let count = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let question_end = 12 + message[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
    if count(6) + count(8) > 0 {
        let what = if count(6) > 0 { "A" } else { "SOA" };
        // The owner is a pointer, or the root.
        let at = question_end + if message[question_end] == 0 { 1 } else { 2 };
        let ttl = u32::from_be_bytes(*message[at + 4..].first_chunk().unwrap());
        write!(reported, " {what} {ttl}").unwrap();
    }
    // An Extended DNS Error stands behind everything else.
    if let [.., 0, 15, 0, 2, e0, e1] = message {
        write!(reported, " ede {}", u16::from_be_bytes([*e0, *e1])).unwrap();
    }
    Some(reported)
}

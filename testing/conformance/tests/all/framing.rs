//! Streams as no decent client writes them: cut anywhere, with lengths that lie, from thousands of
//! clients that each misbehave in their own way. Who behaves is answered all the same.
//!
//! `DUNLIN_SEED` chooses the bytes (1).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream};
use std::time::Duration;

use conformance::client::{framed, read_message};
use conformance::environment::{TestFolder, number};
use conformance::flood::{Clients, Flood, Kind};
use conformance::hosts::{reset_peak, resident};
use conformance::limits::ANSWER_TIMEOUT;
use conformance::load::{self, Load, Manner, Seen, ZONE};
use conformance::names::name;
use conformance::queries::Query;
use conformance::random::Random;
use conformance::reply::Reply;
use conformance::server::{Launch, Server, Software};
use domain::base::iana::Rtype;

/// Streams of each test.
const STREAMS: u64 = 200;
/// What the server's streams and limits may take, and what else 512 connections cost it.
const BUDGET: u64 = (8 + 4 + 8) << 20;
const SECTIONS: &str =
    "[streams]\nconnections = 512\nmemory = \"8MiB\"\n[limits]\nmemory = \"4MiB\"\n";
/// Answers that decent clients keep where others fill all places: a connection that is idle may be
/// closed for another's sake, which a query may meet on its way (RFC 7766 §6.2.4).
const SHARE_MIN: f64 = 0.99;

const DECENT: [Manner; 6] = [
    Manner::Datagrams,
    Manner::Stream,
    Manner::Stream,
    Manner::Halves,
    Manner::Pieces,
    Manner::Churn,
];

fn serve(folder: &TestFolder) -> Server {
    let zones = [load::zone(&folder.path).unwrap()];
    let launch = Launch { sections: SECTIONS, ..Launch::new(Software::Dunlin, &zones) };
    launch.start(&folder.path).unwrap()
}

#[test]
fn queries_are_answered_however_their_stream_is_split() {
    let folder = TestFolder::new("cuts").unwrap();
    let server = serve(&folder);
    let seed = number("DUNLIN_SEED", 1);
    for stream in 0..STREAMS {
        let mut random = Random::new(seed << 32 | stream);
        let missing = ask_in_pieces(server.address, &mut random);
        assert_eq!(missing, Vec::<u16>::new(), "without answers in stream {stream} of seed {seed}");
    }
}

/// Writes some queries in random pieces; returns the ids of those that were not answered.
fn ask_in_pieces(server: SocketAddrV4, random: &mut Random) -> Vec<u16> {
    let count = 1 + random.below(20) as u16;
    let query = |id: u16| {
        let mut query = Query::new(name(&format!("a{id}.{ZONE}")), Rtype::A).to_wire();
        query[..2].copy_from_slice(&id.to_be_bytes());
        framed(&query)
    };
    let bytes: Vec<u8> = (0..count).flat_map(query).collect();
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let most = if random.chance(50) { 3 } else { rest.len() };
        let (piece, behind) = rest.split_at(1 + random.below(most.min(rest.len())));
        stream.write_all(piece).unwrap();
        rest = behind;
        if random.chance(20) {
            std::thread::sleep(Duration::from_micros(random.below(1_000) as u64));
        }
    }
    // RFC 7766 §6.2.1: who has no more to ask is still answered.
    if random.chance(50) {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    let mut missing: Vec<u16> = (0..count).collect();
    while !missing.is_empty() {
        let Ok(answer) = read_message(&mut stream) else { break };
        let reply = Reply::read(&answer);
        let id = answer.first_chunk().map(|id| u16::from_be_bytes(*id));
        assert!(reply.faults.is_empty() && reply.answer.len() == 1, "{reply:?}");
        missing.retain(|missing| Some(*missing) != id);
    }
    missing
}

#[test]
fn garbage_on_some_streams_affects_no_others() {
    let folder = TestFolder::new("garbage").unwrap();
    let mut server = serve(&folder);
    let seed = number("DUNLIN_SEED", 1);
    let address = server.address;
    let (seen, ()) = beside(&mut server, || {
        for stream in 0..STREAMS {
            babble(address, &mut Random::new(seed << 32 | stream));
        }
    });
    assert!(seen.is_flawless(), "{}", seen.report());
}

/// Opens a stream and writes what it likes, until the server has had enough of it.
fn babble(server: SocketAddrV4, random: &mut Random) {
    let Ok(mut stream) = TcpStream::connect(server) else { return };
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let query = framed(&Query::new(name(&format!("a1.{ZONE}")), Rtype::A).to_wire());
    for _ in 0..random.below(40) {
        let bytes = match random.below(6) {
            0 => vec![0; 1 + random.below(64)],
            1 => [&[0xff, 0xff][..], &vec![random.bits() as u8; random.below(70_000)]].concat(),
            2 => (0..random.below(512)).map(|_| random.bits() as u8).collect(),
            3 => query[..random.below(query.len())].to_vec(),
            4 => query.repeat(1 + random.below(50)),
            _ => {
                let mut spoilt = query.clone();
                let at = random.below(spoilt.len());
                spoilt[at] ^= 1 << random.below(8);
                spoilt
            }
        };
        // The end of the stream is the server's right. Answers are read now and then.
        if stream.write_all(&bytes).is_err() {
            return;
        }
        if random.chance(30) && matches!(stream.read(&mut [0; 512]), Ok(0)) {
            return;
        }
    }
}

/// Two thousand clients in 127.1.0.0/16 that misbehave each in its own way, four for each place
/// there is.
#[test]
fn thousands_of_hostile_clients_affect_no_others() {
    let folder = TestFolder::new("hostile").unwrap();
    let mut server = serve(&folder);
    let address = server.address;
    let clients = Clients(Ipv4Addr::new(127, 1, 0, 0));
    let time = Duration::from_secs(4);
    let flood = Flood { kind: Kind::Hostile, server: address, clients, rate: 20_000, time };
    let (seen, steps) = beside(&mut server, || flood.run().unwrap());
    assert!(seen.share() >= SHARE_MIN, "{}", seen.report());
    assert!(steps > 1_000, "too few steps to show anything: {steps}");
}

/// Does something to the server while others ask it decently; its memory must stay within its
/// budget. Returns what the others saw, too.
fn beside<T>(server: &mut Server, misdeeds: impl FnOnce() -> T) -> (Seen, T) {
    let budget = resident(server.id()).unwrap().0 + BUDGET;
    reset_peak(server.id()).unwrap();
    let interval = Duration::from_millis(5);
    let load = Load { server: server.address, clients: &DECENT, interval };
    let (seen, result) = load.run(|_| misdeeds());
    server.check_alive().unwrap();
    let peak = resident(server.id()).unwrap().1;
    println!("{}; {} of {} MiB", seen.summary(), peak >> 20, budget >> 20);
    assert!(peak <= budget, "{peak} bytes in RAM, over the budget of {budget}");
    (seen, result)
}

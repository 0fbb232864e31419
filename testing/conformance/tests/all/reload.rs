//! A hundred reloads under load: no query lost, none answered wrongly.
//!
//! Every address of a generation carries the generation's number, so that an answer shows which
//! zone it was read from. `DUNLIN_RELOADS` sets how many there are.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{SocketAddrV4, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use conformance::Result;
use conformance::client::{ask_udp, exchange};
use conformance::environment::{TestFolder, all_present, number};
use conformance::limits::PATIENCE_SHORT;
use conformance::names::name;
use conformance::queries::Query;
use conformance::random::Random;
use conformance::reply::Reply;
use conformance::server::{Server, Software};
use conformance::zone::{Signing, Zone};
use domain::base::iana::Rtype;
use test_support::wait;

/// Owners in the zone, each with an alias.
const NAMES: usize = 1000;
/// Addresses of each owner.
const ADDRESSES: usize = 4;
/// What an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two queries of one client, so that the server has a core to itself.
const PAUSE: Duration = Duration::from_micros(100);

/// What writer and clients tell each other.
#[derive(Default)]
struct Shared {
    /// The last generation written to the file.
    written: AtomicU32,
    /// The last generation that was seen in an answer.
    confirmed: AtomicU32,
    /// Answers in time, and right.
    answered: AtomicUsize,
    /// Set when the clients should end.
    done: AtomicBool,
}

#[test]
fn no_query_is_lost_or_wrong_while_zones_are_reloaded() {
    let subject = std::env::var("DUNLIN_SUBJECT").unwrap_or("dunlin".into());
    let subject = Software::named(&subject).expect("DUNLIN_SUBJECT names a server");
    if !all_present(&[subject]) {
        return;
    }
    let reloads = number("DUNLIN_RELOADS", 100) as u32;
    let folder = TestFolder::new("reload").unwrap();
    let file = folder.path.join("gen.test.zone");
    write_zone(&file, 0).unwrap();
    let zone = Zone::read(name("gen.test"), file.clone(), Signing::Unsigned).unwrap();
    let server = Server::start(subject, &[zone], &folder.path).unwrap();
    let shared = Shared::default();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let (shared, address) = (&shared, server.address);
        let clients: Vec<_> = (0..3u64)
            .map(|seed| scope.spawn(move || ask_datagrams(address, seed, shared)))
            .chain([scope.spawn(move || ask_stream(address, shared))])
            .collect();
        let writer = reload(&server, &file, reloads, shared);
        shared.done.store(true, Ordering::Relaxed);
        let clients = clients.into_iter().map(|client| client.join().expect("no client panics"));
        clients.chain([writer]).filter_map(Result::err).collect()
    });
    let answered = shared.answered.load(Ordering::Relaxed);
    println!("{reloads} reloads, {answered} questions answered");
    assert_eq!(failures, Vec::<String>::new());
    assert!(answered > 10 * reloads as usize, "too few questions to show anything: {answered}");
}

/// Writes a generation after the other; every second one is found by the file watch alone, where
/// the subject has one.
fn reload(server: &Server, file: &Path, reloads: u32, shared: &Shared) -> Result<()> {
    for generation in 1..=reloads {
        shared.written.store(generation, Ordering::SeqCst);
        write_zone(file, generation)?;
        if generation % 2 == 0 || server.software != Software::Dunlin {
            server.reload()?;
        }
        wait::try_until_ok(&format!("serial {generation}"), || match serial(server.address) {
            Some(serial) if serial == generation => Ok(()),
            other => Err(format!("{other:?}")),
        })?;
        shared.confirmed.store(generation, Ordering::SeqCst);
    }
    Ok(())
}

/// Replaces the file in one step.
fn write_zone(file: &Path, generation: u32) -> Result<()> {
    let mut text = format!(
        "$TTL 5\n@ SOA ns hostmaster {generation} 3600 600 86400 5\n@ NS ns\nns A 192.0.2.1\n"
    );
    let [_, _, high, low] = generation.to_be_bytes();
    for owner in 0..NAMES {
        for host in 0..ADDRESSES {
            writeln!(text, "a{owner} A 10.{high}.{low}.{host}").unwrap();
        }
        writeln!(text, "c{owner} CNAME a{owner}").unwrap();
    }
    let new = file.with_extension("new");
    std::fs::write(&new, text).map_err(|e| e.to_string())?;
    std::fs::rename(&new, file).map_err(|e| e.to_string())
}

fn serial(server: SocketAddrV4) -> Option<u32> {
    let packet = Query::new(name("gen.test"), Rtype::SOA).to_wire();
    let reply = ask_udp(server, &[packet], PATIENCE_SHORT).ok()?.pop()??;
    let soa = Reply::read(&reply).answer.pop_first()?;
    let numbers = &soa.data[soa.data.len().checked_sub(20)?..];
    Some(u32::from_be_bytes(numbers[..4].try_into().ok()?))
}

fn query(random: &mut Random) -> Query {
    let owner = random.below(NAMES);
    let kind = if random.chance(50) { "a" } else { "c" };
    Query::new(name(&format!("{kind}{owner}.gen.test")), Rtype::A)
}

/// Asks until told to end, from a new port now and then, so that every worker has its turn.
fn ask_datagrams(server: SocketAddrV4, seed: u64, shared: &Shared) -> Result<()> {
    let mut random = Random::new(seed);
    while !shared.done.load(Ordering::Relaxed) {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
        socket.connect(server).map_err(|e| e.to_string())?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(|e| e.to_string())?;
        for id in 0..64u16 {
            ask(shared, &mut random, |mut packet| {
                packet[..2].copy_from_slice(&id.to_be_bytes());
                socket.send(&packet)?;
                let mut buffer = [0; 1500];
                let length = socket.recv(&mut buffer)?;
                Ok(buffer[..length].to_vec())
            })?;
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Asks over one stream, which stays open over all reloads.
fn ask_stream(server: SocketAddrV4, shared: &Shared) -> Result<()> {
    let mut random = Random::new(99);
    let mut stream = TcpStream::connect(server).map_err(|e| e.to_string())?;
    while !shared.done.load(Ordering::Relaxed) {
        ask(shared, &mut random, |packet| exchange(&mut stream, &packet, ANSWER_TIMEOUT))?;
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// One query: it must be answered, and with a single generation that was live meanwhile.
fn ask(
    shared: &Shared,
    random: &mut Random,
    exchange: impl FnOnce(Vec<u8>) -> std::io::Result<Vec<u8>>,
) -> Result<()> {
    let query = query(random);
    let oldest = shared.confirmed.load(Ordering::SeqCst);
    let reply = exchange(query.to_wire()).map_err(|e| format!("lost: {query}: {e}"))?;
    let newest = shared.written.load(Ordering::SeqCst);
    let reply = Reply::read(&reply);
    let addresses = reply.answer.iter().filter(|record| record.rtype == Rtype::A);
    let addresses: Vec<&[u8]> = addresses.map(|record| &record.data[..]).collect();
    let generations: BTreeSet<u32> =
        addresses.iter().map(|data| u32::from_be_bytes([0, 0, data[1], data[2]])).collect();
    let right = reply.rcode == 0
        && reply.faults.is_empty()
        && addresses.len() == ADDRESSES
        && generations.len() == 1
        && generations.iter().all(|generation| (oldest..=newest).contains(generation));
    if !right {
        return Err(format!("wrong: {query}: {:?} of {oldest}..={newest}, {reply:?}", generations));
    }
    shared.answered.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

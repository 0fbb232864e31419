//! Who is not on the way between Dunlin and a server cannot answer in its place: forged replies
//! with the right name, while the server takes its time; and how much there is to guess.
//!
//! By itself this is the short form: any build, three seconds of 20,000 forged replies a second, on
//! a machine that may be doing other things. `make campaign-floods-upstreams` is the campaign.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `DUNLIN_SPOOFING_SECONDS` | of each attack (3) |
//! | `DUNLIN_SPOOFING_RATE` | forged replies a second (20000) |
//! | `DUNLIN_SPOOFING_QUESTIONS` | from which entropy is estimated (20000) |

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conformance::Result;
use conformance::environment::{TestFolder, all_present, number, root};
use conformance::faulty_link::{FORGED, FaultyLink, LinkFault, ReceivedQuery};
use conformance::flood::Pace;
use conformance::flood::raw::Forger;
use conformance::names::name;
use conformance::paced_client::{Sum, ask, wait_for};
use conformance::random::Random;
use conformance::server::{Launch, Server, Software};
use conformance::zone::Zone;

const ZONE: &str = "fleet.test";
const TRUTH: [Ipv4Addr; 1] = [Ipv4Addr::new(192, 0, 2, 1)];
/// Queries a second during the attack.
const RATE: u32 = 50;
/// What the server takes for each.
const SLOW: Duration = Duration::from_millis(300);

/// Dunlin before a Knot, with a link between.
struct Stage {
    link: FaultyLink,
    dunlin: Server,
    _knot: Server,
}

impl Stage {
    fn new(directory: &Path) -> Result<Self> {
        let text = "$TTL 600\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\n* A 192.0.2.1\n";
        let zones = [Zone::write(directory, name(ZONE), text)?];
        let knot = Server::start(Software::Knot, &zones, directory)?;
        let link = FaultyLink::open(knot.address)?;
        let sections = format!("[forward]\n\".\" = [\"{}\"]\n", link.address);
        let keys = "workers = 1";
        let launch = Launch { sections: &sections, keys, ..Launch::new(Software::Dunlin, &[]) };
        let mut stage = Self { link, dunlin: launch.start(directory)?, _knot: knot };
        wait_for(&mut stage.dunlin, &format!("ready.{ZONE}"))?;
        Ok(stage)
    }

    fn ask(&self, names: &[String], rate: u32) -> Result<Sum> {
        let outcomes = ask(self.dunlin.address, names, rate).map_err(|e| e.to_string())?;
        Ok(Sum::of(&outcomes, &TRUTH))
    }

    /// Datagrams that were not replies, as Dunlin counts them.
    fn mismatched(&self) -> Result<u64> {
        let status = self.dunlin.status()?;
        let servers = status["upstreams"].as_array().into_iter().flatten();
        Ok(servers.filter_map(|server| server["mismatched"].as_u64()).sum())
    }
}

/// Of 24 letters, and those of the zone.
fn long_name(nth: usize) -> String {
    let mut random = Random::new(nth as u64);
    let letters = (0..24).map(|_| char::from(b'a' + random.below(26) as u8));
    format!("{}.{ZONE}", letters.collect::<String>())
}

/// What a forger knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knows {
    /// The name, and which ports a kernel chooses from.
    Names,
    /// Also which ports are in use.
    Ports,
}

#[test]
fn off_path_attacker_is_not_believed() {
    if !root("packets with forged sources") || !all_present(&[Software::Knot]) {
        return;
    }
    let folder = TestFolder::new("spoofing").unwrap();
    let seconds = number("DUNLIN_SPOOFING_SECONDS", 3);
    println!("| forger knows | forged | reached a socket | queries | correct | accepted |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for knows in [Knows::Names, Knows::Ports] {
        let stage = Stage::new(&folder.path).unwrap();
        stage.link.set(LinkFault::Slow(SLOW));
        let names: Vec<_> = (0..seconds as usize * RATE as usize).map(long_name).collect();
        let ends = AtomicBool::new(false);
        let (sum, forged) = std::thread::scope(|scope| {
            let forger = scope.spawn(|| forge(&stage, knows, &names, seconds, &ends));
            let sum = stage.ask(&names, RATE);
            ends.store(true, Ordering::Relaxed);
            (sum.unwrap(), forger.join().expect("the forger panicked").unwrap())
        });
        let reached = stage.mismatched().unwrap();
        // What was believed would be kept.
        stage.link.set(LinkFault::Fair);
        let again = stage.ask(&names, 10 * RATE).unwrap();
        let accepted = sum.wrong + again.wrong;
        let (all, right) = (sum.all, sum.all - sum.wrong - sum.failed - sum.silent);
        println!("| {knows:?} | {forged} | {reached} | {all} | {right} | {accepted} |");
        assert_eq!(accepted, 0);
        assert!(right * 100 >= all * 95, "{sum:?}");
        // Only the campaign has the machine for itself.
        let wanted = number("DUNLIN_SPOOFING_RATE", 1_000) * seconds / 4;
        assert!(forged >= wanted, "only {forged} of {wanted}");
        assert!(knows == Knows::Names || reached >= forged / 4, "only {reached} reached a socket");
    }
}

/// Sends forged replies to queries that are under way; how many.
fn forge(
    stage: &Stage,
    knows: Knows,
    names: &[String],
    seconds: u64,
    ends: &AtomicBool,
) -> Result<u64> {
    let forger = Forger::open().map_err(|e| e.to_string())?;
    let rate = number("DUNLIN_SPOOFING_RATE", 20_000) as u32;
    let (low, high) = local_ports()?;
    let (mut random, mut ports) = (Random::new(7), Vec::new());
    let mut pace = Pace::new(rate, Duration::from_secs(seconds));
    let replies: Vec<Vec<u8>> = names.iter().map(|name| lie(name)).collect();
    let all = u64::from(rate) * seconds;
    while pace.step() && !ends.load(Ordering::Relaxed) {
        let done = pace.steps();
        if knows == Knows::Ports && done % 2_000 == 1 {
            ports = ports_to(stage.link.address)?;
        }
        // Those asked in the last third of a second.
        let asked = (names.len() as u64 * done / all) as usize;
        let back = random.below((RATE as usize / 3).max(1));
        let mut reply = replies[asked.saturating_sub(back).min(names.len() - 1)].clone();
        reply[..2].copy_from_slice(&(random.bits() as u16).to_be_bytes());
        let letters = 13..reply.len();
        for at in letters.take_while(|at| *at < 13 + 24) {
            reply[at] ^= if random.chance(50) { 0x20 } else { 0 };
        }
        let port = match ports.is_empty() {
            true => low + random.below(usize::from(high - low) + 1) as u16,
            false => *random.pick(&ports),
        };
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        forger.send(stage.link.address, to, &reply).map_err(|e| format!("a forged reply: {e}"))?;
    }
    Ok(pace.steps())
}

/// A reply that gives a name the wrong address, in want of an id.
fn lie(text: &str) -> Vec<u8> {
    let mut reply = vec![0, 0, 0x84, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    reply.extend(name(text).as_slice());
    reply.extend([0, 1, 0, 1, 0xc0, 12, 0, 1, 0, 1, 0, 1, 0, 0, 0, 4]);
    reply.extend(FORGED.octets());
    reply
}

/// The ports that the kernel chooses from.
fn local_ports() -> Result<(u16, u16)> {
    let path = "/proc/sys/net/ipv4/ip_local_port_range";
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    numbers.next().zip(numbers.next()).ok_or(format!("{path} has two numbers"))
}

/// The local ports of sockets that are connected to an address.
fn ports_to(address: SocketAddrV4) -> Result<Vec<u16>> {
    let table = std::fs::read_to_string("/proc/net/udp").map_err(|e| e.to_string())?;
    let ip = u32::from_ne_bytes(address.ip().octets());
    let remote = format!("{ip:08X}:{:04X}", address.port());
    let local = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, other) = (words.next()?, words.next()?);
        let port = u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?;
        (other == remote).then_some(port)
    };
    Ok(table.lines().filter_map(local).collect())
}

#[test]
fn ids_ports_and_case_are_random() {
    if !all_present(&[Software::Knot]) {
        return;
    }
    let folder = TestFolder::new("entropy").unwrap();
    let stage = Stage::new(&folder.path).unwrap();
    let count = number("DUNLIN_SPOOFING_QUESTIONS", 20_000) as usize;
    stage.link.watch();
    let names: Vec<String> = (0..count).map(long_name).collect();
    let sum = stage.ask(&names, 4_000).unwrap();
    let seen = stage.link.seen();
    assert!(seen.len() >= count, "{} of {count}: {sum:?}", seen.len());
    println!("| what | queries | measured | 95 % |\n| --- | --- | --- | --- |");
    judge_ids(&seen);
    judge_ports(&seen);
    judge_letters(&seen);
}

/// From how often two queries have the same id.
fn judge_ids(seen: &[ReceivedQuery]) {
    let mut counts = BTreeMap::new();
    seen.iter().for_each(|asked| *counts.entry(asked.id).or_insert(0u64) += 1);
    let same: u64 = counts.values().map(|count| count * (count - 1) / 2).sum();
    let pairs = seen.len() as f64 * (seen.len() as f64 - 1.0) / 2.0;
    let same = same as f64;
    let bits = |same: f64| (pairs / same).log2();
    let (low, high) = (bits(same + 1.96 * same.sqrt()), bits(same - 1.96 * same.sqrt()));
    println!("| id, bits | {} | {:.2} | {low:.2} to {high:.2} |", seen.len(), bits(same));
    assert!(low > 15.8, "{low}");
    for (what, shift) in [("upper", 8), ("lower", 0)] {
        let mut bytes = [0u64; 256];
        seen.iter().for_each(|asked| bytes[usize::from(asked.id >> shift & 0xff)] += 1);
        let square = chi_square(&bytes);
        println!("| {what} byte of id, χ² of 255 | {} | {square:.0} | 213 to 301 |", seen.len());
        // One run in 100,000 is beyond it.
        assert!((160.0..=365.0).contains(&square), "{square}");
    }
}

/// Sixteen sockets at a time, whose ports the kernel chooses.
fn judge_ports(seen: &[ReceivedQuery]) {
    let ports: BTreeSet<u16> = seen.iter().map(|asked| asked.port).collect();
    let (low, high) = local_ports().unwrap();
    assert!(ports.iter().all(|port| (low..=high).contains(port)), "{ports:?}");
    let range = usize::from(high - low) + 1;
    let mut eighths = [0u64; 8];
    ports.iter().for_each(|port| eighths[usize::from(port - low) * 8 / range] += 1);
    let square = chi_square(&eighths);
    println!("| ports used, of {range} | {} | {} | |", seen.len(), ports.len());
    println!(
        "| eighth of the range, χ² of 7 | {} ports | {square:.1} | 1.7 to 16.0 |",
        ports.len()
    );
    // A port serves 256 queries: the rest are the sixteen that are in use.
    assert!(ports.len() + 2 >= seen.len() / 256, "{}", ports.len());
    assert!(square <= 40.0, "{square}: {eighths:?}");
}

/// Each letter is in upper case half of the time, independent of the one before.
fn judge_letters(seen: &[ReceivedQuery]) {
    let letters = || {
        seen.iter().flat_map(|asked| {
            asked.name.iter().filter(|byte| byte.is_ascii_alphabetic()).map(u8::is_ascii_uppercase)
        })
    };
    let all = letters().count() as f64;
    let share = |count: usize| count as f64 / all;
    let upper = share(letters().filter(|is_upper| *is_upper).count());
    let changes =
        share(letters().zip(letters().skip(1)).filter(|(one, other)| one != other).count());
    let bound = 1.96 * 0.5 / all.sqrt();
    let (low, high) = (50.0 - 100.0 * bound, 50.0 + 100.0 * bound);
    for (what, share) in [("letters in upper case", upper), ("unlike the one before", changes)] {
        let percent = 100.0 * share;
        println!("| {what}, % of {all} | {} | {percent:.2} | {low:.2} to {high:.2} |", seen.len());
        assert!((share - 0.5).abs() < 3.0 * bound, "{share}");
    }
}

fn chi_square(counts: &[u64]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum()
}

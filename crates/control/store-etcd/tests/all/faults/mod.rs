//! Random faults of one etcd and three servers, from a seed: histories are rewritten, keys are
//! changed by hand, bits flip. A server never differs from the others without a fault that it
//! shows, no acknowledged write is lost without an adoption, and no name that exists is denied.
mod proxy;

use crate::node::Node;
use fastrand::Rng;
use proxy::Proxy;
use records::{Precondition, Refused};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use test_support::etcd::Etcd;
use test_support::operator::Operator;
use test_support::wait;

/// How many faults; otherwise some.
const FAULTS: &str = "DUNLIN_FAULTS";
const SERVERS: usize = 3;
/// What a server says that differs.
const DAMAGED_COPY: &str = "one of the copies is damaged";
/// Each adoption writes it.
const ADOPTED: &str = "/dunlin/adopted";
const NAMES: u32 = 12;

/// What may happen.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Emptied,
    EmptiedAndWritten,
    SetBack,
    SetBackAndWritten,
    Replaced,
    CommitsDeleted,
    RevisionEdited,
    SetEdited,
    SetDeleted,
    SetDamaged,
    ZoneDamaged,
    FormatEdited,
    BitsFlipped,
    Restarted,
    ServerRestarted,
    ServerForgets,
    ServerCut,
    CopyChanged,
}

const ALL: [Fault; 18] = [
    Fault::Emptied,
    Fault::EmptiedAndWritten,
    Fault::SetBack,
    Fault::SetBackAndWritten,
    Fault::Replaced,
    Fault::CommitsDeleted,
    Fault::RevisionEdited,
    Fault::SetEdited,
    Fault::SetDeleted,
    Fault::SetDamaged,
    Fault::ZoneDamaged,
    Fault::FormatEdited,
    Fault::BitsFlipped,
    Fault::Restarted,
    Fault::ServerRestarted,
    Fault::ServerForgets,
    Fault::ServerCut,
    Fault::CopyChanged,
];

struct World {
    etcd: Etcd,
    operator: Operator,
    proxies: Vec<Proxy>,
    nodes: Vec<Node>,
    rng: Rng,
    /// The value of each name that a server has acknowledged, and the newest that was sent.
    acknowledged: BTreeMap<u32, u32>,
    sent: u32,
    /// The names that each server has answered.
    known: [BTreeSet<u32>; SERVERS],
    adoptions: u32,
    /// An adoption is not on all servers yet.
    is_adopting: bool,
    /// The server whose copy was removed, as it differed.
    forgot: Option<usize>,
    /// Which fault was made, for messages.
    what: String,
}

fn name_of(number: u32) -> String {
    format!("n{number}.example.org.")
}

fn text(value: u32) -> String {
    let [_, a, b, c] = value.to_be_bytes();
    format!("10.{a}.{b}.{c}")
}

fn value_of(node: &Node, number: u32) -> Option<u32> {
    let (_, value) = node.get(&name_of(number))?;
    let address: [u8; 4] = value.data.first()?[..].try_into().ok()?;
    // The second byte is what an edit by hand changes: it says nothing of which write is newer.
    Some(u32::from_be_bytes([0, 0, address[2], address[3]]))
}

/// What a server says is wrong with it.
fn fault_of(node: &Node) -> Option<String> {
    let (service, fleet) = (node.service(), node.fleet().status());
    let unread = service.held().err().map(|why| why.to_string());
    let unwritable = service.writable().err().map(|why| why.to_string());
    let health = service.health();
    let unreadable = (health.unreadable_count > 0).then(|| "a zone is unreadable".to_owned());
    let of_fleet = fleet.difference.or(fleet.unreadable);
    unread.or(unwritable).or(unreadable).or(of_fleet)
}

impl World {
    fn start(seed: u64) -> Option<Self> {
        let etcd = Etcd::start_or_skip(1)?;
        let operator = Operator::of(&etcd);
        let url = &etcd.endpoints()[0];
        let proxies: Vec<Proxy> =
            (0..SERVERS as u64).map(|n| Proxy::start(url, seed + 1_000 * n)).collect();
        let nodes = proxies.iter().map(|proxy| Node::start_on(vec![proxy.address()])).collect();
        let (rng, acknowledged) = (Rng::with_seed(seed), BTreeMap::new());
        let what = "the start".to_owned();
        let world = Self {
            etcd,
            operator,
            proxies,
            nodes,
            rng,
            acknowledged,
            sent: 0,
            known: Default::default(),
            adoptions: 0,
            is_adopting: false,
            forgot: None,
            what,
        };
        world.nodes[0].create("example.org.").expect("a new zone");
        Some(world)
    }

    fn node(&mut self) -> usize {
        self.rng.usize(..SERVERS)
    }

    /// Writes through servers at random; some are refused.
    fn write(&mut self, count: u32) {
        for _ in 0..count {
            let (node, number) = (self.node(), self.rng.u32(..NAMES));
            if fault_of(&self.nodes[node]).is_some() {
                continue;
            }
            self.sent += 1;
            let (at, value) = (name_of(number), self.sent);
            match self.nodes[node].put(&at, &text(value), Precondition::Anything) {
                Ok(done) => {
                    println!("  server {node} wrote n{number} = {value}, {:?}", done.revision);
                    self.acknowledged.insert(number, value);
                }
                // An empty etcd was adopted.
                Err(Refused::NoSuchZone) => drop(self.nodes[node].create("example.org.")),
                Err(why) => println!("  server {node} refused n{number} = {value}: {why}"),
            }
        }
    }

    /// A server without a copy writes until its revisions have passed those of the others.
    fn write_afresh(&mut self) {
        let newest = self.nodes.iter().map(|node| node.revision().0).max().unwrap_or_default();
        let fresh = Node::start(&self.etcd);
        let is_there =
            wait::until_ok("a fresh server writes", || match fresh.create("example.org.") {
                Ok(_) | Err(Refused::ZoneExists) => Ok(true),
                // What etcd has is not usable for it either.
                Err(why) if fault_of(&fresh).is_some() => Ok(format!("{why}").is_empty()),
                Err(why) => Err(format!("{why}")),
            });
        let mut value = 0;
        while is_there && fresh.revision().0 <= newest + 3 && value < 60 {
            value += 1;
            let at = name_of(NAMES + value % 3);
            // It is refused if etcd is not what it was.
            let _ = fresh.put(&at, &text(value), Precondition::Anything);
        }
    }

    fn restart_etcd(&mut self, change: impl FnOnce(&mut Etcd)) {
        self.etcd.kill(0);
        change(&mut self.etcd);
        self.etcd.start(0);
    }

    fn make(&mut self, fault: Fault) {
        let (node, number) = (self.node(), self.rng.u32(..NAMES));
        let set = format!("/dunlin/sets/example.org./n{number}/A");
        match fault {
            Fault::Emptied => self.operator.delete("/dunlin/"),
            Fault::EmptiedAndWritten => {
                self.operator.delete("/dunlin/");
                self.write_afresh();
            }
            Fault::SetBack | Fault::SetBackAndWritten => {
                self.etcd.kill(0);
                let saved = self.etcd.save(0);
                self.etcd.start(0);
                self.settle();
                let writes = 1 + self.rng.u32(..5);
                self.write(writes);
                self.restart_etcd(|etcd| etcd.load(0, &saved));
                if matches!(fault, Fault::SetBackAndWritten) {
                    self.write_afresh();
                }
            }
            Fault::Replaced => self.restart_etcd(|etcd| etcd.empty(0)),
            Fault::CommitsDeleted => {
                let newest = self.nodes[node].revision().0;
                let lost = newest.saturating_sub(self.rng.u64(..4));
                self.operator.delete(&format!("/dunlin/commits/{lost:020}"));
            }
            Fault::RevisionEdited => {
                let newest = self.nodes[node].revision().0 + self.rng.u64(..5);
                let (revision, id) = (newest.saturating_sub(2), self.rng.u128(..));
                self.operator.put("/dunlin/revision", format!("{revision} {id:032x}"));
            }
            Fault::SetEdited => {
                if let Some(value) = self.operator.get(&set) {
                    self.operator.put(&set, value.replace("10.0.", "10.9."));
                }
            }
            Fault::SetDeleted => {
                // It is gone for servers that read it from now on.
                self.operator.delete(&set);
                self.forget(number);
            }
            Fault::SetDamaged => self.operator.put(&set, "{\"ttl\":6"),
            Fault::ZoneDamaged => self.operator.put("/dunlin/zones/example.org.", "{"),
            Fault::FormatEdited => self.operator.put("/dunlin/format", "9"),
            Fault::BitsFlipped => {
                self.proxies[node].flip(30_000);
                self.write(8);
                self.proxies[node].flip(0);
                self.proxies[node].cut(false);
            }
            Fault::Restarted => self.restart_etcd(|_| ()),
            Fault::ServerRestarted => {
                self.nodes[node].stop();
                self.write_without(node);
                self.nodes[node].restart();
            }
            Fault::ServerForgets => self.nodes[node].forget(),
            Fault::ServerCut => {
                self.proxies[node].cut(true);
                self.write_without(node);
                self.proxies[node].cut(false);
            }
            Fault::CopyChanged => {
                if let Some(value) = value_of(&self.nodes[node], number) {
                    let [_, a, b, c] = value.to_be_bytes();
                    self.nodes[node].alter(&[10, a, b, c], &[10, a, b, c ^ 1]);
                }
            }
        }
        self.write(3);
    }

    fn write_without(&mut self, node: usize) {
        for _ in 0..3 {
            let number = self.rng.u32(..NAMES);
            self.sent += 1;
            let writer = &self.nodes[(node + 1) % SERVERS];
            let (at, value) = (name_of(number), self.sent);
            if let Ok(done) = writer.put(&at, &text(value), Precondition::Anything) {
                println!("  without {node}, n{number} = {value}, {:?}", done.revision);
                self.acknowledged.insert(number, value);
            }
        }
    }

    /// No name is denied that exists, and that this server has answered already: its zone is not
    /// there, is SERVFAIL, or has the name. After an adoption, names may go.
    fn check_answers(&mut self) {
        for (at, (node, known)) in self.nodes.iter().zip(&mut self.known).enumerate() {
            let is_served = node.serial("example.org.").is_some();
            for number in self.acknowledged.keys().filter(|_| is_served) {
                let is_there = node.answers(&name_of(*number));
                let is_denied = known.contains(number) && !is_there && !self.is_adopting;
                assert!(!is_denied, "{}: server {at} denies n{number}", self.what);
                if is_there {
                    known.insert(*number);
                }
            }
        }
    }

    /// Whether all agree; or the faults that servers show.
    fn state(&self) -> Result<bool, Vec<(usize, String)>> {
        let faults = self.nodes.iter().enumerate();
        let faults: Vec<_> = faults.filter_map(|(at, node)| Some((at, fault_of(node)?))).collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let export = |node: &Node| node.service().held().map(|_| node.export()).ok();
        let all: Vec<_> = self.nodes.iter().map(export).collect();
        Ok(all[0].is_some() && all.iter().all(|one| *one == all[0]))
    }

    /// Waits until all agree, or say for a while what is wrong; heals that, and checks that
    /// nothing is lost.
    fn settle(&mut self) {
        let until = Instant::now() + Duration::from_secs(120);
        let mut faulty_since: Option<Instant> = None;
        loop {
            self.check_answers();
            match self.state() {
                Ok(true) => break,
                Ok(false) => faulty_since = None,
                Err(faults) => {
                    let since = *faulty_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > Duration::from_millis(1_500) {
                        self.heal(&faults);
                        faulty_since = None;
                    }
                }
            }
            let all: Vec<_> =
                self.nodes.iter().map(|node| (node.revision(), fault_of(node))).collect();
            assert!(Instant::now() < until, "{}: servers differ: {all:?}", self.what);
            std::thread::sleep(Duration::from_millis(30));
        }
        (self.is_adopting, self.forgot) = (false, None);
        for (number, acknowledged) in &self.acknowledged {
            let found = value_of(&self.nodes[0], *number);
            let is_there = found >= Some(*acknowledged);
            assert!(is_there, "{}: n{number} is {found:?}, not {acknowledged}", self.what);
        }
    }

    /// An operator has deleted a name.
    fn forget(&mut self, number: u32) {
        self.acknowledged.remove(&number);
        for known in &mut self.known {
            known.remove(&number);
        }
    }

    /// Does what a message asks for.
    fn heal(&mut self, faults: &[(usize, String)]) {
        // A history that is to be decided about comes first.
        let is_difference = |(_, why): &&(usize, String)| why.contains(DAMAGED_COPY);
        let others: Vec<_> = faults.iter().filter(|fault| !is_difference(fault)).collect();
        let all: Vec<_> = if others.is_empty() { faults.iter().collect() } else { others };
        let (at, why) = all[self.rng.usize(..all.len())];
        println!("  server {at}: {why}");
        if why.contains(DAMAGED_COPY) {
            return self.heal_difference();
        }
        if why.contains("newer version wrote") && why.contains("format") {
            return self.operator.put("/dunlin/format", "1");
        }
        if why.contains("is damaged") && why.contains("/dunlin/revision") {
            let newest = self.nodes[*at].revision();
            return self.operator.put("/dunlin/revision", format!("{newest} {:032x}", 7));
        }
        // Any server may be right: what it has after an adoption is right then.
        let (adopting, is_own_right) = (self.rng.usize(..SERVERS), self.rng.bool());
        let node = &self.nodes[adopting];
        let own = node.service().held().is_ok().then(|| node.export());
        let before = self.operator.get(ADOPTED);
        match node.service().adopt().wait() {
            Ok(_) => {
                self.adoptions += 1;
                self.is_adopting = true;
                self.known = Default::default();
                if let Some(own) = own.filter(|_| is_own_right) {
                    // It may be too soon, as after any write of another server.
                    let restored = node.restore(own);
                    println!("  adopted by {adopting}, its records restored: {restored:?}");
                }
                println!("  adopted by {adopting}");
                let found = |number: &u32| Some((*number, value_of(node, *number)?));
                self.acknowledged = self.acknowledged.keys().filter_map(found).collect();
            }
            // The key of the message is deleted, as the message says.
            Err(why) => {
                let why = why.to_string();
                println!("  not adopted by {adopting}: {why}");
                assert_eq!(self.operator.get(ADOPTED), before, "{}: it is adopted", self.what);
                let key = why.split_whitespace().find(|word| word.starts_with("/dunlin/sets/"));
                let zone = why.split_whitespace().find(|word| word.starts_with("/dunlin/zones/"));
                if let Some(key) = key.filter(|_| why.contains("would be lost")) {
                    self.forget(number_in(key));
                    self.operator.delete(key);
                } else if let Some(zone) = zone.filter(|_| why.contains("would be lost")) {
                    self.operator.put(zone, "{\"revision\":1,\"offset\":0}");
                }
            }
        }
    }

    /// Removes the copy of the server that differs from all others. If it differs again, etcd has
    /// the other content: one of those that agree writes its content again.
    fn heal_difference(&mut self) {
        let all: Vec<_> = self.nodes.iter().map(Node::export).collect();
        let differs = |at: usize| {
            let same = all.iter().filter(|one| **one == all[at]).count();
            same == 1
        };
        let right = (0..SERVERS).find(|at| !differs(*at));
        let odd = (0..SERVERS).find(|at| differs(*at));
        match (right, odd) {
            // A report was damaged, and the next one is right.
            (_, None) => self.write(1),
            (Some(_), Some(odd)) if self.forgot != Some(odd) => {
                println!("  server {odd} forgets");
                self.forgot = Some(odd);
                self.nodes[odd].forget();
            }
            (right, Some(_)) => {
                let right = right.unwrap_or_else(|| self.node());
                let restored = self.nodes[right].restore(all[right].clone());
                println!("  server {right} writes its content again: {restored:?}");
            }
        }
    }
}

fn number_in(key: &str) -> u32 {
    let digits: String = key.split('/').nth(4).unwrap_or_default().chars().skip(1).collect();
    digits.parse().unwrap_or(u32::MAX)
}

#[test]
#[ignore = "slow: it makes twenty faults; make campaign-fleet-histories makes a thousand"]
fn servers_never_differ_unseen_whatever_happens_to_the_history() {
    let count = std::env::var(FAULTS).map_or(20, |text| text.parse().expect("a number"));
    let seed = std::env::var("DUNLIN_SEED")
        .map_or_else(|_| fastrand::u64(..u64::MAX / 2), |seed| seed.parse().expect("a number"));
    println!("DUNLIN_SEED={seed}");
    let Some(mut world) = World::start(seed) else { return };
    world.write(20);
    world.settle();
    let began = Instant::now();
    for round in 0..count {
        let fault = ALL[world.rng.usize(..ALL.len())];
        world.what = format!("seed {seed}, fault {round}, {fault:?}");
        let start = Instant::now();
        world.make(fault);
        world.settle();
        println!("{round}: {fault:?}, {:.1?}", start.elapsed());
        if world.acknowledged.len() < NAMES as usize / 2 {
            world.write(20);
            world.settle();
        }
    }
    let (all, adoptions) = (began.elapsed(), world.adoptions);
    println!("{count} faults in {all:.0?}, {} writes, {adoptions} adoptions", world.sent);
}

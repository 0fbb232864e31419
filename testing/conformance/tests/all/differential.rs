//! The differential test against Knot, NSD and BIND: every difference has a reason, none of them
//! ours.
//!
//! `DUNLIN_SEED` and `DUNLIN_QUESTIONS` choose the queries, `DUNLIN_BIN` the binary, and
//! `DUNLIN_SUBJECT` another server to be judged in Dunlin's place: `knot`, `nsd` or `bind`.

use std::path::Path;
use std::time::Instant;

use conformance::Result;
use conformance::environment::{TestFolder, all_present, number};
use conformance::limits::{PATIENCE_LONG, PATIENCE_SHORT};
use conformance::oddities::{odd, rare_oddities};
use conformance::packet::QueryPacket;
use conformance::queries::{QueryGenerator, rarities};
use conformance::random::Random;
use conformance::reasons::{self, Reason};
use conformance::run::{Arena, Findings, Transport};
use conformance::server::{Launch, Software};
use conformance::world::World;

/// Queries of a full run. With seed 1 it must need every reason.
const FULL: usize = 100_000;
const PEERS: [Software; 3] = [Software::Knot, Software::Nsd, Software::Bind];

/// Queries of a run that takes a minute.
const QUICK: usize = 15_000;

#[test]
fn every_difference_has_a_reason() {
    compare(QUICK);
}

#[test]
#[ignore = "slow: 100,000 questions"]
fn every_reason_is_needed() {
    compare(FULL);
}

fn compare(default_questions: usize) {
    let subject = std::env::var("DUNLIN_SUBJECT").unwrap_or("dunlin".into());
    let subject = Software::named(&subject).expect("DUNLIN_SUBJECT names a server");
    if !all_present(&PEERS) {
        return;
    }
    let seed = number("DUNLIN_SEED", 1);
    let queries = number("DUNLIN_QUESTIONS", default_questions as u64) as usize;
    println!("DUNLIN_SEED={seed} DUNLIN_QUESTIONS={queries}");
    let rules = reasons::read(include_str!("../../reasons.toml")).expect("reasons.toml");
    let findings = run(subject, seed, queries, &rules).expect("the servers run");
    println!("{}", findings.report());
    let needed = |rule: &&Reason| findings.reasons.contains_key(&rule.id);
    let idle: Vec<_> = rules.iter().filter(|rule| !needed(rule)).map(|rule| &rule.id).collect();
    println!("reasons this run did not need: {idle:?}");
    assert!(findings.unexplained.is_empty(), "there are differences without a reason");
    assert!(queries != FULL || seed != 1 || idle.is_empty(), "an unused reason is wrong");
}

fn run(subject: Software, seed: u64, queries: usize, rules: &[Reason]) -> Result<Findings> {
    let folder = TestFolder::new("differential")?;
    let mut findings = Findings::default();
    for (world, share) in
        [(World::main(&folder.path, seed)?, 95), (World::root(&folder.path, seed)?, 5)]
    {
        let arena = start(subject, &world, &folder.path.join(world.name))?;
        let begun = Instant::now();
        let mut generator = QueryGenerator::new(&world, seed);
        let mut packets =
            |count| (0..count).map(|_| generator.query().into()).collect::<Vec<QueryPacket>>();
        let count = queries * share / 100;
        let (mut datagrams, streams) = (packets(count), packets(count / 20));
        datagrams.extend(rarities(&world).into_iter().map(QueryPacket::from));
        arena.ask(&datagrams, Transport::Udp, PATIENCE_LONG, rules, &mut findings)?;
        arena.ask(&streams, Transport::Tcp, PATIENCE_LONG, rules, &mut findings)?;
        let mut random = Random::new(seed);
        let mut odd: Vec<_> =
            (0..count / 20).map(|_| odd(generator.query(), &mut random)).collect();
        odd.extend(rare_oddities(&world, &mut random));
        arena.ask(&odd, Transport::Udp, PATIENCE_SHORT, rules, &mut findings)?;
        println!("{}: {count} questions in {:.1?}", world.name, begun.elapsed());
    }
    Ok(findings)
}

fn start<'a>(subject: Software, world: &'a World, directory: &Path) -> Result<Arena<'a>> {
    // What NSID says (RFC 5001) is the same of all servers.
    let start = |software| {
        let launch = Launch::new(software, &world.zones);
        Launch { keys: "nsid = \"here\"", ..launch }.start(directory)
    };
    let peers = PEERS.into_iter().filter(|peer| *peer != subject);
    let (subject, peers) = (start(subject)?, peers.map(start).collect::<Result<_>>()?);
    Ok(Arena { world, subject, peers, dialect: None })
}

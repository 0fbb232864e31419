//! The differential test against Knot, NSD and BIND: every difference has a reason, none of them ours.
#![allow(missing_docs)]

use std::path::PathBuf;

use conformance::client::Patience;
use conformance::questions::Maker;
use conformance::reasons;
use conformance::run::{Arena, Findings, Probe, Transport};
use conformance::server::{Server, Software};
use conformance::world::World;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn differential() {
    let seed = number("DUNLIN_SEED", 1);
    let questions = number("DUNLIN_QUESTIONS", 100_000) as usize;
    let subject = std::env::var("DUNLIN_SUBJECT").unwrap_or("dunlin".into());
    let subject = Software::named(&subject).unwrap();
    let dir = std::env::temp_dir().join(format!("dunlin-conformance-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let rules = reasons::read(
        &std::fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("reasons.toml"))
            .unwrap(),
    )
    .unwrap();
    let mut findings = Findings::default();
    for world in [World::main(&dir, seed).unwrap(), World::root(&dir, seed).unwrap()] {
        let start = |software| Server::start(software, &world.zones, &dir.join(world.name)).unwrap();
        let peers = [Software::Knot, Software::Nsd, Software::Bind];
        let arena = Arena {
            world: &world,
            subject: start(subject),
            peers: peers.into_iter().filter(|p| *p != subject).map(start).collect(),
        };
        let mut maker = Maker::new(&world, seed);
        let count = if world.name == "main" { questions * 95 / 100 } else { questions / 20 };
        let probes: Vec<Probe> = (0..count).map(|_| maker.question().into()).collect();
        let begun = std::time::Instant::now();
        arena.ask(&probes, Transport::Udp, Patience::LONG, &rules, &mut findings).unwrap();
        eprintln!("{} {:?}", world.name, begun.elapsed());
    }
    println!("{}", findings.report());
    assert!(findings.unexplained.is_empty());
}

//! Views beside Knot with the merged zones: every difference has a reason, as without views.
//!
//! Each unsigned zone of the differential test is split into a zone and three views. The clients of
//! the test are in one view after the other, and Knot serves the merged zones of that view.
//! `DUNLIN_SEED` and `DUNLIN_QUESTIONS` choose the queries, `DUNLIN_BIN` the binary.
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use conformance::Result;
use conformance::environment::{TestFolder, all_present, number};
use conformance::limits::PATIENCE_LONG;
use conformance::packet::QueryPacket;
use conformance::queries::{QueryGenerator, rarities};
use conformance::random::Random;
use conformance::reasons::{self, Reason};
use conformance::run::{Arena, Findings, Transport};
use conformance::server::{Launch, Software};
use conformance::world::World;
use conformance::zone::{Signing, Zone};
use wire::{Name, NameBuf, Rtype};

const VIEWS: usize = 3;
/// Zones whose records Knot does not read in the form in which this test writes them.
const REFUSED_TEXTS: [&str; 2] = ["odd.test", "types.test"];
/// Queries of a full run, and of one that takes less than a minute.
const FULL: usize = 60_000;
const QUICK: usize = 6_000;

/// The lines of each set, by owner and type.
type Sets = BTreeMap<(String, u16), String>;

/// A zone without views, and the sets of each view.
struct Split {
    zone: Zone,
    base: Sets,
    views: Vec<Sets>,
}

#[test]
fn every_view_answers_as_knot_does_with_the_merged_zone() {
    compare(QUICK);
}

#[test]
#[ignore = "slow: 60,000 questions"]
fn every_view_answers_many_queries_as_knot_does() {
    compare(FULL);
}

fn compare(default_questions: usize) {
    if !all_present(&[Software::Knot]) {
        return;
    }
    let seed = number("DUNLIN_SEED", 1);
    let queries = number("DUNLIN_QUESTIONS", default_questions as u64) as usize;
    println!("DUNLIN_SEED={seed} DUNLIN_QUESTIONS={queries}");
    let rules = reasons::read(include_str!("../../reasons.toml")).expect("reasons.toml");
    let findings = run(seed, queries, &rules).expect("the servers run");
    println!("{}", findings.report());
    assert!(findings.unexplained.is_empty(), "there are differences without a reason");
}

fn run(seed: u64, queries: usize, rules: &[Reason]) -> Result<Findings> {
    let folder = TestFolder::new("views")?;
    let mut random = Random::new(seed);
    let all = World::main(&folder.path, seed)?.zones.into_iter();
    let is_text = |zone: &Zone| !REFUSED_TEXTS.contains(&zone.name.to_string().as_str());
    let unsigned = all.filter(|zone| zone.signing == Signing::Unsigned && is_text(zone));
    let splits: Vec<Split> =
        unsigned.map(|zone| split(zone, &mut random)).collect::<Result<_>>()?;
    let mut findings = Findings::default();
    for view in 0..VIEWS {
        let folder = folder.path.join(format!("view-{view}"));
        fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        ask(&splits, view, &folder, seed, queries / VIEWS, rules, &mut findings)?;
    }
    Ok(findings)
}

fn ask(
    splits: &[Split],
    view: usize,
    folder: &Path,
    seed: u64,
    queries: usize,
    rules: &[Reason],
    findings: &mut Findings,
) -> Result<()> {
    let merged = splits.iter().map(|split| {
        let sets = split.base.clone().into_iter().chain(split.views[view].clone()).collect();
        let file = write(folder, "merged", &split.zone, &sets)?;
        Zone::read(split.zone.name.clone(), file, Signing::Unsigned)
    });
    let world = World { name: "views", zones: merged.collect::<Result<_>>()? };
    let mut sections =
        format!("[[network]]\nname = \"here\"\nprefixes = [\"127.0.0.0/8\"]\nview = \"v{view}\"\n");
    let mut base = Vec::new();
    for split in splits {
        let file = write(folder, "base", &split.zone, &split.base)?;
        base.push(Zone { file, ..split.zone.clone() });
        for (n, sets) in split.views.iter().enumerate() {
            let file = write(folder, &format!("v{n}"), &split.zone, sets)?;
            let name = split.zone.name.fmt_with_dot();
            writeln!(sections, "[[zone]]\nname = \"{name}\"\nview = \"v{n}\"\nfile = {file:?}")
                .map_err(|e| e.to_string())?;
        }
    }
    let launch = Launch::new(Software::Dunlin, &base);
    let launch = Launch { keys: "nsid = \"here\"", sections: &sections, ..launch };
    let subject = launch.start(folder)?;
    let peers = vec![Launch::new(Software::Knot, &world.zones).start(folder)?];
    let arena = Arena { world: &world, subject, peers, dialect: None };
    let mut generator = QueryGenerator::new(&world, seed.wrapping_add(view as u64));
    let mut packets =
        |count| (0..count).map(|_| generator.query().into()).collect::<Vec<QueryPacket>>();
    let (mut datagrams, streams) = (packets(queries), packets(queries / 20));
    datagrams.extend(rarities(&world).into_iter().map(QueryPacket::from));
    arena.ask(&datagrams, Transport::Udp, PATIENCE_LONG, rules, findings)?;
    arena.ask(&streams, Transport::Tcp, PATIENCE_LONG, rules, findings)
}

/// Splits a zone. The first view gives it back as a whole; the others have some of its sets.
fn split(zone: Zone, random: &mut Random) -> Result<Split> {
    let apex = format!("{}", zone.name.fmt_with_dot());
    let (whole, others) = (read(&zone)?, Random::new(random.bits()));
    let (mut base, mut first) = (Sets::new(), Sets::new());
    for (key, lines) in &whole {
        let is_needed =
            key.0.eq_ignore_ascii_case(&apex) && [Rtype::NS.0, Rtype::SOA.0].contains(&key.1);
        match random.below(10) {
            _ if is_of_zone(key.1) => _ = base.insert(key.clone(), lines.clone()),
            0..5 => _ = base.insert(key.clone(), lines.clone()),
            5..8 if !is_needed => _ = first.insert(key.clone(), lines.clone()),
            _ => {
                // The zone has one record of the set, with another TTL.
                let line = lines.lines().next().unwrap_or_default();
                let (owner, rest) = line.split_once(' ').unwrap_or_default();
                let (ttl, rest) = rest.split_once(' ').unwrap_or_default();
                let ttl: u32 = ttl.parse().unwrap_or_default();
                base.insert(key.clone(), format!("{owner} {} {rest}\n", ttl + 7));
                first.insert(key.clone(), lines.clone());
            }
        }
    }
    let mut others = others;
    let mut some = || {
        let sets = whole.iter().filter(|(key, _)| !is_of_zone(key.1) && others.chance(30));
        sets.map(|(key, lines)| (key.clone(), lines.clone())).collect::<Sets>()
    };
    let mut views = vec![first];
    views.extend((1..VIEWS).map(|_| some()));
    Ok(Split { zone, base, views })
}

/// Whether sets of this type are those of the zone in every view.
fn is_of_zone(rtype: u16) -> bool {
    let dnssec = [Rtype::RRSIG, Rtype::NSEC, Rtype::NSEC3, Rtype::NSEC3PARAM, Rtype::DNSKEY];
    rtype == Rtype::SOA.0 || dnssec.contains(&Rtype(rtype))
}

/// The sets of a zone file.
fn read(zone: &Zone) -> Result<Sets> {
    let origin = NameBuf::from_text(zone.name.fmt_with_dot().to_string().as_bytes(), Name::ROOT);
    let origin = origin.map_err(|e| e.to_string())?;
    let mut sets = Sets::new();
    let read = zonefile::read(&zone.file, origin.as_name(), &mut |record| {
        let data = zonefile::data_text(record.rtype, record.rdata);
        let key = (record.owner.to_string().to_ascii_lowercase(), record.rtype.0);
        let line = format!("{} {} {} {data}\n", record.owner, record.ttl, record.rtype);
        sets.entry(key).or_default().push_str(&line);
        Ok(())
    });
    read.map_err(|e| e.to_string())?;
    Ok(sets)
}

fn write(folder: &Path, part: &str, zone: &Zone, sets: &Sets) -> Result<PathBuf> {
    let file = folder.join(format!("{}-{part}.zone", zone.name));
    // The SOA comes first.
    let (soa, others): (Vec<_>, Vec<_>) =
        sets.iter().partition(|((_, rtype), _)| *rtype == Rtype::SOA.0);
    let text: String = soa.into_iter().chain(others).map(|(_, lines)| lines.as_str()).collect();
    fs::write(&file, text + "\n").map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(file)
}

//! What is forwarded is what the server that was asked says: a world of zones at Knot, asked
//! through Dunlin, at first and from its cache, and Knot itself.
//!
//! `DUNLIN_SEED` and `DUNLIN_QUESTIONS` choose the queries.

use std::collections::BTreeSet;

use conformance::client::{ask_tcp, ask_udp};
use conformance::environment::{TestFolder, all_present, number};
use conformance::limits::PATIENCE_LONG;
use conformance::names::Name;
use conformance::queries::{Query, QueryGenerator};
use conformance::reply::{Reply, Section};
use conformance::server::{Launch, Server, Software};
use conformance::world::World;
use domain::base::iana::{Class, Rtype};

/// RD.
const FLAGS: u16 = 0x0100;
/// RCODEs that are forwarded; after all others, and referrals, another upstream is queried.
const RELAYED: [u16; 3] = [0, 3, 6];
const SERVFAIL: u16 = 2;

#[test]
fn forwarded_answers_equal_those_of_the_upstream() {
    if !all_present(&[Software::Knot]) {
        return;
    }
    let folder = TestFolder::new("forward").unwrap();
    let (seed, count) = (number("DUNLIN_SEED", 1), number("DUNLIN_QUESTIONS", 10_000) as usize);
    let world = World::main(&folder.path, seed).unwrap();
    let knot = Server::start(Software::Knot, &world.zones, &folder.path).unwrap();
    let sections = format!("[forward]\n\".\" = [\"{}\"]\n", knot.address);
    let launch =
        Launch { sections: &sections, keys: "workers = 2", ..Launch::new(Software::Dunlin, &[]) };
    let dunlin = launch.start(&folder.path).unwrap();
    let mut generator = QueryGenerator::new(&world, seed);
    let queries: Vec<Query> =
        std::iter::repeat_with(|| generator.query()).filter_map(plain).take(count).collect();
    let packets: Vec<Vec<u8>> = queries.iter().map(Query::to_wire).collect();
    let theirs = read(ask_tcp(knot.address, &packets, PATIENCE_LONG));
    for pass in ["first", "cached"] {
        let ours = read(ask_tcp(dunlin.address, &packets, PATIENCE_LONG));
        let wrong = differences(&queries, &ours, &theirs, false);
        assert!(
            wrong.is_empty(),
            "{pass}: {} differ\n{}",
            wrong.len(),
            wrong[..5.min(wrong.len())].join("\n")
        );
    }
    let ours = read(ask_udp(dunlin.address, &packets, PATIENCE_LONG).unwrap());
    let wrong = differences(&queries, &ours, &theirs, true);
    assert!(
        wrong.is_empty(),
        "UDP: {} differ\n{}",
        wrong.len(),
        wrong[..5.min(wrong.len())].join("\n")
    );
}

/// A query as stub resolvers ask it, if there is one about this.
fn plain(query: Query) -> Option<Query> {
    let is_plain = query.class == Class::IN
        && !matches!(query.qtype.to_int(), 0 | 41 | 128..=254)
        && query.edns.as_ref().is_none_or(|edns| edns.version == 0);
    let edns = query.edns.map(|edns| conformance::queries::Edns { options: Vec::new(), ..edns });
    is_plain.then_some(Query { flags: FLAGS, edns, ..query })
}

fn read(replies: Vec<Option<Vec<u8>>>) -> Vec<Option<Reply>> {
    replies.into_iter().map(|reply| reply.map(|bytes| Reply::read(&bytes))).collect()
}

/// What differs; a reply by datagram may be truncated.
fn differences(
    queries: &[Query],
    ours: &[Option<Reply>],
    theirs: &[Option<Reply>],
    by_datagram: bool,
) -> Vec<String> {
    let all = queries.iter().zip(ours).zip(theirs);
    all.filter_map(|((query, ours), theirs)| {
        let theirs = theirs.as_ref().expect("Knot answers");
        let Some(ours) = ours else { return Some(format!("{query}: no answer")) };
        if by_datagram && ours.tc {
            return None;
        }
        if is_unfinished(query, theirs) {
            let has_all = response(&ours.answer).is_superset(&response(&theirs.answer));
            return (!has_all).then(|| format!("{query}:\nours {ours:?}\nbegins {theirs:?}"));
        }
        let is_answer = RELAYED.contains(&theirs.rcode) && !theirs.is_referral(query.qtype);
        let rcode = if is_answer { theirs.rcode } else { SERVFAIL };
        let same = rcode == ours.rcode
            && (rcode == SERVFAIL || response(&ours.answer) == response(&theirs.answer))
            && !ours.aa
            && ours.faults.len() <= theirs.faults.len();
        (!same).then(|| format!("{query}:\nours {ours:?}\ntheirs {theirs:?}"))
    })
    .collect()
}

/// Whether a reply ends with an alias about whose target it says nothing: Dunlin queries that next.
fn is_unfinished(query: &Query, reply: &Reply) -> bool {
    let chain = reply.chain(&query.name);
    let end = chain.last().expect("it starts with the name");
    let has_end = reply.answer.iter().any(|r| r.owner == *end && r.rtype == query.qtype);
    let says_more = reply.authority.iter().any(|r| matches!(r.rtype, Rtype::SOA | Rtype::NS));
    let follows = !matches!(query.qtype, Rtype::CNAME | Rtype::ANY);
    reply.rcode == 0 && follows && chain.len() > 1 && !has_end && !says_more
}

/// Records without their TTLs, which count down.
fn response(section: &Section) -> BTreeSet<(Name, Rtype, &[u8])> {
    section.iter().map(|record| (record.owner.clone(), record.rtype, &record.data[..])).collect()
}

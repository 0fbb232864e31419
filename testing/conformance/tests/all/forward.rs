//! What is forwarded is what the server that was asked says: a world of zones at Knot, asked
//! through Dunlin, at first and from its cache, and Knot itself.
//!
//! `DUNLIN_SEED` and `DUNLIN_QUESTIONS` choose the questions.

use std::collections::BTreeSet;

use conformance::client::{ask_tcp, ask_udp};
use conformance::limits::PATIENCE_LONG;
use conformance::names::Name;
use conformance::questions::{Maker, Question};
use conformance::reply::{Reply, Section};
use conformance::scene::{Scene, all_present, number};
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
    let scene = Scene::new("forward").unwrap();
    let (seed, count) = (number("DUNLIN_SEED", 1), number("DUNLIN_QUESTIONS", 10_000) as usize);
    let world = World::main(&scene.path, seed).unwrap();
    let knot = Server::start(Software::Knot, &world.zones, &scene.path).unwrap();
    let sections = format!("[forward]\n\".\" = [\"{}\"]\n", knot.address);
    let launch =
        Launch { sections: &sections, keys: "workers = 2", ..Launch::new(Software::Dunlin, &[]) };
    let dunlin = launch.start(&scene.path).unwrap();
    let mut maker = Maker::new(&world, seed);
    let questions: Vec<Question> =
        std::iter::repeat_with(|| maker.question()).filter_map(plain).take(count).collect();
    let packets: Vec<Vec<u8>> = questions.iter().map(Question::to_wire).collect();
    let theirs = read(ask_tcp(knot.address, &packets, PATIENCE_LONG));
    for pass in ["first", "cached"] {
        let ours = read(ask_tcp(dunlin.address, &packets, PATIENCE_LONG));
        let wrong = differences(&questions, &ours, &theirs, false);
        assert!(
            wrong.is_empty(),
            "{pass}: {} differ\n{}",
            wrong.len(),
            wrong[..5.min(wrong.len())].join("\n")
        );
    }
    let ours = read(ask_udp(dunlin.address, &packets, PATIENCE_LONG).unwrap());
    let wrong = differences(&questions, &ours, &theirs, true);
    assert!(
        wrong.is_empty(),
        "UDP: {} differ\n{}",
        wrong.len(),
        wrong[..5.min(wrong.len())].join("\n")
    );
}

/// A question as stub resolvers ask it, if there is one about this.
fn plain(question: Question) -> Option<Question> {
    let is_plain = question.class == Class::IN
        && !matches!(question.qtype.to_int(), 0 | 41 | 128..=254)
        && question.edns.as_ref().is_none_or(|edns| edns.version == 0);
    let edns =
        question.edns.map(|edns| conformance::questions::Edns { options: Vec::new(), ..edns });
    is_plain.then_some(Question { flags: FLAGS, edns, ..question })
}

fn read(replies: Vec<Option<Vec<u8>>>) -> Vec<Option<Reply>> {
    replies.into_iter().map(|reply| reply.map(|bytes| Reply::read(&bytes))).collect()
}

/// What differs; a reply by datagram may be truncated.
fn differences(
    questions: &[Question],
    ours: &[Option<Reply>],
    theirs: &[Option<Reply>],
    by_datagram: bool,
) -> Vec<String> {
    let all = questions.iter().zip(ours).zip(theirs);
    all.filter_map(|((question, ours), theirs)| {
        let theirs = theirs.as_ref().expect("Knot answers");
        let Some(ours) = ours else { return Some(format!("{question}: no answer")) };
        if by_datagram && ours.tc {
            return None;
        }
        if is_unfinished(question, theirs) {
            let has_all = said(&ours.answer).is_superset(&said(&theirs.answer));
            return (!has_all).then(|| format!("{question}:\nours {ours:?}\nbegins {theirs:?}"));
        }
        let is_answer = RELAYED.contains(&theirs.rcode) && !theirs.is_referral(question.qtype);
        let rcode = if is_answer { theirs.rcode } else { SERVFAIL };
        let same = rcode == ours.rcode
            && (rcode == SERVFAIL || said(&ours.answer) == said(&theirs.answer))
            && !ours.aa
            && ours.faults.len() <= theirs.faults.len();
        (!same).then(|| format!("{question}:\nours {ours:?}\ntheirs {theirs:?}"))
    })
    .collect()
}

/// Whether a reply ends with an alias about whose target it says nothing: Dunlin queries that next.
fn is_unfinished(question: &Question, reply: &Reply) -> bool {
    let chain = reply.chain(&question.name);
    let end = chain.last().expect("it starts with the name");
    let has_end = reply.answer.iter().any(|r| r.owner == *end && r.rtype == question.qtype);
    let says_more = reply.authority.iter().any(|r| matches!(r.rtype, Rtype::SOA | Rtype::NS));
    let follows = !matches!(question.qtype, Rtype::CNAME | Rtype::ANY);
    reply.rcode == 0 && follows && chain.len() > 1 && !has_end && !says_more
}

/// Records without their TTLs, which count down.
fn said(section: &Section) -> BTreeSet<(Name, Rtype, &[u8])> {
    section.iter().map(|record| (record.owner.clone(), record.rtype, &record.data[..])).collect()
}

//! An explanation is the answer that a client gets, and its reasons are those of the rules.
use super::*;
use compile::Loader;
use fastrand::Rng;
use image::{HashKey, Order};
use model::{Choice, Edit, MemberRules, Policy as SetPolicy, SetRules, SetValue};
use zone_manager::{
    HealthTarget, HoldPolicy, Lane, PublisherThread, SourceKind, SourceSettings, Target,
    UpdateSender, ZonePublisher,
};

const PATHS: [&str; 6] = ["", "eu", "eu/fra1", "eu/fra1/a", "eu/ams1", "us"];
const SETS: usize = 20;

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

struct Fixture {
    publisher: ZonePublisher,
    updates: UpdateSender,
    _running: PublisherThread,
    rng: Rng,
}

impl Fixture {
    fn start(seed: u64) -> Self {
        let image = Image::new(Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5))));
        let origin = name("example.org.");
        let mut loader = Loader::new(Arc::clone(image.key()), origin.as_name(), None);
        let soa = [&b"\x02ns\0\x04root\0"[..], &[0; 20]].concat();
        loader.add(origin.as_name(), Rtype::SOA, 60, &soa, 0).unwrap();
        loader.add(origin.as_name(), Rtype::NS, 60, b"\x02ns\0", 0).unwrap();
        let zone = loader.finish().unwrap();
        let (publisher, _running) = ZonePublisher::start(image).unwrap();
        let updates = publisher.start_source(SourceSettings {
            name: "test".into(),
            kind: SourceKind::Kubernetes,
            lane: Lane::Normal,
            hold: HoldPolicy::Operator,
        });
        updates.sync_zone(zone, None).wait().unwrap();
        Self { publisher, updates, _running, rng: Rng::with_seed(seed) }
    }

    fn apply(&self, owner: &str, rtype: Rtype, rules: SetRules, data: Vec<Box<[u8]>>) {
        let value = SetValue { ttl: 300, policy: SetPolicy::new(rules), data };
        let changes = vec![Edit::put(name(owner), rtype, value).into()];
        let target = Target::Zone(name("example.org."));
        let applied = self.updates.apply_blocking(target, changes).unwrap().wait().unwrap();
        assert_eq!(applied.results, [Ok(())]);
    }

    /// Changes a set, and the health of an address.
    fn change(&mut self) {
        let rng = &mut self.rng;
        let mut data: Vec<Box<[u8]>> = (0..8).map(|last| Box::from([10, 0, 0, last])).collect();
        rng.shuffle(&mut data);
        data.truncate(rng.usize(1..7));
        data.sort_unstable();
        let words = ["all", "failover", "one", "weighted", "hash", "nearest", "nearest"];
        let choice = Choice::from_word(words[rng.usize(..words.len())]).unwrap();
        let has_order = matches!(choice, Choice::One | Choice::Weighted | Choice::Hash);
        let then = if has_order { Order::Random } else { ORDERS[rng.usize(..ORDERS.len())].0 };
        let check = ["", "web"][rng.usize(..2)].into();
        let max = rng.u16(..3);
        let mut rules = SetRules { choice, then, check, max, ..SetRules::default() };
        let members: Vec<MemberRules> = data
            .iter()
            .map(|_| MemberRules {
                tier: rng.u8(..2),
                weight: rng.u16(..4),
                ramp: None,
                location: PATHS[rng.usize(..PATHS.len())].into(),
            })
            .collect();
        rules.set_members(&members);
        let number = rng.usize(..SETS);
        let owner = if number == 0 { "*.w.example.org.".into() } else { owner(number) };
        self.apply(&owner, Rtype::A, rules, data);
        let class = [MemberClass::Up, MemberClass::DownOnceUp, MemberClass::Drained];
        let verdict = (
            HealthTarget { check: "web".into(), address: [10, 0, 0, self.rng.u8(..8)].into() },
            Some(class[self.rng.usize(..class.len())]),
        );
        self.publisher.report_health(vec![verdict]).wait().unwrap();
    }

    fn query(&mut self) -> ExplainedQuery {
        let number = self.rng.usize(..SETS);
        let path = PATHS[self.rng.usize(..PATHS.len())];
        ExplainedQuery {
            name: if number == 0 { name("any.w.example.org.") } else { name(&owner(number)) },
            rtype: Rtype::A,
            client: self.rng.u32(..).to_be_bytes().into(),
            network: None,
            view: None,
            location: Some(path.to_owned()).filter(|path| !path.is_empty()),
            seed: self.rng.u64(..),
        }
    }
}

fn owner(number: usize) -> String {
    format!("n{number}.example.org.")
}

/// What a worker answers in a datagram: the code, and the data of each record in their order.
fn datagram(image: &Image, query: &ExplainedQuery) -> (u8, Vec<String>) {
    let mut buf = vec![0; 1232];
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend(query.name.as_name().as_bytes());
    message.extend([0, 1, 0, 1]);
    buf[..message.len()].copy_from_slice(&message);
    let peer = SocketAddr::from((query.client, 4_000));
    let mut packet = Packet::new(&mut buf, message.len(), peer, Transport::Datagram);
    packet.context.location = LocationNumber(2);
    let locations = [Location::UNKNOWN, query.location()];
    let policy = Policy { locations: &locations, ..Policy::default() };
    let now = Now { unix_seconds: 9, monotonic_micros: 9, seed: query.seed };
    let (mut scratch, mut counts) = (Box::<Scratch>::default(), AnswerCounts::default());
    let mut packets = [packet];
    batch(image, &policy, now, &mut NoForwarding, &mut scratch, &mut packets, &mut counts);
    let reply = packets[0].message();
    let records = Records::new(reply, message.len(), reply[7].into());
    let data = records.map(|record| {
        let mut room = [0; 16];
        zonefile::data_text(Rtype::A, record.unwrap().expand(&mut room).unwrap())
    });
    (reply[3] & 15, data.collect())
}

/// How many levels two paths have in common.
fn common(a: &str, b: &str) -> usize {
    let (a, b) = (a.split('/'), b.split('/'));
    a.zip(b).take_while(|(a, b)| a == b && !a.is_empty()).count()
}

fn check(set: &ExplainedSet, answer: &[String], path: &str) {
    let is = |member: &ExplainedMember, why: &[&str]| {
        member.dropped.as_deref().is_some_and(|dropped| why.contains(&dropped))
    };
    let near =
        |member: &ExplainedMember| common(member.location.as_deref().unwrap_or_default(), path);
    // What is left after health and tiers.
    let left = || set.members.iter().filter(|member| !is(member, &["state", "tier"]));
    let nearest = left().map(near).max().unwrap_or_default();
    for member in &set.members {
        assert_eq!(member.dropped.is_none(), answer.contains(&member.data), "{set:?}");
        match member.dropped.as_deref() {
            Some("location") => assert!(near(member) < nearest, "{member:?} of {set:?}"),
            Some("weight") => assert_eq!(member.weight, 0, "{set:?}"),
            Some("tier") => assert!(set.policy == "failover" && member.tier > 0, "{set:?}"),
            Some("state") => assert_ne!(member.state.as_deref(), Some("up"), "{set:?}"),
            Some("max") => assert_eq!(set.max.map(usize::from), Some(answer.len()), "{set:?}"),
            Some(other) => panic!("{other}"),
            None if set.policy == "nearest" => assert_eq!(near(member), nearest, "{set:?}"),
            None => {}
        }
    }
}

fn explanations_equal_answers(cases: usize) {
    let mut fixture = Fixture::start(43);
    (0..4 * SETS).for_each(|_| fixture.change());
    let mut explained = 0;
    for case in 0..cases {
        if case % 10 == 0 {
            fixture.change();
        }
        let (query, image) = (fixture.query(), fixture.publisher.image());
        let (rcode, expected) = datagram(&image, &query);
        let answer = query.answer(&image, Policy::default());
        let sets = query.sets(&image, &answer).into_iter().map(|set| {
            let owner = (View::DEFAULT, set.owner.as_name());
            let judged = fixture.publisher.judged(set.zone.origin(), owner, set.rtype);
            let judged = judged.wait().unwrap();
            (set, judged)
        });
        let sets: Vec<_> = sets.collect();
        let path = query.location.clone().unwrap_or_default();
        let explanation = query.explain(&image, &answer, &sets);
        let told: Vec<String> =
            explanation.answer.iter().map(|record| record.data.clone()).collect();
        assert_eq!((&*explanation.rcode, &told), (&*rcode_name(rcode), &expected));
        assert_eq!(explanation.zone.as_deref(), Some("example.org."));
        for set in &explanation.sets {
            explained += 1;
            check(set, &told, &path);
        }
    }
    assert!(explained > cases / 2, "{explained} of {cases} sets had rules");
}

#[test]
fn explanation_equals_the_answer() {
    explanations_equal_answers(2_000);
}

#[test]
#[ignore = "slow: 50,000 cases"]
fn fifty_thousand_explanations_equal_the_answers() {
    explanations_equal_answers(50_000);
}

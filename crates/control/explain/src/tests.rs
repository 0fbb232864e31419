//! An explanation is the answer that a client gets, and its reasons are those of the rules.
use super::*;
use compile::{Loader, SetChange, ViewSets};
use config::Config;
use data_plane::LastingState;
use fastrand::Rng;
use image::{HashKey, Order};
use model::{Choice, MemberRules, Policy as SetPolicy, SetRules, WeightRamp};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zone_manager::{
    HealthTarget, HoldPolicy, Lane, PublisherThread, SourceKind, SourceSettings, UpdateSender,
    ZonePublisher,
};

const PATHS: [&str; 6] = ["", "eu", "eu/fra1", "eu/fra1/a", "eu/ams1", "us"];
const SETS: usize = 20;
const VIEW: View = View(1);
const START: u64 = 1_000_000;
const CONFIG: &str = r#"
[store]
kind = "redb"
views = ["in"]
[ecs]
trust = ["203.0.113.0/24"]
[[network]]
name = "wide"
prefixes = ["10.0.0.0/8"]
location = "eu/fra1"
deny = ["n7.example.org", "*.w.example.org"]
deny_answer = "192.0.2.80"
[[network]]
name = "inner"
prefixes = ["10.1.0.0/16", "2001:db8::/32"]
location = "eu/ams1"
view = "in"
[[network]]
name = "lost"
prefixes = ["192.0.2.0/24"]
view = "in"
deny = ["*.example.org"]
allow = ["n1.example.org", "n2.example.org", "n3.example.org"]
"#;

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

struct Fixture {
    publisher: ZonePublisher,
    updates: UpdateSender,
    _running: PublisherThread,
    zone: Zone,
    of_view: ViewSets,
    clock: Arc<AtomicU64>,
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
        let (zone, of_view) = (loader.finish().unwrap(), ViewSets::none(Arc::clone(image.key())));
        let clock = Arc::new(AtomicU64::new(START));
        let now = Arc::clone(&clock);
        let now = Arc::new(move || Duration::from_secs(now.load(Ordering::Relaxed)));
        let (publisher, _running) = ZonePublisher::start_with_clock(image, now).unwrap();
        let updates = publisher.start_source(SourceSettings {
            name: "test".into(),
            kind: SourceKind::Store,
            lane: Lane::Normal,
            hold: HoldPolicy::Never,
        });
        let rng = Rng::with_seed(seed);
        Self { publisher, updates, _running, zone, of_view, clock, rng }
    }

    /// Replaces a set of the zone or of the view. One that would conflict is left out.
    fn apply(
        &mut self,
        is_own: bool,
        (owner, rtype): (&str, Rtype),
        rules: SetRules,
        data: &[Box<[u8]>],
    ) {
        let owner = self.zone.relative(name(owner).as_name()).unwrap();
        let change = |rtype, set| SetChange {
            name: &owner,
            rtype,
            set,
            rules: SetPolicy::new(rules.clone()).pack(),
        };
        let other = if rtype == Rtype::A { Rtype::ALIAS } else { Rtype::A };
        let changes = [change(rtype, Some((300, data))), change(other, None)];
        let before = (self.zone.clone(), self.of_view.clone());
        let written = match is_own {
            true => self.of_view.change_all(self.zone.origin(), &changes),
            false => self.zone.change_all(&changes),
        };
        let checked = written.and_then(|()| self.zone.check_view(&self.of_view, &[&owner]));
        if checked.is_err() {
            (self.zone, self.of_view) = before;
            return;
        }
        if is_own {
            self.zone.put_view(VIEW, &self.of_view, &[&owner]).unwrap();
        }
        self.updates.sync_zone(self.zone.clone(), None).wait().unwrap();
    }

    /// Changes a set, the health of an address, and the time.
    fn change(&mut self) {
        let rng = &mut self.rng;
        let number = rng.usize(..SETS);
        let (owner, is_own) = (owner(number), rng.u8(..3) == 0);
        let owner = if number == 0 { "*.w.example.org." } else { &owner };
        if rng.u8(..3) == 0 {
            let target = format!("n{}.example.org.", rng.usize(1..SETS));
            let data = [Box::from(name(&target).as_name().as_bytes())];
            self.apply(is_own, (owner, Rtype::ALIAS), SetRules::default(), &data);
        } else {
            let mut data: Vec<Box<[u8]>> = (0..8).map(|last| Box::from([10, 0, 0, last])).collect();
            rng.shuffle(&mut data);
            data.truncate(rng.usize(1..7));
            data.sort_unstable();
            let rules = random_rules(rng, data.len());
            self.apply(is_own, (owner, Rtype::A), rules, &data);
        }
        let class = [MemberClass::Up, MemberClass::DownOnceUp, MemberClass::Drained];
        let verdict = (
            HealthTarget { check: "web".into(), address: [10, 0, 0, self.rng.u8(..8)].into() },
            Some(class[self.rng.usize(..class.len())]),
        );
        self.clock.fetch_add(self.rng.u64(..9), Ordering::Relaxed);
        self.publisher.report_health(vec![verdict]).wait().unwrap();
        // Weights are those of now once another round has begun.
        self.publisher.report_health(Vec::new()).wait().unwrap();
    }

    fn query(&mut self) -> ExplainedQuery {
        let rng = &mut self.rng;
        let number = rng.usize(..SETS);
        let mut client = random_address(rng);
        let (mut subnet, mut location) = (None, None);
        match rng.u8(..5) {
            0 | 1 => {
                let (address, len) = (random_address(rng), [0, 16, 24, 32][rng.usize(..4)]);
                let address = cut(address, len);
                subnet = Some(ClientSubnet { address, source_len: len });
                if rng.u8(..4) > 0 {
                    client = [203, 0, 113, rng.u8(..)].into();
                }
            }
            // In no network.
            2 => {
                client = [198, 51, 100, rng.u8(..)].into();
                let path = PATHS[rng.usize(..PATHS.len())];
                location = Some(path.to_owned()).filter(|path| !path.is_empty());
            }
            _ => {}
        }
        let name = if number == 0 { name("any.w.example.org.") } else { name(&owner(number)) };
        let request = ExplainRequest { name, rtype: Rtype::A, client, subnet, location };
        ExplainedQuery { request, seed: rng.u64(..) }
    }
}

fn random_rules(rng: &mut Rng, members: usize) -> SetRules {
    let words = ["all", "failover", "one", "weighted", "hash", "nearest", "nearest"];
    let choice = Choice::from_word(words[rng.usize(..words.len())]).unwrap();
    let has_order = matches!(choice, Choice::One | Choice::Weighted | Choice::Hash);
    let then = if has_order { Order::Random } else { ORDERS[rng.usize(..ORDERS.len())].0 };
    let check = ["", "web"][rng.usize(..2)].into();
    let max = rng.u16(..3);
    let mut rules = SetRules { choice, then, check, max, ..SetRules::default() };
    let is_weighted = rules.order() != Order::Random;
    let members: Vec<MemberRules> = (0..members)
        .map(|_| MemberRules {
            tier: rng.u8(..2),
            weight: rng.u16(..4),
            ramp: (is_weighted && rng.u8(..3) == 0).then(|| WeightRamp {
                from: Some(rng.u16(..4)),
                start: Some(START + rng.u64(..9_000)),
                over: 1_000,
            }),
            location: PATHS[rng.usize(..PATHS.len())].into(),
        })
        .collect();
    rules.set_members(&members);
    rules
}

fn random_address(rng: &mut Rng) -> IpAddr {
    match rng.u8(..5) {
        0 => [10, 2, rng.u8(..), rng.u8(..)].into(),
        1 => [10, 1, rng.u8(..), rng.u8(..)].into(),
        2 => [192, 0, 2, rng.u8(..)].into(),
        3 => [0x2001, 0xdb8, rng.u16(..), 0, 0, 0, 0, 1].into(),
        _ => rng.u32(..).to_be_bytes().into(),
    }
}

/// The first bits of an address.
fn cut(address: IpAddr, len: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            (v4.to_bits() & mask).to_be_bytes().into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            (v6.to_bits() & mask).to_be_bytes().into()
        }
    }
}

fn owner(number: usize) -> String {
    if number == 4 { "example.org.".to_owned() } else { format!("n{number}.example.org.") }
}

/// The network of an address by the config, its view, and the path of its location.
fn network_of(address: IpAddr) -> Option<(&'static str, bool, Option<&'static str>)> {
    match address {
        IpAddr::V4(v4) => match v4.octets() {
            [10, 1, ..] => Some(("inner", true, Some("eu/ams1"))),
            [10, ..] => Some(("wide", false, Some("eu/fra1"))),
            [192, 0, 2, _] => Some(("lost", true, None)),
            _ => None,
        },
        IpAddr::V6(v6) => match v6.segments() {
            [0x2001, 0xdb8, ..] => Some(("inner", true, Some("eu/ams1"))),
            _ => None,
        },
    }
}

/// What a worker answers in a datagram: the code, the data of each record in their order, and the
/// scope.
fn datagram(
    image: &Image,
    query: &ExplainedQuery,
    policy: &Policy<'_>,
) -> (u8, Vec<String>, Option<u8>) {
    let (message, end) = query.message();
    let mut buf = vec![0; 1232];
    buf[..message.len()].copy_from_slice(&message);
    let peer = SocketAddr::from((query.request.client, 4_000));
    let mut packet = Packet::new(&mut buf, message.len(), peer, Transport::Datagram);
    // Only clients in no network are asked for at another location.
    let wanted = query.request.location.as_deref().map(|path| Location::parse(path).unwrap());
    let locations = [Location::UNKNOWN, wanted.unwrap_or_default()];
    let mut policy = policy.clone();
    if wanted.is_some() {
        packet.context.location = LocationNumber(2);
        policy = Policy { limits: None, locations: &locations, ..policy };
    }
    let now = Now { unix_seconds: 9, monotonic_micros: 9, seed: query.seed };
    let (mut scratch, mut counts) = (Box::<Scratch>::default(), AnswerCounts::default());
    let (mut packets, mut none) = ([packet], answer::NoForwarding);
    batch(image, &policy, now, &mut none, &mut scratch, &mut packets, &mut counts);
    let reply = packets[0].message();
    let [answers, authority, additional] = [6, 8, 10].map(|at| count(reply, at));
    let records = Records::new(reply, end, answers + authority + additional);
    let records: Vec<_> = records.map(Result::unwrap).collect();
    let data = records.iter().take(answers).map(|record| {
        let mut room = [0; 16];
        zonefile::data_text(Rtype::A, record.expand(&mut room).unwrap())
    });
    let options = records.iter().find(|record| record.rtype == Rtype::OPT);
    (reply[3] & 15, data.collect(), options.and_then(|options| scope_of(options.data())))
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

/// What the explanations of a run were about.
#[derive(Debug, Default)]
struct Covered {
    sets: usize,
    own: usize,
    aliases: usize,
    subnets: usize,
    denied: usize,
    ramps: usize,
}

impl Covered {
    fn add(&mut self, explanation: &Explanation) {
        self.sets += explanation.sets.len();
        self.own += explanation.sets.iter().filter(|set| set.view.is_some()).count();
        self.aliases += explanation.sets.iter().filter(|set| set.alias.is_some()).count();
        let members = explanation.sets.iter().flat_map(|set| &set.members);
        self.ramps += members.filter(|member| member.ramp.is_some()).count();
        self.subnets += usize::from(explanation.subnet.as_ref().is_some_and(|it| it.is_trusted));
        self.denied += usize::from(explanation.denied);
    }
}

fn explanations_equal_answers(cases: usize) {
    let config = Config::parse(Path::new("f"), CONFIG).unwrap();
    let lasting = LastingState::new(&config, 0, None).unwrap();
    let settings = lasting.settings(&config).unwrap();
    let mut fixture = Fixture::start(43);
    (0..4 * SETS).for_each(|_| fixture.change());
    let mut covered = Covered::default();
    for case in 0..cases {
        if case % 10 == 0 {
            fixture.change();
        }
        let (query, image) = (fixture.query(), fixture.publisher.image());
        let ExplainRequest { client, subnet, location, .. } = query.request.clone();
        let (rcode, expected, scope) = datagram(&image, &query, &settings.policy());
        let answer = query.answer(&image, settings.policy());
        let sets = query.sets(&image, &answer).into_iter().map(|set| {
            let owner = (set.view, set.owner.as_name());
            let judged = fixture.publisher.judged(set.zone.origin(), owner, set.rtype);
            let judged = judged.wait().unwrap();
            (set, judged)
        });
        let sets: Vec<_> = sets.collect();
        let (network, path) = lasting.networks.owner(answer.network);
        let network = network.map(|at| &config.networks[at]);
        let place = ClientPlace {
            network: network.map(|network| network.name.clone()),
            view: network.and_then(|network| network.view.clone()),
            location: location.clone().or_else(|| path.map(String::from)),
        };
        let mut qname = QName::new();
        qname.set(query.request.name.as_name());
        let rule = settings.networks.rule(answer.network, &qname);
        let context = ExplainedContext { place, rule, forward: None };
        let explanation = query.explain(&image, &answer, &sets, context);
        let told: Vec<String> =
            explanation.answer.iter().map(|record| record.data.clone()).collect();
        assert_eq!((explanation.rcode.as_deref(), &told), (Some(&*rcode_name(rcode)), &expected));
        assert_eq!(explanation.zone.as_deref(), Some("example.org."));
        // The network is that of the client, or of the clients that a trusted resolver names.
        let is_trusted = matches!(client, IpAddr::V4(v4) if v4.octets()[..3] == [203, 0, 113]);
        let named = subnet.filter(|subnet| is_trusted && subnet.source_len > 0);
        let found = network_of(named.map_or(client, |subnet| subnet.address));
        assert_eq!(explanation.network.as_deref(), found.map(|found| found.0));
        assert_eq!(explanation.view.is_some(), found.is_some_and(|found| found.1));
        let path = location.or_else(|| found.and_then(|found| found.2).map(str::to_owned));
        assert_eq!(explanation.location, path);
        assert_eq!(explanation.subnet.as_ref().map(|it| it.is_trusted), subnet.map(|_| is_trusted));
        assert_eq!(explanation.subnet.as_ref().and_then(|it| it.scope), scope);
        assert_eq!(explanation.denied, rule_denies(&explanation), "{explanation:?}");
        covered.add(&explanation);
        if explanation.denied {
            continue;
        }
        for set in &explanation.sets {
            check(set, &told, path.as_deref().unwrap_or_default());
            assert!(set.view.is_none() || explanation.view.is_some(), "{set:?}");
        }
    }
    println!("{covered:?}");
    assert!(covered.sets > cases / 2, "{covered:?}");
    let Covered { own, aliases, subnets, denied, ramps, .. } = covered;
    let least = [own, aliases, subnets, denied, ramps].into_iter().min();
    assert!(least > Some(cases / 50), "{covered:?}");
}

/// Whether the rule in the explanation denies the name.
fn rule_denies(explanation: &Explanation) -> bool {
    let name = &*explanation.name;
    let is_of = |rule: &str| match rule.strip_prefix("*.") {
        Some(above) => name.strip_suffix(above).is_some_and(|below| below.ends_with('.')),
        None => rule == name,
    };
    let rule = explanation.rule.as_deref().and_then(|rule| rule.split_once(' '));
    assert!(rule.is_none_or(|(_, rule)| is_of(rule)), "{explanation:?}");
    rule.is_some_and(|(word, _)| word == "deny")
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

//! Three servers of a fleet with the same records and the same view of their health choose alike,
//! whatever came first.
use super::*;
use ::answer::choose::Chooser;
use fastrand::Rng;
use image::{Location, Order};
use model::{Choice, MemberRules, ORDERS, Policy, SetRules};
use std::net::IpAddr;

const STATES: usize = 1_000;
const NAMES: usize = 24;
const PATHS: [&str; 4] = ["", "eu", "eu/fra1", "us"];

/// A server whose images have a key of their own.
fn server(number: u64) -> Fixture {
    start_with(|_| {
        let key = HashKey::new(std::array::from_fn(|n| n as u64 * 31 + number));
        ZonePublisher::start(Image::new(Arc::new(key)))
    })
}

fn at(number: usize) -> String {
    format!("n{number}.example.org.")
}

/// A set of any policy. Those of `nearest` and `failover` leave nothing to chance but the order.
fn random_set(rng: &mut Rng, number: usize) -> (SetRules, Change) {
    let words = ["all", "one", "weighted", "hash", "hash", "nearest", "failover"];
    let choice = Choice::from_word(words[rng.usize(..words.len())]).unwrap();
    let has_then = !matches!(choice, Choice::One | Choice::Weighted | Choice::Hash);
    let then = if has_then { ORDERS[rng.usize(..ORDERS.len())].0 } else { Order::Random };
    let is_decided = then == Order::Hash || choice == Choice::Hash;
    let max = if is_decided { rng.u16(..3) } else { 0 };
    let check = ["", "web"][rng.usize(..2)].into();
    let mut rules = SetRules { choice, then, max, check, ..SetRules::default() };
    let mut last: Vec<u8> = (0..9).collect();
    rng.shuffle(&mut last);
    last.truncate(rng.usize(1..6));
    last.sort_unstable();
    let members: Vec<MemberRules> = last
        .iter()
        .map(|_| MemberRules {
            tier: rng.u8(..2),
            weight: rng.u16(..4),
            ramp: None,
            location: PATHS[rng.usize(..PATHS.len())].into(),
        })
        .collect();
    rules.set_members(&members);
    let data = last.iter().map(|last| Box::from(&[10, 0, 0, *last][..])).collect();
    let value = SetValue { ttl: 300, policy: Policy::new(rules.clone()), data };
    (rules, Edit::put(name(&at(number)), Rtype::A, value).into())
}

impl Fixture {
    /// The members of an answer, in their order.
    fn answer(&self, number: usize, chooser: &Chooser) -> Vec<Vec<u8>> {
        let image = self.publisher.image();
        let zone = image.zone(name("example.org.").as_name()).unwrap();
        let Some(set) = zone.set(name(&at(number)).as_name(), Rtype::A) else { return Vec::new() };
        let mut found = Vec::new();
        let mut each = |data: &[u8]| {
            found.push(data.to_vec());
            Ok::<(), ()>(())
        };
        let done = match set.selection() {
            Some(selection) => chooser.choose(&set, &selection, &mut each).map(drop),
            None => set.records().try_for_each(each),
        };
        done.unwrap();
        found
    }

    fn bytes(&self, number: usize) -> Option<Vec<u8>> {
        let image = self.publisher.image();
        let zone = image.zone(name("example.org.").as_name()).unwrap();
        let at = name(&at(number));
        zone.set(at.as_name(), Rtype::A).map(|set| set.as_bytes().to_vec())
    }
}

/// Each server takes the verdicts in an order of its own, some of them twice.
fn report(servers: &[Fixture], rng: &mut Rng) {
    let classes = [MemberClass::Up, MemberClass::Unknown, MemberClass::DownOnceUp];
    let mut verdicts: Vec<(HealthTarget, Option<MemberClass>)> = Vec::new();
    for last in 0..9 {
        if rng.bool() {
            let target = HealthTarget { check: "web".into(), address: [10, 0, 0, last].into() };
            verdicts.push((target, Some(classes[rng.usize(..classes.len())])));
        }
    }
    for server in servers {
        rng.shuffle(&mut verdicts);
        let some = verdicts.iter().filter(|_| rng.bool()).cloned().collect();
        server.publisher.report_health(some).wait().unwrap();
        for verdict in &verdicts {
            server.publisher.report_health(vec![verdict.clone()]).wait().unwrap();
        }
    }
}

#[test]
fn three_servers_choose_alike_in_a_thousand_states() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let servers = [1, 2, 3].map(server);
    let mut rules: Vec<Option<SetRules>> = vec![None; NAMES];
    let mut compared = 0;
    for _ in 0..STATES {
        let number = rng.usize(..NAMES);
        match rng.u8(..4) {
            0 => report(&servers, &mut rng),
            _ => {
                let (of_set, change) = random_set(&mut rng, number);
                for server in &servers {
                    assert_eq!(server.apply(of_zone(), vec![change.clone()]), [Ok(())]);
                }
                rules[number] = Some(of_set);
            }
        }
        for (number, rules) in rules.iter().enumerate() {
            let Some(rules) = rules else { continue };
            let [first, others @ ..] = &servers;
            let bytes = first.bytes(number);
            assert!(others.iter().all(|other| other.bytes(number) == bytes), "{rules:?}");
            let client = IpAddr::from(rng.u32(..).to_be_bytes());
            let path = ["eu/fra1", "us", "asia"][rng.usize(..3)];
            let location = Location::parse(path).unwrap();
            let mut answer = |server: &Fixture| {
                // What is left to chance differs.
                let chooser = Chooser { client, location, draw: rng.u64(..) };
                let mut found = server.answer(number, &chooser);
                let is_ordered = rules.choice == Choice::Hash || rules.then == Order::Hash;
                if !is_ordered {
                    found.sort_unstable();
                }
                found
            };
            if matches!(rules.choice, Choice::Hash | Choice::Nearest | Choice::Failover) {
                let wanted = answer(first);
                compared += 1;
                assert!(others.iter().all(|other| answer(other) == wanted), "{client} {rules:?}");
            }
        }
    }
    assert!(compared > STATES, "{compared}");
}

//! Sets of views have rules as those of all clients do.
use super::*;
use compile::{SetChange, ViewSets};
use fastrand::Rng;
use model::{CHECK_OFF, Choice, MemberRules, ORDERS, Policy, SetRules, WeightRamp};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const VIEW: View = View(3);
const START: u64 = 1_000_000;
const NAMES: [&str; 6] = ["", "\u{1}a", "\u{1}b", "\u{1}c\u{1}b", "\u{1}*\u{1}w", "\u{1}d\u{1}w"];
const TYPES: [Rtype; 4] = [Rtype::A, Rtype::AAAA, Rtype::TXT, Rtype::ALIAS];

/// The sets of a zone or a view.
type Sets = BTreeMap<(&'static str, u16), SetValue>;

/// A zone manager with a clock, and a second zone that ALIAS records lead to.
struct Served {
    fixture: Fixture,
    zone: Zone,
}

impl Served {
    fn start(seconds: &Arc<AtomicU64>) -> Self {
        let seconds = Arc::clone(seconds);
        let clock = Arc::new(move || Duration::from_secs(seconds.load(Ordering::Relaxed)));
        let fixture = start_with(|image| ZonePublisher::start_with_clock(image, clock));
        let other = zone(&fixture.publisher.image(), "other.test.");
        fixture.updates.sync_zone(other, None).wait().unwrap();
        let targets: Vec<Change> = (0..3)
            .map(|number| address(&format!("t{number}.other.test."), [10, 9, 9, number]))
            .collect();
        let results = fixture.apply(Target::Zone(name("other.test.")), targets);
        assert!(results.iter().all(Result::is_ok));
        let zone = zone(&fixture.publisher.image(), "example.org.");
        Self { fixture, zone }
    }

    /// Weights are those of now once two rounds have begun.
    fn wait_for_step(&self) {
        for _ in 0..2 {
            self.fixture.publisher.report_health(Vec::new()).wait().unwrap();
        }
    }

    fn publish(&self) {
        self.fixture.updates.sync_zone(self.zone.clone(), None).wait().unwrap();
    }

    /// The sets that the clients of a view get at a name, packed; `None`: it does not exist.
    fn answered(&self, view: View, at: &str) -> Option<Vec<Vec<u8>>> {
        let image = self.fixture.publisher.image();
        let zone = image.zone(name("example.org.").as_name())?;
        let node = zone.node_in(view, at.as_bytes())?;
        let sets = node.sets().filter(|set| set.rtype() != Rtype::SOA);
        Some(sets.map(|set| set.as_bytes().to_vec()).collect())
    }

    fn judged(&self, view: View, at: &str) -> Option<JudgedSet> {
        let origin = name("example.org.");
        let at = NameBuf::joined(at.as_bytes(), origin.as_name()).unwrap();
        let judged =
            self.fixture.publisher.judged(origin.as_name(), (view, at.as_name()), Rtype::A);
        judged.wait().unwrap()
    }
}

fn random_rules(rng: &mut Rng, members: usize) -> SetRules {
    let words = ["all", "failover", "one", "weighted", "hash", "nearest"];
    let choice = Choice::from_word(words[rng.usize(..words.len())]).unwrap();
    let has_order = matches!(choice, Choice::One | Choice::Weighted | Choice::Hash);
    let then = if has_order { ORDERS[0].0 } else { ORDERS[rng.usize(..ORDERS.len())].0 };
    let check = ["", "web", "web", CHECK_OFF][rng.usize(..4)].into();
    let (max, is_closed) = (rng.u16(..3), rng.u8(..4) == 0);
    let comment = ["", "rack 7"][rng.usize(..2)].into();
    let mut rules =
        SetRules { choice, then, check, max, is_closed, comment, ..SetRules::default() };
    let is_weighted = rules.order() != ORDERS[0].0;
    let members: Vec<MemberRules> = (0..members)
        .map(|_| MemberRules {
            tier: rng.u8(..2),
            weight: rng.u16(..200),
            ramp: (is_weighted && rng.u8(..3) == 0).then(|| WeightRamp {
                from: Some(rng.u16(..200)),
                start: Some(START + rng.u64(..90)),
                over: 60,
            }),
            location: ["", "eu", "eu/fra1", "us"][rng.usize(..4)].into(),
        })
        .collect();
    rules.set_members(&members);
    rules
}

fn random_set(rng: &mut Rng, rtype: Rtype, leads_home: bool) -> SetValue {
    let mut policy = Policy::All;
    let mut last: Vec<u8> = (1..8).collect();
    rng.shuffle(&mut last);
    last.truncate(rng.usize(1..5));
    last.sort_unstable();
    let data: Vec<Box<[u8]>> = match rtype {
        Rtype::A => last.iter().map(|last| Box::from([10, 0, 0, *last])).collect(),
        Rtype::AAAA => last.iter().map(|last| Box::from([*last; 16])).collect(),
        Rtype::TXT => vec![Box::from([1, last[0]])],
        _ => {
            let target = match leads_home {
                true => format!("{}.example.org.", ["a", "b", "c.b", "x.w"][rng.usize(..4)]),
                false => format!("t{}.other.test.", rng.u8(..4)),
            };
            vec![name(&target).as_name().as_bytes().into()]
        }
    };
    if matches!(rtype, Rtype::A | Rtype::AAAA) && rng.u8(..4) > 0 {
        policy = Policy::new(random_rules(rng, data.len()));
    }
    SetValue { ttl: 60 + rng.u32(..300), policy, data }
}

fn set_change<'c>(
    at: &'c str,
    rtype: u16,
    value: Option<&'c SetValue>,
) -> SetChange<'c, Box<[u8]>> {
    SetChange {
        name: at.as_bytes(),
        rtype: Rtype(rtype),
        set: value.map(|value| (value.ttl, &value.data[..])),
        rules: value.map(|value| value.policy.pack()).unwrap_or_default(),
    }
}

/// A zone with a view, a zone that has the sets of the view itself, and one without the view.
struct Three {
    laid: Served,
    merged: Served,
    plain: Served,
    of_view: ViewSets,
    base: Sets,
    own: Sets,
}

impl Three {
    fn start(clock: &Arc<AtomicU64>) -> Self {
        let [laid, merged, plain] = [(); 3].map(|()| Served::start(clock));
        let of_view = ViewSets::none(laid.fixture.publisher.key());
        Self { laid, merged, plain, of_view, base: Sets::new(), own: Sets::new() }
    }

    fn all(&self) -> [&Served; 3] {
        [&self.laid, &self.merged, &self.plain]
    }

    fn judge(&self, rng: &mut Rng) {
        let target = HealthTarget { check: "web".into(), address: [10, 0, 0, rng.u8(1..8)].into() };
        let class = [MemberClass::Up, MemberClass::DownOnceUp, MemberClass::Drained];
        let verdict = vec![(target, Some(class[rng.usize(..3)]))];
        for served in self.all() {
            served.fixture.publisher.report_health(verdict.clone()).wait().unwrap();
        }
    }

    fn check_zone(&self, is_checked: bool) {
        let check = DefaultCheck::new(name("example.org."), "web", &[name("b.example.org.")]);
        let all = if is_checked { vec![check] } else { Vec::new() };
        for served in self.all() {
            served.fixture.publisher.set_default_checks(all.clone());
            served.fixture.publisher.report_health(Vec::new()).wait().unwrap();
        }
    }

    /// Writes a set of the zone or of the view; `false`: it is refused.
    fn write(&mut self, rng: &mut Rng) -> bool {
        let (is_own, rtype) = (rng.bool(), TYPES[rng.usize(..TYPES.len())]);
        let key = (NAMES[rng.usize(..NAMES.len())], rtype.0);
        let put = (rng.u8(..3) > 0).then(|| random_set(rng, rtype, is_own));
        let (zone, at) = (&mut self.laid.zone, key.0.as_bytes());
        let before = (zone.clone(), self.of_view.clone());
        let set = set_change(key.0, key.1, put.as_ref());
        let written = match is_own {
            true => self.of_view.change_all(zone.origin(), &[set]),
            false => zone.change_all(&[set]),
        };
        let is_valid = written.and_then(|()| zone.check_view(&self.of_view, &[at])).is_ok();
        if !is_valid {
            (self.laid.zone, self.of_view) = before;
            return false;
        }
        if is_own {
            zone.put_view(VIEW, &self.of_view, &[at]).unwrap();
        }
        let into = if is_own { &mut self.own } else { &mut self.base };
        match put.clone() {
            Some(value) => into.insert(key, value),
            None => into.remove(&key),
        };
        let now = self.own.get(&key).or_else(|| self.base.get(&key));
        self.merged.zone.change_all(&[set_change(key.0, key.1, now)]).unwrap();
        if !is_own {
            self.plain.zone.change_all(&[set_change(key.0, key.1, put.as_ref())]).unwrap();
        }
        self.all().into_iter().for_each(Served::publish);
        true
    }

    /// Compares the answers. Returns how many addresses stand for an ALIAS record of the view.
    fn check(&self) -> usize {
        let (laid, mut computed) = (&self.laid, 0);
        for at in NAMES {
            let answered = laid.answered(VIEW, at);
            assert_eq!(answered, self.merged.answered(View::DEFAULT, at), "{at:?}");
            assert_eq!(laid.answered(View::DEFAULT, at), self.plain.answered(View::DEFAULT, at));
            assert_eq!(laid.judged(VIEW, at), self.merged.judged(View::DEFAULT, at), "{at:?}");
            let has_alias = self.own.contains_key(&(at, Rtype::ALIAS.0));
            let sets = answered.iter().flatten();
            computed += sets.filter(|_| has_alias && !at.is_empty()).count();
        }
        computed
    }
}

/// Whatever is written, reported and shifted over time, clients of a view get what they would get
/// of a zone that has its sets itself, and other clients what they would get without the view.
#[test]
fn view_gets_what_the_merged_zone_would_answer() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let clock = Arc::new(AtomicU64::new(START));
    let mut three = Three::start(&clock);
    let (mut written, mut computed) = (0, 0);
    for _ in 0..800 {
        match rng.u8(..8) {
            0 => three.judge(&mut rng),
            1 => three.check_zone(rng.bool()),
            2 => {
                clock.fetch_add(rng.u64(..9), Ordering::Relaxed);
                three.all().into_iter().for_each(Served::wait_for_step);
            }
            _ => written += usize::from(three.write(&mut rng)),
        }
        computed += three.check();
    }
    assert!(written > 150 && computed > 30, "{written} {computed}");
}

//! Zones with too many targets, and zones that are deleted.
use super::*;
use crate::checks::checks_in;
use crate::fleet::{Finding, FleetStates, Vantage};
use crate::request::{StateFilter, TargetFilter};
use crate::saved::endpoints_in;
use crate::state::ProbeState;
use crate::tests::check;
use compile::{Image, Loader};
use image::HashKey;
use model::{Edit, Policy, SetRules, SetValue};
use wire::{Name, NameBuf, Rtype};
use zone_manager::{
    HoldPolicy, Lane, PublisherThread, SourceKind, SourceSettings, Target, UpdateSender,
};

/// The probes a second of one target.
const RATE: u32 = 10;

struct Fixture {
    runner: Runner,
    updates: UpdateSender,
    _running: PublisherThread,
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

fn fixture(states: &[(u32, ProbeState)]) -> Fixture {
    fixture_in(None, states)
}

/// The runner of a server in this fleet.
fn fixture_in(fleet: Option<Arc<FleetStates>>, states: &[(u32, ProbeState)]) -> Fixture {
    let key = Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5)));
    let (publisher, running) = ZonePublisher::start(Image::new(key)).expect("a thread");
    let updates = publisher.start_source(SourceSettings {
        name: "test".into(),
        kind: SourceKind::Kubernetes,
        lane: Lane::Normal,
        hold: HoldPolicy::Operator,
    });
    let check = Check { interval: Duration::from_millis(1_000 / u64::from(RATE)), ..check("web") };
    let settings = HealthSettings {
        checks: vec![check.clone()],
        allow: Some(Allow::default()),
        ttl_max: Duration::from_secs(30),
        folder: None,
        find_user: |_| Err("no scripts".into()),
        read_check: |_, _| Err("no checks".into()),
        api_checks: checks_in(None),
        endpoints: endpoints_in(None),
        fleet: fleet.map(|states| (states, 2)),
        webhook: None,
        avoided_cpus: Vec::new(),
    };
    let probes = Probes::new([&check], settings.find_user).expect("a check");
    let set = Arc::clone(&settings.api_checks);
    let checks = Arc::new(Checks::new(&settings.checks, set, settings.read_check));
    let mut saved = SavedHealth::default();
    for (number, state) in states {
        let state = TargetState::saved(*state, true, Duration::from_secs(1));
        saved.states.insert(target(*number), (state, wall()));
    }
    let runner = Runner::new(publisher, settings, checks, probes, Ok(saved), Default::default());
    Fixture { runner, updates, _running: running }
}

fn target(number: u32) -> HealthTarget {
    let address = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
    HealthTarget { check: "web".into(), address }
}

impl Fixture {
    /// Serves a zone whose sets have these members.
    fn put_zone(&mut self, origin: &str, members: std::ops::Range<u32>) {
        let origin = name(origin);
        let image = self.runner.publisher.image();
        let mut loader = Loader::new(Arc::clone(image.key()), origin.as_name(), None);
        let soa = [&b"\x02ns\0\x04root\0"[..], &[0; 20]].concat();
        loader.add(origin.as_name(), Rtype::SOA, 60, &soa, 0).unwrap();
        loader.add(origin.as_name(), Rtype::NS, 60, b"\x02ns\0", 0).unwrap();
        let zone = loader.finish().unwrap();
        self.updates.sync_zone(zone, None).wait().unwrap();
        let rules = SetRules { check: "web".into(), ..SetRules::default() };
        let policy = Policy::new(rules);
        let members: Vec<u32> = members.collect();
        let sets = members.chunks(100).enumerate().map(|(number, members)| {
            let data = members.iter().map(|one| Box::from((0x0a00_0000 + one).to_be_bytes()));
            let label = format!("n{number}");
            let owner = NameBuf::with_label(label.as_bytes(), origin.as_name()).unwrap();
            let value = SetValue { ttl: 60, policy: policy.clone(), data: data.collect() };
            Edit::put(owner, Rtype::A, value).into()
        });
        let done = self.updates.apply_blocking(Target::Zone(origin.clone()), sets.collect());
        let results = done.unwrap().wait().unwrap().results;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        self.runner.take_targets();
    }

    fn delete_zone(&mut self, origin: &str) {
        let removed = self.updates.remove(Target::Zone(name(origin)));
        self.runner.publisher.wait(removed).unwrap();
        self.runner.take_targets();
    }

    fn probed(&self, numbers: std::ops::Range<u32>) -> usize {
        numbers.filter(|number| self.runner.prober.state(&target(*number)).is_some()).count()
    }

    fn waiting(&self) -> (u64, u64) {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
        (count(&self.runner.counters.not_probed), count(&self.runner.counters.waiting))
    }
}

const MOST: u32 = PROBES_PER_SECOND_MAX / RATE;

#[tokio::test(flavor = "current_thread")]
async fn zone_with_too_many_targets_leaves_others_theirs() {
    let mut fixture = fixture(&[]);
    fixture.put_zone("tenant.example.", 0..3_000);
    assert_eq!(fixture.probed(0..3_000), MOST as usize);
    assert_eq!(fixture.waiting(), (2_500, 2_500));
    fixture.put_zone("example.org.", 5_000..5_100);
    assert_eq!(fixture.probed(5_000..5_100), 100, "a small zone has all of its own");
    assert_eq!(fixture.probed(0..3_000), MOST as usize - 100);
    assert_eq!(fixture.waiting(), (2_600, 2_600));
    // What was refused once is probed once there is room.
    fixture.put_zone("late.example.", 6_000..7_000);
    assert_eq!(fixture.probed(6_000..7_000), 200, "as much as the other large one");
    fixture.delete_zone("tenant.example.");
    assert_eq!(fixture.probed(6_000..7_000), MOST as usize - 100);
    fixture.delete_zone("example.org.");
    assert_eq!(fixture.probed(6_000..7_000), MOST as usize);
    assert_eq!(fixture.waiting(), (500, 500));
    assert_eq!(fixture.runner.zones.len(), 1_000);
}

#[tokio::test(flavor = "current_thread")]
async fn waiting_target_is_unknown_and_that_of_a_deleted_zone_is_forgotten() {
    let down = [(0, ProbeState::Down), (2_999, ProbeState::Down), (9_000, ProbeState::Down)];
    let mut fixture = fixture(&down);
    fixture.put_zone("tenant.example.", 0..3_000);
    let state = |fixture: &Fixture, number| {
        let mut named = fixture.runner.named();
        let found = named.find(|(one, _)| **one == target(number));
        found.map(|(_, state)| state.state)
    };
    assert_eq!(state(&fixture, 0), Some(ProbeState::Down), "it is probed");
    assert_eq!(state(&fixture, 2_999), Some(ProbeState::Unknown), "nothing verifies the old one");
    assert_eq!(fixture.runner.verdicts[&target(2_999)], Some(MemberClass::Unknown));
    fixture.delete_zone("tenant.example.");
    assert!(fixture.runner.remembered.keys().eq([&target(9_000)]), "no zone had it");
    assert_eq!(fixture.runner.verdicts[&target(0)], None);
    fixture.put_zone("tenant.example.", 0..1);
    assert_eq!(state(&fixture, 0), Some(ProbeState::Unknown), "the zone is another one");
}

/// Five checks would probe the address too often; those that wait get the room of others.
#[tokio::test(flavor = "current_thread")]
async fn target_of_a_crowded_address_is_probed_once_there_is_room() {
    let mut fixture = fixture(&[]);
    let names: Vec<String> = (0..5).map(|number| format!("c{number}")).collect();
    for name in &names {
        let fast = Check { interval: Duration::from_millis(100), ..check(name) };
        fixture.runner.prober.set_check(name, Some(Arc::new(fast)));
    }
    let target = |check: &str| HealthTarget { check: check.into(), address: [10, 0, 0, 1].into() };
    for check in &names {
        fixture.runner.zones.insert(target(check), vec![b"\0"[..].into()]);
        fixture.runner.start(target(check), TargetState::default());
        fixture.runner.settle();
    }
    let probed = |fixture: &Fixture| {
        names.iter().filter(|name| fixture.runner.prober.state(&target(name)).is_some()).count()
    };
    assert_eq!(probed(&fixture), 2);
    for left in [2, 2, 2, 1, 0] {
        let first = names.iter().find(|name| fixture.runner.prober.state(&target(name)).is_some());
        fixture.runner.stop(&target(first.unwrap())).unwrap();
        fixture.runner.settle();
        assert_eq!(probed(&fixture), left);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn list_has_pages_and_filters() {
    let down = [(7, ProbeState::Down)];
    let mut fixture = fixture(&down);
    fixture.put_zone("tenant.example.", 0..MOST + 50);
    let mut filter = TargetFilter { limit: 200, ..TargetFilter::default() };
    let mut seen = Vec::new();
    loop {
        let page = fixture.runner.list(&filter);
        assert!(page.targets.len() <= 200 && page.has_more == page.next.is_some());
        seen.extend(page.targets.into_iter().map(|target| target.address));
        let Some(next) = page.next else { break };
        filter.after = Some(HealthTarget::from_cursor(&next).expect("a cursor"));
    }
    let all: Vec<_> = (0..MOST + 50).map(|number| target(number).address).collect();
    assert_eq!(seen, all, "each once, in order");
    let of = |word| {
        let state = Some(StateFilter::from_word(word).expect("a state"));
        let filter = TargetFilter { limit: 1_000, state, ..TargetFilter::default() };
        fixture.runner.list(&filter).targets.len()
    };
    assert_eq!((of("down"), of("up")), (1, 0));
    assert_eq!((of("not-probed"), of("unknown")), (50, MOST as usize + 49));
    assert_eq!(StateFilter::from_word("gone"), None);
}

/// Two other servers probe. One falls silent, and then both do.
#[tokio::test(flavor = "current_thread")]
async fn findings_of_silent_servers_expire_and_only_targets_that_were_up_become_unknown() {
    const SILENT: Duration = Duration::from_secs(60);
    let states = FleetStates::new("own");
    let mut fixture = fixture_in(Some(Arc::clone(&states)), &[]);
    states.set_connected(true);
    let vantages = ["a", "b"].map(|name| Vantage::new(name, 1, false));
    states.set_vantages(vantages.into());
    fixture.put_zone("example.org.", 0..3);
    let say = |server: &str, number: u32, state| {
        let state = TargetState::saved(state, true, Duration::from_secs(1));
        assert!(states.ingest(server, &target(number), Some(Finding { state, epoch: 1 })));
    };
    let (up, down) = (ProbeState::Up, ProbeState::Down);
    for (number, of_a, of_b) in [(0, up, up), (1, up, down), (2, down, down)] {
        say("a", number, of_a);
        say("b", number, of_b);
    }
    let classes = |fixture: &mut Fixture| {
        fixture.runner.take_findings();
        [0, 1, 2].map(|number| fixture.runner.verdicts[&target(number)].expect("a class"))
    };
    let [is_up, is_down] = [MemberClass::Up, MemberClass::DownOnceUp];
    assert_eq!(classes(&mut fixture), [is_up, is_up, is_down]);

    // Time alone is not silence: etcd has to be known until then. Nothing is heard of `a`.
    let now = Instant::now();
    states.hear("a");
    states.hear("b");
    states.reach(now);
    assert_eq!(classes(&mut fixture), [is_up, is_up, is_down]);
    states.reach(now + SILENT);
    states.hear_at("b", now + SILENT);
    assert_eq!(classes(&mut fixture), [is_up, is_down, is_down], "the word of `b` counts alone");
    states.reach(now + 2 * SILENT);
    let unknown = MemberClass::Unknown;
    assert_eq!(classes(&mut fixture), [unknown, is_down, is_down]);
    states.hear_at("a", now + 2 * SILENT);
    assert_eq!(classes(&mut fixture), [is_up, is_up, is_down]);
}

/// No server probes, and what was saved says that the targets are up.
#[tokio::test(flavor = "current_thread")]
async fn saved_state_that_no_server_confirms_is_unknown_once_etcd_was_followed_for_long() {
    let states = FleetStates::new("own");
    let saved = [(0, ProbeState::Up), (1, ProbeState::Down)];
    let mut fixture = fixture_in(Some(Arc::clone(&states)), &saved);
    fixture.put_zone("example.org.", 0..2);
    let classes = |fixture: &mut Fixture| {
        fixture.runner.take_findings();
        [0, 1].map(|number| fixture.runner.verdicts[&target(number)].expect("a class"))
    };
    let before = [MemberClass::Up, MemberClass::DownOnceUp];
    assert_eq!(classes(&mut fixture), before, "etcd is away");
    states.set_connected(true);
    assert_eq!(states.late(), Some(Vec::new()), "etcd is to be read");
    assert_eq!(classes(&mut fixture), before);
    states.reach(Instant::now() + Duration::from_secs(60));
    assert_eq!(classes(&mut fixture), [MemberClass::Unknown, before[1]]);
}

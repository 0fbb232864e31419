use super::*;

fn target(number: u32) -> HealthTarget {
    HealthTarget { check: "web".into(), address: number.to_be_bytes().into() }
}

fn vantages(names: &[&str]) -> Vec<Vantage> {
    names.iter().map(|name| Vantage::new(name, 1, false)).collect()
}

fn names(target: &HealthTarget, vantages: &[Vantage], count: usize) -> Vec<String> {
    assigned(target, vantages, count).iter().map(|one| one.name.to_string()).collect()
}

fn state(word: &str, since: u64) -> TargetState {
    let state = ProbeState::from_word(word).expect("a state");
    reported_state(state, state == ProbeState::Up, Duration::from_secs(since), "")
}

fn down(reason: &str) -> TargetState {
    reported_state(ProbeState::Down, true, Duration::from_secs(9), reason)
}

#[test]
fn server_that_comes_moves_only_its_share() {
    let (five, six) = (["a", "b", "c", "d", "e"], ["a", "b", "c", "d", "e", "f"]);
    let mut by_server = HashMap::<String, usize>::new();
    let mut moved = 0;
    for number in 0..6_000 {
        let target = target(number);
        let before = names(&target, &vantages(&five), 2);
        let after = names(&target, &vantages(&six), 2);
        assert_eq!((before.len(), after.len()), (2, 2));
        // Without the new one, all is as before.
        let rest: Vec<_> = after.iter().filter(|name| *name != "f").cloned().collect();
        assert_eq!(rest, before[..rest.len()]);
        moved += usize::from(rest.len() < 2);
        after.into_iter().for_each(|name| *by_server.entry(name).or_default() += 1);
    }
    assert!((1_800..2_200).contains(&moved), "a third: {moved}");
    assert!(by_server.values().all(|count| (1_800..2_200).contains(count)), "{by_server:?}");
}

/// All versions must agree, so these are fixed.
#[test]
fn order_of_servers_is_the_same_in_all_versions() {
    let all = vantages(&["a", "b", "c", "d"]);
    assert_eq!(names(&target(0x0a00_0001), &all, 4), ["d", "b", "a", "c"]);
    let ipv6 = HealthTarget { check: "web".into(), address: "2001:db8::1".parse().unwrap() };
    assert_eq!(names(&ipv6, &all, 4), ["d", "a", "b", "c"]);
    assert!(names(&ipv6, &[], 2).is_empty());
}

#[test]
fn most_servers_that_know_decide() {
    let decide = |words: &[&str]| {
        let states: Vec<_> = words.iter().map(|word| state(word, 1)).collect();
        verdict(states.iter()).map(|verdict| verdict.state.word())
    };
    assert_eq!(decide(&[]), None);
    assert_eq!(decide(&["down"]), Some("down"));
    assert_eq!(decide(&["up", "down"]), Some("up"));
    assert_eq!(decide(&["down", "down"]), Some("down"));
    assert_eq!(decide(&["down", "up", "down"]), Some("down"));
    assert_eq!(decide(&["down", "up", "down", "up"]), Some("up"));
    let verdict = verdict([state("up", 1), down("refused"), down("reset")].iter()).unwrap();
    assert_eq!((&*verdict.reason, verdict.ever_up, verdict.since.as_secs()), ("refused", true, 9));
}

#[test]
fn only_the_present_life_of_a_server_counts() {
    let states = FleetStates::new("own");
    let live = |epoch| vec![Vantage::new("a", epoch, false)];
    let finds = || {
        let vantages = states.vantages();
        states.findings(&target(1), &vantages.iter().collect::<Vec<_>>()).len()
    };
    states.set_vantages(live(1));
    assert!(states.ingest("a", &target(1), Some(Finding { state: down(""), epoch: 1 })));
    assert_eq!(finds(), 1);
    states.set_vantages(live(2));
    assert_eq!(finds(), 0, "it has not probed in this epoch");
    assert!(states.ingest("a", &target(1), Some(Finding { state: down(""), epoch: 2 })));
    assert_eq!(finds(), 1);
    states.set_vantages(Vec::new());
    assert_eq!(states.expired(|server| server == "a"), [("a".into(), target(1))]);
    states.retain(&HashSet::new());
    assert_eq!(states.count(), 0);
}

#[test]
fn finding_counts_at_once_and_is_written_until_it_is_stored() {
    let states = FleetStates::new("own");
    let own = |epoch| vec![Vantage::new("own", epoch, true)];
    states.set_vantages(own(1));
    states.say(&target(1), Some(&state("up", 5)));
    let vantages = states.vantages();
    let all = vantages.iter().collect::<Vec<_>>();
    assert_eq!(states.findings(&target(1), &all), [("own".into(), state("up", 5))]);
    let written = states.take_pending(10);
    assert_eq!(written, [(target(1), Some(state("up", 5)))]);
    states.put_back(written);
    assert_eq!(states.take_pending(10).len(), 1);

    // What comes back from etcd is what was reported, or is written again.
    let reported = |word, epoch| Some(Finding { state: state(word, 5), epoch });
    states.ingest("own", &target(1), reported("up", 1));
    assert!(states.take_pending(10).is_empty());
    states.ingest("own", &target(1), reported("down", 1));
    assert_eq!(states.findings(&target(1), &all), [("own".into(), state("up", 5))]);
    assert_eq!(states.take_pending(10).len(), 1);
    states.ingest("own", &target(1), None);
    assert_eq!(states.take_pending(10).len(), 1);

    // In a new epoch, all is reported again.
    states.set_vantages(own(2));
    assert_eq!(states.take_pending(10).len(), 1);
    states.say(&target(1), Some(&reported_again()));
    assert!(states.take_pending(10).is_empty(), "another reason is not a transition");
    states.say(&target(1), None);
    assert_eq!(states.take_pending(10), [(target(1), None)]);
}

fn reported_again() -> TargetState {
    reported_state(ProbeState::Up, true, Duration::from_secs(5), "slow")
}

#[test]
fn findings_round_trip_and_wrong_ones_say_why() {
    let finding = Finding { state: down("refused"), epoch: 7 };
    assert_eq!(Finding::decode(&finding.encode()), Ok(finding.clone()));
    let text = String::from_utf8(finding.encode()).unwrap();
    for (from, to, why) in [
        ("{", "", "JSON"),
        ("\"format\":1", "\"format\":2", "newer version"),
        ("\"format\":1", "\"form\":1", "no format"),
        ("\"down\"", "\"unknown\"", "neither"),
        ("\"since\":", "\"then\":", "since"),
    ] {
        let wrong = Finding::decode(text.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert!(wrong.contains(why), "{wrong}");
    }
    for len in 0..text.len() {
        assert!(Finding::decode(&text.as_bytes()[..len]).is_err());
    }
}

#[test]
fn number_of_findings_is_bounded() {
    let states = FleetStates::new("own");
    let finding = || Some(Finding { state: state("up", 1), epoch: 1 });
    for number in 0..FINDINGS_MAX as u32 {
        assert!(states.ingest("a", &target(number), finding()));
    }
    assert!(!states.ingest("a", &target(FINDINGS_MAX as u32), finding()));
    assert!(states.ingest("a", &target(1), None));
    assert!(states.ingest("a", &target(FINDINGS_MAX as u32), finding()));
}

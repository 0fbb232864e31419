//! What servers that probe say of their targets.
use crate::node::{Node, eventually};
use fleet_state::EtcdStates;
use health::{ProbeState, TargetState};
use std::net::Ipv4Addr;
use std::time::Duration;
use test_support::etcd::Etcd;
use test_support::operator::Operator;
use zone_manager::HealthTarget;

pub fn target(last: u8) -> HealthTarget {
    HealthTarget { check: "web".into(), address: Ipv4Addr::new(192, 0, 2, last).into() }
}

pub fn down() -> TargetState {
    TargetState::saved(ProbeState::Down, true, Duration::from_secs(1_795_530_000))
}

fn up() -> TargetState {
    TargetState::saved(ProbeState::Up, true, Duration::from_secs(1_795_530_001))
}

/// What the servers that live say of a target, to the eyes of this one.
fn said(states: &EtcdStates, target: &HealthTarget) -> Vec<(String, TargetState)> {
    let states = states.states();
    let vantages = states.vantages();
    let found = states.findings(target, &vantages.iter().collect::<Vec<_>>());
    found.into_iter().map(|(name, state)| (name.to_string(), state)).collect()
}

#[test]
fn findings_reach_the_others_and_only_those_of_living_servers_count() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let (mut one, two) =
        (Node::start_prober(&etcd, "states-one"), Node::start_prober(&etcd, "states-two"));
    let dns = Node::start_reader(&etcd);
    let (of_one, of_two, of_dns) = (one.states(), two.states(), dns.states());
    let is_own = |states: &EtcdStates| states.states().vantages().iter().any(|one| one.is_own);
    eventually(|| is_own(&of_one) && is_own(&of_two));
    of_one.states().say(&target(1), Some(&down()));
    of_two.states().say(&target(1), Some(&up()));
    let both = [("states-one".to_owned(), down()), ("states-two".to_owned(), up())];
    for states in [&of_one, &of_two, &of_dns] {
        eventually(|| said(states, &target(1)) == both);
    }
    let client = Operator::of(&etcd);
    let value = client.get("/dunlin/states/states-one/web/192.0.2.1").expect("a key");
    let begin = r#"{"format":1,"state":"down","ever_up":true,"since":1795530000000,"life":"#;
    assert!(value.starts_with(begin), "{value}");

    // Only its own life counts, and what it does not say any more is deleted.
    one.stop();
    drop(of_one);
    eventually(|| said(&of_dns, &target(1)) == both[1..]);
    one.restart();
    let of_one = one.states();
    eventually(|| is_own(&of_one));
    assert_eq!(said(&of_dns, &target(1)), both[1..], "it has not probed in this life");
    eventually(|| client.count("/dunlin/states/states-one/") == 0);
    of_one.states().say(&target(1), Some(&down()));
    eventually(|| said(&of_dns, &target(1)) == both);

    // What is lost in etcd is written again; what changes without etcd, later.
    client.delete("/dunlin/states/states-two/");
    eventually(|| client.count("/dunlin/states/states-two/") == 1);
    eventually(|| said(&of_dns, &target(1)) == both);
    etcd.kill(0);
    eventually(|| !of_one.states().is_connected());
    of_one.states().say(&target(1), Some(&up()));
    of_one.states().say(&target(2), Some(&up()));
    assert_eq!(said(&of_one, &target(1))[0].1, up(), "its own word counts at once");
    assert_eq!(said(&of_dns, &target(1)), both);
    etcd.start(0);
    eventually(|| said(&of_dns, &target(1)).iter().all(|(_, state)| *state == up()));
    eventually(|| said(&of_dns, &target(2)).len() == 1);
    of_one.states().say(&target(2), None);
    // The connection from before is broken.
    let client = Operator::of(&etcd);
    eventually(|| client.count("/dunlin/states/") == 2);
}

#[test]
fn many_findings_are_written_and_listed() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let (prober, dns) = (Node::start_prober(&etcd, "states-many"), Node::start_reader(&etcd));
    let of_prober = prober.states();
    eventually(|| of_prober.states().vantages().len() == 1);
    // More than a page of a list.
    let targets = (0..12_000_u32).map(|n| HealthTarget {
        check: "web".into(),
        address: Ipv4Addr::from(0x0a00_0000 + n).into(),
    });
    targets.for_each(|target| of_prober.states().say(&target, Some(&down())));
    eventually(|| Operator::of(&etcd).count("/dunlin/states/") == 12_000);
    let of_dns = dns.states();
    eventually(|| of_dns.states().count() == 12_000);
    assert_eq!(of_dns.status().fault, None);
}

#[test]
fn key_that_is_no_finding_is_named_and_harms_no_other() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let prober = Node::start_prober(&etcd, "states-right");
    let of_prober = prober.states();
    eventually(|| of_prober.states().vantages().len() == 1);
    let client = Operator::of(&etcd);
    client.put("/dunlin/states/else", "");
    client.put("/dunlin/states/states-right/web/192.0.2.1", "{}");
    client.put("/dunlin/states/other/web/192.0.2.1", r#"{"format":2}"#);
    let unusable = || of_prober.status().unusable;
    eventually(|| unusable().len() == 3);
    // Its own key is written again.
    of_prober.states().say(&target(1), Some(&down()));
    eventually(|| unusable().len() == 2 && said(&of_prober, &target(1)).len() == 1);
    let unusable = unusable().join("; ");
    assert!(unusable.contains("/dunlin/states/else: it is not the key"), "{unusable}");
    assert!(unusable.contains("other/web/192.0.2.1: a newer version wrote it"), "{unusable}");
    client.delete("/dunlin/states/else");
    client.delete("/dunlin/states/other/");
    eventually(|| of_prober.status().unusable.is_empty());
}

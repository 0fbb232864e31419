//! Who is in the fleet, and what each member serves.
use super::node::{Node, eventually};
use records::{Precondition, Refused, Revision};
use server_status::Member;
use std::thread;
use std::time::{Duration, Instant};
use test_support::etcd::Etcd;
use test_support::operator::Operator;

fn members(node: &Node) -> Vec<Member> {
    node.fleet().members().wait().unwrap()
}

/// Until all are members, and serve a revision.
fn expect_members(nodes: &[Node], revision: Revision) {
    eventually(|| {
        let found = members(&nodes[0]);
        let is_done = |member: &Member| Revision(member.revision) == revision;
        found.len() == nodes.len() && found.iter().all(is_done)
    });
}

#[test]
fn members_report_what_they_serve_and_leave_at_their_end() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let mut nodes: Vec<Node> = (0..3).map(|_| Node::start(&etcd)).collect();
    expect_members(&nodes, Revision::NONE);
    let made = nodes[1].create("example.org.").unwrap();
    expect_members(&nodes, made.revision);
    let found = members(&nodes[2]);
    let mut names: Vec<_> = nodes.iter().map(|node| node.fleet().status().name).collect();
    names.sort();
    assert_eq!(found.iter().map(|member| member.name.clone()).collect::<Vec<_>>(), names);
    assert!(found.iter().all(|member| member.reported >= member.since && member.since > 0));
    let gone = nodes.pop().unwrap().fleet().status().name;
    let stored = Operator::of(&etcd).count("/dunlin/members/");
    assert_eq!(stored, 2, "it did not wait for the end of its lease");
    eventually(|| members(&nodes[0]).iter().all(|member| member.name != gone));
}

#[test]
fn client_waits_until_every_member_serves_its_write() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let nodes: Vec<Node> = (0..3).map(|_| Node::start(&etcd)).collect();
    let made = nodes[0].create("example.org.").unwrap();
    expect_members(&nodes, made.revision);
    let mut waits = Vec::new();
    for n in 0..60 {
        let name = format!("n{n}.example.org.");
        let writer = &nodes[n % 3];
        let written = writer.put(&name, "192.0.2.1", Precondition::Absent).unwrap();
        let began = Instant::now();
        writer.fleet().wait(written.revision).wait().unwrap();
        waits.push(began.elapsed());
        // The zone's serial follows its revision, so this is what queries get.
        let serials = nodes.iter().map(|node| node.serial("example.org.").unwrap());
        let newest = writer.serial("example.org.").unwrap();
        assert!(serials.into_iter().all(|serial| serial == newest), "write {n}");
    }
    waits.sort();
    println!("waits of the fleet: median {:?}, longest {:?}", waits[30], waits[59]);
    // The keys of the waits are gone after a while.
    eventually(|| Operator::of(&etcd).count("/dunlin/wait/") == 0);
}

#[test]
fn member_that_does_not_serve_a_write_is_named() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let nodes = [Node::start(&etcd)];
    let made = nodes[0].create("example.org.").unwrap();
    expect_members(&nodes, made.revision);
    let late = serde_json::to_string(&Member { name: "late".into(), ..Member::default() });
    let (etcd, late) = (Operator::of(&etcd), late.unwrap());
    let wait = || nodes[0].fleet().wait(made.revision).wait();
    etcd.put_for("/dunlin/members/late", &late, 60);
    etcd.put("/dunlin/members/broken", "{");
    match wait() {
        Err(Refused::Lagging(why)) => assert!(why.contains("yet: late;"), "{why}"),
        other => panic!("{other:?}"),
    }
    thread::scope(|scope| {
        let waiting = scope.spawn(wait);
        etcd.delete("/dunlin/members/late");
        assert_eq!(waiting.join().unwrap(), Ok(()), "who has left is not waited for");
    });
}

/// A key that an operator wrote, or that a restored backup brought back.
#[test]
fn member_key_without_lease_is_ignored_and_named() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let operator = Operator::of(&etcd);
    let ghost = serde_json::to_string(&Member { name: "ghost".into(), ..Member::default() });
    operator.put("/dunlin/members/ghost", ghost.unwrap());
    operator.put("/dunlin/members/living", "{}");
    let nodes = [Node::start_named(&etcd, "living")];
    let made = nodes[0].create("example.org.").unwrap();
    expect_members(&nodes, made.revision);
    assert_eq!(nodes[0].fleet().wait(made.revision).wait(), Ok(()), "a ghost is not waited for");
    let states = nodes[0].states();
    let named = "/dunlin/members/ghost: it has no lease, so no server stands behind it: delete it";
    eventually(|| states.status().unusable == [named]);
    operator.delete("/dunlin/members/ghost");
    eventually(|| states.status().unusable.is_empty());
}

#[test]
fn second_server_of_a_name_is_no_member_until_the_first_leaves() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let first = Node::start_named(&etcd, "same");
    let second = Node::start_named(&etcd, "same");
    let wanted = "has the name \"same\": give each its own [server] name";
    let is_refused =
        |node: &Node| node.fleet().status().fault.is_some_and(|fault| fault.contains(wanted));
    eventually(|| is_refused(&first) || is_refused(&second));
    let (member, other) = if is_refused(&second) { (first, second) } else { (second, first) };
    assert_eq!(member.fleet().status().fault, None);
    assert_eq!(members(&other).len(), 1);
    // It serves and writes nevertheless, and does not keep a client waiting in vain.
    let written = other.create("example.org.").unwrap();
    match other.fleet().wait(written.revision).wait() {
        Err(Refused::Lagging(why)) => assert!(why.contains("is not known whether"), "{why}"),
        unexpected => panic!("{unexpected:?}"),
    }
    drop(member);
    eventually(|| other.fleet().status().fault.is_none());
    assert_eq!(members(&other).len(), 1);
}

/// The key of a server outlives an outage of etcd, which gives its lease more time.
#[test]
fn outage_of_etcd_does_not_make_a_server_its_own_rival() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let node = Node::start(&etcd);
    expect_members(std::slice::from_ref(&node), Revision::NONE);
    let since = members(&node)[0].since;
    etcd.kill(0);
    // Longer than a server may be outside without a fault: time is the subject.
    thread::sleep(Duration::from_secs(14));
    etcd.start(0);
    eventually(|| {
        let fault = node.fleet().status().fault;
        assert!(!fault.as_ref().is_some_and(|fault| fault.contains("has the name")), "{fault:?}");
        let found = node.fleet().members().wait();
        found.is_ok_and(|found| found.first().is_some_and(|member| member.since > since))
    });
}

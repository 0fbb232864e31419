//! Keys of zones and sets that cannot be read.
use crate::node::{Node, eventually};
use records::{Precondition, Refused};
use test_support::etcd::Etcd;
use test_support::operator::Operator;

const SET: &str = "/dunlin/sets/example.org./www/A";
const ZONE: &str = "/dunlin/zones/example.org.";

/// Whether the zone answers SERVFAIL, and no other.
fn is_unanswered(node: &Node) -> bool {
    node.serial("example.org.").is_none()
        && node.holds_zone("example.org.")
        && node.serial("example.net.").is_some()
}

fn unreadable(node: &Node) -> String {
    node.fleet().status().unreadable.unwrap_or_default()
}

/// A fleet of one with two zones.
fn first(etcd: &Etcd) -> Node {
    let first = Node::start(etcd);
    first.create("example.org.").unwrap();
    first.create("example.net.").unwrap();
    first.put("www.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    first
}

#[test]
fn zone_with_a_damaged_set_is_servfail_on_a_new_server_until_the_set_is_right() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let (first, client) = (first(&etcd), Operator::of(&etcd));
    let good = client.get(SET).unwrap();
    client.put(SET, good.replace("192.0.2.1", "192.0.2"));
    let mut second = Node::start(&etcd);
    eventually(|| is_unanswered(&second));
    let why = unreadable(&second);
    assert!(why.contains(&format!("{SET}: data[0]")), "{why}");
    let refused = second.put("a.example.org.", "192.0.2.3", Precondition::Anything);
    assert_eq!(refused, Err(Refused::Unloaded));
    // Commits of others do not make it look whole, nor does a restart.
    first.put("b.example.org.", "192.0.2.2", Precondition::Anything).unwrap();
    first.raise_serial("example.org.").unwrap();
    eventually(|| second.revision() == first.revision());
    assert!(is_unanswered(&second));
    second.stop();
    second.restart();
    eventually(|| second.revision() == first.revision());
    assert!(is_unanswered(&second) && second.service().health().unreadable_count == 1);
    assert!(first.get("www.example.org.").is_some() && unreadable(&first).is_empty());
    // An operator corrects it.
    client.put(SET, &good);
    eventually(|| second.get("www.example.org.") == first.get("www.example.org."));
    eventually(|| second.answers("www.example.org."));
    assert_eq!(second.export(), first.export());
    eventually(|| unreadable(&second).is_empty());
}

#[test]
fn zone_with_a_damaged_set_is_whole_once_the_set_is_written_again_also_during_an_absence() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let (first, client) = (first(&etcd), Operator::of(&etcd));
    client.put(SET, "{");
    let mut second = Node::start(&etcd);
    eventually(|| is_unanswered(&second));
    first.put("www.example.org.", "192.0.2.7", Precondition::Anything).unwrap();
    eventually(|| second.get("www.example.org.") == first.get("www.example.org."));
    assert!(second.get("www.example.org.").is_some());
    client.put(SET, "{");
    let mut third = Node::start(&etcd);
    eventually(|| is_unanswered(&third));
    third.stop();
    first.put("www.example.org.", "192.0.2.8", Precondition::Anything).unwrap();
    third.restart();
    eventually(|| third.get("www.example.org.") == first.get("www.example.org."));
    second.stop();
    assert_eq!(third.export(), first.export());
}

#[test]
fn zone_whose_own_key_is_damaged_or_deleted_is_servfail_on_a_new_server() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let (first, client) = (first(&etcd), Operator::of(&etcd));
    let good = client.get(ZONE).unwrap();
    for value in [Some("{}"), None] {
        match value {
            Some(value) => client.put(ZONE, value),
            None => client.delete(ZONE),
        }
        let second = Node::start(&etcd);
        eventually(|| is_unanswered(&second));
        assert!(unreadable(&second).contains(ZONE), "{}", unreadable(&second));
        client.put(ZONE, &good);
        eventually(|| second.answers("www.example.org."));
        assert_eq!(second.export(), first.export());
    }
}

/// It has to read everything, and has a copy of what was written last.
#[test]
fn server_with_a_copy_keeps_a_zone_that_cannot_be_read_and_an_adoption_loses_none() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let (first, client) = (first(&etcd), Operator::of(&etcd));
    client.put(SET, "{");
    let second = Node::start(&etcd);
    eventually(|| is_unanswered(&second));
    match second.service().adopt().wait() {
        Err(Refused::Failed(why)) => assert!(why.contains("would be lost: adopt on"), "{why}"),
        other => panic!("{other:?}"),
    }
    first.service().adopt().wait().unwrap();
    assert!(first.get("www.example.org.").is_some());
    eventually(|| second.get("www.example.org.") == first.get("www.example.org."));
    eventually(|| unreadable(&first).is_empty() && unreadable(&second).is_empty());
    assert_eq!(second.export(), first.export());
}

//! Upgrades of a fleet: keys of an older version, and the form of the keys.
use crate::node::{Node, address, eventually, name};
use records::{Edit, Form, Policy, Precondition, Refused, Revision, SetValue};
use server_status::Member;
use test_support::etcd::Etcd;
use test_support::operator::Operator;
use wire::Rtype;

/// The keys of an older version, with their values in hexadecimal.
const KEYS: &str = include_str!("../form-5/keys");

fn load(client: &Operator) {
    for line in KEYS.lines() {
        let (key, hex) = line.split_once(' ').expect("key and value");
        let digits: Vec<u8> = hex
            .bytes()
            .map(|digit| (digit as char).to_digit(16).expect("hexadecimal") as u8)
            .collect();
        let value: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        client.put(&format!("/dunlin/{key}"), value);
    }
}

#[test]
fn keys_of_50b22d4_are_followed_and_keep_their_form() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let client = Operator::of(&etcd);
    load(&client);
    let mut first = Node::start(&etcd);
    let second = Node::start(&etcd);
    eventually(|| [&first, &second].iter().all(|node| node.revision() == Revision(9)));
    let (_, set) = first.get("www.example.org.").expect("a set");
    let rules = set.policy.rules().expect("rules");
    assert_eq!((&*rules.check, &*rules.tiers, &*rules.comment), ("web", &[0, 1][..], "rack 7"));
    let written = first.put("a.example.org.", "192.0.2.1", Precondition::Anything);
    assert_eq!(written.expect("a write").revision, Revision(10));
    first.stop();
    second.put("b.example.org.", "192.0.2.2", Precondition::Anything).expect("a write");
    first.restart();
    eventually(|| first.revision() == Revision(11));
    assert_eq!(first.export(), second.export());
    assert_eq!(first.service().health().form, Form::OLDEST);
    assert_eq!(client.get("/dunlin/format").as_deref(), Some("1"));
}

fn in_newest_form(node: &Node, at: &str) -> Result<(), Refused> {
    let policy = Policy::All.with_comment("next form: not for older versions");
    let set = SetValue { policy, ..address("192.0.2.7") };
    node.write("example.org.", vec![Edit::put(name(at), Rtype::A, set)]).map(drop)
}

#[test]
#[ignore = "campaign: make campaign-upgrade, in a build that knows one form more"]
fn form_is_raised_once_all_members_know_it() {
    assert!(Form::NEWEST > Form::OLDEST, "a build with DUNLIN_NEXT_FORM");
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let client = Operator::of(&etcd);
    load(&client);
    let nodes: Vec<Node> = (0..3).map(|_| Node::start(&etcd)).collect();
    eventually(|| nodes.iter().all(|node| node.revision() == Revision(9)));
    let Err(Refused::Form(why)) = in_newest_form(&nodes[0], "new.example.org.") else {
        panic!("the older form does not hold it")
    };
    assert!(why.contains("needs form 7") && why.contains("dunlin store upgrade"), "{why}");
    // A server of an older version says nothing of forms.
    let old = Member { name: "old-one".into(), version: "0.0.9".into(), ..Member::default() };
    let value = serde_json::to_string(&old).expect("JSON");
    client.put_for("/dunlin/members/old-one", &value, 600);
    let Err(Refused::Form(why)) = nodes[1].service().upgrade().wait() else {
        panic!("a server does not know the form")
    };
    assert!(why.contains("old-one (version 0.0.9)"), "{why}");
    assert_eq!(client.get("/dunlin/format").as_deref(), Some("1"), "nothing has changed");
    client.delete("/dunlin/members/old-one");
    nodes[1].service().upgrade().wait().expect("all know it");
    nodes[2].service().upgrade().wait().expect("it is done already");
    assert_eq!(client.get("/dunlin/format"), Some(Form::NEWEST.of_keys().to_string()));
    // The others notice without a write.
    eventually(|| nodes.iter().all(|node| node.service().health().form == Form::NEWEST));
    in_newest_form(&nodes[0], "new.example.org.").expect("a write");
    nodes[2].put("a.example.org.", "192.0.2.1", Precondition::Anything).expect("a write");
    eventually(|| nodes.iter().all(|node| node.revision() == Revision(11)));
    assert!(nodes.iter().all(|node| node.export() == nodes[0].export()));
    // A server without a copy reads all of it.
    let fresh = Node::start(&etcd);
    eventually(|| fresh.revision() == Revision(11));
    assert_eq!(fresh.export(), nodes[0].export());
}

//! Servers that differ find that out.
use crate::node::{Node, eventually};
use records::Precondition;
use test_support::etcd::Etcd;

fn difference(node: &Node) -> String {
    node.fleet().status().difference.unwrap_or_default()
}

fn digests(nodes: &[Node]) -> Vec<(u64, String)> {
    let members = nodes[0].fleet().members().wait().unwrap();
    members.into_iter().map(|member| (member.revision, member.digest)).collect()
}

/// Whether all members report the same digest at the revision that all serve.
fn agree(nodes: &[Node]) -> bool {
    let (found, revision) = (digests(nodes), nodes[0].revision().0);
    let is_same = |one: &(u64, String)| *one == found[0] && one.0 == revision && !one.1.is_empty();
    found.len() == nodes.len() && found.iter().all(is_same)
}

/// One reads commits, one a list, and one its files.
#[test]
fn digest_is_the_same_whichever_way_the_content_came() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let mut nodes: Vec<Node> = (0..2).map(|_| Node::start(&etcd)).collect();
    eventually(|| agree(&nodes));
    nodes[0].create("example.org.").unwrap();
    nodes[1].create("example.net.").unwrap();
    for n in 0..20 {
        let (writer, at) = (&nodes[n % 2], format!("n{}.example.org.", n % 7));
        writer.put(&at, &format!("192.0.2.{n}"), Precondition::Anything).unwrap();
    }
    nodes[0].put_all("192.0.2.1").unwrap();
    nodes[1].delete("example.net.").unwrap();
    eventually(|| agree(&nodes));
    nodes.push(Node::start(&etcd));
    eventually(|| agree(&nodes));
    nodes[1].stop();
    nodes[1].restart();
    eventually(|| agree(&nodes));
    nodes[0].restore(nodes[0].export()).unwrap();
    eventually(|| agree(&nodes));
    assert!(nodes.iter().all(|node| difference(node).is_empty()));
}

/// Its journal is gone, too, so it reads everything, at the revision that it has already.
#[test]
fn changed_copy_without_a_journal_is_replaced_and_served_at_the_same_revision() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let mut nodes: Vec<Node> = (0..2).map(|_| Node::start(&etcd)).collect();
    nodes[0].create("example.org.").unwrap();
    nodes[0].put("www.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    eventually(|| agree(&nodes));
    nodes[1].alter(&[192, 0, 2, 1], &[192, 0, 2, 9]);
    eventually(|| nodes[1].get("www.example.org.") == nodes[0].get("www.example.org."));
    eventually(|| agree(&nodes));
    assert!(nodes.iter().all(|node| difference(node).is_empty()));
}

#[test]
fn copy_that_was_changed_on_the_disk_is_found_and_its_zone_named() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let first = Node::start_named(&etcd, "digest-first");
    first.create("example.org.").unwrap();
    first.create("example.net.").unwrap();
    first.put("www.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    // It has everything by a list, so its copy has no journal that would tell.
    let mut second = Node::start_named(&etcd, "digest-second");
    eventually(|| second.revision() == first.revision());
    second.alter(&[192, 0, 2, 1], &[192, 0, 2, 9]);
    eventually(|| second.get("www.example.org.").is_some());
    assert_ne!(second.get("www.example.org."), first.get("www.example.org."));
    for (node, other) in [(&first, "digest-second"), (&second, "digest-first")] {
        let wanted = format!("than {other} at revision 3 in the zone example.org.: one of");
        eventually(|| difference(node).contains(&wanted));
    }
    // It stays so while others write, and ends when the copy is fetched again.
    first.put("a.example.org.", "192.0.2.2", Precondition::Anything).unwrap();
    eventually(|| difference(&second).contains("at revision 4 in the zone example.org."));
    second.forget();
    eventually(|| second.get("www.example.org.") == first.get("www.example.org."));
    eventually(|| difference(&first).is_empty() && difference(&second).is_empty());
}

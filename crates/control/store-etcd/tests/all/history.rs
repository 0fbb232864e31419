//! Histories of etcd that are not those of the servers.
use crate::node::{Node, eventually};
use records::{Precondition, Refused};
use test_support::etcd::Etcd;
use test_support::operator::Operator;

/// Commits are deleted by hand, and a server that was away cannot know what it missed.
#[test]
fn server_that_misses_commits_refuses_etcd_until_it_is_adopted() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let mut first = Node::start(&etcd);
    let second = Node::start(&etcd);
    first.create("example.org.").unwrap();
    first.put("www.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    eventually(|| second.revision() == first.revision());
    first.stop();
    let client = Operator::of(&etcd);
    for n in 0..3 {
        let address = format!("192.0.2.{n}");
        second.put("a.example.org.", &address, Precondition::Anything).unwrap();
    }
    client.delete("/dunlin/commits/");
    first.restart();
    eventually(|| refuses(&first, "lacks the commit of revision 2"));
    eventually(|| refuses(&second, "lacks the commit of revision 5"));
    first.service().adopt().wait().unwrap();
    eventually(|| first.revision() == second.revision());
    assert_eq!(first.export(), second.export());
    eventually(|| first.put("b.example.org.", "192.0.2.9", Precondition::Anything).is_ok());
    eventually(|| second.get("b.example.org.") == first.get("b.example.org."));
}

/// So much was written that etcd has deleted the commits which a server that was away has missed.
#[test]
fn server_that_missed_deleted_commits_reads_everything() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let (first, mut second) = (Node::start(&etcd), Node::start(&etcd));
    first.create("example.org.").unwrap();
    eventually(|| second.revision() == first.revision());
    second.stop();
    first.put("www.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    let client = Operator::of(&etcd);
    client.delete("/dunlin/commits/");
    client.put("/dunlin/revision", format!("20000 {:032x}", 7));
    second.restart();
    eventually(|| second.revision().0 == 20_000);
    assert!(second.get("www.example.org.").is_some());
}

/// The newest revision is changed by hand.
fn revision_is_edited(revision: u64, why: &str, why_of_fresh: Option<&str>) {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let nodes: Vec<Node> = (0..2).map(|_| Node::start(&etcd)).collect();
    nodes[0].create("example.org.").unwrap();
    nodes[0].put("www.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    eventually(|| nodes[1].revision() == nodes[0].revision());
    let client = Operator::of(&etcd);
    client.put("/dunlin/revision", format!("{revision} {:032x}", 7));
    eventually(|| nodes.iter().all(|node| refuses(node, why)));
    let fresh = why_of_fresh.map(|why| {
        let fresh = Node::start(&etcd);
        eventually(|| match fresh.create("example.net.") {
            Err(Refused::Unavailable(told)) => told.contains(why),
            _ => false,
        });
        fresh
    });
    nodes[0].service().adopt().wait().unwrap();
    for other in fresh.iter().chain([&nodes[1]]) {
        eventually(|| other.revision() == nodes[0].revision());
        assert!(other.get("www.example.org.").is_some());
        assert_eq!(nodes[0].export(), other.export());
    }
}

/// Record sets are newer than the newest revision.
#[test]
fn lowered_revision_is_refused_and_can_be_adopted() {
    let why_of_fresh = "of revision 2, and its newest revision is 1: its keys were";
    revision_is_edited(1, "etcd was set back", Some(why_of_fresh));
}

/// etcd lacks the commits up to the newest revision.
#[test]
fn raised_revision_is_refused_and_can_be_adopted() {
    revision_is_edited(102, "lacks commits after revision 2", None);
}

/// A server that could not read a key reads everything once the key is another one: also then only
/// if etcd has the history of this server.
#[test]
fn emptied_etcd_is_not_taken_by_a_server_that_could_not_read_a_key() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let (first, client) = (Node::start(&etcd), Operator::of(&etcd));
    first.create("example.net.").unwrap();
    first.create("example.org.").unwrap();
    first.put("www.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    client.put("/dunlin/sets/example.org./www/A", "{");
    let mut second = Node::start(&etcd);
    eventually(|| second.fleet().status().unreadable.is_some());
    let is_refused = |node: &Node| match node.create("example.com.") {
        Err(Refused::Unreachable(why)) => why.contains("etcd was set back"),
        Err(Refused::Busy) => false,
        other => panic!("{other:?}"),
    };
    client.delete("/dunlin/");
    eventually(|| is_refused(&second));
    second.stop();
    second.restart();
    eventually(|| is_refused(&second));
    assert!(second.serial("example.net.").is_some() && second.holds_zone("example.org."));
    assert_eq!(second.revision(), first.revision());
}

/// Whether a server refuses writes for a reason with these words.
fn refuses(node: &Node, words: &str) -> bool {
    match node.put("refused.example.org.", "192.0.2.250", Precondition::Anything) {
        Err(Refused::Unreachable(why)) => why.contains(words),
        Err(Refused::Busy) => false,
        other => panic!("{other:?}"),
    }
}

/// All keys are deleted while servers follow them, and a server without a copy writes again, until
/// its revisions have passed those of the others.
#[test]
fn rewritten_history_is_not_followed_until_it_is_adopted() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let mut nodes: Vec<Node> = (0..2).map(|_| Node::start(&etcd)).collect();
    nodes[0].create("example.org.").unwrap();
    for n in 1..6 {
        let address = format!("192.0.2.{n}");
        nodes[0].put("www.example.org.", &address, Precondition::Anything).unwrap();
    }
    eventually(|| nodes[1].revision() == nodes[0].revision());
    let (before, known) = (nodes[1].export(), nodes[1].revision());
    Operator::of(&etcd).delete("/dunlin/");
    eventually(|| nodes.iter().all(|node| refuses(node, "etcd was set back")));
    let fresh = Node::start(&etcd);
    fresh.create("example.org.").unwrap();
    while fresh.revision().0 < known.0 + 5 {
        let address = format!("198.51.100.{}", fresh.revision().0);
        fresh.put("www.example.org.", &address, Precondition::Anything).unwrap();
    }
    let words = "has another commit of revision 6";
    eventually(|| nodes.iter().all(|node| refuses(node, words)));
    nodes[1].stop();
    nodes[1].restart();
    eventually(|| nodes.iter().all(|node| refuses(node, words)));
    assert!(nodes.iter().all(|node| node.export() == before), "answers go on, and are the same");
    fresh.service().adopt().wait().unwrap();
    eventually(|| nodes.iter().all(|node| node.revision() == fresh.revision()));
    assert!(nodes.iter().all(|node| node.export() == fresh.export()));
    eventually(|| nodes[1].put("a.example.org.", "192.0.2.4", Precondition::Anything).is_ok());
}

/// etcd is restored from an older backup, and a server without a copy writes past what the others
/// have acknowledged.
#[test]
fn acknowledged_writes_are_not_lost_by_an_older_backup_that_was_written_to() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let node = Node::start(&etcd);
    node.create("example.org.").unwrap();
    etcd.kill(0);
    let saved = etcd.save(0);
    etcd.start(0);
    let set = |node: &Node, at: &str| node.put(at, "192.0.2.2", Precondition::Anything);
    eventually(|| set(&node, "kept.example.org.").is_ok());
    etcd.kill(0);
    etcd.load(0, &saved);
    etcd.start(0);
    let fresh = Node::start(&etcd);
    for n in 0..5 {
        eventually(|| set(&fresh, &format!("n{n}.example.org.")).is_ok());
    }
    eventually(|| refuses(&node, "has another commit of revision 2"));
    assert!(node.get("kept.example.org.").is_some());
    assert!(fresh.get("kept.example.org.").is_none());
}

/// A newer server changes the layout while older ones run.
#[test]
fn newer_format_is_compared_in_each_commit() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let node = Node::start(&etcd);
    node.create("example.org.").unwrap();
    let client = Operator::of(&etcd);
    client.put("/dunlin/format", "9");
    let (written, _) = client.revisions_of("/dunlin/revision");
    eventually(|| refuses(&node, "which a newer version wrote"));
    assert_eq!(client.revisions_of("/dunlin/revision").0, written, "nothing was written");
    client.put("/dunlin/format", "1");
    eventually(|| node.put("www.example.org.", "192.0.2.1", Precondition::Anything).is_ok());
}

//! Writes on servers that share a real etcd.
use crate::node::{Node, eventually};
use records::{Precondition, Refused};
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;
use test_support::etcd::Etcd;
use test_support::operator::Operator;
use test_support::wait;

#[test]
fn write_on_one_server_is_served_by_all_with_the_same_revision() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let nodes: Vec<Node> = (0..3).map(|_| Node::start(&etcd)).collect();
    let made = nodes[0].create("example.org.").unwrap();
    for (n, node) in nodes.iter().enumerate() {
        eventually(|| node.revision() >= made.revision);
        let written = node.put(&format!("n{n}.example.org."), "192.0.2.1", Precondition::Anything);
        eventually(|| {
            nodes.iter().all(|other| other.revision() == written.clone().unwrap().revision)
        });
    }
    for n in 0..3 {
        let name = format!("n{n}.example.org.");
        let found: Vec<_> = nodes.iter().map(|node| node.get(&name).expect("the set")).collect();
        assert_eq!(found[0], found[1]);
        assert_eq!(found[0], found[2]);
        // A copy has a write a moment before it is served.
        let serials = || nodes.iter().map(|node| node.serial("example.org.")).collect::<Vec<_>>();
        wait::until_eq("serials", serials, vec![Some(4); 3]);
    }
    let value = Operator::of(&etcd).get("/dunlin/sets/example.org./n0/A").expect("a key");
    assert_eq!(
        value,
        r#"{"ttl":60,"data":["192.0.2.1"],"view":"default","policy":"all","revision":2}"#
    );
    let gone = nodes[2].delete("example.org.").unwrap();
    eventually(|| nodes.iter().all(|node| node.revision() == gone.revision));
    assert!(nodes.iter().all(|node| node.get("n0.example.org.").is_none()));
    assert_eq!(Operator::of(&etcd).count("/dunlin/sets/"), 0);
}

#[test]
fn no_increment_of_a_counter_is_lost() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let nodes: Vec<Node> = (0..3).map(|_| Node::start(&etcd)).collect();
    nodes[0].create("example.org.").unwrap();
    eventually(|| nodes.iter().all(|node| node.revision().0 == 1));
    nodes[0].put_text("counter.example.org.", "0", Precondition::Absent).unwrap();
    let (done, conflicts) = (AtomicU64::new(0), AtomicU64::new(0));
    let goal = std::env::var("DUNLIN_INCREMENTS").ok().and_then(|goal| goal.parse().ok());
    let (goal, writers) = goal.map_or((300, 12), |goal: u64| (goal, 64));
    let began = Instant::now();
    thread::scope(|scope| {
        for node in nodes.iter().cycle().take(writers) {
            let (done, conflicts) = (&done, &conflicts);
            scope.spawn(move || {
                while done.load(Ordering::Relaxed) < goal {
                    let Some((revision, text)) = node.get_text("counter.example.org.") else {
                        continue;
                    };
                    let next = (text.parse::<u64>().unwrap() + 1).to_string();
                    let expect = Precondition::At(revision);
                    match node.put_text("counter.example.org.", &next, expect) {
                        Ok(_) => done.fetch_add(1, Ordering::Relaxed),
                        Err(Refused::Conflict { .. } | Refused::Busy) => {
                            conflicts.fetch_add(1, Ordering::Relaxed)
                        }
                        Err(why) => panic!("{why}"),
                    };
                }
            });
        }
    });
    let done = done.into_inner();
    let text = |node: &Node| node.get_text("counter.example.org.").map(|(_, text)| text);
    eventually(|| nodes.iter().all(|node| text(node) == Some(done.to_string())));
    let (conflicts, took) = (conflicts.into_inner(), began.elapsed());
    println!("{done} increments by {writers} writers, {conflicts} conflicts, in {took:.0?}");
    assert!(conflicts > 0, "the servers wrote at the same time");
}

#[test]
fn new_server_reads_everything_and_restarted_one_needs_no_etcd() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let mut first = Node::start(&etcd);
    first.create("example.org.").unwrap();
    first.create("0/25.2.0.192.in-addr.arpa.").unwrap();
    for n in 0..300 {
        let name = format!("n{n}.example.org.");
        first.put(&name, "192.0.2.1", Precondition::Anything).unwrap();
    }
    let newest = first.put("*.example.org.", "192.0.2.9", Precondition::Anything).unwrap();
    let second = Node::start(&etcd);
    eventually(|| second.revision() == newest.revision);
    assert_eq!(first.export(), second.export());
    let begins = second.journal_begins("example.org.");
    assert_eq!(begins, newest.revision, "its journal begins with the list");
    first.stop();
    etcd.kill(0);
    // It does not wait for etcd.
    first.restart();
    assert_eq!(first.revision(), newest.revision);
    assert!(first.get("n7.example.org.").is_some());
    let refused = first.put("n7.example.org.", "192.0.2.2", Precondition::Anything);
    assert!(matches!(refused, Err(Refused::Unreachable(_))), "{refused:?}");
    assert!(first.get("n7.example.org.").is_some(), "reads go on");
    etcd.start(0);
    eventually(|| first.put("n7.example.org.", "192.0.2.2", Precondition::Anything).is_ok());
    eventually(|| second.get("n7.example.org.") == first.get("n7.example.org."));
}

#[test]
fn large_batch_is_seen_whole_and_leaves_nothing_staged() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let nodes: Vec<Node> = (0..2).map(|_| Node::start(&etcd)).collect();
    nodes[0].create("example.org.").unwrap();
    eventually(|| nodes[1].revision().0 == 1);
    for address in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        let written = nodes[0].put_all(address).unwrap();
        eventually(|| {
            let half = nodes[1].addresses("example.org.");
            assert!(half.len() <= 1, "a batch is half done: {half:?}");
            nodes[1].revision() == written.revision
        });
        assert_eq!(nodes[1].addresses("example.org.").len(), 1);
    }
    let etcd_client = Operator::of(&etcd);
    eventually(|| etcd_client.count("/dunlin/staged/") + etcd_client.count("/dunlin/moving") == 0);
    assert_eq!(etcd_client.count("/dunlin/sets/"), 2_002);
    let third = Node::start(&etcd);
    eventually(|| third.export() == nodes[0].export());
}

/// Small writes are faster than a batch; it holds them off after some conflicts.
#[test]
fn large_batch_succeeds_while_other_servers_write_all_the_time() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let nodes: Vec<Node> = (0..3).map(|_| Node::start(&etcd)).collect();
    nodes[0].create("example.org.").unwrap();
    eventually(|| nodes.iter().all(|node| node.revision().0 == 1));
    let is_over = AtomicBool::new(false);
    let counts = [const { AtomicU64::new(0) }; 2];
    thread::scope(|scope| {
        for (node, written) in nodes[1..].iter().zip(&counts) {
            let is_over = &is_over;
            scope.spawn(move || {
                let at = format!("{}.example.org.", node.fleet().status().name);
                while !is_over.load(Ordering::Relaxed) {
                    let count = written.load(Ordering::Relaxed);
                    let address = format!("10.0.{}.{}", count / 250 % 250, count % 250);
                    let is_written = node.put(&at, &address, Precondition::Anything).is_ok();
                    written.fetch_add(u64::from(is_written), Ordering::Relaxed);
                }
            });
        }
        eventually(|| counts.iter().all(|count| count.load(Ordering::Relaxed) > 0));
        let batches = ["192.0.2.1", "192.0.2.2"].map(|address| nodes[0].put_all(address));
        is_over.store(true, Ordering::Relaxed);
        assert!(batches.iter().all(Result::is_ok), "{batches:?} beside {counts:?} small writes");
    });
    eventually(|| Operator::of(&etcd).get("/dunlin/hold").is_none());
}

#[test]
fn server_that_restores_holds_off_others_by_a_short_lease() {
    /// A snapshot that ends once it is let go.
    struct Slow(mpsc::Receiver<()>, Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            // The sender is gone, or has said so.
            let _ = self.0.recv();
            self.1.read(bytes)
        }
    }

    impl Seek for Slow {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.1.seek(to)
        }
    }

    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let node = Node::start(&etcd);
    node.create("example.org.").unwrap();
    let (go, wait) = mpsc::channel();
    let slow = Slow(wait, Cursor::new(node.export()));
    let client = Operator::of(&etcd);
    thread::scope(|scope| {
        let restoring = scope.spawn(|| node.restore_from(Box::new(slow)));
        eventually(|| {
            client.lease_of("/dunlin/hold").is_some_and(|(of, left)| of == 10 && left < 8)
        });
        eventually(|| client.lease_of("/dunlin/hold").is_some_and(|(_, left)| left >= 8));
        drop(go);
        restoring.join().unwrap().unwrap();
    });
    client.put("/dunlin/hold", "garbage");
    match node.put("a.example.org.", "192.0.2.1", Precondition::Anything) {
        Err(Refused::Unreachable(why)) => assert!(why.contains("/dunlin/hold in etcd"), "{why}"),
        other => panic!("{other:?}"),
    }
    client.delete("/dunlin/hold");
    node.put("a.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
}

/// A member that is gone, stopped or without a quorum: answers and reads continue, and writes as
/// soon as a majority is there.
#[test]
#[ignore = "slow: elections and timeouts"]
fn lost_members_stop_only_writes_and_only_without_a_majority() {
    let Some(mut etcd) = Etcd::start_or_skip(3) else { return };
    let nodes: Vec<Node> = (0..3).map(|_| Node::start(&etcd)).collect();
    // A leader has to be elected first.
    eventually(|| nodes[0].create("example.org.").is_ok());
    eventually(|| nodes.iter().all(|node| node.revision().0 >= 1));
    let count = AtomicU64::new(0);
    let write = |node: &Node| {
        let address = format!("192.0.2.{}", count.fetch_add(1, Ordering::Relaxed) % 250);
        node.put("www.example.org.", &address, Precondition::Anything).map(|done| done.revision)
    };
    let eventually_written = |node: &Node| {
        wait::until_ok("a write succeeds", || {
            let written = write(node);
            let is_away =
                |why| matches!(why, &Refused::Unreachable(_) | &Refused::UnknownOutcome { .. });
            assert!(written.as_ref().err().is_none_or(is_away), "{written:?}");
            written
        })
    };
    for member in 0..3 {
        etcd.kill(member);
        let newest = nodes.iter().map(eventually_written).max();
        eventually(|| nodes.iter().all(|node| Some(node.revision()) >= newest));
        etcd.start(member);
    }
    for member in 0..3 {
        etcd.pause(member);
        let newest = nodes.iter().map(eventually_written).max();
        eventually(|| nodes.iter().all(|node| Some(node.revision()) >= newest));
        etcd.resume(member);
    }
    etcd.kill(0);
    etcd.kill(1);
    for node in &nodes {
        let refused = write(node);
        let is_refused =
            matches!(refused, Err(Refused::Unreachable(_) | Refused::UnknownOutcome { .. }));
        assert!(is_refused, "{refused:?}");
        assert!(node.get("www.example.org.").is_some(), "reads go on");
    }
    etcd.start(0);
    etcd.start(1);
    let newest = nodes.iter().map(eventually_written).max();
    eventually(|| nodes.iter().all(|node| Some(node.revision()) >= newest));
    let found: Vec<_> = nodes.iter().map(|node| node.get("www.example.org.")).collect();
    assert_eq!((&found[0], &found[0]), (&found[1], &found[2]));
    assert!(nodes.iter().all(|node| node.export() == nodes[0].export()));
}

#[test]
fn emptied_etcd_is_not_believed_and_harms_no_answer() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let mut node = Node::start(&etcd);
    node.create("example.org.").unwrap();
    node.put("www.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    etcd.kill(0);
    etcd.empty(0);
    etcd.start(0);
    let refusal = || match node.put("www.example.org.", "192.0.2.2", Precondition::Anything) {
        Err(Refused::Unreachable(why)) => why.to_string(),
        Err(Refused::Busy) => String::new(),
        other => panic!("{other:?}"),
    };
    eventually(|| refusal().contains("etcd was set back"));
    assert!(node.get("www.example.org.").is_some());
    node.stop();
    node.restart();
    assert!(node.get("www.example.org.").is_some(), "a restart believes it neither");
    assert_eq!(Operator::of(&etcd).count("/dunlin/"), 0, "nothing was written to it");
}

/// The etcd of a fleet is replaced: a server that writes adopts it, then one that only answers.
#[test]
fn server_that_writes_nothing_takes_another_etcd_after_one_that_writes() {
    let Some(old) = Etcd::start_or_skip(1) else { return };
    let Some(new) = Etcd::start_or_skip(1) else { return };
    let (mut writer, mut reader) = (Node::start(&old), Node::start_reader(&old));
    writer.create("example.org.").unwrap();
    let last = writer.put("www.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    eventually(|| reader.revision() == last.revision);
    let saved = writer.export();
    writer.move_to(&new);
    reader.move_to(&new);
    match reader.service().adopt().wait() {
        Err(Refused::Unreachable(why)) => {
            assert!(why.contains("with the role `api` first"), "{why}")
        }
        other => panic!("{other:?}"),
    }
    writer.service().adopt().wait().unwrap();
    writer.restore(saved).unwrap();
    reader.service().adopt().wait().unwrap();
    eventually(|| reader.revision() == writer.revision() && reader.export() == writer.export());
    assert!(reader.get("www.example.org.").is_some());
    let next = writer.put("www.example.org.", "192.0.2.2", Precondition::Anything).unwrap();
    eventually(|| reader.revision() == next.revision);
}

/// etcd is set back by an hour, as from a snapshot of its own, and then accepted on a server that
/// had missed most of what was written since.
#[test]
fn older_etcd_is_adopted_and_no_serial_goes_back() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let mut nodes: Vec<Node> = (0..2).map(|_| Node::start(&etcd)).collect();
    nodes[0].create("example.org.").unwrap();
    nodes[0].put("www.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    etcd.kill(0);
    let saved = etcd.save(0);
    etcd.start(0);
    let set = |node: &Node, at: &str| node.put(at, "192.0.2.2", Precondition::Anything);
    eventually(|| set(&nodes[0], "www.example.org.").is_ok());
    eventually(|| nodes[1].revision() == nodes[0].revision());
    nodes[0].stop();
    for n in 0..20 {
        eventually(|| set(&nodes[1], &format!("n{n}.example.org.")).is_ok());
    }
    nodes[1].put_all("192.0.2.3").unwrap();
    let lost = set(&nodes[1], "lost.example.org.").unwrap();
    eventually(|| nodes[1].serial("example.org.") == Some(lost.revision.serial(0)));
    let serial = lost.revision.serial(0);
    etcd.kill(0);
    etcd.load(0, &saved);
    etcd.start(0);
    nodes[0].restart();
    let is_refused = |node: &Node| {
        let written = node.put("www.example.org.", "192.0.2.9", Precondition::Anything);
        matches!(written, Err(Refused::Unreachable(why)) if why.contains("dunlin fleet adopt"))
    };
    eventually(|| nodes.iter().all(is_refused));
    assert!(nodes[1].get("lost.example.org.").is_some(), "answers go on");
    let adopted = nodes[0].service().adopt().wait().unwrap();
    assert!(adopted.revision > lost.revision);
    eventually(|| nodes.iter().all(|node| node.revision() == adopted.revision));
    for node in &nodes {
        assert_eq!(node.get("www.example.org.").unwrap().1, crate::node::address("192.0.2.1"));
        assert!(node.get("lost.example.org.").is_none(), "it is not in this etcd");
        eventually(|| node.serial("example.org.").is_some_and(|now| now > serial));
        eventually(|| node.put("a.example.org.", "192.0.2.4", Precondition::Anything).is_ok());
    }
    let newest = nodes[1].revision();
    eventually(|| nodes[0].revision() == newest && nodes[0].export() == nodes[1].export());
}

/// An operator deletes keys by hand, and a server that was away has to read everything.
#[test]
fn etcd_that_lost_most_sets_is_held_until_it_is_adopted() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let (first, mut second) = (Node::start(&etcd), Node::start(&etcd));
    first.create("example.org.").unwrap();
    let filled = first.put_all("192.0.2.1").unwrap();
    eventually(|| second.revision() == filled.revision);
    second.stop();
    first.put("www.example.org.", "192.0.2.2", Precondition::Anything).unwrap();
    let client = Operator::of(&etcd);
    client.delete("/dunlin/sets/example.org./n1");
    // As if so much had been written since then that the commits are deleted.
    client.delete("/dunlin/commits/");
    client.put("/dunlin/revision", format!("20000 {:032x}", 7));
    client.delete("/dunlin/sets/example.org./n");
    second.restart();
    let refusal = || match second.put("a.example.org.", "192.0.2.3", Precondition::Anything) {
        Err(Refused::Unreachable(why)) => why.to_string(),
        Err(Refused::Busy) => String::new(),
        other => panic!("{other:?}"),
    };
    eventually(|| refusal().contains("run `dunlin fleet adopt`"));
    assert!(second.get("n7.example.org.").is_some(), "answers go on");
    let serial = second.serial("example.org.").unwrap();
    second.service().adopt().wait().unwrap();
    assert!(second.get("n7.example.org.").is_none());
    eventually(|| second.serial("example.org.").is_some_and(|now| now > serial));
    eventually(|| first.revision() == second.revision() && first.export() == second.export());
    eventually(|| first.put("a.example.org.", "192.0.2.4", Precondition::Anything).is_ok());
}

#[test]
fn snapshot_is_restored_on_all_servers_at_once() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let nodes: Vec<Node> = (0..2).map(|_| Node::start(&etcd)).collect();
    nodes[0].create("example.org.").unwrap();
    nodes[0].put_all("192.0.2.1").unwrap();
    let saved = nodes[0].export();
    nodes[0].put_all("192.0.2.2").unwrap();
    let newest = nodes[0].create("example.net.").unwrap();
    eventually(|| nodes[1].revision() == newest.revision);
    let restored = nodes[1].restore(saved).unwrap();
    assert!(restored.revision > newest.revision);
    eventually(|| nodes.iter().all(|node| node.revision() == restored.revision));
    assert_eq!(nodes[0].export(), nodes[1].export());
    let expected = [vec![192, 0, 2, 1]].into();
    assert_eq!(nodes[0].addresses("example.org."), expected);
    assert!(nodes[0].delete("example.net.").is_err(), "it was not there then");
    let third = Node::start(&etcd);
    eventually(|| third.export() == nodes[0].export());
    nodes[0].put("www.example.org.", "192.0.2.4", Precondition::Anything).unwrap();
    eventually(|| third.export() == nodes[0].export());
}

#[test]
fn reconnected_server_reads_only_what_it_missed() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let nodes: Vec<Node> = (0..2).map(|_| Node::start(&etcd)).collect();
    nodes[0].create("example.org.").unwrap();
    eventually(|| nodes[1].revision() == nodes[0].revision());
    for n in 1..4 {
        let address = format!("192.0.2.{n}");
        nodes[0].put("www.example.org.", &address, Precondition::Anything).unwrap();
        eventually(|| nodes[1].revision() == nodes[0].revision());
        etcd.kill(0);
        etcd.start(0);
        eventually(|| nodes[0].put("a.example.org.", &address, Precondition::Anything).is_ok());
        eventually(|| nodes[1].revision() == nodes[0].revision());
    }
    // A list of everything would begin the journal again.
    let begins = nodes.iter().map(|node| node.journal_begins("example.org."));
    let begins: Vec<_> = begins.collect();
    assert!(begins.iter().all(|begins| begins.0 == 0), "{begins:?}");
}

/// More than a message of etcd's client may have.
#[test]
fn server_that_was_away_catches_up_with_large_commits() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let mut first = Node::start(&etcd);
    let second = Node::start(&etcd);
    first.create("example.org.").unwrap();
    eventually(|| second.revision() == first.revision());
    let begins = first.journal_begins("example.org.");
    first.stop();
    for n in 0..12 {
        second.put_large(&format!("n{n}.example.org."), n).unwrap();
    }
    first.restart();
    eventually(|| first.revision() == second.revision());
    assert_eq!(first.export(), second.export());
    assert_eq!(first.journal_begins("example.org."), begins, "it read commits, not everything");
}

#[test]
fn unusable_copy_is_set_aside_and_filled_from_etcd_while_that_has_what_it_had() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let mut node = Node::start(&etcd);
    node.create("example.org.").unwrap();
    let newest = node.put("www.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    node.stop();
    node.damage();
    etcd.kill(0);
    node.restart();
    let why = || node.service().health().unavailable.map(|why| why.to_string());
    eventually(|| why().is_some_and(|why| why.contains("once etcd can be asked")));
    etcd.start(0);
    eventually(|| why().is_none() && node.revision() == newest.revision);
    assert!(node.get("www.example.org.").is_some());
    assert!(node.has_set_aside("records.redb"));
    node.put("a.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    // What only the copy has is not lost to an emptied etcd.
    node.stop();
    node.damage();
    Operator::of(&etcd).delete("/dunlin/");
    node.restart();
    let why = || node.service().health().unavailable.map(|why| why.to_string());
    eventually(|| why().is_some_and(|why| why.contains("has only revision 0")));
}

#[test]
fn foreign_keys_are_ignored_and_harm_no_other() {
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let first = Node::start(&etcd);
    first.create("example.org.").unwrap();
    first.put("www.example.org.", "192.0.2.1", Precondition::Anything).unwrap();
    let client = Operator::of(&etcd);
    client.put("/dunlin/sets/example.org./Upper/A", "{}");
    client.put("/dunlin/zones/not a zone", "{}");
    client.put("/dunlin/else", "");
    let second = Node::start(&etcd);
    eventually(|| second.revision() == first.revision());
    assert_eq!(second.export(), first.export());
    client.put("/dunlin/format", "9");
    let third = Node::start(&etcd);
    let refused = third.create("example.com.");
    assert!(refused.is_err(), "a newer format is not touched: {refused:?}");
}

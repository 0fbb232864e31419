//! An etcd without space, and a server without.
use super::node::{Node, eventually};
use records::{Precondition, Refused, WriteResult};
use test_support::etcd::Etcd;
use test_support::folder::SmallDisk;
use test_support::operator::Operator;
use test_support::wait;

#[test]
fn etcd_without_space_refuses_writes_alone_until_it_has_some() {
    let quota = format!("--quota-backend-bytes={}", 4 << 20);
    let Some(etcd) = Etcd::start_with(1, &[&quota]) else { return };
    let node = Node::start(&etcd);
    node.create("example.org.").unwrap();
    node.put("a.example.org.", "192.0.2.1", Precondition::Absent).unwrap();
    let operator = Operator::of(&etcd);
    operator.fill("/other/", 100_000);
    let write = |address| node.put("a.example.org.", address, Precondition::Anything);
    // etcd raises the alarm only after a write that did not fit.
    eventually(|| matches!(write("192.0.2.2"), Err(Refused::NoSpace(_))));
    let Err(Refused::NoSpace(why)) = write("192.0.2.2") else { panic!("there is no space") };
    assert!(why.contains("defragment") && why.contains("etcdctl alarm disarm"), "{why}");
    let revision = node.revision();
    assert!(node.get("a.example.org.").is_some() && node.serial("example.org.").is_some());
    operator.delete("/other/");
    operator.make_room();
    eventually(|| write("192.0.2.3").is_ok());
    assert_eq!(node.revision().0, revision.0 + 1, "what was refused is not written");
}

#[test]
fn server_with_a_full_disk_serves_from_memory_says_so_and_saves_once_there_is_room() {
    let Some(mut etcd) = Etcd::start_or_skip(1) else { return };
    let Some(disk) = SmallDisk::new("replica", "48m") else { return };
    let node = Node::start(&etcd);
    let mut full = Node::start_in(&etcd, &disk);
    let serves = |full: &Node, written: &WriteResult| {
        let serial = Some(written.revision.serial(0));
        wait::until_eq("the served serial", || full.serial("example.org."), serial);
    };
    serves(&full, &node.create("example.org.").unwrap());
    serves(&full, &node.put_many(10_000, "192.0.2.1").unwrap());
    // What is small would fit, but comes after it.
    let newest = node.put("a.example.org.", "192.0.2.2", Precondition::Absent).unwrap();
    serves(&full, &newest);
    for is_restarted in [false, true] {
        eventually(|| full.fleet().status().unsaved.is_some_and(|why| why.contains("is full")));
        let refused = full.put("b.example.org.", "192.0.2.3", Precondition::Anything);
        assert!(matches!(refused, Err(Refused::Full)), "{refused:?}");
        if !is_restarted {
            full.stop();
            full.restart();
            serves(&full, &newest);
        }
    }
    disk.resize("256m");
    eventually(|| full.fleet().status().unsaved.is_none());
    assert_eq!(full.export(), node.export());
    full.put("b.example.org.", "192.0.2.3", Precondition::Absent).unwrap();
    let saved = full.export();
    full.stop();
    etcd.kill(0);
    full.restart();
    assert_eq!(full.export(), saved);
}

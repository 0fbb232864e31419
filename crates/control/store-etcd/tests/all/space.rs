//! An etcd without space.
use super::node::{Node, eventually};
use records::{Precondition, Refused};
use test_support::etcd::Etcd;
use test_support::operator::Operator;

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

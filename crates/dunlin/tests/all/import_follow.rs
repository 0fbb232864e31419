//! `dunlin import etcd --follow`: a zone has what the writers of SkyDNS' keys go on to write.
use crate::fleet_node::{Node, answers};
use crate::served::{binary, rcode};
use std::process::{Child, Stdio};
use std::time::Instant;
use test_support::etcd::Etcd;
use test_support::operator::Operator;
use test_support::wait::until_true;

const NXDOMAIN: u8 = 3;

/// The command, until it is dropped.
struct Following(Child);

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn follow(node: &Node, keys: &Etcd, more: &[&str]) -> Following {
    let url = keys.endpoints().remove(0);
    let mut command = binary();
    command.args(["import", "etcd", "--layout", "skydns", "--zone", "fleet.example"]);
    command.args(["--endpoint", &url, "--follow"]).args(more).arg("--socket").arg(&node.socket);
    Following(command.stderr(Stdio::null()).spawn().expect("the binary runs"))
}

fn is_gone(node: &Node, name: &str) -> bool {
    rcode(&node.served.ask(name)) == NXDOMAIN
}

#[test]
fn what_old_writers_change_is_answered_and_what_they_delete_is_gone() {
    let Some(mut keys) = Etcd::start_or_skip(1) else { return };
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let node = Node::start("follow", &etcd);
    node.done(&["zones", "create", "fleet.example", "--nameserver", "ns.example.net."]);
    node.set("old", "192.0.2.99");
    let writer = Operator::of(&keys);
    let put = |name: &str, last: u8| {
        let value = format!("{{\"host\":\"192.0.2.{last}\",\"ttl\":60}}");
        writer.put(&format!("/skydns/example/fleet/{name}"), value);
    };
    put("web/x1", 1);
    put("gone/x1", 1);
    let following = follow(&node, &keys, &["--delete"]);
    until_true("what was there", || answers(&node, "web.fleet.example", [192, 0, 2, 1]));
    until_true("what no key has is deleted", || is_gone(&node, "old.fleet.example"));
    let mut slowest = std::time::Duration::ZERO;
    for last in 2..=20 {
        put("web/x1", last);
        let written = Instant::now();
        until_true("a change", || answers(&node, "web.fleet.example", [192, 0, 2, last]));
        slowest = slowest.max(written.elapsed());
    }
    println!("answered at most {slowest:.1?} after the write; the goal is 100 ms");
    put("web/x2", 30);
    until_true("one more", || answers(&node, "web.fleet.example", [192, 0, 2, 30]));
    assert!(answers(&node, "web.fleet.example", [192, 0, 2, 20]));
    writer.delete("/skydns/example/fleet/gone/");
    until_true("a deletion", || is_gone(&node, "gone.fleet.example"));
    writer.put_for("/skydns/example/fleet/leased", r#"{"host":"192.0.2.40"}"#, 2);
    until_true("a lease", || answers(&node, "leased.fleet.example", [192, 0, 2, 40]));
    until_true("its end", || is_gone(&node, "leased.fleet.example"));

    // What changes while the command or its etcd is away is made up for.
    keys.kill(0);
    keys.start(0);
    let writer = Operator::of(&keys);
    writer.put("/skydns/example/fleet/late", r#"{"host":"192.0.2.50"}"#);
    until_true("after an outage", || answers(&node, "late.fleet.example", [192, 0, 2, 50]));
    drop(following);
    writer.delete("/skydns/example/fleet/late");
    let _following = follow(&node, &keys, &["--delete"]);
    until_true("after a start", || is_gone(&node, "late.fleet.example"));
    assert!(answers(&node, "web.fleet.example", [192, 0, 2, 20]));
}

//! Two sites, each with its own etcd: the zones of one are answered by the other, too.
use crate::fleet_node::{Node, answers};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use test_support::etcd::Etcd;
use test_support::wait::until_true;

const WWW: &str = "www.fleet.example";

/// A server of the other site, which serves fleet.example of the site `fra1`.
fn other(etcd: &Etcd, home: &Etcd) -> Node {
    let endpoints = home.endpoints();
    let site = "[[site]]\nname = \"fra1\"\nlocation = \"eu/fra1\"\nzones = [\"fleet.example\"]";
    let sections = format!("{site}\nendpoints = {endpoints:?}\n");
    let mut node = Node::start_with("site-ams1", etcd, "", &sections);
    node.token = node.create_token("site-ams1");
    node
}

/// What `dunlin sites` says, and its exit status.
fn sites(node: &Node) -> (String, Option<i32>) {
    let output = node.run(&["sites"], true);
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

fn holds(node: &Node, words: &str, code: i32) -> bool {
    let (text, status) = sites(node);
    text.contains(words) && status == Some(code)
}

#[test]
fn zone_of_another_site_is_answered_also_while_that_site_is_away() {
    let Some(mut home_etcd) = Etcd::start_or_skip(1) else { return };
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let home = Node::start("site-fra1", &home_etcd);
    home.done(&["zones", "create", "fleet.example", "--nameserver", "ns.example.net."]);
    home.set("www", "192.0.2.7");
    let mut away = other(&etcd, &home_etcd);
    until_true("the other site answers", || answers(&away, WWW, [192, 0, 2, 7]));
    home.set("www", "192.0.2.8");
    until_true("a change is answered", || answers(&away, WWW, [192, 0, 2, 8]));
    until_true("it is listed", || holds(&away, "followed", 0));
    let why = away.refused(&["zones", "create", "fleet.example", "--nameserver", "ns.example."]);
    assert!(why.contains("site fra1"), "a zone has one home: {why}");
    home_etcd.kill(0);
    until_true("it is not followed", || holds(&away, "not followed", 1));
    until_true("the status says so", || {
        let status = away.run(&["status"], true);
        let text = String::from_utf8_lossy(&status.stdout).into_owned();
        status.status.code() == Some(1) && text.contains("the site fra1: etcd at http://127.0.0.1:")
    });
    assert!(answers(&away, WWW, [192, 0, 2, 8]), "answers go on");
    away.served.signal(Signal::KILL);
    away.served.status();
    let away = away.restarted();
    assert!(answers(&away, WWW, [192, 0, 2, 8]), "a start does not need the site");
    home_etcd.start(0);
    until_true("the home accepts writes", || {
        let set = ["records", "set", "fleet.example", "www", "A", "--ttl", "60", "192.0.2.9"];
        home.run(&set, false).status.success()
    });
    until_true("it is followed again", || answers(&away, WWW, [192, 0, 2, 9]));
    until_true("nothing is wrong", || holds(&away, "followed", 0));
    let list = away.run(&["sites", "-o", "json"], true);
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).expect("JSON");
    let site = &list[0];
    assert_eq!((&site["name"], &site["zones"]), (&"fra1".into(), &1.into()), "{list}");
    let unknown = away.run(&["sites", "accept", "x", "--yes"], true);
    let why = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(why.contains("no [[site]] has the name"), "{why}");
}

#[test]
fn examples_of_two_sites_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sites");
    let files: Vec<_> = fs::read_dir(&folder).expect("examples").flatten().collect();
    assert_eq!(files.len(), 2, "one for each site");
    for file in files {
        let config = config::Config::load(Some(&file.path()));
        let config = config.unwrap_or_else(|errors| panic!("{}", errors[0]));
        assert_eq!(config.sites.len(), 1, "{}", file.path().display());
    }
}

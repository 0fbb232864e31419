//! The calls of real clients, as `make campaign-clients` records them: each has the status that it
//! had then.
use crate::powerdns::{ZONES, with_key};
use crate::scene::Scene;
use serde_json::{Value, json};

/// Repeats the recorded calls of a client on a server with the zone example.org.
fn repeat(calls: &str) {
    let scene = Scene::bare(|_| None);
    let new = json!({ "name": "example.org.", "kind": "Native",
        "nameservers": ["ns1.example.org."] });
    assert_eq!(with_key(&scene, &scene.root, "POST", ZONES, &new).status, 201);
    let calls: Vec<Value> =
        calls.lines().map(|line| serde_json::from_str(line).expect("a call")).collect();
    assert!(calls.len() > 5 && calls.iter().any(|call| call["method"] == "PATCH"));
    for (number, call) in calls.iter().enumerate() {
        let text = |key: &str| call[key].as_str().expect("a text");
        let reply = with_key(&scene, &scene.root, text("method"), text("path"), &call["body"]);
        let told = String::from_utf8_lossy(&reply.body);
        assert_eq!(json!(reply.status), call["status"], "call {number}: {call}: {told}");
    }
}

#[test]
fn external_dns_gets_what_it_got() {
    repeat(include_str!("../clients/external-dns.jsonl"));
}

#[test]
fn lego_gets_what_it_got() {
    repeat(include_str!("../clients/lego.jsonl"));
}

#[test]
fn octodns_gets_what_it_got() {
    repeat(include_str!("../clients/octodns.jsonl"));
}

//! The calls of real clients, as `make campaign-clients` records them: each has the status that it
//! had then.
use crate::powerdns::{ZONES, with_key};
use crate::scene::Scene;
use serde_json::{Value, json};
use wire::Rtype;

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

/// The set is an ALIAS in JSON and in exports, and addresses in answers.
#[test]
fn alias_is_written_exported_and_answered_as_addresses() {
    let scene = Scene::new();
    let at =
        |name: &str, rtype: &str| format!("/v1/zones/example.org/rrsets/{name}/{rtype}?wait=live");
    let of = |data: &str| json!({ "ttl": 60, "data": [data] }).to_string();
    scene.put(&at("www.example.org", "A"), &of("192.0.2.1")).done();
    scene.put(&at("example.org", "ALIAS"), &of("www.example.org.")).done();
    assert_eq!(scene.answered("example.org", "example.org", Rtype::A), [[192, 0, 2, 1]]);
    scene.put(&at("www.example.org", "A"), &of("192.0.2.2")).done();
    assert_eq!(scene.answered("example.org", "example.org", Rtype::A), [[192, 0, 2, 2]]);
    let told = scene.get("/v1/zones/example.org/rrsets/example.org/ALIAS").done();
    assert_eq!((&told["type"], &told["data"]), (&json!("ALIAS"), &json!(["www.example.org."])));
    for accept in ["Accept: application/x-ndjson", "Accept: text/dns"] {
        let path = "/v1/zones/example.org/export";
        let text = scene.ask("GET", path, &scene.root, &[accept], b"").body;
        let text = String::from_utf8(text).expect("text");
        assert!(text.contains("ALIAS") && text.contains("www.example.org."), "{text}");
    }
    for (path, data, field, rule) in [
        (at("x.example.org", "ALIAS"), "www.elsewhere.example.", "data", "out-of-zone"),
        (at("x.example.org", "ALIAS"), "x.example.org.", "data", "alias-loop"),
        (at("www.example.org", "ALIAS"), "x.example.org.", "name", "alias-addresses"),
        (at("example.org", "A"), "192.0.2.1", "name", "alias-addresses"),
    ] {
        let (found, id) = scene.put(&path, &of(data)).refused(422);
        assert_eq!((&*found, &*id), (field, rule), "{path}");
    }
    scene.put(&at("x.example.org", "ALIAS"), &of("www.file.example.")).done();
}

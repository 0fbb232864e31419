//! Conditions on zones and on the store (RFC 9110 §13), and writes that change nothing.
use crate::scene::{OF_FILE, Reply, Scene};
use serde_json::{Value, json};
use wire::Rtype;

const ZONE: &str = "/v1/zones/example.org";
const SETS: &str = "/v1/zones/example.org/rrsets";
const WWW: &str = "/v1/zones/example.org/rrsets/www.example.org/A";
const IMPORT: &str = "/v1/zones/example.org/import";
const JSON: &str = "Content-Type: application/json";
const NDJSON: &str = "Content-Type: application/x-ndjson";
const BYTES: &str = "Content-Type: application/octet-stream";
const NS: &str = r#"{"nameservers":["ns1"]}"#;

fn change(address: &str) -> String {
    json!({ "changes": [{
        "name": "www.example.org", "type": "A", "put": { "ttl": 60, "data": [address] }
    }] })
    .to_string()
}

fn line(n: usize) -> String {
    let (name, data) = (format!("n{n}.example.org"), format!("10.0.{}.{}", n >> 8, n & 255));
    json!({ "name": name, "type": "A", "ttl": 60, "data": [data] }).to_string() + "\n"
}

fn tag(reply: &Reply) -> String {
    reply.field("etag").expect("a tag").to_owned()
}

fn revision(scene: &Scene) -> Value {
    scene.get(ZONE).done()["revision"].clone()
}

/// Every kind of write: method, path, media type and body.
fn writes(snapshot: &[u8]) -> [(&'static str, &'static str, &'static str, Vec<u8>); 7] {
    let put = br#"{"ttl":60,"data":["192.0.2.9"]}"#.to_vec();
    [
        ("PUT", ZONE, JSON, NS.into()),
        ("PATCH", SETS, JSON, change("192.0.2.9").into()),
        ("POST", IMPORT, NDJSON, line(1).into()),
        ("PUT", WWW, JSON, put),
        ("DELETE", WWW, JSON, Vec::new()),
        ("PUT", "/v1/snapshot", BYTES, snapshot.to_vec()),
        ("DELETE", ZONE, JSON, Vec::new()),
    ]
}

#[test]
fn write_on_an_old_entity_tag_is_412_and_changes_nothing() {
    let scene = Scene::new();
    let old = tag(&scene.get(ZONE));
    let snapshot = scene.get("/v1/snapshot").body;
    scene.put(WWW, r#"{"ttl":60,"data":["192.0.2.1"]}"#).done();
    let before = scene.get(SETS).done();
    for (method, path, media, body) in writes(&snapshot) {
        for condition in [format!("If-Match: {old}"), "If-None-Match: *".to_owned()] {
            let reply = scene.ask(method, path, &scene.root, &[media, &condition], &body);
            let (field, _) = reply.refused(412);
            assert_eq!(field, "if", "{method} {path}");
            assert_eq!(reply.json()["revision"], 2, "it tells which one is there: {method} {path}");
        }
        assert_eq!(scene.get(SETS).done(), before, "{method} {path}");
    }
    // The same writes succeed with the current tag; the last one creates the zone again.
    for (method, path, media, body) in writes(&snapshot).into_iter().skip(1) {
        let seen = match path {
            WWW => tag(&scene.get(WWW)),
            "/v1/snapshot" => tag(&scene.get("/v1/snapshot")),
            _ => tag(&scene.get(ZONE)),
        };
        let condition = format!("If-Match: {seen}");
        scene.ask(method, path, &scene.root, &[media, &condition], &body).done();
    }
    scene.get(ZONE).refused(404);
}

#[test]
fn condition_that_cannot_be_checked_is_400_and_changes_nothing() {
    let scene = Scene::new();
    scene.put(WWW, r#"{"ttl":60,"data":["192.0.2.1"]}"#).done();
    let snapshot = scene.get("/v1/snapshot").body;
    let before = scene.get(SETS).done();
    let operate = [("DELETE", "/v1/cache", JSON), ("PUT", "/v1/upstreams/192.0.2.53:53", JSON)];
    for (method, path, media, body) in writes(&snapshot) {
        for conditions in [
            &["If-Match: W/\"2\""][..],
            &["If-Match: \"1\", \"2\""],
            &["If-Match: 2"],
            &["If-Match: \"x\""],
            &["If-None-Match: \"2\""],
            &["If-Match: *", "If-None-Match: *"],
            &["If-Match: \"2\"", "If-Match: \"2\""],
        ] {
            let fields = [&[media], conditions].concat();
            scene.ask(method, path, &scene.root, &fields, &body).refused(400);
        }
    }
    for (method, path, media) in operate {
        for condition in ["If-Match: *", "If-Match: \"2\"", "If-None-Match: *"] {
            let body = br#"{"drained":true}"#;
            let (field, _) =
                scene.ask(method, path, &scene.root, &[media, condition], body).refused(400);
            assert_eq!(field, condition.split(':').next().unwrap_or_default().to_lowercase());
        }
    }
    assert_eq!(scene.get(SETS).done(), before);
}

#[test]
fn zone_has_an_entity_tag_that_every_write_to_it_changes() {
    let scene = Scene::new();
    let first = tag(&scene.get(ZONE));
    assert_eq!(first, format!("\"{}\"", revision(&scene)));
    let known = |tag: &str| {
        let known = format!("If-None-Match: {tag}");
        scene.ask("GET", ZONE, &scene.root, &[&known], b"").status
    };
    assert_eq!((known(&first), known("\"999\"")), (304, 200));
    let mut seen = vec![first];
    for reply in [
        scene.patch(SETS, &change("192.0.2.1")),
        scene.ask("POST", IMPORT, &scene.root, &[NDJSON], line(1).as_bytes()),
        scene.put("/v1/zones/example.net", NS),
    ] {
        let tag = tag(&reply);
        assert_eq!(tag, format!("\"{}\"", reply.done()["revision"]));
        assert!(!seen.contains(&tag), "{tag}");
        seen.push(tag);
    }
    assert_eq!(tag(&scene.get(ZONE)), seen[2]);
    assert_eq!(tag(&scene.get(SETS)), seen[2], "a page of its sets, too");
    let of_file = scene.get(&format!("/v1/zones/{OF_FILE}"));
    assert_eq!(of_file.field("etag"), None, "a zone of a file has none");
}

#[test]
fn missing_zone_is_404_for_all_but_its_creation() {
    let scene = Scene::new();
    let other = "/v1/zones/example.net";
    for (method, path) in [("DELETE", other.to_owned()), ("PATCH", format!("{other}/rrsets"))] {
        let body = r#"{"changes":[{"name":"a.example.net","type":"A","put":null}]}"#;
        scene.with(method, &path, &["If-Match: \"7\""], body).refused(404);
    }
    scene.with("PUT", other, &["If-Match: *"], NS).refused(412);
    scene.with("PUT", other, &["If-None-Match: *"], NS).done();
}

/// The writer checks the condition: of two clients that saw the same state, one succeeds.
#[test]
fn one_of_many_conditional_writers_succeeds() {
    let scene = Scene::new();
    for round in 0..10 {
        let seen = format!("If-Match: {}", tag(&scene.get(ZONE)));
        let write = |n: usize| {
            let body = change(&format!("192.0.2.{}", 20 * round + n));
            scene.with("PATCH", SETS, &[&seen], &body).status
        };
        let statuses = std::thread::scope(|scope| {
            let write = &write;
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || write(n))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        let through = statuses.iter().filter(|status| **status == 200).count();
        assert_eq!((through, statuses.len()), (1, 8), "{statuses:?}");
    }
}

/// An import of many batches continues after its own writes, and ends after another client's.
#[test]
fn conditional_import_of_many_batches_succeeds() {
    let scene = Scene::new();
    let seen = format!("If-Match: {}", tag(&scene.get(ZONE)));
    let body: String = (0..2_500).map(line).collect();
    let import =
        |body: &str| scene.ask("POST", IMPORT, &scene.root, &[NDJSON, &seen], body.as_bytes());
    assert_eq!(import(&body).done()["rrsets"], 2_500);
    let before = revision(&scene);
    let late = import(&body);
    late.refused(412);
    assert_eq!(late.json()["written"], 0);
    import("").refused(412);
    assert_eq!(revision(&scene), before);
}

#[test]
fn identical_writes_change_nothing() {
    let scene = Scene::new();
    let www = r#"{"ttl":60,"data":["192.0.2.1","192.0.2.2"]}"#;
    let first = scene.put(WWW, www);
    scene.put(&format!("{SETS}/a.example.org/A"), r#"{"ttl":60,"data":["192.0.2.3"]}"#).done();
    let body: String = (0..1_500).map(line).collect();
    let import = || scene.ask("POST", IMPORT, &scene.root, &[NDJSON], body.as_bytes());
    import().done();
    let state = || {
        let journal = scene.get(&format!("{ZONE}/journal?limit=1000")).done();
        let zone = scene.get(ZONE).done();
        (zone["revision"].clone(), zone["serial"].clone(), journal["entries"].clone())
    };
    let before = state();
    let again = scene.put(&format!("{WWW}?wait=live"), www);
    assert_eq!(tag(&again), tag(&first), "its tag is still that of the set");
    assert_eq!(again.done(), json!({ "revision": first.done()["revision"], "live": true }));
    let zone = scene.put(ZONE, NS);
    zone.refused(409);
    let patch = json!({ "changes": [
        { "name": "www.example.org", "type": "A",
          "put": { "ttl": 60, "data": ["192.0.2.2", "192.0.2.1"] } },
        { "name": "absent.example.org", "type": "A", "put": null },
    ] });
    let reply = scene.patch(SETS, &patch.to_string());
    assert_eq!(tag(&reply), format!("\"{}\"", before.0));
    assert_eq!(reply.done()["revision"], before.0);
    let told = import().done();
    assert_eq!((&told["rrsets"], &told["revision"]), (&json!(1_500), &before.0));
    let absent = format!("{SETS}/absent.example.org/A");
    scene.delete(&absent).refused(404);
    scene.ask("DELETE", &absent, &scene.root, &["If-None-Match: *"], b"").refused(404);
    scene.delete("/v1/zones/example.com").refused(404);
    assert_eq!(state(), before);
    // A condition is checked even if nothing would change.
    scene.with("PUT", WWW, &["If-Match: \"1\""], www).refused(412);
    scene.with("PATCH", SETS, &["If-Match: \"1\""], &patch.to_string()).refused(412);
    assert_eq!(scene.answered("example.org", "www.example.org", Rtype::A).len(), 2);
}

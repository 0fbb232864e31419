//! Exports of one moment, and a complete journal.
use crate::scene::{OF_FILE, Scene};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

const ZONE: &str = "/v1/zones/example.org";
const SETS: &str = "/v1/zones/example.org/rrsets";
const EXPORT: &str = "/v1/zones/example.org/export";
const JOURNAL: &str = "/v1/zones/example.org/journal";

fn put(name: &str, address: &str) -> Value {
    json!({ "name": format!("{name}.example.org"), "type": "A",
            "put": { "ttl": 60, "data": [address] } })
}

fn patch(scene: &Scene, changes: Vec<Value>) -> u64 {
    let told = scene.patch(SETS, &json!({ "changes": changes }).to_string()).done();
    told["revision"].as_u64().expect("a revision")
}

fn journal(scene: &Scene, query: &str) -> Vec<Value> {
    let told = scene.get(&format!("{JOURNAL}?limit=1000{query}")).done();
    told["entries"].as_array().expect("entries").clone()
}

/// Two names, with thousands of others between them, are always written together.
#[test]
fn export_beside_a_writer_is_of_one_moment() {
    let scene = Scene::new();
    let pair = |n: u64| {
        let address = format!("10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255);
        vec![put("a", &address), put("z", &address)]
    };
    let filler = |n: usize| put(&format!("n{n}"), "10.9.9.9");
    patch(&scene, (0..5_000).map(filler).collect());
    patch(&scene, pair(0));
    let is_over = AtomicBool::new(false);
    let mut revisions = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while !is_over.load(Ordering::Relaxed) {
                n += 1;
                patch(&scene, pair(n));
            }
        });
        for round in 0..20 {
            let accept = ["Accept: application/x-ndjson", "Accept: text/dns"][round % 2];
            let exported = scene.ask("GET", EXPORT, &scene.root, &[accept], b"");
            let revision = exported.field("dunlin-revision").map(str::to_owned);
            let text = String::from_utf8(exported.body).expect("text");
            let address = |name: &str| {
                let line = text.lines().find(|line| line.contains(name)).expect("a line");
                let at = line.find("10.").expect("an address");
                line[at..].trim_end_matches("\"],").split(['"', ' ']).next().map(str::to_owned)
            };
            assert_eq!(address("a.example.org."), address("z.example.org."), "round {round}");
            assert_eq!(text.lines().filter(|line| line.contains("10.9.9.9")).count(), 5_000);
            revisions.push(revision.expect("a revision").parse::<u64>().expect("a number"));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(revisions.is_sorted() && revisions[0] < revisions[19], "{revisions:?}");
}

#[test]
fn export_that_is_known_already_is_304() {
    let scene = Scene::new();
    let tag = scene.get(EXPORT).field("etag").expect("a tag").to_owned();
    let known = format!("If-None-Match: {tag}");
    let reply = scene.ask("GET", EXPORT, &scene.root, &[&known], b"");
    assert_eq!((reply.status, reply.body.len(), reply.field("etag")), (304, 0, Some(&*tag)));
    let of_file = scene.get(&format!("/v1/zones/{OF_FILE}/export"));
    assert_eq!((of_file.status, of_file.field("etag")), (200, None));
    scene.get("/v1/zones/example.net/export").refused(404);
}

#[test]
fn write_of_thousands_is_in_the_journal_by_names() {
    let scene = Scene::new();
    let created = patch(&scene, (0..1_001).map(|n| put(&format!("n{n}"), "10.0.0.1")).collect());
    let mut changes: Vec<_> = (1..1_001).map(|n| put(&format!("n{n}"), "10.0.0.2")).collect();
    changes.push(json!({ "name": "n0.example.org", "type": "A", "put": null }));
    patch(&scene, changes);
    let entries = journal(&scene, &format!("&after={}", created - 1));
    let [first, second] = &entries[..] else { panic!("{entries:?}") };
    let of_both = [first, second].map(|entry| {
        (entry["count"].clone(), entry["detail"].clone(), entry["changes"].as_array().map(Vec::len))
    });
    assert_eq!(of_both, [0, 1].map(|_| (json!(1_001), json!("names"), Some(1_001))));
    let of = |entry: &Value, name: &str| {
        let changes = entry["changes"].as_array().expect("changes");
        changes.iter().find(|change| change["name"] == name).expect("it is there").clone()
    };
    let (n0, n1) = ("n0.example.org.", "n1.example.org.");
    assert_eq!(of(first, n1), json!({ "name": n1, "type": "A", "before": null }), "it came");
    assert_eq!(of(second, n1), json!({ "name": n1, "type": "A" }), "it was there, and is");
    assert_eq!(of(second, n0), json!({ "name": n0, "type": "A", "after": null }), "it went");
}

#[test]
fn journal_of_a_deleted_zone_continues_when_it_is_created_again() {
    let scene = Scene::new();
    patch(&scene, vec![put("www", "192.0.2.1")]);
    scene.delete(&format!("{ZONE}?reason=moved%20to%20example.net")).done();
    scene.get(ZONE).refused(404);
    let entries = journal(&scene, "");
    let kinds: Vec<_> = entries.iter().map(|entry| entry["kind"].clone()).collect();
    assert_eq!(kinds, ["created", "changed", "deleted"]);
    let gone = &entries[2];
    assert_eq!((&gone["reason"], &gone["by"]), (&json!("moved to example.net"), &json!("root")));
    assert_eq!((&gone["count"], &gone["detail"]), (&json!(3), &json!("data")));
    let www = gone["changes"].as_array().expect("changes").iter();
    let www = www.clone().find(|change| change["type"] == "A").expect("it was there");
    assert_eq!((&www["before"]["data"][0], &www["after"]), (&json!("192.0.2.1"), &json!(null)));
    // Only principals that may read the zone see it.
    let other = scene.token("other", &["read example.net"]);
    scene.ask("GET", JOURNAL, &other, &[], b"").refused(403);
    let some = scene.token("some", &["read example.org www.example.org A"]);
    let told = scene.ask("GET", &format!("{JOURNAL}?after=2"), &some, &[], b"").done();
    assert_eq!(told["entries"][0]["changes"].as_array().map(Vec::len), Some(1), "{told}");
    scene.put(ZONE, r#"{"nameservers":["ns1"]}"#).done();
    let after = journal(&scene, "&after=2");
    assert_eq!((&after[0]["kind"], &after[1]["kind"]), (&json!("deleted"), &json!("created")));
    scene.get("/v1/zones/never.example/journal").refused(404);
}

#[test]
fn reason_is_reported_bounded_and_in_one_line() {
    let scene = Scene::new();
    let www = format!("{SETS}/www.example.org/A");
    let write = |n: u8, reason: &str| {
        let body = json!({ "ttl": 60, "data": [format!("192.0.2.{n}")] }).to_string();
        scene.put(&format!("{www}?reason={reason}"), &body)
    };
    write(1, "change%20%2342:%20%C3%BC").done();
    let last = journal(&scene, "").pop().expect("an entry");
    assert_eq!(last["reason"], "change #42: ü");
    write(2, &"x".repeat(255)).done();
    let (field, rule) = write(3, &"x".repeat(256)).refused(422);
    assert_eq!((&*field, &*rule), ("reason", "limit"));
    assert_eq!(write(3, "a%0Ab").refused(422).0, "reason");
    write(3, "").done();
    assert_eq!(journal(&scene, "").pop().expect("an entry")["reason"], json!(null));
    let line = "{\"name\":\"i.example.org\",\"type\":\"A\",\"ttl\":5,\"data\":[\"192.0.2.5\"]}\n";
    let import = format!("{ZONE}/import?reason=import");
    let media = ["Content-Type: application/x-ndjson"];
    scene.ask("POST", &import, &scene.root, &media, line.as_bytes()).done();
    scene.patch(
        &format!("{SETS}?reason=patch"),
        &json!({ "changes": [put("p", "192.0.2.6")] }).to_string(),
    );
    let reasons: Vec<_> =
        journal(&scene, "").into_iter().map(|entry| entry["reason"].clone()).rev().collect();
    assert_eq!(reasons[..2], [json!("patch"), json!("import")]);
}

#[test]
fn journal_that_does_not_reach_back_is_410() {
    let scene = Scene::new();
    patch(&scene, vec![put("www", "192.0.2.1")]);
    assert_eq!(journal(&scene, "&after=0").len(), 2, "nothing was there before");
    let snapshot = scene.get("/v1/snapshot").body;
    let media = ["Content-Type: application/octet-stream"];
    scene.ask("PUT", "/v1/snapshot", &scene.root, &media, &snapshot).done();
    for after in [1, 9] {
        let reply = scene.get(&format!("{JOURNAL}?after={after}"));
        assert_eq!(reply.refused(410).0, "after");
        let told = reply.json();
        assert_eq!((&told["revision"], &told["type"]), (&json!(3), &json!(CUT)));
        assert!(told["detail"].as_str().is_some_and(|text| text.contains("whole zone")), "{told}");
    }
    assert_eq!(journal(&scene, "&after=3").len(), 0);
    assert_eq!(journal(&scene, "")[0]["kind"], "restored");
}

const CUT: &str = "urn:dunlin:problem:journal-cut";

fn revert(scene: &Scene, revision: u64, query: &str) -> crate::scene::Reply {
    scene.ask("POST", &format!("{JOURNAL}/{revision}/revert{query}"), &scene.root, &[], b"")
}

fn names(told: &Value, list: &str) -> Vec<String> {
    let name = |set: &Value| set["name"].as_str().expect("a name").to_owned();
    told[list].as_array().expect("a list").iter().map(name).collect()
}

#[test]
fn revert_undoes_what_has_not_changed_since_and_lists_the_rest() {
    let scene = Scene::new();
    patch(&scene, vec![put("a", "10.0.0.1"), put("b", "10.0.0.1"), put("c", "10.0.0.1")]);
    let gone =
        |name: &str| json!({ "name": format!("{name}.example.org"), "type": "A", "put": null });
    let mistake =
        vec![put("a", "10.0.0.2"), put("b", "10.0.0.2"), gone("c"), put("new", "10.0.0.2")];
    let mistake = patch(&scene, mistake);
    let since = patch(&scene, vec![put("b", "10.0.0.3")]);
    let told = revert(&scene, mistake, "?dry_run=true").done();
    let [a, b, c, new] = ["a", "b", "c", "new"].map(|name| format!("{name}.example.org."));
    assert_eq!(names(&told, "undone"), [a, c, new]);
    assert_eq!(told["undone"][0]["before"]["data"], json!(["10.0.0.2"]));
    assert_eq!(told["undone"][0]["after"]["data"], json!(["10.0.0.1"]));
    let kept = json!([{ "name": b, "type": "A", "why": "changed-since", "revision": since }]);
    assert_eq!((&told["not_undone"], &told["revision"]), (&kept, &Value::Null));
    assert_eq!(journal(&scene, "").last().expect("an entry")["revision"], since, "a dry run");
    let told = revert(&scene, mistake, "?wait=live").done();
    assert_eq!((names(&told, "undone").len(), &told["not_undone"]), (3, &kept));
    assert_eq!(told["live"], true);
    let data = |name: &str| {
        let reply = scene.get(&format!("{SETS}/{name}.example.org/A"));
        (reply.status == 200).then(|| reply.json()["data"][0].clone())
    };
    let now = ["a", "b", "c", "new"].map(data);
    let address = |text: &str| Some(json!(text));
    assert_eq!(now, [address("10.0.0.1"), address("10.0.0.3"), address("10.0.0.1"), None]);
    let last = journal(&scene, "").pop().expect("an entry");
    assert_eq!(last["reason"], format!("revert of revision {mistake}"));
    assert_eq!(last["revision"], told["revision"]);
    let again = revert(&scene, mistake, "").done();
    assert_eq!(names(&again, "not_undone"), [b], "the others are as they were before");
    assert_eq!((names(&again, "undone").len(), &again["revision"]), (0, &Value::Null));
    // A revert is a write, and can be undone, too.
    let told = revert(&scene, told["revision"].as_u64().expect("a revision"), "?reason=no").done();
    assert_eq!(names(&told, "undone").len(), 3);
    assert_eq!(data("new"), address("10.0.0.2"));
}

#[test]
fn revert_of_what_the_journal_lacks_is_refused_or_listed() {
    let scene = Scene::new();
    revert(&scene, 0, "").refused(404);
    let created = journal(&scene, "")[0]["revision"].as_u64().expect("a revision");
    let reply = revert(&scene, created, "");
    reply.refused(409);
    assert_eq!(reply.json()["type"], "urn:dunlin:problem:not-undoable");
    let many = |address: &str| (0..1_001).map(|n| put(&format!("n{n}"), address)).collect();
    let first = patch(&scene, many("10.0.0.1"));
    let second = patch(&scene, many("10.0.0.2"));
    let told = revert(&scene, second, "").done();
    assert_eq!((names(&told, "undone").len(), names(&told, "not_undone").len()), (0, 1_001));
    assert_eq!(told["not_undone"][0]["why"], "not-recorded");
    let told = revert(&scene, first, "").done();
    assert_eq!(told["not_undone"][0]["why"], "changed-since");
    revert(&scene, second + 1, "").refused(404);
    revert(&scene, second + 2, "").refused(410);
}

#[test]
fn revert_needs_the_grant_to_write_each_set_of_the_write() {
    let scene = Scene::new();
    let both = patch(&scene, vec![put("a", "10.0.0.1"), put("b", "10.0.0.1")]);
    let own = patch(&scene, vec![put("a", "10.0.0.2")]);
    let token = scene.token("tenant", &["read,write example.org a.example.org"]);
    let ask = |revision: u64| {
        let path = format!("{JOURNAL}/{revision}/revert?dry_run=true");
        scene.ask("POST", &path, &token, &[], b"")
    };
    ask(both).refused(403);
    assert_eq!(names(&ask(own).done(), "undone"), ["a.example.org."]);
    let reader = scene.token("reader", &["read *"]);
    scene.ask("POST", &format!("{JOURNAL}/{own}/revert"), &reader, &[], b"").refused(403);
}

/// Each set is written only as it was read, so no write of another client is lost.
#[test]
fn revert_beside_a_writer_loses_no_write() {
    let scene = Scene::new();
    let is_over = AtomicBool::new(false);
    patch(&scene, vec![put("a", "10.0.0.1"), put("b", "10.0.0.1")]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut last = 0;
            for n in 0..200_u32 {
                last = patch(&scene, vec![put("b", &format!("10.1.{}.{}", n >> 8, n & 255))]);
            }
            is_over.store(true, Ordering::Relaxed);
            last
        });
        while !is_over.load(Ordering::Relaxed) {
            let mistake = patch(&scene, vec![put("a", "10.0.0.2")]);
            let told = revert(&scene, mistake, "").done();
            assert_eq!(names(&told, "undone"), ["a.example.org."]);
        }
        let last = writer.join().expect("a writer");
        let b = scene.get(&format!("{SETS}/b.example.org/A")).done();
        assert_eq!((&b["revision"], &b["data"]), (&json!(last), &json!(["10.1.0.199"])));
    });
}

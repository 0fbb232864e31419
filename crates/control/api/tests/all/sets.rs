//! Record sets: write, read, list, and errors.
use crate::scene::{OF_FILE, Scene};
use serde_json::json;
use wire::Rtype;

const WWW: &str = "/v1/zones/example.org/rrsets/www.example.org/A";
const SETS: &str = "/v1/zones/example.org/rrsets";

#[test]
fn set_is_written_read_answered_and_deleted() {
    let scene = Scene::new();
    let live = format!("{WWW}?wait=live");
    let reply = scene.put(&live, r#"{"ttl":60,"data":["192.0.2.1","192.0.2.2"]}"#);
    let tag = reply.field("etag").expect("a tag").to_owned();
    let told = reply.done();
    assert_eq!((&told["live"], format!("\"{}\"", told["revision"])), (&json!(true), tag.clone()));
    let bytes = [[192, 0, 2, 1], [192, 0, 2, 2]];
    assert_eq!(scene.answered("example.org", "www.example.org", Rtype::A), bytes);
    let reply = scene.get(WWW);
    assert_eq!(reply.field("etag"), Some(&*tag));
    let expected = json!({
        "name": "www.example.org.", "type": "A", "ttl": 60, "data": ["192.0.2.1", "192.0.2.2"],
        "view": "default", "policy": "all", "revision": told["revision"],
    });
    assert_eq!(reply.done(), expected);
    let known = format!("If-None-Match: {tag}");
    assert_eq!(scene.ask("GET", WWW, &scene.root, &[&known], b"").status, 304);
    scene.delete(&live).done();
    scene.get(WWW).refused(404);
    scene.delete(WWW).refused(404);
    assert!(scene.answered("example.org", "www.example.org", Rtype::A).is_empty());
}

/// The SOA in a response has the current serial, which changes with every write to its zone.
#[test]
fn serial_changes_with_every_write_to_its_zone() {
    let scene = Scene::new();
    let path = "/v1/zones/example.org/rrsets/example.org/SOA";
    let soa = scene.get(path);
    let seen = soa.field("etag").expect("a tag").to_owned();
    let known = format!("If-None-Match: {seen}");
    assert_eq!(scene.ask("GET", path, &scene.root, &[&known], b"").status, 304);
    scene.put(&format!("{WWW}?wait=live"), r#"{"ttl":60,"data":["192.0.2.1"]}"#).done();
    let later = scene.ask("GET", path, &scene.root, &[&known], b"");
    let tag = later.field("etag").expect("a tag").to_owned();
    let (soa, later) = (soa.done(), later.done());
    assert_ne!(soa["data"], later["data"], "another serial");
    assert_eq!(json!(format!("\"{}\"", later["revision"])), json!(tag));
    let listed = scene.get(&format!("{SETS}?type=SOA")).done();
    assert_eq!(listed["rrsets"][0], later, "a list tells the same");
    let body = json!({ "ttl": 60, "data": later["data"] }).to_string();
    scene.with("PUT", path, &[&format!("If-Match: {seen}")], &body).refused(412);
    scene.with("PUT", path, &[&format!("If-Match: {tag}")], &body).done();
}

#[test]
fn write_on_an_older_state_is_refused() {
    let scene = Scene::new();
    let fresh = ["If-None-Match: *"];
    let (one, two) = (r#"{"ttl":60,"data":["192.0.2.1"]}"#, r#"{"ttl":60,"data":["192.0.2.2"]}"#);
    let reply = scene.with("PUT", WWW, &fresh, one);
    let seen = format!("If-Match: {}", reply.field("etag").expect("a tag"));
    scene.with("PUT", WWW, &fresh, two).refused(412);
    scene.with("PUT", WWW, &[&seen], two).done();
    let late = scene.with("PUT", WWW, &[&seen], one);
    late.refused(412);
    let is = scene.get(WWW).done()["revision"].clone();
    assert_eq!(late.json()["revision"], is, "it tells which one is there");
    let late = scene.ask("DELETE", WWW, &scene.root, &[&seen], b"");
    late.refused(412);
    assert_eq!(scene.get(WWW).done()["data"], json!(["192.0.2.2"]));
}

#[test]
fn batch_of_changes_is_atomic() {
    let scene = Scene::new();
    let change = |name: &str, data: &str| {
        json!({ "name": format!("{name}.example.org"), "type": "A",
                "put": { "ttl": 5, "data": [data] } })
    };
    let changes = json!({ "changes": [change("a", "192.0.2.1"), change("b", "192.0.2.2")] });
    scene.patch(SETS, &changes.to_string()).done();
    let mut wrong = json!({ "changes": [change("a", "192.0.2.9"), change("c", "192.0.2.3")] });
    wrong["changes"][1]["put"]["ttl"] = json!(4_294_967_295_u32);
    let (field, rule) = scene.patch(SETS, &wrong.to_string()).refused(422);
    assert_eq!((&*field, &*rule), ("changes[1].put.ttl", "ttl"));
    let kept = scene.get("/v1/zones/example.org/rrsets/a.example.org/A").done();
    assert_eq!(kept["data"], json!(["192.0.2.1"]), "nothing of it was done");
    let gone = json!({ "changes": [
        { "name": "a.example.org", "type": "A", "put": null, "if": kept["revision"] },
        { "name": "b.example.org", "type": "A", "put": null, "if": "absent" },
    ] });
    let (field, _) = scene.patch(SETS, &gone.to_string()).refused(412);
    assert_eq!(field, "changes[1].if");
    scene.get("/v1/zones/example.org/rrsets/a.example.org/A").done();
    scene.patch(SETS, r#"{"changes":[]}"#).refused(422);
    scene.patch(SETS, r#"{"changes":[{"name":"a.example.org","type":"A"}]}"#).refused(400);
}

#[test]
fn pages_are_in_canonical_order_and_filtered() {
    let scene = Scene::new();
    for number in 0..5 {
        let path = format!("{SETS}/web-{number}.example.org/A");
        scene.put(&path, r#"{"ttl":60,"data":["192.0.2.1"]}"#).done();
    }
    scene.put(&format!("{SETS}/web-0.example.org/TXT"), r#"{"ttl":60,"data":["a"]}"#).done();
    let mut found = Vec::new();
    let mut path = format!("{SETS}?limit=2");
    loop {
        let page = scene.get(&path).done();
        let sets = page["rrsets"].as_array().expect("sets").clone();
        assert!(sets.len() <= 2);
        let shown = |set: &serde_json::Value| format!("{} {}", set["name"], set["type"]);
        found.extend(sets.iter().map(shown));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("{SETS}?limit=2&after={next}");
    }
    let found = found.join(", ").replace('"', "").replace(".example.org.", "");
    assert_eq!(found.matches(',').count(), 7, "{found}");
    assert!(found.ends_with("web-0 A, web-0 TXT, web-1 A, web-2 A, web-3 A, web-4 A"), "{found}");
    let filtered = scene.get(&format!("{SETS}?prefix=WEB-0&type=TXT")).done();
    assert_eq!(filtered["rrsets"].as_array().map(Vec::len), Some(1), "{filtered}");
    for wrong in ["limit=0", "limit=1001", "type=BOGUS", "prefix=web.", "prefix=a..b"] {
        scene.get(&format!("{SETS}?{wrong}")).refused(422);
    }
    for wrong in ["limit=x", "after=zz", "other=1"] {
        scene.get(&format!("{SETS}?{wrong}")).refused(400);
    }
}

#[test]
fn zone_of_a_file_is_read_only() {
    let scene = Scene::new();
    let zone = scene.get(&format!("/v1/zones/{OF_FILE}")).done();
    assert_eq!((&zone["owner"], &zone["serial"]), (&json!("file"), &json!(7)));
    let sets = scene.get(&format!("/v1/zones/{OF_FILE}/rrsets")).done();
    assert_eq!(sets["rrsets"].as_array().map(Vec::len), Some(3), "{sets}");
    let path = format!("/v1/zones/{OF_FILE}/rrsets/ns.{OF_FILE}/A");
    assert_eq!(scene.get(&path).done()["data"], json!(["192.0.2.1"]));
    let reply = scene.put(&path, r#"{"ttl":60,"data":["192.0.2.9"]}"#);
    reply.refused(409);
    let told = reply.json()["detail"].to_string();
    assert!(told.contains("/etc/dunlin/file.zone"), "its owner is named: {told}");
    scene.delete(&format!("/v1/zones/{OF_FILE}")).refused(409);
    scene.put(&format!("/v1/zones/{OF_FILE}"), r#"{"nameservers":["ns"]}"#).refused(409);
}

#[test]
fn created_and_deleted_zone_has_a_journal() {
    let scene = Scene::new();
    let zones = scene.get("/v1/zones").done();
    let names: Vec<_> =
        zones["zones"].as_array().expect("zones").iter().map(|zone| &zone["name"]).collect();
    assert!(names.contains(&&json!("example.org.")) && names.contains(&&json!(OF_FILE)));
    let again = scene.put("/v1/zones/example.org", r#"{"nameservers":["ns1"]}"#).done();
    assert_eq!(again["revision"], 1, "it holds that already");
    scene.put("/v1/zones/example.org", r#"{"nameservers":["ns2"]}"#).refused(409);
    scene.put("/v1/zones/example.net", "{}").refused(422);
    let soa = scene.get("/v1/zones/example.org/rrsets/example.org/SOA").done();
    let before = scene.get("/v1/zones/example.org").done();
    scene.put(&format!("{WWW}?wait=live"), r#"{"ttl":60,"data":["192.0.2.1"]}"#).done();
    let after = scene.get("/v1/zones/example.org").done();
    assert!(after["serial"].as_u64() > before["serial"].as_u64(), "{soa} {before} {after}");
    assert_eq!(after["serial"], after["revision"], "the serial is the revision");
    let journal = scene.get("/v1/zones/example.org/journal?limit=1").done();
    assert_eq!(journal["entries"][0]["kind"], "created");
    let path = format!("/v1/zones/example.org/journal?after={}", journal["next"]);
    let journal = scene.get(&path).done();
    let entry = &journal["entries"][0];
    assert_eq!((&entry["by"], &entry["kind"]), (&json!("root"), &json!("changed")));
    assert_eq!(entry["changes"][0]["after"]["data"], json!(["192.0.2.1"]));
    assert_eq!(entry["changes"][0]["before"], json!(null));
    scene.delete("/v1/zones/example.org").done();
    scene.get("/v1/zones/example.org").refused(404);
    scene.get(WWW).refused(404);
    scene.put(WWW, r#"{"ttl":60,"data":["192.0.2.1"]}"#).refused(404);
}

//! Record sets of views: written, read, answered, and refused.
use crate::scene::{Scene, name};
use compile::View;
use image::{RelName, ZoneTable};
use serde_json::{Value, json};
use std::collections::HashMap;
use wire::limits::PADDED_LEN;
use wire::{QName, Rtype};
use zone_manager::{HealthTarget, MemberClass};

const SETS: &str = "/v1/zones/example.org/rrsets";
const WWW: &str = "/v1/zones/example.org/rrsets/www.example.org/A";
const INTERNAL: &str = "/v1/zones/example.org/rrsets/www.example.org/A?view=internal";
const ONE: &str = r#"{"ttl":60,"data":["192.0.2.1"]}"#;
const TWO: &str = r#"{"ttl":60,"data":["10.0.0.2"]}"#;

/// A server whose config names these views, numbered from 1.
fn scene(views: &[&str]) -> Scene {
    let scene = Scene::new();
    know(&scene, views);
    scene
}

fn know(scene: &Scene, views: &[&str]) {
    let numbered = (1..)
        .zip(views)
        .map(|(number, view)| (records::View::from_word(view).expect("a view"), View(number)));
    scene.records.set_views(numbered.collect::<HashMap<_, _>>());
    scene.records.settle().wait().expect("settled");
}

/// What the clients of a view get of a set of the zone example.org.
fn answered(scene: &Scene, view: u8, owner: &str, rtype: Rtype) -> Vec<Vec<u8>> {
    let (image, owner) = (scene.control.image(), name(owner));
    let mut query = QName::new();
    query.set(owner.as_name());
    let zones: &dyn ZoneTable = &image;
    let zone = zones.route(View(view), &query, false).expect("the zone").zone;
    let (mut buffer, len) = ([0; PADDED_LEN], owner.as_name().len() - zone.origin().len());
    buffer[..len].copy_from_slice(&owner.as_name().as_bytes()[..len]);
    let node = zone.find(image.key(), RelName::new(&buffer, 0, len));
    let set = node.and_then(|node| node.set(rtype));
    set.map(|set| set.records().map(<[u8]>::to_vec).collect()).unwrap_or_default()
}

#[test]
fn set_of_a_view_is_written_read_answered_and_deleted() {
    let scene = scene(&["internal"]);
    let of_all = scene.put(&format!("{WWW}?wait=live"), ONE).done();
    let reply = scene.put(&format!("{INTERNAL}&wait=live"), TWO);
    let tag = reply.field("etag").expect("a tag").to_owned();
    let written = reply.done();
    assert_eq!(answered(&scene, 0, "www.example.org", Rtype::A), [[192, 0, 2, 1]]);
    assert_eq!(answered(&scene, 1, "www.example.org", Rtype::A), [[10, 0, 0, 2]]);
    assert_eq!(answered(&scene, 2, "www.example.org", Rtype::A), [[192, 0, 2, 1]]);
    let reply = scene.get(INTERNAL);
    assert_eq!(reply.field("etag"), Some(&*tag));
    let read = reply.done();
    assert_eq!((&read["view"], &read["data"]), (&json!("internal"), &json!(["10.0.0.2"])));
    assert_eq!(scene.get(WWW).done()["revision"], of_all["revision"], "it has its own tag");
    let known = format!("If-None-Match: {tag}");
    assert_eq!(scene.ask("GET", INTERNAL, &scene.root, &[&known], b"").status, 304);
    let old = format!("If-Match: \"{}\"", of_all["revision"]);
    scene.with("PUT", INTERNAL, &[&old], ONE).refused(412);
    let listed = |query: &str| scene.get(&format!("{SETS}?type=A{query}")).done()["rrsets"].clone();
    assert_eq!(listed("&view=internal"), json!([read]));
    assert_eq!(listed("&view=other"), json!([]));
    assert!(listed("").as_array().is_some_and(|all| all.iter().all(|it| it["view"] == "default")));
    let journal = scene.get("/v1/zones/example.org/journal").done();
    let last = journal["entries"].as_array().and_then(|all| all.last()).cloned().expect("one");
    assert_eq!(last["changes"][0]["view"], "internal");
    assert_eq!(last["revision"], written["revision"]);
    scene.ask("POST", &revert(&written), &scene.root, &[], b"").done();
    assert_eq!(answered(&scene, 1, "www.example.org", Rtype::A), [[192, 0, 2, 1]]);
    scene.get(INTERNAL).refused(404);
    scene.delete(INTERNAL).refused(404);
    scene.put(INTERNAL, TWO).done();
    scene.delete(&format!("{INTERNAL}&wait=live")).done();
    assert_eq!(answered(&scene, 1, "www.example.org", Rtype::A), [[192, 0, 2, 1]]);
}

fn revert(written: &Value) -> String {
    format!("/v1/zones/example.org/journal/{}/revert?wait=live", written["revision"])
}

#[test]
fn what_a_view_cannot_have_is_refused_with_its_place() {
    let scene = scene(&["internal", "other"]);
    scene.put(WWW, ONE).done();
    let set = |name: &str, rtype: &str, view: &str| {
        format!("{SETS}/{name}.example.org/{rtype}?view={view}")
    };
    let alias = r#"{"ttl":60,"data":["www.example.org."]}"#;
    let policy = r#"{"ttl":60,"data":["192.0.2.1"],"policy":"none"}"#;
    let other = r#"{"ttl":60,"data":["a.example.org."]}"#;
    let named = r#"{"ttl":60,"data":["192.0.2.1"],"view":"other"}"#;
    let soa = r#"{"ttl":60,"data":["ns. root. 1 2 3 4 5"]}"#;
    for (path, body, field, rule) in [
        (set("www", "CNAME", "internal"), alias, "name", "cname-alone"),
        (set("a", "A", "unknown"), ONE, "view", "set-rules"),
        (set("a", "A", "a%20b"), ONE, "view", "set-rules"),
        (set("a", "A", "internal"), policy, "policy", "set-rules"),
        (set("www", "ALIAS", "internal"), alias, "name", "alias-loop"),
        (set("www", "ALIAS", "internal"), other, "name", "alias-addresses"),
        (set("a", "A", "internal"), named, "view", "set-rules"),
        (format!("{SETS}/example.org/SOA?view=internal"), soa, "name", "set-rules"),
    ] {
        let (found_field, found_rule) = scene.put(&path, body).refused(422);
        assert_eq!(found_rule, rule, "{path} {body} {found_field}");
        let is_known = ["edits", "data"].contains(&&*found_field);
        assert!(found_field == field || is_known, "{path}: {found_field}");
    }
    // Nor may the zone have what would conflict with a view.
    scene.put(&set("b", "A", "internal"), ONE).done();
    let (_, rule) = scene.put(&format!("{SETS}/b.example.org/CNAME"), alias).refused(422);
    assert_eq!(rule, "cname-alone");
    // A batch is refused as a whole, and names its change.
    let changes = json!({ "changes": [
        { "name": "c.example.org", "type": "A", "put": { "ttl": 60, "data": ["192.0.2.1"] } },
        { "name": "c.example.org", "type": "CNAME", "view": "other",
          "put": { "ttl": 60, "data": ["www.example.org."] } },
    ] });
    let (field, rule) = scene.patch(SETS, &changes.to_string()).refused(422);
    assert_eq!((&*field, &*rule), ("changes[1]", "cname-alone"));
    scene.get(&format!("{SETS}/c.example.org/A")).refused(404);
    let many: Vec<String> = (0..20).map(|number| format!("v{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    know(&scene, &many);
    for view in &many[..15] {
        scene.put(&set("d", "A", view), ONE).done();
    }
    let (_, rule) = scene.put(&set("d", "A", "v15"), ONE).refused(422);
    assert_eq!(rule, "limit", "internal is one of sixteen, although no client has it");
}

/// A set of a view has what a set of all clients has: a policy, weights, locations, a check, and
/// addresses of another name.
#[test]
fn set_of_a_view_has_a_policy_a_check_and_an_alias() {
    let scene = scene(&["internal"]);
    scene.put(WWW, ONE).done();
    let body = json!({
        "ttl": 60, "policy": "nearest", "then": "weighted", "max": 1, "check": "web",
        "members": [
            { "data": "10.0.0.2", "weight": 9, "location": "eu/fra1" },
            { "data": "10.0.0.3", "weight": { "from": 0, "to": 7, "over": "30d" } },
        ],
    });
    scene.put(&format!("{INTERNAL}&wait=live"), &body.to_string()).done();
    let told = scene.get(INTERNAL).done();
    for key in ["policy", "then", "max", "check"] {
        assert_eq!(told[key], body[key], "{key}");
    }
    assert_eq!(told["members"][0]["location"], "eu/fra1");
    assert_eq!(told["members"][1]["weight"]["to"], 7);
    assert_eq!(selected(&scene, 1, "www.example.org"), Some(1), "one of those that are nearest");
    assert_eq!(selected(&scene, 0, "www.example.org"), None, "the set of all clients is plain");
    let report = |address: &str, class| {
        let address = address.parse().expect("an address");
        let verdict = (HealthTarget { check: "web".into(), address }, Some(class));
        scene.control.report_health(vec![verdict]).wait().expect("reported");
    };
    report("10.0.0.2", MemberClass::DownOnceUp);
    report("10.0.0.3", MemberClass::Up);
    assert_eq!(answered(&scene, 1, "www.example.org", Rtype::A), [[10, 0, 0, 3]]);
    assert_eq!(answered(&scene, 0, "www.example.org", Rtype::A), [[192, 0, 2, 1]]);
    // The apex of the view has the addresses that the clients of the view get.
    let apex = format!("{SETS}/example.org/ALIAS?view=internal&wait=live");
    scene.put(&apex, r#"{"ttl":60,"data":["www.example.org."]}"#).done();
    assert_eq!(answered(&scene, 1, "example.org", Rtype::A), [[10, 0, 0, 3]]);
    report("10.0.0.2", MemberClass::Up);
    assert_eq!(answered(&scene, 1, "example.org", Rtype::A).len(), 2);
    assert!(answered(&scene, 0, "example.org", Rtype::A).is_empty());
    // The rules are exported, imported and reverted with the set.
    let accept = ["Accept: application/x-ndjson"];
    let export = scene.ask("GET", "/v1/zones/example.org/export", &scene.root, &accept, b"");
    let tag = |scene: &Scene| scene.get(INTERNAL).field("etag").map(str::to_owned);
    let (before, told) = (tag(&scene), scene.get(INTERNAL).done());
    scene.delete(INTERNAL).done();
    let import = "/v1/zones/example.org/import?wait=live";
    let fields = ["Content-Type: application/x-ndjson"];
    scene.ask("POST", import, &scene.root, &fields, &export.body).done();
    let again = scene.get(INTERNAL).done();
    let rules = |set: &Value| {
        let keys = ["policy", "then", "max", "check", "members"];
        keys.map(|key| set[key].clone())
    };
    assert_eq!(rules(&again), rules(&told));
    assert_ne!(tag(&scene), before);
    assert_eq!(selected(&scene, 1, "example.org"), Some(1));
    scene.put(INTERNAL, TWO).done();
    let last = scene.get("/v1/zones/example.org/journal").done();
    let last = last["entries"].as_array().and_then(|all| all.last()).cloned().expect("one");
    scene.ask("POST", &revert(&last), &scene.root, &[], b"").done();
    assert_eq!(rules(&scene.get(INTERNAL).done()), rules(&told));
}

/// How many of the records of a set an answer has at most; `None`: all.
fn selected(scene: &Scene, view: u8, owner: &str) -> Option<u16> {
    let (image, owner, origin) = (scene.control.image(), name(owner), name("example.org"));
    let zone = image.zone(origin.as_name()).expect("the zone");
    let node = zone.node_in(View(view), &zone.relative(owner.as_name())?)?;
    node.set(Rtype::A)?.selection().map(|selection| selection.others)
}

#[test]
fn grant_of_views_covers_their_sets_alone() {
    let scene = scene(&["internal", "other"]);
    let token = scene.token("team", &["read,write example.org * * internal"]);
    let put = |path: &str| {
        scene.ask("PUT", path, &token, &["Content-Type: application/json"], TWO.as_bytes())
    };
    put(INTERNAL).done();
    put(WWW).refused(403);
    put(&format!("{WWW}?view=other")).refused(403);
    assert_eq!(scene.ask("GET", WWW, &token, &[], b"").status, 403);
    scene.put(WWW, ONE).done();
    let exported = scene.ask("GET", "/v1/zones/example.org/export", &token, &[], b"");
    let text = String::from_utf8(exported.body).expect("text");
    assert!(text.lines().count() == 1 && text.contains("internal"), "{text}");
}

#[test]
fn views_are_exported_and_imported() {
    let scene = scene(&["internal"]);
    scene.put(WWW, ONE).done();
    scene.put(INTERNAL, TWO).done();
    let export = |query: &str, media: &str| {
        let path = format!("/v1/zones/example.org/export{query}");
        let reply = scene.ask("GET", &path, &scene.root, &[&format!("Accept: {media}")], b"");
        String::from_utf8(reply.body).expect("text")
    };
    let all = export("", "application/x-ndjson");
    assert_eq!(all.lines().filter(|line| line.contains("www.example.org.")).count(), 2, "{all}");
    let file = export("?view=internal", "text/dns");
    assert!(file.contains("www.example.org. 60 IN A 10.0.0.2") && !file.contains("SOA"), "{file}");
    assert!(!export("", "text/dns").contains("10.0.0.2"));
    scene.delete(INTERNAL).done();
    let import = |query: &str, media: &str, body: &str| {
        let path = format!("/v1/zones/example.org/import?wait=live{query}");
        let fields = [&*format!("Content-Type: {media}")];
        scene.ask("POST", &path, &scene.root, &fields, body.as_bytes()).done()
    };
    import("", "application/x-ndjson", &all);
    assert_eq!(answered(&scene, 1, "www.example.org", Rtype::A), [[10, 0, 0, 2]]);
    import("&view=internal", "text/dns", "new 60 A 10.0.0.3\n");
    assert_eq!(answered(&scene, 1, "new.example.org", Rtype::A), [[10, 0, 0, 3]]);
    assert!(answered(&scene, 0, "new.example.org", Rtype::A).is_empty());
}

/// What is stored stays: a config without the view only stops its answers.
#[test]
fn sets_of_a_view_outlive_its_place_in_the_config() {
    let scene = scene(&["internal"]);
    scene.put(WWW, ONE).done();
    scene.put(INTERNAL, TWO).done();
    know(&scene, &[]);
    let found = || answered(&scene, 1, "www.example.org", Rtype::A);
    let live = || scene.put(&format!("{SETS}/x.example.org/A?wait=live"), ONE).done();
    live();
    assert_eq!(found(), [[192, 0, 2, 1]]);
    assert_eq!(scene.get(INTERNAL).done()["data"], json!(["10.0.0.2"]));
    scene.put(INTERNAL, ONE).refused(422);
    know(&scene, &["internal"]);
    scene.put(&format!("{SETS}/y.example.org/A?wait=live"), ONE).done();
    assert_eq!(found(), [[10, 0, 0, 2]]);
}

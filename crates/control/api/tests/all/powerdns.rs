//! `PowerDNS`' API, as its clients use it.
use crate::scene::{Reply, Scene};
use serde_json::{Value, json};
use wire::Rtype;

pub const ZONES: &str = "/api/v1/servers/localhost/zones";

/// Sends a request with a key, and no other credential.
pub fn with_key(scene: &Scene, key: &str, method: &str, path: &str, body: &Value) -> Reply {
    let key = format!("X-API-Key: {key}");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    scene.ask(method, path, "", &[&key], body.as_bytes())
}

fn ask(scene: &Scene, method: &str, path: &str, body: &Value) -> Reply {
    with_key(scene, &scene.root, method, path, body)
}

fn patch(scene: &Scene, rrsets: Value) -> Reply {
    ask(scene, "PATCH", &format!("{ZONES}/example.org."), &json!({ "rrsets": rrsets }))
}

fn set(name: &str, rtype: &str, contents: &[&str]) -> Value {
    let records: Vec<_> = contents.iter().map(|content| json!({ "content": content })).collect();
    json!({ "name": name, "type": rtype, "changetype": "REPLACE", "ttl": 60, "records": records })
}

/// The text of an error in the form of `PowerDNS`.
#[track_caller]
fn error(reply: &Reply, status: u16) -> String {
    assert_eq!(reply.status, status, "{} {}", reply.head, String::from_utf8_lossy(&reply.body));
    assert_eq!(reply.field("content-type"), Some("application/json"));
    reply.json()["error"].as_str().expect("a text").to_owned()
}

#[test]
fn key_is_a_token_and_its_grants_hold() {
    let scene = Scene::new();
    let path = format!("{ZONES}/example.org.");
    for (key, status) in [("", 401), ("wrong", 401), (&*scene.root, 200)] {
        assert_eq!(with_key(&scene, key, "GET", &path, &Value::Null).status, status);
    }
    let told = error(&scene.ask("GET", "/api", "", &[], b""), 401);
    assert!(told.contains("no token"), "{told}");
    // The key opens no other path.
    assert_eq!(with_key(&scene, &scene.root, "GET", "/v1/zones", &Value::Null).status, 401);
    let acme = scene.token("acme", &["write example.org _acme-challenge.example.org TXT"]);
    let write = |name: &str, rtype: &str, content: &str| {
        let body = json!({ "rrsets": [set(name, rtype, &[content])] });
        with_key(&scene, &acme, "PATCH", &path, &body)
    };
    assert_eq!(write("_acme-challenge.example.org.", "TXT", "\"a\"").status, 204);
    for (name, rtype, content) in
        [("www.example.org.", "TXT", "\"a\""), ("_acme-challenge.example.org.", "A", "192.0.2.1")]
    {
        let told = error(&write(name, rtype, content), 403);
        assert!(told.starts_with("rrsets[0].name: no grant of acme"), "{told}");
    }
    for (method, path, body) in [
        ("GET", path.clone(), Value::Null),
        ("DELETE", path.clone(), Value::Null),
        ("POST", ZONES.to_owned(), json!({ "name": "new.example.", "kind": "Native" })),
        ("PUT", format!("{ZONES}/file.example."), json!({})),
    ] {
        error(&with_key(&scene, &acme, method, &path, &body), 403);
    }
    assert_eq!(with_key(&scene, &acme, "GET", ZONES, &Value::Null).done(), json!([]));
}

#[test]
fn batch_is_atomic_and_live_when_answered() {
    let scene = Scene::new();
    let done = patch(
        &scene,
        json!([
            set("www.example.org.", "A", &["192.0.2.1", "192.0.2.2"]),
            set("old.example.org.", "TXT", &["\"x\""]),
        ]),
    );
    assert_eq!((done.status, &done.body[..]), (204, &b""[..]));
    assert_eq!(scene.answered("example.org.", "www.example.org.", Rtype::A).len(), 2);
    let gone = json!({ "name": "old.example.org.", "type": "TXT", "changetype": "DELETE" });
    let wrong = set("a.example.org.", "A", &["192.0.2"]);
    let told = error(&patch(&scene, json!([gone, wrong])), 422);
    assert!(told.starts_with("rrsets[1].records[0].content: \"192.0.2\""), "{told}");
    assert_eq!(scene.answered("example.org.", "old.example.org.", Rtype::TXT).len(), 1);
    let told =
        error(&patch(&scene, json!([set("www.example.org.", "CNAME", &["a.example."])])), 422);
    assert!(told.contains("CNAME"), "{told}");
    assert_eq!(patch(&scene, json!([gone, gone])).status, 422, "twice");
    for _ in 0..2 {
        assert_eq!(patch(&scene, json!([gone])).status, 204, "also if it is absent");
    }
    let emptied = set("www.example.org.", "A", &[]);
    assert_eq!(patch(&scene, json!([emptied])).status, 204);
    assert!(scene.answered("example.org.", "www.example.org.", Rtype::A).is_empty());
}

#[test]
fn zone_is_read_at_one_moment_with_its_entity_tag() {
    let scene = Scene::new();
    let path = format!("{ZONES}/example.org");
    patch(&scene, json!([set("www.example.org.", "TXT", &["\"a;b\""])]));
    let reply = ask(&scene, "GET", &path, &Value::Null);
    let tag = reply.field("etag").expect("an entity tag").to_owned();
    let zone = reply.done();
    let types: Vec<_> =
        zone["rrsets"].as_array().expect("sets").iter().map(|set| &set["type"]).collect();
    assert_eq!(types, ["SOA", "NS", "TXT"]);
    assert_eq!(zone["rrsets"][2]["records"], json!([{ "content": "\"a;b\"", "disabled": false }]));
    assert_eq!((&zone["id"], &zone["kind"]), (&json!("example.org."), &json!("Native")));
    let conditional = |tag: &str| {
        let fields = [format!("X-API-Key: {}", scene.root), format!("If-None-Match: {tag}")];
        scene.ask("GET", &path, "", &fields.each_ref().map(|field| &**field), b"")
    };
    let unchanged = conditional(&tag);
    assert_eq!((unchanged.status, &unchanged.body[..]), (304, &b""[..]));
    patch(&scene, json!([set("new.example.org.", "A", &["192.0.2.1"])]));
    assert_eq!(conditional(&tag).status, 200);
    for (query, count) in [
        ("?rrset_name=www.example.org.", 1),
        ("?rrset_name=ww.example.org.", 0),
        ("?rrset_name=new.example.org.&rrset_type=a", 1),
        ("?rrset_name=new.example.org.&rrset_type=nonsense", 0),
        ("?rrset_type=A", 1),
    ] {
        let zone = ask(&scene, "GET", &format!("{path}{query}"), &Value::Null).done();
        assert_eq!(zone["rrsets"].as_array().map(Vec::len), Some(count), "{query}");
    }
    let bare = ask(&scene, "GET", &format!("{path}?rrsets=false"), &Value::Null).done();
    assert!(bare.get("rrsets").is_none() && bare["serial"].is_u64(), "{bare}");
}

#[test]
fn rules_and_comments_of_a_set_outlive_a_new_address() {
    let scene = Scene::new();
    let members = r#"{"ttl":5,"policy":"weighted","comment":"rack 7","members":[
        {"data":"192.0.2.1","weight":7},{"data":"192.0.2.2","weight":9}]}"#;
    let place = "/v1/zones/example.org/rrsets/www.example.org/A";
    scene.put(place, members).done();
    let done = patch(&scene, json!([set("www.example.org.", "A", &["192.0.2.2", "192.0.2.3"])]));
    assert_eq!(done.status, 204);
    let told = scene.get(place).done();
    assert_eq!((&told["policy"], &told["comment"]), (&json!("weighted"), &json!("rack 7")));
    assert_eq!(told["members"][0]["weight"], 9, "{told}");
    let comment = |text: &str| {
        let comments = json!([{ "content": text, "account": "me" }]);
        let mut set = json!({ "name": "www.example.org.", "type": "A", "changetype": "REPLACE" });
        set["comments"] = comments;
        set
    };
    assert_eq!(patch(&scene, json!([comment("rack 8")])).status, 204);
    assert_eq!(scene.get(place).done()["comment"], "rack 8");
    let mut other = comment("x");
    other["name"] = "none.example.org.".into();
    let told = error(&patch(&scene, json!([other])), 422);
    assert!(told.starts_with("rrsets[0].comments"), "{told}");
}

#[test]
fn zones_are_created_listed_and_deleted() {
    let scene = Scene::new();
    let new = json!({ "name": "new.example.", "kind": "Master", "nameservers": ["ns1.example.org."],
        "rrsets": [set("a.new.example.", "A", &["192.0.2.1"])], "soa_edit_api": "DEFAULT" });
    let made = ask(&scene, "POST", ZONES, &new);
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.json()["rrsets"].as_array().map(Vec::len), Some(3));
    error(&ask(&scene, "POST", ZONES, &new), 409);
    let listed = ask(&scene, "GET", ZONES, &Value::Null).done();
    let names: Vec<_> =
        listed.as_array().expect("zones").iter().map(|zone| &zone["name"]).collect();
    assert_eq!(names, ["new.example.", "example.org."], "only those of the store");
    let found = ask(&scene, "GET", &format!("{ZONES}?zone=new.example."), &Value::Null).done();
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    let path = format!("{ZONES}/new.example.");
    assert_eq!(ask(&scene, "PUT", &path, &json!({ "kind": "native", "account": "x" })).status, 204);
    let told = error(&ask(&scene, "PUT", &path, &json!({ "kind": "Slave" })), 422);
    assert!(told.starts_with("kind: "), "{told}");
    assert_eq!(ask(&scene, "DELETE", &path, &Value::Null).status, 204);
    for (method, path) in [("GET", &path), ("DELETE", &path)] {
        error(&ask(&scene, method, path, &Value::Null), 404);
    }
    let told = error(&patch_of(&scene, "file.example."), 409);
    assert!(told.contains("/etc/dunlin/file.zone"), "{told}");
    error(&ask(&scene, "POST", ZONES, &json!({ "name": "bare.example.", "kind": "Native" })), 422);
}

fn patch_of(scene: &Scene, zone: &str) -> Reply {
    let rrsets = json!([set(&format!("www.{zone}"), "A", &["192.0.2.1"])]);
    ask(scene, "PATCH", &format!("{ZONES}/{zone}"), &json!({ "rrsets": rrsets }))
}

#[test]
fn server_is_described_as_clients_expect_it() {
    let scene = Scene::new();
    let get = |path: &str| ask(&scene, "GET", path, &Value::Null);
    assert_eq!(get("/api").done()[0]["url"], "/api/v1");
    assert_eq!(get("/api/v1/servers").done()[0]["id"], "localhost");
    let version = get("/api/v1/servers/localhost").done()["version"].clone();
    let numbers = version.as_str().expect("a text").split('.').map(str::parse::<u32>);
    assert_eq!(numbers.filter(Result::is_ok).count(), 3, "octoDNS reads numbers");
    for path in
        ["/api/v1/servers/localhost/config".to_owned(), format!("{ZONES}/example.org./cryptokeys")]
    {
        assert_eq!(get(&path).done(), json!([]));
    }
    for call in ["notify", "rectify"] {
        let reply = ask(&scene, "PUT", &format!("{ZONES}/example.org./{call}"), &Value::Null);
        assert!(reply.done()["result"].is_string());
    }
    error(&get("/api/v1/servers/other"), 404);
    error(&ask(&scene, "PATCH", &format!("{ZONES}/example.org."), &json!("{")), 422);
    let key = format!("X-API-Key: {}", scene.root);
    let cut = scene.ask("PATCH", &format!("{ZONES}/example.org."), "", &[&key], b"{\"rrsets\":");
    error(&cut, 400);
}

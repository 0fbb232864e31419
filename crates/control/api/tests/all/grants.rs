//! Grants: what a principal may do, and may not, over every path and method of the description, so
//! that no new one is forgotten.
use crate::scene::{Reply, Scene};
use api::NewCredential;
use serde_json::{Value, json};
use std::time::Duration;

/// A zone of another principal.
const OTHER: &str = "other.example";

/// Every method of every path in the description.
pub fn operations() -> Vec<(String, String)> {
    let description = serde_json::to_value(api::openapi()).expect("JSON");
    let paths = description["paths"].as_object().expect("paths").clone();
    let methods = |(path, item): (String, Value)| {
        let item = item.as_object().expect("methods").clone();
        let is_method = |key: &String| ["get", "put", "post", "patch", "delete"].contains(&&**key);
        let found: Vec<_> = item.keys().filter(|key| is_method(key)).cloned().collect();
        found.into_iter().map(move |method| (method.to_uppercase(), path.clone()))
    };
    paths.into_iter().flat_map(methods).collect()
}

/// A request that succeeds with a grant.
pub fn request(scene: &Scene, token: &str, method: &str, path: &str, zone: &str) -> Reply {
    let name = format!("www.{zone}");
    let filled = path
        .replace("{zone}", zone)
        .replace("{name}", &name)
        .replace("{type}", "A")
        .replace("{server}", "192.0.2.53:53")
        .replace("{address}", "192.0.2.1")
        .replace("{check}", "app")
        .replace("{principal}", "tenant")
        .replace("{site}", "fra1")
        .replace("{cluster}", "fra1");
    let filled = if filled.contains("{revision}") {
        let journal = scene.get(&format!("/v1/zones/{zone}/journal")).json();
        let last = journal["entries"].as_array().and_then(|all| all.last()).cloned();
        let revision = last.and_then(|last| last["revision"].as_u64()).unwrap_or(1);
        filled.replace("{revision}", &revision.to_string())
    } else {
        filled
    };
    let value = json!({ "ttl": 60, "data": ["192.0.2.66"] });
    let (media, body) = match (method, path) {
        ("PUT", "/v1/zones/{zone}") => ("application/json", json!({ "nameservers": ["ns"] })),
        ("PATCH", _) => (
            "application/json",
            json!({ "changes": [{ "name": name, "type": "A", "put": value }] }),
        ),
        ("PUT", "/v1/snapshot") => ("application/octet-stream", Value::Null),
        ("PUT", "/v1/upstreams/{server}") => ("application/json", json!({ "drained": true })),
        ("PUT", "/v1/anycast") => ("application/json", json!({ "withdrawn": false })),
        ("PUT", "/v1/checks/{check}") => ("application/json", json!({ "kind": "tcp", "port": 1 })),
        ("PUT", "/v1/endpoints/{address}") => {
            ("application/json", json!({ "state": "drain", "any": true }))
        }
        ("PUT", _) => ("application/json", value),
        ("POST", "/v1/accept") => ("application/json", json!({})),
        ("POST", "/v1/credentials") => {
            ("application/json", json!({ "principal": "other", "grants": ["read *"] }))
        }
        ("POST", _) => (
            "application/x-ndjson",
            json!({ "name": name, "type": "A", "ttl": 60, "data": ["192.0.2.66"] }),
        ),
        _ => ("", Value::Null),
    };
    let body = match path {
        "/v1/snapshot" => scene.get(path).body,
        _ if body.is_null() => Vec::new(),
        _ => body.to_string().into(),
    };
    let query = match (method, path) {
        ("GET", "/v1/cache") => "?name=a.",
        ("GET", "/v1/explain") => "?name=a.&client=::1",
        _ => "",
    };
    let media = format!("Content-Type: {media}");
    scene.ask(method, &format!("{filled}{query}"), token, &[&media], &body)
}

/// Everything that can be read of a zone.
fn seen(scene: &Scene) -> [Value; 3] {
    ["", "/rrsets", "/journal"].map(|part| scene.get(&format!("/v1/zones/{OTHER}{part}")).done())
}

#[test]
fn token_of_one_zone_gives_no_access_to_another() {
    let scene = Scene::new();
    scene.put(&format!("/v1/zones/{OTHER}?wait=live"), r#"{"nameservers":["ns"]}"#).done();
    let before = seen(&scene);
    let token = scene.token("tenant", &["read,write,zones example.org"]);
    let operations = operations();
    assert!(operations.len() >= 19, "{operations:?}");
    for (method, path) in &operations {
        let reply = request(&scene, &token, method, path, OTHER);
        match &**path {
            "/v1/zones" => {
                let zones = reply.done()["zones"].to_string();
                assert!(zones.contains("example.org.") && !zones.contains(OTHER), "{zones}");
            }
            "/v1/lifecycle" => assert_eq!(reply.done()["unloaded"], json!([])),
            _ => drop(reply.refused(403)),
        }
    }
    assert_eq!(seen(&scene), before);
}

/// All spellings of a zone name are one zone, and no spelling is another zone.
#[test]
fn all_spellings_of_a_zone_are_the_same_zone() {
    let scene = Scene::new();
    scene.put(&format!("/v1/zones/{OTHER}"), r#"{"nameservers":["ns"]}"#).done();
    let token = scene.token("tenant", &["read,write,zones example.org"]);
    let ask =
        |zone: &str| scene.ask("GET", &format!("/v1/zones/{zone}/rrsets"), &token, &[], b"").status;
    for zone in ["example.org.", "EXAMPLE.org", "example%2Eorg", "%65xample.org"] {
        assert_eq!(ask(zone), 200, "{zone}");
    }
    assert_eq!(ask("%5C069xample.org"), 200, "an byte by its number (RFC 1035 §5.1)");
    for zone in [
        "OTHER.example",
        "other.example.",
        "other%2eexample",
        "%5C111ther.example",
        "example.org%2F%2Fother.example",
        "example.org%5C.other.example",
        "x.example.org",
        "*",
        "%2A.org",
        ".",
    ] {
        assert_eq!(ask(zone), 403, "{zone}");
    }
    for zone in ["example.org..", "", "..", "example.org%FF", "example.org%00.other.example"] {
        let status = ask(zone);
        assert!([400, 404, 422].contains(&status), "{zone}: {status}");
    }
    // Names of another zone are not in this one.
    let media = ["Content-Type: application/json"];
    let path = format!("/v1/zones/example.org/rrsets/www.{OTHER}/A");
    let body = br#"{"ttl":60,"data":["192.0.2.66"]}"#;
    scene.ask("PUT", &path, &token, &media, body).refused(422);
}

#[test]
fn principal_with_all_grants_can_do_everything() {
    let scene = Scene::new();
    scene.put(&format!("/v1/zones/{OTHER}"), r#"{"nameservers":["ns"]}"#).done();
    scene
        .put(
            &format!("/v1/zones/{OTHER}/rrsets/www.{OTHER}/A"),
            r#"{"ttl":1,"data":["192.0.2.1"]}"#,
        )
        .done();
    let created = scene.put("/v1/checks/app", r#"{"kind":"tcp","port":80}"#);
    assert_eq!(created.status, 201, "{created:?}");
    let token = scene.token("tenant", &["read,write,zones other.example", "operate"]);
    let mut operations = operations();
    // A set is deleted after it was read, a zone last, and created before that.
    operations.sort_by_key(|(method, path)| (method == "DELETE", path.ends_with("{zone}")));
    for (method, path) in operations {
        if (&*method, &*path) == ("PUT", "/v1/zones/{zone}") {
            request(&scene, &token, &method, &path, OTHER).refused(409);
            continue;
        }
        // Only local users manage credentials.
        if path.starts_with("/v1/credentials") {
            let reply = request(&scene, &scene.root, &method, &path, OTHER);
            assert_eq!(reply.json()["type"], "urn:dunlin:problem:local-only", "{method} {path}");
            reply.refused(403);
            continue;
        }
        // The store of these tests is not shared.
        if path.starts_with("/v1/fleet") {
            request(&scene, &scene.root, &method, &path, OTHER).refused(409);
            continue;
        }
        // These tests have no other site.
        if path.starts_with("/v1/sites/") {
            request(&scene, &scene.root, &method, &path, OTHER).refused(404);
            continue;
        }
        // The token of one zone cannot read or change all zones.
        let is_of_all = ["/v1/snapshot", "/v1/store/upgrade"].contains(&&*path);
        let token = if is_of_all { &scene.root } else { &token };
        let reply = request(&scene, token, &method, &path, OTHER);
        assert_eq!(reply.status, 200, "{method} {path}: {reply:?}");
    }
}

#[test]
fn unauthenticated_client_can_do_nothing() {
    let scene = Scene::new();
    for (method, path) in operations() {
        let reply = request(&scene, "", &method, &path, "example.org");
        reply.refused(401);
        assert!(reply.field("www-authenticate").is_some_and(|field| field.starts_with("Bearer")));
    }
}

#[test]
fn revoked_token_is_refused() {
    let scene = Scene::new();
    let token = scene.token("ci", &["read *"]);
    assert_eq!(scene.ask("GET", "/v1/zones", &token, &[], b"").status, 200);
    scene.revoke("ci");
    scene.ask("GET", "/v1/zones", &token, &[], b"").refused(401);
    let root = &scene.root;
    scene.ask("GET", "/v1/zones", &root[..root.len() - 1], &[], b"").refused(401);
    let twice = format!("Authorization: Bearer {root}");
    scene.ask("GET", "/v1/zones", root, &[&twice], b"").refused(401);
}

#[test]
fn client_that_guesses_tokens_gets_429() {
    let scene = Scene::new();
    let statuses: Vec<u16> =
        (0..8).map(|_| scene.ask("GET", "/v1/zones", "dunlin_guessed", &[], b"").status).collect();
    assert_eq!(statuses[0], 401);
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(scene.get("/v1/zones").status, 200, "who is known is not held up");
}

#[test]
fn grants_are_limited_to_their_names_and_types() {
    let scene = Scene::new();
    let token = scene.token("acme", &["read,write example.org _acme-challenge.*.example.org TXT"]);
    let ask = |method: &str, path: &str, body: &str| {
        let media = ["Content-Type: application/json"];
        scene.ask(method, &format!("/v1/zones/example.org{path}"), &token, &media, body.as_bytes())
    };
    let mine = "/rrsets/_acme-challenge.www.example.org/TXT";
    ask("PUT", mine, r#"{"ttl":60,"data":["proof"]}"#).done();
    ask("PUT", "/rrsets/www.example.org/TXT", r#"{"ttl":60,"data":["x"]}"#).refused(403);
    let other_type = "/rrsets/_acme-challenge.www.example.org/A";
    ask("PUT", other_type, r#"{"ttl":60,"data":["192.0.2.1"]}"#).refused(403);
    let changes = json!({ "changes": [
        { "name": "_acme-challenge.a.example.org", "type": "TXT",
          "put": { "ttl": 60, "data": ["p"] } },
        { "name": "a.example.org", "type": "A", "put": { "ttl": 60, "data": ["192.0.2.1"] } },
    ] });
    let (field, _) = ask("PATCH", "/rrsets", &changes.to_string()).refused(403);
    assert_eq!(field, "changes[1].name");
    ask("GET", "/rrsets/_acme-challenge.a.example.org/TXT", "").refused(404);
    let seen = ask("GET", "/rrsets", "").done();
    assert_eq!(seen["rrsets"].as_array().map(Vec::len), Some(1), "only its own: {seen}");
    let journal = ask("GET", "/journal", "").done();
    let entries = journal["entries"].as_array().expect("entries");
    assert_eq!(entries.len(), 1, "not who made the zone: {journal}");
    assert_eq!(entries[0]["changes"].as_array().map(Vec::len), Some(1));
    ask("DELETE", "", "").refused(403);
}

/// The journal of a zone for a reader of one name.
#[test]
fn journal_has_only_what_its_reader_may_read() {
    let scene = Scene::new();
    let change = |name: &str| {
        json!({ "name": format!("{name}.example.org."), "type": "A",
                "put": { "ttl": 60, "data": ["192.0.2.1"] } })
    };
    let write = |names: &[&str], reason: &str| {
        let changes: Vec<_> = names.iter().map(|name| change(name)).collect();
        let path = format!("/v1/zones/example.org/rrsets?reason={reason}");
        scene.patch(&path, &json!({ "changes": changes }).to_string()).done();
    };
    write(&["secret"], "acquisition");
    write(&["shop", "secret2"], "merger");
    write(&["shop2"], "other");
    scene
        .patch(
            "/v1/zones/example.org/rrsets?reason=mine",
            &json!({ "changes": [
        { "name": "shop.example.org.", "type": "A", "put": null } ] })
            .to_string(),
        )
        .done();
    let token = scene.token("shop", &["read example.org shop.example.org"]);
    let journal = |token: &str| {
        let reply = scene.ask("GET", "/v1/zones/example.org/journal", token, &[], b"").done();
        reply["entries"].as_array().expect("entries").clone()
    };
    let entries = journal(&token);
    let text = json!(entries).to_string();
    for hidden in ["secret", "shop2", "acquisition", "merger", "other"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    assert_eq!(entries.len(), 2, "{text}");
    assert_eq!((&entries[0]["count"], &entries[0]["reason"]), (&json!(1), &Value::Null));
    assert_eq!((&entries[1]["count"], &entries[1]["reason"]), (&json!(1), &json!("mine")));
    let all = journal(&scene.token("all", &["read example.org"]));
    assert_eq!(all.len(), 5, "{all:?}");
    assert!(all.iter().any(|entry| entry["reason"] == "merger" && entry["count"] == 2));
}

/// Writes that hide a wildcard from names that the grant does not cover.
#[test]
fn grant_for_one_name_does_not_hide_a_wildcard_from_others() {
    let scene = Scene::new();
    let zone = "/v1/zones/example.org";
    let record = r#"{"ttl":60,"data":["192.0.2.1"]}"#;
    let text = r#"{"ttl":60,"data":["proof"]}"#;
    scene.put(&format!("{zone}/rrsets/*.example.org/A?wait=live"), record).done();
    let acme = "write example.org _acme-challenge.*.example.org TXT";
    let token = scene.token("acme", &[acme]);
    let ask = |token: &str, method: &str, path: &str, media: &str, body: &str| {
        let media = format!("Content-Type: {media}");
        scene.ask(method, &format!("{zone}/{path}"), token, &[&media], body.as_bytes())
    };
    let set = "rrsets/_acme-challenge.shop.example.org/TXT?wait=live";
    let refused = |reply: Reply, field: &str| {
        let told = reply.json();
        assert_eq!((reply.status, told["field"].as_str()), (403, Some(field)), "{told}");
        assert!(told["type"].as_str().is_some_and(|kind| kind.ends_with("hides-wildcard")));
        let detail = told["detail"].as_str().expect("a text");
        for part in ["shop.example.org.", "*.example.org. A", "`hide-wildcard`"] {
            assert!(detail.contains(part), "{detail}");
        }
    };
    let json = "application/json";
    refused(ask(&token, "PUT", set, json, text), "name");
    let changes = json!({ "changes": [{ "name": "_acme-challenge.shop.example.org", "type": "TXT",
                                        "add": { "ttl": 60, "data": ["proof"] } }] });
    refused(ask(&token, "PATCH", "rrsets", json, &changes.to_string()), "changes[0].name");
    let line = json!({ "name": "_acme-challenge.shop.example.org.", "type": "TXT", "ttl": 60,
                       "data": ["proof"] });
    let media = "application/x-ndjson";
    refused(ask(&token, "POST", "import", media, &line.to_string()), "name");
    let file = "_acme-challenge.shop 60 TXT proof\n";
    refused(ask(&token, "POST", "import", "text/dns", file), "name");
    let answered = |name: &str| scene.answered("example.org.", name, wire::Rtype::A);
    assert!(!answered("*.example.org.").is_empty());

    // Names of no host, and names that exist, hide nothing.
    let own = scene.token("own", &["write example.org _acme-challenge.example.org TXT"]);
    ask(&own, "PUT", "rrsets/_acme-challenge.example.org/TXT", json, text).done();
    scene.put(&format!("{zone}/rrsets/shop.example.org/A"), record).done();
    ask(&token, "PUT", set, json, text).done();

    // The grant covers what it hides, or may hide it.
    let app = "rrsets/_acme-challenge.app.example.org/TXT";
    let all = scene.token("all", &["write example.org *.example.org TXT,A"]);
    let of_type = scene.token("type", &["write example.org *.example.org TXT"]);
    assert_eq!(ask(&of_type, "PUT", app, json, text).status, 403, "the wildcard has an A record");
    ask(&all, "PUT", app, json, text).done();
    let hides = scene.token("hides", &[&acme.replace("write", "write,hide-wildcard")]);
    ask(&hides, "PUT", "rrsets/_acme-challenge.api.example.org/TXT", json, text).done();
}

const NEW_ZONE: &str = r#"{"nameservers":["ns1.example.net."]}"#;

/// Creates a zone; returns the detail of the problem if it is refused.
fn create(scene: &Scene, token: &str, zone: &str) -> Result<(), String> {
    let media = ["Content-Type: application/json"];
    let path = format!("/v1/zones/{zone}");
    let reply = scene.ask("PUT", &path, token, &media, NEW_ZONE.as_bytes());
    if reply.status == 200 {
        return Ok(());
    }
    reply.refused(403);
    Err(reply.json()["detail"].as_str().expect("a detail").to_owned())
}

#[test]
fn zone_below_one_without_a_write_grant_is_refused() {
    let scene = Scene::new();
    let token = scene.token("tenant", &["read,write,zones *.example.org", "zones *.file.example"]);
    for (zone, enclosing) in [
        ("x.example.org", "example.org."),
        ("a.b.example.org", "example.org."),
        ("x.file.example", "file.example."),
    ] {
        let told = create(&scene, &token, zone).expect_err(zone);
        assert!(told.contains(&format!("take {zone}. and the names below it")), "{told}");
        assert!(told.contains(&format!("`write {enclosing}`")), "{told}");
        scene.get(&format!("/v1/zones/{zone}")).refused(404);
    }

    // Only the closest zone counts.
    scene.put("/v1/zones/b.example.org", NEW_ZONE).done();
    create(&scene, &token, "a.b.example.org").expect("it may write b.example.org");
}

#[test]
fn zone_of_names_with_a_write_grant_is_created() {
    let scene = Scene::new();
    let zones = "zones *.example.org";
    for (who, grants, may) in [
        ("whole", vec![zones, "write example.org"], true),
        (
            "subtree",
            vec![
                zones,
                "write example.org subtree.example.org",
                "write example.org *.subtree.example.org",
            ],
            true,
        ),
        ("below", vec![zones, "write example.org *.below.example.org"], false),
        ("types", vec![zones, "write example.org * A,AAAA"], false),
        ("reader", vec![zones, "read *"], false),
    ] {
        let token = scene.token(who, &grants);
        let done = create(&scene, &token, &format!("{who}.example.org"));
        assert_eq!(done.is_ok(), may, "{who}: {done:?}");
    }
    let token = scene.token("elsewhere", &["zones other.example"]);
    create(&scene, &token, OTHER).expect("no zone had these names");
}

#[test]
fn delegation_that_hides_names_without_a_grant_is_refused() {
    let scene = Scene::new();
    let token = scene.token("team", &["write example.org team.example.org"]);
    let media = ["Content-Type: application/json"];
    let zone = "/v1/zones/example.org";
    let put = |token: &str, name: &str, rtype: &str| {
        let path = format!("{zone}/rrsets/{name}/{rtype}");
        let body = br#"{"ttl":60,"data":["x.example.net."]}"#;
        scene.ask("PUT", &path, token, &media, body)
    };
    for rtype in ["NS", "DNAME"] {
        let reply = put(&token, "team.example.org", rtype);
        reply.refused(403);
        let told = reply.json()["detail"].as_str().expect("a detail").to_owned();
        assert!(
            told.contains(&format!("`write example.org. *.team.example.org. {rtype}`")),
            "{told}"
        );
        let change = json!({ "changes": [{ "name": "team.example.org", "type": rtype,
            "put": { "ttl": 60, "data": ["x.example.net."] } }] });
        let path = format!("{zone}/rrsets");
        let reply = scene.ask("PATCH", &path, &token, &media, change.to_string().as_bytes());
        assert_eq!(reply.refused(403).0, "changes[0].name");
        let line = json!({ "name": "team.example.org", "type": rtype, "ttl": 60,
            "data": ["x.example.net."] });
        let media = ["Content-Type: application/x-ndjson"];
        let path = format!("{zone}/import");
        scene.ask("POST", &path, &token, &media, line.to_string().as_bytes()).refused(403);
    }
    put(&token, "team.example.org", "CNAME").done();
    let path = format!("{zone}/rrsets/team.example.org/CNAME");
    assert_eq!(scene.ask("DELETE", &path, &token, &[], b"").status, 200);

    let names = ["write example.org team.example.org", "write example.org *.team.example.org NS"];
    let token = scene.token("delegator", &names);
    put(&token, "team.example.org", "NS").done();
    put(&token, "team.example.org", "DNAME").refused(403);
    // Any principal that may write the set can delete the delegation.
    let token = scene.token("back", &["write example.org team.example.org NS"]);
    let path = format!("{zone}/rrsets/team.example.org/NS");
    assert_eq!(scene.ask("DELETE", &path, &token, &[], b"").status, 200);
    // The NS of the zone itself hides nothing.
    let token = scene.token("apex", &["write example.org example.org NS"]);
    put(&token, "example.org", "NS").done();
}

#[test]
fn request_without_a_valid_token_gets_advice() {
    let scene = Scene::new();
    let detail = |token: &str| {
        let reply = scene.ask("GET", "/v1/zones", token, &[], b"");
        reply.refused(401);
        reply.json()["detail"].as_str().expect("a text").to_owned()
    };
    for (token, story) in [("", "has no token"), ("dunlin_0", "no principal has this token")] {
        let detail = detail(token);
        for part in [story, "DUNLIN_TOKEN", "--token-file", "dunlin token create"] {
            assert!(detail.contains(part), "{detail}");
        }
    }
    let lifetime = Some(Duration::ZERO);
    let (principal, grants) = ("late".to_owned(), vec!["read *".to_owned()]);
    let new = NewCredential { principal, grants, subject: None, tsig: None, lifetime };
    let expired = scene.credentials.create(new).expect("created").expect("a token");
    let detail = detail(&expired);
    assert!(detail.contains("late has expired: `dunlin token rotate late`"), "{detail}");
}

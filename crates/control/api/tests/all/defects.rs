//! Defects of the interfaces of ContainerDNS and KDNS that Dunlin does not have. Each test is a row
//! of docs/containerdns.md.
use crate::scene::{Scene, name};
use serde_json::json;
use std::time::{Duration, Instant};
use wire::Rtype;

const SETS: &str = "/v1/zones/example.org/rrsets";
const A: &str = r#"{"ttl":60,"data":["192.0.2.1"]}"#;

/// S4: a field longer than its buffer overwrote the memory after it.
#[test]
fn too_long_field_is_refused_with_its_rule() {
    let scene = Scene::new();
    let longest = format!(
        "{}.{}.{}.{}.example.org",
        "a".repeat(63),
        "b".repeat(63),
        "c".repeat(63),
        "d".repeat(49)
    );
    assert_eq!(name(&longest).as_name().len(), 255);
    let path = format!("{SETS}/{longest}/A");
    scene.put(&path, A).done();
    scene.get(&path).done();
    for long in
        [format!("d{longest}"), format!("{}.example.org", "x".repeat(64)), "x".repeat(5_000)]
    {
        let (field, rule) = scene.put(&format!("{SETS}/{long}/A"), A).refused(422);
        assert_eq!((&*field, &*rule), ("name", "name"));
    }
    let long = "v".repeat(5_000);
    let view = json!({ "ttl": 60, "data": ["192.0.2.1"], "view": long });
    let (field, rule) =
        scene.put(&format!("{SETS}/a.example.org/A"), &view.to_string()).refused(422);
    assert_eq!((&*field, &*rule), ("view", "set-rules"));
    let text = json!({ "ttl": 60, "data": [format!("\"{}\"", "t".repeat(256))] });
    let (field, rule) =
        scene.put(&format!("{SETS}/a.example.org/TXT"), &text.to_string()).refused(422);
    assert_eq!((&*field, &*rule), ("data[0]", "string"));
    scene.get(&format!("{SETS}/a.example.org/TXT")).refused(404);
}

/// C14: each element of an array took a second.
#[test]
fn thousand_records_take_less_time_than_one_of_kdns() {
    let scene = Scene::new();
    let change = |number: usize| {
        let data = format!("10.0.{}.{}", number / 256, number % 256);
        let name = format!("n{number}.example.org");
        json!({ "name": name, "type": "A", "put": { "ttl": 5, "data": [data] } })
    };
    let changes = json!({ "changes": (0..1_000).map(change).collect::<Vec<_>>() });
    let begun = Instant::now();
    scene.patch(&format!("{SETS}?wait=live"), &changes.to_string()).done();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}, where KDNS takes 1000 s");
    assert_eq!(scene.answered("example.org", "n999.example.org", Rtype::A), [[10, 0, 3, 231]]);
}

/// A PUT of one field read, deleted and wrote the whole record: concurrent updates were lost.
#[test]
fn no_update_is_lost_among_writers() {
    let scene = Scene::new();
    let path = format!("{SETS}/counter.example.org/TXT");
    scene.put(&path, r#"{"ttl":0,"data":["0"]}"#).done();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut done = 0;
                while done < 10 {
                    let reply = scene.get(&path);
                    let seen = format!("If-Match: {}", reply.field("etag").expect("a tag"));
                    let data = reply.done()["data"][0].clone();
                    let count: u32 = data.as_str().unwrap().trim_matches('"').parse().unwrap();
                    let next = json!({ "ttl": 0, "data": [(count + 1).to_string()] });
                    match scene.with("PUT", &path, &[&seen], &next.to_string()).status {
                        200 => done += 1,
                        412 => {}
                        other => panic!("{other}"),
                    }
                }
            });
        }
    });
    assert_eq!(scene.get(&path).done()["data"], json!(["\"40\""]));
}

/// C15, C16: the response was OK before the data was checked; a CNAME existed beside other data.
#[test]
fn invalid_data_is_refused_before_a_success_is_reported() {
    let scene = Scene::new();
    scene.put(&format!("{SETS}/www.example.org/A"), A).done();
    let before = scene.get(SETS).done();
    let alias = r#"{"ttl":60,"data":["other.example.org."]}"#;
    let two = r#"{"ttl":60,"data":["a.example.org.","b.example.org."]}"#;
    for (path, body, field, rule) in [
        ("www.example.org/CNAME", alias, "name", "cname-alone"),
        ("x.example.org/CNAME", two, "name", "single"),
        ("x.example.org/A", r#"{"ttl":2147483648,"data":["192.0.2.1"]}"#, "ttl", "ttl"),
        ("x.example.org/A", r#"{"ttl":60,"data":["192.0.2.300"]}"#, "data[0]", "data"),
        ("x.example.org/A", r#"{"ttl":60,"data":[]}"#, "data", "limit"),
        ("x.example.net/A", A, "name", "out-of-zone"),
        ("evilexample.org/A", A, "name", "out-of-zone"),
        ("a.*.example.org/A", A, "name", "wildcard"),
        ("x.example.org/ANY", A, "type", "meta-type"),
        ("x.example.org/BOGUS", A, "type", "type"),
        ("x..example.org/A", A, "name", "name"),
    ] {
        let told = scene.put(&format!("{SETS}/{path}"), body).refused(422);
        assert_eq!((&*told.0, &*told.1), (field, rule), "{path} {body}");
    }
    let after = scene.get(SETS).done();
    assert_eq!(after, before, "nothing changed");
}

/// Use after free on JSON of an unexpected form: `json_decref` of a borrowed reference.
#[test]
fn invalid_json_is_refused_without_harm() {
    let scene = Scene::new();
    let path = format!("{SETS}/www.example.org/A");
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in [
        "",
        "{",
        "null",
        "[]",
        "[[]]",
        "1",
        "\"",
        "{\"data\":[\"192.0.2.1\"]}",
        "{\"ttl\":-1,\"data\":[]}",
        "{\"ttl\":\"60\",\"data\":[\"192.0.2.1\"]}",
        "{\"ttl\":60,\"ttl\":61,\"data\":[\"192.0.2.1\"]}",
        "{\"ttl\":60,\"data\":\"192.0.2.1\"}",
        "{\"ttl\":60,\"data\":[null]}",
        "{\"ttl\":60,\"data\":[\"192.0.2.1\"],\"tll\":60}",
        "{\"ttl\":60,\"data\":[\"\\ud800\"]}",
        "{\"ttl\":60,\"data\":[\"192.0.2.1\"]} more",
        &deep,
    ] {
        let (field, _) = scene.put(&path, body).refused(400);
        assert!(!field.is_empty(), "{body:.60}");
    }
    let (field, _) = scene.put(&path, "{\"ttl\":60}").refused(422);
    assert_eq!(field, "data", "neither data nor members");
    let bytes = [&b"{\"ttl\":60,\"data\":[\""[..], &[0xff, 0xfe], b"\"]}"].concat();
    let json = ["Content-Type: application/json"];
    scene.ask("PUT", &path, &scene.root, &json, &bytes).refused(400);
    scene.ask("PUT", &path, &scene.root, &["Content-Type: text/plain"], A.as_bytes()).refused(415);
    for path in ["/v1/zones/%ff/rrsets", "/v1/zones/example.org/rrsets/%00%/A"] {
        let status = scene.get(path).status;
        assert!([400, 404, 422].contains(&status), "{path}: {status}");
    }
    scene.get(&path).refused(404);
    scene.put(&path, A).done();
}

/// G10: the URL named the owner of a record. Here a secret in a field authenticates the principal.
#[test]
fn principal_is_authenticated_and_not_claimed() {
    let scene = Scene::new();
    let token = scene.token("tenant", &["read other.example"]);
    let zone = "/v1/zones/example.org";
    for path in [format!("{zone}?token={}", scene.root), format!("{zone}?user=k8sSvc")] {
        scene.ask("GET", &path, &token, &[], b"").refused(403);
    }
    scene.ask("GET", &format!("{zone}?token={}", scene.root), "", &[], b"").refused(401);
}

/// G7: zones were matched by the end of a text, so evilexample.org belonged to example.org.
#[test]
fn zones_end_at_labels() {
    let scene = Scene::new();
    let token = scene.token("tenant", &["read,write,zones example.org"]);
    let json = ["Content-Type: application/json"];
    for zone in ["evilexample.org", "sub.example.org", "org", "."] {
        let path = format!("/v1/zones/{zone}");
        scene.ask("PUT", &path, &token, &json, br#"{"nameservers":["ns"]}"#).refused(403);
    }
}

/// Errors had the status 200, and unknown paths matched by prefix.
#[test]
fn error_has_an_error_status_and_paths_match_as_a_whole() {
    let scene = Scene::new();
    scene.get("/v1/zonesX").refused(404);
    scene.get("/v1/zones/example.org/rrsetsX").refused(404);
    scene.get("/v1/zones/missing.example").refused(404);
}

/// On a full disk writes are refused with a reason, and existing records are answered and read.
#[test]
fn full_disk_is_reported_and_answers_continue() {
    let scene = Scene::new();
    let path = format!("{SETS}/www.example.org/A");
    scene.put(&format!("{path}?wait=live"), A).done();
    scene.store.set_full(true);
    let reply = scene.put(&path, r#"{"ttl":60,"data":["192.0.2.9"]}"#);
    reply.refused(507);
    assert_eq!(scene.answered("example.org", "www.example.org", Rtype::A), [[192, 0, 2, 1]]);
    assert_eq!(scene.get(&path).done()["data"], json!(["192.0.2.1"]));
    scene.store.set_full(false);
    scene.put(&path, r#"{"ttl":60,"data":["192.0.2.9"]}"#).done();
}

/// A typing error in the last character of a key would decode to the same key (RFC 4648 §3.5).
#[test]
fn base64_that_is_not_canonical_is_refused() {
    let scene = Scene::new();
    let path = "/v1/zones/example.org/rrsets/k.example.org/DNSKEY";
    let put = |key: &str| {
        let body = json!({ "ttl": 60, "data": [format!("256 3 8 {key}")] }).to_string();
        scene.put(path, &body)
    };
    let (field, rule) = put("AwEAAc==").refused(422);
    assert_eq!((&*field, &*rule), ("data[0]", "base64"));
    scene.get(path).refused(404);
    put("AwEAAQ==").done();
    let line = "k 60 DNSKEY 256 3 8 AwEAAc==\n";
    let media = ["Content-Type: text/dns"];
    let import = "/v1/zones/example.org/import";
    let reply = scene.ask("POST", import, &scene.root, &media, line.as_bytes());
    assert_eq!(reply.refused(422).1, "base64");
}

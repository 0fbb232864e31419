//! Record sets that DNS does not serve: never live, and their cause is named.
use crate::scene::Scene;
use serde_json::{Value, json};

const SETS: &str = "/v1/zones/example.org/rrsets";

fn put(scene: &Scene, path: &str, data: &str) -> Value {
    let body = json!({ "ttl": 60, "data": [data] }).to_string();
    scene.put(&format!("{SETS}/{path}?wait=live"), &body).done()
}

#[test]
fn hidden_set_is_not_live_and_what_hides_it_is_named() {
    let scene = Scene::new();
    let zone = r#"{"nameservers":["ns.example.net"]}"#;
    scene.put("/v1/zones/deep.example.org?wait=live", zone).done();
    assert_eq!(put(&scene, "sub.example.org/NS", "ns.sub.example.org")["live"], true);
    assert_eq!(put(&scene, "ns.sub.example.org/A", "192.0.2.1")["live"], true, "glue is served");
    for (path, kind, name) in [
        ("www.sub.example.org/A", "delegation", "sub.example.org."),
        ("sub.example.org/TXT", "delegation", "sub.example.org."),
        ("www.deep.example.org/A", "zone", "deep.example.org."),
    ] {
        let data = if path.ends_with("TXT") { "text" } else { "192.0.2.1" };
        let told = put(&scene, path, data);
        let shadow = json!({ "kind": kind, "name": name });
        assert_eq!((&told["live"], &told["shadowed_by"]), (&json!(false), &shadow), "{path}");
        let read = scene.get(&format!("{SETS}/{path}")).done();
        assert_eq!(read["shadowed_by"], shadow, "{path}");
    }
    let listed = scene.get(&format!("{SETS}?limit=100")).done();
    let sets = listed["rrsets"].as_array().expect("sets");
    let hidden = sets.iter().filter(|set| set.get("shadowed_by").is_some()).count();
    assert_eq!(hidden, 3, "{listed}");
    // The request did not wait, so the set is not called live.
    let body = r#"{"ttl":60,"data":["192.0.2.2"]}"#;
    let told = scene.put(&format!("{SETS}/www.sub.example.org/A"), body).done();
    assert_eq!((&told["live"], told.get("shadowed_by")), (&json!(false), None));
    let gone = scene.delete(&format!("{SETS}/www.sub.example.org/A?wait=live")).done();
    assert_eq!(gone["live"], true, "it is no longer answered, as expected");
}

#[test]
fn each_hidden_set_of_many_is_named() {
    let scene = Scene::new();
    put(&scene, "sub.example.org/NS", "ns.example.net");
    let value = json!({ "ttl": 60, "data": ["192.0.2.1"] });
    let change = |name: &str| json!({ "name": name, "type": "A", "put": value });
    let changes = json!({ "changes": [change("a.sub.example.org"), change("b.example.org")] });
    let told = scene.patch(&format!("{SETS}?wait=live"), &changes.to_string()).done();
    let shadow = json!({ "kind": "delegation", "name": "sub.example.org." });
    let hidden = json!([{ "name": "a.sub.example.org.", "type": "A", "shadowed_by": shadow }]);
    assert_eq!((&told["live"], &told["shadowed"]), (&json!(false), &hidden));
    let changes = json!({ "changes": [change("c.example.org"), change("b.example.org")] });
    let told = scene.patch(&format!("{SETS}?wait=live"), &changes.to_string()).done();
    assert_eq!((&told["live"], told.get("shadowed")), (&json!(true), None));
    let many: Vec<_> = (0..150).map(|n| change(&format!("n{n}.sub.example.org"))).collect();
    let changes = json!({ "changes": many }).to_string();
    let told = scene.patch(&format!("{SETS}?wait=live"), &changes).done();
    assert_eq!(told["shadowed"].as_array().map(Vec::len), Some(100), "that is enough to know");
    let media = ["Content-Type: text/dns"];
    let import = "/v1/zones/example.org/import?wait=live";
    let told = scene.ask("POST", import, &scene.root, &media, b"d 60 A 192.0.2.1\n").done();
    assert_eq!((&told["live"], &told["shadowed"]), (&json!(false), &json!(151)));
}

#[test]
fn zone_created_with_a_serial_serves_a_greater_one_over_rest() {
    let scene = Scene::new();
    let soa = json!({ "name": "example.com", "type": "SOA", "ttl": 60,
                      "data": ["ns.example.net admin.example.com 2026112301 2 3 4 5"] });
    let zone = json!({ "nameservers": ["ns.example.net"], "rrsets": [soa] }).to_string();
    scene.put("/v1/zones/example.com?wait=live", &zone).done();
    let told = scene.get("/v1/zones/example.com").done();
    assert_eq!(told["serial"], 2_026_112_302_u32);
    assert_eq!(told["next_serial"], 2_026_112_303_u32);
    put(&scene, "www.example.org/A", "192.0.2.1");
    let told = scene.get("/v1/zones/example.com").done();
    assert_eq!(told["serial"], 2_026_112_302_u32);
    assert_eq!(told["next_serial"], 2_026_112_304_u32, "revisions are those of all zones");
    let file = scene.get(&format!("/v1/zones/{}", crate::scene::OF_FILE)).done();
    assert_eq!(file["next_serial"], Value::Null);
}

/// Each warning of a response, as `rule: name type`.
fn warnings(told: &Value) -> Vec<String> {
    let warnings = told["warnings"].as_array().into_iter().flatten();
    let text = |warning: &Value, key: &str| warning[key].as_str().expect("a text").to_owned();
    let line = |warning: &Value| {
        let (rule, name) = (text(warning, "rule"), text(warning, "name"));
        format!("{rule}: {name} {}", text(warning, "type"))
    };
    warnings.map(line).collect()
}

#[test]
fn write_is_answered_with_the_warnings_of_check() {
    let scene = Scene::new();
    let check = |path: &str, data: &str, expected: &[&str]| {
        assert_eq!(warnings(&put(&scene, path, data)), expected, "{path} {data}");
    };
    check("www.example.org/A", "192.0.2.1", &[]);
    let doubled = "www.example.org.example.org";
    check(&format!("{doubled}/A"), "192.0.2.1", &[&format!("doubled-name: {doubled}. A")]);
    check("a.example.org/CNAME", "192.0.2.1", &["address-as-name: a.example.org. CNAME"]);
    check("a.example.org/CNAME", "192.0.2.1", &["address-as-name: a.example.org. CNAME"]);
    check("s.example.org/SRV", "0 0 5060 sip", &["target-top-level: s.example.org. SRV"]);
    check("sub.example.org/NS", "ns.sub.example.org", &["glue: sub.example.org. NS"]);
    check("ns.sub.example.org/A", "192.0.2.1", &[]);
    check("lame.example.org/NS", "none.example.org", &["lame: lame.example.org. NS"]);
    let gone = scene.delete(&format!("{SETS}/ns.sub.example.org/A")).done();
    assert_eq!(warnings(&gone), ["glue: sub.example.org. NS"]);

    let change = |name: &str, rtype: &str, data: &str| {
        let put = json!({ "ttl": 60, "data": [data] });
        json!({ "name": name, "type": rtype, "put": put })
    };
    let changes = json!({ "changes": [
        change("m.example.org", "MX", "10 mail.example.org"),
        change("mail.example.org", "A", "192.0.2.9"),
        change("n.example.org", "MX", "10 post.example.org"),
    ] });
    let told = scene.patch(SETS, &changes.to_string()).done();
    assert_eq!(warnings(&told), ["target-missing: n.example.org. MX"], "as they are afterwards");
    let zone = r#"{"nameservers":["ns.new.example"]}"#;
    let told = scene.put("/v1/zones/new.example", zone).done();
    assert_eq!(warnings(&told), ["lame: new.example. NS"]);
}

#[test]
fn import_is_answered_with_what_is_left_at_its_end() {
    let scene = Scene::new();
    let line = |name: &str, rtype: &str, data: &str| {
        json!({ "name": name, "type": rtype, "ttl": 60, "data": [data] }).to_string() + "\n"
    };
    // More than a batch lies between an alias and its target.
    let mut body = line("first.example.org", "CNAME", "last.example.org");
    for n in 0..1_500 {
        body += &line(&format!("n{n}.example.org"), "A", "192.0.2.1");
    }
    body += &line("last.example.org", "A", "192.0.2.1");
    body += &line("wrong.example.org", "CNAME", "gone.example.org");
    let path = "/v1/zones/example.org/import";
    let media = ["Content-Type: application/x-ndjson"];
    let told = scene.with("POST", path, &media, &body).done();
    assert_eq!(warnings(&told), ["target-missing: wrong.example.org. CNAME"]);
}

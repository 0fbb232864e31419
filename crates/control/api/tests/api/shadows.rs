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
    assert_eq!(put(&scene, "alias.example.org/DNAME", "example.net")["live"], true);
    for (path, kind, name) in [
        ("www.sub.example.org/A", "delegation", "sub.example.org."),
        ("sub.example.org/TXT", "delegation", "sub.example.org."),
        ("www.alias.example.org/A", "dname", "alias.example.org."),
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
    assert_eq!(hidden, 4, "{listed}");
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

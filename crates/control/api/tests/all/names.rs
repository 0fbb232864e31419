//! Names and texts in requests, and how they are stored.
use crate::scene::Scene;
use serde_json::{Value, json};

const SETS: &str = "/v1/zones/example.org/rrsets";

/// Writes the data of one record, and reads it back.
fn comes_back(scene: &Scene, path: &str, data: &str) -> String {
    let path = format!("{SETS}/{path}");
    scene.put(&path, &json!({ "ttl": 60, "data": [data] }).to_string()).done();
    let told = scene.get(&path).done();
    let text = told["data"][0].as_str().expect("a text").to_owned();
    scene.put(&path, &json!({ "ttl": 60, "data": [&text] }).to_string()).done();
    assert_eq!(scene.get(&path).done()["data"], told["data"], "what was read can be written");
    text
}

#[test]
fn name_in_data_is_absolute_with_and_without_the_final_dot() {
    let scene = Scene::new();
    for (path, data, told) in [
        ("a.example.org/CNAME", "www.example.org", "www.example.org."),
        ("b.example.org/CNAME", "www.example.org.", "www.example.org."),
        ("c.example.org/MX", "10 mail.example.org", "10 mail.example.org."),
        ("c.example.org/NS", "ns.example.net", "ns.example.net."),
        ("_sip._udp.example.org/SRV", "0 5 5060 sip.example.org", "0 5 5060 sip.example.org."),
        ("d.example.org/PTR", "bücher.example.org", "xn--bcher-kva.example.org."),
        ("e.example.org/HTTPS", "1 svc.example.org", "1 svc.example.org."),
    ] {
        assert_eq!(comes_back(&scene, path, data), told, "{path}");
    }
    let soa = json!({ "ttl": 60, "data": ["ns.example.org admin.example.org 1 2 3 4 5"] });
    scene.put(&format!("{SETS}/example.org/SOA"), &soa.to_string()).done();
    let told = scene.get(&format!("{SETS}/example.org/SOA")).done()["data"].to_string();
    assert!(told.starts_with("[\"ns.example.org. admin.example.org. "), "{told}");
    let zone = json!({ "nameservers": ["ns1.example.net"] }).to_string();
    scene.put("/v1/zones/example.com", &zone).done();
    let servers = scene.get("/v1/zones/example.com/rrsets/example.com/NS").done();
    assert_eq!(servers["data"], json!(["ns1.example.net."]));
    for data in ["@", "www example.org", "a b.example.org."] {
        let body = json!({ "ttl": 60, "data": [data] }).to_string();
        let (field, _) = scene.put(&format!("{SETS}/f.example.org/CNAME"), &body).refused(422);
        assert_eq!(field, "data[0]", "{data}");
    }
    let lines = br#"{"name":"g.example.org","type":"CNAME","ttl":60,"data":["www.example.net"]}"#;
    let media = ["Content-Type: application/x-ndjson"];
    scene.ask("POST", "/v1/zones/example.org/import", &scene.root, &media, lines).done();
    let told = scene.get(&format!("{SETS}/g.example.org/CNAME")).done();
    assert_eq!(told["data"], json!(["www.example.net."]), "lines are not a zone file");
    let media = ["Content-Type: text/dns"];
    let file = b"h 60 CNAME www\n";
    scene.ask("POST", "/v1/zones/example.org/import", &scene.root, &media, file).done();
    let told = scene.get(&format!("{SETS}/h.example.org/CNAME")).done();
    assert_eq!(told["data"], json!(["www.example.org."]), "a zone file has relative names");
}

#[test]
fn text_without_quotes_is_one_text() {
    let scene = Scene::new();
    let long = "x".repeat(300);
    let split = format!("\"{}\" \"{}\"", "x".repeat(255), "x".repeat(45));
    for (data, told) in [
        ("v=spf1 -all", "\"v=spf1 -all\""),
        ("v=DKIM1; k=rsa; p=MII", "\"v=DKIM1; k=rsa; p=MII\""),
        ("\"a\" \"b c\"", "\"a\" \"b c\""),
        ("\"say \\\"hi\\\"\"", "\"say \\\"hi\\\"\""),
        ("say \\\"hi\\\"", "\"say \\\"hi\\\"\""),
        (&*long, &*split),
    ] {
        assert_eq!(comes_back(&scene, "t.example.org/TXT", data), told, "{data}");
    }
    for data in ["\"a\" b", "a \"b\"", "", "\"open"] {
        let body = json!({ "ttl": 60, "data": [data] }).to_string();
        scene.put(&format!("{SETS}/t.example.org/TXT"), &body).refused(422);
    }
    let body = json!({ "ttl": 60, "data": ["0 issue ca.example; policy=ev"] }).to_string();
    let reply = scene.put(&format!("{SETS}/example.org/CAA"), &body);
    reply.refused(422);
    let told = reply.json()["detail"].to_string();
    assert!(told.contains("quotes"), "what follows a `;` is not dropped: {told}");
}

#[test]
fn relative_owner_is_refused_with_a_suggestion() {
    let scene = Scene::new();
    let told = |reply: crate::scene::Reply, field: &str| {
        assert_eq!(reply.refused(422), (field.to_owned(), "out-of-zone".to_owned()));
        let detail = reply.json()["detail"].to_string();
        assert!(detail.contains("www.example.org. is probably meant"), "{detail}");
    };
    let body = r#"{"ttl":60,"data":["192.0.2.1"]}"#;
    told(scene.put(&format!("{SETS}/www/A"), body), "name");
    told(scene.get(&format!("{SETS}/www/A")), "name");
    told(scene.delete(&format!("{SETS}/www/A")), "name");
    let changes = r#"{"changes":[{"name":"www","type":"A","put":null}]}"#;
    told(scene.patch(SETS, changes), "changes[0].name");
    let zone = r#"{"nameservers":["ns."],"rrsets":[
        {"name":"www","type":"A","ttl":60,"data":["192.0.2.1"]}]}"#;
    let reply = scene.put("/v1/zones/new.example.org", zone);
    assert_eq!(reply.refused(422).0, "rrsets[0].name");
    let line = br#"{"name":"www","type":"A","ttl":60,"data":["192.0.2.1"]}"#;
    let media = ["Content-Type: application/x-ndjson"];
    let path = "/v1/zones/example.org/import";
    told(scene.ask("POST", path, &scene.root, &media, line), "name");
}

#[test]
fn u_labels_are_a_labels_wherever_a_name_enters() {
    let scene = Scene::new();
    let zone = json!({ "nameservers": ["ns.bücher.example"] }).to_string();
    scene.put("/v1/zones/b%C3%BCcher.example", &zone).done();
    let zone = scene.get("/v1/zones/xn--bcher-kva.example").done();
    assert_eq!(zone["name"], "xn--bcher-kva.example.");
    let servers = scene.get("/v1/zones/B%C3%9CCHER.example/rrsets/b%C3%BCcher.example/NS").done();
    assert_eq!(servers["data"], json!(["ns.xn--bcher-kva.example."]));
    let change = json!({ "changes": [{ "name": "straße.bücher.example", "type": "A",
                         "put": { "ttl": 60, "data": ["192.0.2.1"] } }] });
    scene.patch("/v1/zones/xn--bcher-kva.example/rrsets", &change.to_string()).done();
    let path = "/v1/zones/xn--bcher-kva.example/rrsets/xn--strae-oqa.xn--bcher-kva.example/A";
    assert_eq!(scene.get(path).done()["data"], json!(["192.0.2.1"]));
    let token = scene.token("reader", &["read bücher.example"]);
    let seen = scene.ask("GET", path, &token, &[], b"").done();
    assert_ne!(seen["name"], Value::Null);
    let (field, _) = scene.get("/v1/zones/www%20example.org").refused(422);
    assert_eq!(field, "zone");
    scene.get("/v1/zones/%C2%AD.example").refused(422);
}

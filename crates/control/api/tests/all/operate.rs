//! Operation of the server.
use crate::grants::operations;
use crate::scene::{OF_FILE, Scene};
use serde_json::json;

/// While the store is opened, no zone is reported as missing; the response is 503.
#[test]
fn request_during_the_start_gets_503() {
    let scene = Scene::late();
    for (method, path) in operations() {
        if !path.starts_with("/v1/zones") && path != "/v1/snapshot" {
            continue;
        }
        let reply = crate::grants::request(&scene, &scene.root, &method, &path, "example.org");
        let kind = reply.json()["type"].clone();
        reply.refused(503);
        assert_eq!(kind, "urn:dunlin:problem:starting", "{method} {path}");
        assert_eq!(reply.field("retry-after"), Some("1"));
    }
    assert_eq!(scene.get("/v1/lifecycle").status, 200);
    scene.open();
    scene.put("/v1/zones/example.org", r#"{"nameservers":["ns1"]}"#).done();
}

#[test]
fn addresses_are_withdrawn_with_a_reason() {
    let scene = Scene::new();
    assert_eq!(scene.get("/v1/anycast").done()["addresses"], json!(["192.0.2.53"]));
    let put = |body: &str| scene.put("/v1/anycast", body);
    assert_eq!(put(r#"{"withdrawn":true,"reason":"rack 7"}"#).done()["is_announced"], true);
    put(r#"{"withdrawn":false}"#).done();
    put(r#"{"withdrawn":true}"#).refused(422);
    put(r#"{"withdrawn":true,"reason":""}"#).refused(422);
    put(r#"{"withdrawn":true,"reason":"two\nlines"}"#).refused(422);
    put(r#"{"withdrawn":false,"reason":"rack 7"}"#).refused(422);
    put(r#"{"withdrawn":true,"reason":"full disk"}"#).refused(503);
}

#[test]
fn answer_is_explained_to_operators() {
    let scene = Scene::new();
    let told = scene.get("/v1/explain?name=www.a.example&client=192.0.2.9&location=eu/fra1").done();
    assert_eq!((&told["type"], &told["client"]), (&json!("A"), &json!("192.0.2.9")));
    assert_eq!(told["location"], "eu/fra1");
    let told = scene.get("/v1/explain?name=a.example&client=::1&ecs=10.1.0.0/16").done();
    assert_eq!(told["subnet"]["subnet"], "10.1.0.0/16");
    for wrong in [
        "client=192.0.2",
        "client=192.0.2.9&type=no",
        "client=::1&location=eu//a",
        "client=::1&ecs=10.1.0.1/8",
    ] {
        scene.get(&format!("/v1/explain?name=a.b&{wrong}")).refused(422);
    }
    scene.get("/v1/explain?name=a.b").refused(400);
}

#[test]
fn api_offers_the_operations_of_the_admin_socket() {
    let scene = Scene::new();
    assert_eq!(scene.get("/v1/status").done()["state"], "serving");
    let told = scene.get("/v1/lifecycle").done();
    assert_eq!(told, json!({ "state": "running", "ready": true, "unloaded": [OF_FILE] }));
    assert_eq!(scene.get("/v1/upstreams").done()["upstreams"][0]["server"], "192.0.2.53:53");
    let drain = |server: &str| scene.put(&format!("/v1/upstreams/{server}"), r#"{"drained":true}"#);
    assert_eq!(drain("192.0.2.53").done()["suffixes"], json!(["."]));
    drain("192.0.2.54").refused(404);
    assert_eq!(scene.delete("/v1/cache?name=a.example&subtree=true").done()["answers"], 3);
    assert_eq!(scene.delete("/v1/cache").done()["answers"], 3);
    scene.delete("/v1/cache?subtree=true").refused(422);
    scene.get("/v1/cache").refused(400);
    scene.get("/v1/cache?name=a..b").refused(422);
    assert_eq!(scene.get("/v1/cache?name=a.b&type=AAAA").done()["threads"], json!([]));
}

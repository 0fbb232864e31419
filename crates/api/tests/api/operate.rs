//! The server itself.
use crate::scene::{OF_FILE, Scene};
use serde_json::json;

#[test]
fn operators_see_and_tell_what_the_admin_socket_does() {
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

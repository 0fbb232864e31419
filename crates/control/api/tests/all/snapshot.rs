//! All zones as one stream.
use crate::scene::{Reply, Scene};
use wire::Rtype;

const SNAPSHOT: &str = "/v1/snapshot";
const WWW: &str = "/v1/zones/example.org/rrsets/www.example.org/A";

fn restore(scene: &Scene, snapshot: &[u8]) -> Reply {
    let media = ["Content-Type: application/octet-stream"];
    scene.ask("PUT", &format!("{SNAPSHOT}?wait=live"), &scene.root, &media, snapshot)
}

#[test]
fn restored_snapshot_has_all_records_and_greater_serials() {
    let scene = Scene::new();
    scene.put(WWW, r#"{"ttl":60,"data":["192.0.2.1"]}"#).done();
    let reply = scene.get(SNAPSHOT);
    assert_eq!(
        (reply.status, reply.field("content-type")),
        (200, Some("application/octet-stream"))
    );
    scene.put(WWW, r#"{"ttl":60,"data":["192.0.2.2"]}"#).done();
    scene.put("/v1/zones/later.example", r#"{"nameservers":["ns"]}"#).done();
    let before = scene.get("/v1/zones/example.org").done()["revision"].as_u64();
    let restored = restore(&scene, &reply.body).done();
    assert!(restored["live"] == true && restored["revision"].as_u64() > before, "{restored}");
    assert_eq!(scene.answered("example.org", "www.example.org", Rtype::A), [[192, 0, 2, 1]]);
    scene.get("/v1/zones/later.example").refused(404);
    let zone = scene.get("/v1/zones/example.org").done();
    assert_eq!(
        (&zone["serial"], &zone["revision"]),
        (&restored["revision"], &restored["revision"])
    );
    let journal = scene.get("/v1/zones/example.org/journal").done();
    assert_eq!(journal["entries"][0]["kind"], "restored", "{journal}");
}

#[test]
fn invalid_snapshot_changes_nothing() {
    let scene = Scene::new();
    let path = "/v1/zones/example.org/rrsets/www.example.org/A?wait=live";
    scene.put(path, r#"{"ttl":60,"data":["192.0.2.1"]}"#).done();
    let good = scene.get(SNAPSHOT).body;
    let before = scene.get("/v1/zones").done();
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    for wrong in [&b""[..], b"www A 192.0.2.1\n", &good[..good.len() - 1], &damaged] {
        let (field, _) = restore(&scene, wrong).refused(422);
        assert_eq!(field, "body");
    }
    scene.put(SNAPSHOT, "{}").refused(415);
    assert_eq!(scene.get("/v1/zones").done(), before);
}

/// A snapshot contains all zones: a grant for one zone is not enough.
#[test]
fn snapshot_needs_grants_for_everything() {
    let scene = Scene::new();
    let snapshot = scene.get(SNAPSHOT).body;
    let media = ["Content-Type: application/octet-stream"];
    for (principal, grant) in [
        ("a", "read,write,zones example.org"),
        ("b", "read,write,zones *.example"),
        ("c", "read,write,zones * *.example.org"),
        ("d", "read,write,zones * * A"),
        ("e", "operate"),
    ] {
        let token = scene.token(principal, &[grant]);
        scene.ask("GET", SNAPSHOT, &token, &[], b"").refused(403);
        scene.ask("PUT", SNAPSHOT, &token, &media, &snapshot).refused(403);
    }
    let reader = scene.token("reader", &["read *"]);
    assert_eq!(scene.ask("GET", SNAPSHOT, &reader, &[], b"").status, 200);
    for (principal, grant) in [("w", "read,write *"), ("z", "read,zones *")] {
        let token = scene.token(principal, &[grant]);
        scene.ask("PUT", SNAPSHOT, &token, &media, &snapshot).refused(403);
    }
}

/// One at a time; after the end of one snapshot the next may start at once.
#[test]
fn next_snapshot_may_start_when_one_has_ended() {
    let scene = Scene::new();
    for n in 0..200 {
        assert_eq!(scene.get("/v1/snapshot").status, 200, "{n}");
    }
}

//! Policies, checks and members of record sets.
use crate::scene::Scene;
use serde_json::json;

const WWW: &str = "/v1/zones/example.org/rrsets/www.example.org/A";

#[test]
fn set_with_rules_is_written_and_read_alike() {
    let scene = Scene::new();
    let body = json!({
        "ttl": 60, "check": "web", "policy": "failover", "max": 2, "min_up": "50%",
        "members": [{ "data": "192.0.2.2" }, { "data": "192.0.2.1", "tier": 1 }],
    });
    scene.put(WWW, &body.to_string()).done();
    let told = scene.get(WWW).done();
    assert_eq!(told["members"][0], json!({ "data": "192.0.2.1", "tier": 1 }), "sorted");
    assert_eq!(told["members"][1], json!({ "data": "192.0.2.2", "tier": 0 }));
    for key in ["check", "policy", "max", "min_up"] {
        assert_eq!(told[key], body[key], "{key}");
    }
    // The same content again changes nothing, and a changed rule is a change.
    let before = told["revision"].clone();
    scene.put(WWW, &body.to_string()).done();
    assert_eq!(scene.get(WWW).done()["revision"], before);
    let mut other = body;
    other["max"] = 1.into();
    scene.put(WWW, &other.to_string()).done();
    assert_ne!(scene.get(WWW).done()["revision"], before);
    let journal = scene.get("/v1/zones/example.org/journal").done();
    assert!(journal.to_string().contains("failover"), "{journal}");
}

#[test]
fn weights_and_locations_are_stored_and_shown_with_their_members() {
    let scene = Scene::new();
    let body = json!({
        "ttl": 60, "policy": "nearest", "then": "weighted", "max": 1,
        "members": [
            { "data": "192.0.2.2", "weight": 0, "location": "eu/fra1/a" },
            { "data": "192.0.2.1", "weight": 9 },
        ],
    });
    scene.put(WWW, &body.to_string()).done();
    let told = scene.get(WWW).done();
    assert_eq!((&told["policy"], &told["then"]), (&json!("nearest"), &json!("weighted")));
    let members = json!([
        { "data": "192.0.2.1", "tier": 0, "weight": 9 },
        { "data": "192.0.2.2", "tier": 0, "weight": 0, "location": "eu/fra1/a" },
    ]);
    assert_eq!(told["members"], members, "sorted");
    let members = json!([{ "data": "192.0.2.3", "location": "us" }]);
    patch(&scene, json!({ "add": { "ttl": 60, "members": members } })).done();
    let told = scene.get(WWW).done();
    let added = json!({ "data": "192.0.2.3", "tier": 0, "weight": 1, "location": "us" });
    assert_eq!((&told["members"][2], &told["policy"]), (&added, &json!("nearest")));
}

/// What is stored is a start, an end and two weights; what is shown has the weight of now, too.
#[test]
fn weight_that_changes_over_time_is_stored_once_and_starts_where_it_is() {
    let scene = Scene::new();
    let set = |weight: serde_json::Value| {
        let member = json!({ "data": "192.0.2.1", "weight": weight });
        json!({ "ttl": 60, "policy": "weighted",
            "members": [member, { "data": "192.0.2.2", "weight": 9 }] })
        .to_string()
    };
    scene.put(WWW, &set(json!(40))).done();
    scene.put(WWW, &set(json!({ "to": 100, "over": "30d" }))).done();
    let told = scene.get(WWW).done();
    let weight = &told["members"][0]["weight"];
    assert_eq!(
        (&weight["from"], &weight["to"], &weight["now"]),
        (&json!(40), &json!(100), &json!(40))
    );
    let number = |key: &str| weight[key].as_u64().expect("a time");
    assert_eq!(number("end_seconds") - number("start_seconds"), 30 * 86_400);
    // What was read can be written back, and changes nothing.
    let members = json!({ "ttl": 60, "policy": "weighted", "members": told["members"] });
    scene.put(WWW, &members.to_string()).done();
    assert_eq!(scene.get(WWW).done()["revision"], told["revision"]);
    let (path, accept) = ("/v1/zones/example.org/export", "Accept: application/x-ndjson");
    let export = scene.ask("GET", path, &scene.root, &[accept], b"").body;
    let export = String::from_utf8(export).expect("text");
    assert!(export.contains("end_seconds") && !export.contains(r#""now""#), "{export}");
    // Half of it is over: the next change starts from there.
    let start = number("start_seconds") - 15 * 86_400;
    let half = json!({ "from": 40, "to": 100, "start_seconds": start,
        "end_seconds": start + 30 * 86_400 });
    scene.put(WWW, &set(half)).done();
    scene.put(WWW, &set(json!({ "to": 0, "over": "1h" }))).done();
    assert_eq!(scene.get(WWW).done()["members"][0]["weight"]["from"], 70);
    for (weight, field) in [
        (json!({ "to": 65_536, "over": "1h" }), "members[0].weight.to"),
        (json!({ "to": 1, "over": "0s" }), "members[0].weight.over"),
        (json!({ "to": 1, "over": "31d" }), "members[0].weight.over"),
    ] {
        assert_eq!(scene.put(WWW, &set(weight)).refused(422).0, field);
    }
    let plain = json!({ "ttl": 60,
        "members": [{ "data": "192.0.2.1", "weight": { "to": 1, "over": "1h" } }] });
    assert_eq!(scene.put(WWW, &plain.to_string()).refused(422).0, "members[0].weight");
}

#[test]
fn rules_that_a_set_cannot_have_are_refused_with_their_field() {
    let scene = Scene::new();
    for (path, more, field) in [
        (WWW, json!({ "check": "none" }), "check"),
        (WWW, json!({ "policy": "random" }), "policy"),
        (WWW, json!({ "policy": "one", "then": "hash" }), "then"),
        (WWW, json!({ "then": "sorted" }), "then"),
        (WWW, json!({ "min_up": "0%" }), "min_up"),
        (WWW, json!({ "min_up": 0 }), "min_up"),
    ] {
        let mut body = json!({ "ttl": 60, "data": ["192.0.2.1"] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(scene.put(path, &body.to_string()).refused(422).0, field, "{body}");
    }
    let text = "/v1/zones/example.org/rrsets/www.example.org/TXT";
    let body = json!({ "ttl": 60, "data": ["a"], "policy": "failover" }).to_string();
    assert_eq!(scene.put(text, &body).refused(422).0, "policy");
    let far = json!({ "ttl": 60, "members": [{ "data": "192.0.2.1", "location": "a//b" }] });
    assert_eq!(scene.put(WWW, &far.to_string()).refused(422).0, "members[0].location");
    let twice = json!({ "ttl": 60, "members": [
        { "data": "192.0.2.1", "tier": 1 }, { "data": "192.0.2.1", "tier": 2 },
    ]});
    assert_eq!(scene.put(WWW, &twice.to_string()).refused(422).0, "members");
}

#[test]
fn endpoint_is_set_and_shown() {
    let scene = Scene::new();
    let body = json!({ "ttl": 60, "check": "web", "data": ["198.51.100.1", "198.51.100.2"] });
    scene.put(&format!("{WWW}?wait=live"), &body.to_string()).done();
    let path = "/v1/endpoints/198.51.100.1";
    scene.put(path, r#"{"state":"drain","reason":"moves"}"#).done();
    let told = scene.get("/v1/health?name=www.example.org").done();
    assert_eq!(told["sets"][0]["name"], "www.example.org.");
    let target = &told["targets"][0];
    assert_eq!(target["operator"]["state"], "drain", "{told}");
    assert_eq!(target["operator"]["why"], "moves");
    let last = "/v1/endpoints/198.51.100.2";
    let kind = |reply: crate::scene::Reply| reply.json()["type"].as_str().unwrap().to_owned();
    let refused = scene.put(last, r#"{"state":"drain"}"#);
    assert_eq!((refused.status, kind(refused)), (409, "urn:dunlin:problem:last-member".into()));
    scene.put(last, r#"{"state":"drain","even_last":true}"#).done();
    scene.put(path, r#"{"state":"auto"}"#).done();
    scene.put(path, r#"{"state":"away"}"#).refused(422);
    scene.put("/v1/endpoints/x", r#"{"state":"drain"}"#).refused(422);
    // An address of no set: probably misspelled.
    let misspelled = "/v1/endpoints/198.51.100.111";
    for state in ["drain", "auto"] {
        let body = json!({ "state": state }).to_string();
        assert_eq!(scene.put(misspelled, &body).refused(404).0, "address");
    }
    scene.put(misspelled, r#"{"state":"drain","any":true}"#).done();
    scene.put(misspelled, r#"{"state":"auto"}"#).done();
    scene.put(misspelled, r#"{"state":"auto"}"#).refused(404);
    scene.put(path, r#"{"state":"drain","check":"none"}"#).refused(404);
    scene.get("/v1/health?name=none.example.org").refused(404);
}

fn patch(scene: &Scene, change: serde_json::Value) -> crate::scene::Reply {
    let mut change = change;
    change["name"] = "www.example.org".into();
    change["type"] = "A".into();
    let body = json!({ "changes": [change] }).to_string();
    let json = ["Content-Type: application/json"];
    scene.ask("PATCH", "/v1/zones/example.org/rrsets", &scene.root, &json, body.as_bytes())
}

/// No client reads the set, so none conflicts.
#[test]
fn hundred_clients_each_add_a_member_without_a_conflict() {
    let scene = Scene::new();
    let body = json!({ "ttl": 60, "check": "web", "data": ["198.51.100.200"] });
    scene.put(WWW, &body.to_string()).done();
    std::thread::scope(|scope| {
        for n in 0..100 {
            let add = json!({ "add": { "ttl": 30, "data": [format!("198.51.100.{n}")] } });
            let scene = &scene;
            scope.spawn(move || patch(scene, add).done());
        }
    });
    let told = scene.get(WWW).done();
    assert_eq!(told["data"].as_array().unwrap().len(), 101);
    assert_eq!((&told["ttl"], &told["check"]), (&json!(30), &json!("web")), "the check stays");
    std::thread::scope(|scope| {
        for n in 0..100 {
            let take = json!({ "remove": { "data": [format!("198.51.100.{n}")] } });
            let scene = &scene;
            scope.spawn(move || patch(scene, take).done());
        }
    });
    assert_eq!(scene.get(WWW).done()["data"], json!(["198.51.100.200"]));
    patch(&scene, json!({ "remove": { "data": ["198.51.100.200"] } })).done();
    scene.get(WWW).refused(404);
    patch(&scene, json!({ "remove": { "data": ["198.51.100.200"] } })).done();
}

#[test]
fn change_has_one_of_put_add_and_remove() {
    let scene = Scene::new();
    let add = json!({ "ttl": 60, "data": ["192.0.2.1"] });
    for change in [json!({}), json!({ "put": null, "add": add }), json!({ "add": null })] {
        patch(&scene, change).refused(400);
    }
    let wrong = json!({ "remove": { "data": ["192.0.2.256"] } });
    assert_eq!(patch(&scene, wrong).refused(422).0, "changes[0].remove.data[0]");
    let members = json!({ "add": { "ttl": 60, "members": [{ "data": "192.0.2.9", "tier": 1 }] } });
    patch(&scene, members).done();
    assert_eq!(scene.get(WWW).done()["members"][0]["tier"], 1);
}

//! What is too much, too many or too slow.
use crate::scene::{Scene, receive};
use api::limits::{CHANGES_MAX, CONNECTIONS_PER_CLIENT_MAX, HEADERS_MAX, JSON_LEN_MAX};
use serde_json::json;
use std::io::{Read, Write};

const SETS: &str = "/v1/zones/example.org/rrsets";

#[test]
fn a_body_that_is_too_long_is_refused_before_it_is_read() {
    let scene = Scene::new();
    let long = vec![b' '; JSON_LEN_MAX + 1];
    let json = ["Content-Type: application/json"];
    scene.ask("PATCH", SETS, &scene.root, &json, &long).refused(413);
    let mut stream = scene.connect();
    let head = format!(
        "PATCH {SETS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n",
        scene.root
    );
    stream.write_all(head.as_bytes()).expect("sent");
    receive(&mut stream).expect("a reply").refused(413);
}

#[test]
fn changes_records_and_fields_have_an_end() {
    let scene = Scene::new();
    let change = json!({ "name": "a.example.org", "type": "A", "put": null });
    let changes = json!({ "changes": vec![change; CHANGES_MAX + 1] });
    let (field, rule) = scene.patch(SETS, &changes.to_string()).refused(422);
    assert_eq!((&*field, &*rule), ("changes", "limit"));
    let data: Vec<String> =
        (0..=model::RECORDS_MAX).map(|n| format!("10.0.{}.{}", n / 256, n % 256)).collect();
    let body = json!({ "ttl": 60, "data": data });
    let (field, _) = scene.put(&format!("{SETS}/a.example.org/A"), &body.to_string()).refused(422);
    assert_eq!(field, "data");
    let fields: Vec<String> = (0..=HEADERS_MAX).map(|n| format!("X-{n}: 1")).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    assert_eq!(scene.ask("GET", SETS, &scene.root, &fields, b"").status, 431);
}

#[test]
fn one_client_does_not_take_all_places() {
    let scene = Scene::new();
    let mut open: Vec<_> = (0..CONNECTIONS_PER_CLIENT_MAX).map(|_| scene.connect()).collect();
    // Those are accepted in their order; one that is served shows that all before it have a place.
    let head = format!(
        "GET /v1/zones HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\r\n",
        scene.root
    );
    let last = open.last_mut().expect("many");
    last.write_all(head.as_bytes()).expect("sent");
    assert_eq!(last.read(&mut [0; 1]).expect("a reply"), 1);
    let mut more = scene.connect();
    let heard = more.read(&mut [0; 1]);
    assert!(!matches!(heard, Ok(1..)), "hung up on: {heard:?}");
    drop(open);
    let until = std::time::Instant::now() + crate::scene::PATIENCE;
    loop {
        let mut stream = scene.connect();
        let asked = head.replace("Host: a", "Host: a\r\nConnection: close");
        if stream.write_all(asked.as_bytes()).is_ok() && receive(&mut stream).is_some() {
            break;
        }
        assert!(std::time::Instant::now() < until, "the places are free again");
    }
}

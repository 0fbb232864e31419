//! What is too much, too many or too slow.
use crate::scene::{Scene, receive};
use api::limits::{
    BODIES_LEN_MAX, CHANGES_MAX, CONNECTIONS_PER_CLIENT_MAX, HEADER_TIME_MAX, HEADER_TIME_SCARCE,
    HEADERS_MAX, JSON_LEN_MAX, JSON_WEIGHT,
};
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
    let set = json!({ "name": "a.b.example", "type": "A", "ttl": 60, "data": ["192.0.2.1"] });
    let zone = json!({ "rrsets": vec![set; CHANGES_MAX] });
    let (field, rule) = scene.put("/v1/zones/b.example", &zone.to_string()).refused(422);
    assert_eq!((&*field, &*rule), ("rrsets", "limit"), "the zone is a change, too");
    let data: Vec<String> =
        (0..=model::RECORDS_MAX).map(|n| format!("10.0.{}.{}", n / 256, n % 256)).collect();
    let body = json!({ "ttl": 60, "data": data });
    let (field, _) = scene.put(&format!("{SETS}/a.example.org/A"), &body.to_string()).refused(422);
    assert_eq!(field, "data");
    let fields: Vec<String> = (0..=HEADERS_MAX).map(|n| format!("X-{n}: 1")).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    assert_eq!(scene.ask("GET", SETS, &scene.root, &fields, b"").status, 431);
}

/// Who asks too often is told so, is counted, and holds up nobody else.
#[test]
fn each_principal_has_its_requests_a_second() {
    let scene = Scene::of_rate(2);
    let ask = |token: &str| scene.ask("GET", "/v1/lifecycle", token, &[], b"");
    let until = std::time::Instant::now() + crate::scene::PATIENCE;
    let refused = loop {
        let reply = ask(&scene.root);
        match reply.status {
            429 => break reply,
            status => assert!(status == 200 && std::time::Instant::now() < until, "{reply:?}"),
        }
    };
    refused.refused(429);
    assert_eq!(refused.field("retry-after"), Some("1"));
    let other = scene.token("other", &["read *"]);
    assert_eq!(ask(&other).status, 200, "nobody else is held up");
    let told = scene.counts.status();
    assert!(told.requests["429"] >= 1 && told.requests["200"] >= 2, "{told:?}");
    assert!(told.connections_accepted >= 4, "{told:?}");
}

/// What was written is counted with how long it took; what was only read is not.
#[test]
fn writes_are_counted_with_their_time() {
    let scene = Scene::new();
    let body = r#"{"ttl":60,"data":["192.0.2.1"]}"#;
    scene.put(&format!("{SETS}/a.example.org/A"), body).done();
    scene.put(&format!("{SETS}/b.example.org/A?wait=live"), body).done();
    scene.put(&format!("{SETS}/b.example.net/A"), body).refused(422);
    scene.get(SETS).done();
    let told = scene.counts.status();
    let count = |counts: &[u64]| counts.iter().sum::<u64>();
    assert_eq!((count(&told.durable.counts), count(&told.live.counts)), (3, 1), "{told:?}");
    assert_eq!(told.requests["422"], 1);
}

/// What JSON takes in memory is bounded too: bodies that are not done with yet take room.
#[test]
fn bodies_that_are_under_way_have_an_end() {
    let scene = Scene::new();
    let head = format!(
        "PATCH {SETS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {JSON_LEN_MAX}\r\n\r\n",
        scene.root
    );
    let part = vec![b' '; JSON_LEN_MAX - 1];
    let most = BODIES_LEN_MAX / (JSON_LEN_MAX * JSON_WEIGHT);
    let mut under_way: Vec<_> = (0..=most)
        .map(|_| {
            let mut stream = scene.connect();
            stream.write_all(head.as_bytes()).expect("sent");
            // Who is refused before all of it was read is told so all the same.
            let _ = stream.write_all(&part);
            stream
        })
        .collect();
    let mut statuses: Vec<u16> = Vec::new();
    for stream in &mut under_way {
        let _ = stream.write_all(b" ");
        statuses.push(receive(stream).expect("a reply").status);
    }
    assert!(statuses.contains(&503), "one more than there is room for: {statuses:?}");
    assert!(statuses.iter().all(|status| [400, 503].contains(status)), "{statuses:?}");
    scene.put(&format!("{SETS}/a.example.org/A"), r#"{"ttl":60,"data":["192.0.2.1"]}"#).done();
}

/// Where places are few, whoever asks nothing soon makes room; who had one before keeps it.
#[test]
fn who_asks_nothing_where_places_are_few_is_hung_up_on_soon() {
    let scene = Scene::new();
    let mut open: Vec<_> = (0..=CONNECTIONS_PER_CLIENT_MAX / 2).map(|_| scene.connect()).collect();
    let began = std::time::Instant::now();
    let mut last = open.pop().expect("many");
    assert_eq!(last.read(&mut [0; 1]).expect("the end"), 0);
    let took = began.elapsed();
    assert!(took >= HEADER_TIME_SCARCE / 2 && took < HEADER_TIME_MAX, "{took:?}");
    let first = open.first_mut().expect("many");
    let head = "GET /v1/openapi.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    first.write_all(head.as_bytes()).expect("sent");
    assert_eq!(receive(first).expect("a reply").status, 200);
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

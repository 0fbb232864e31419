//! Requests that are too large, too many or too slow.
use crate::scene::{Scene, receive};
use api::limits::{
    BODIES_LEN_MAX, BODIES_PER_PRINCIPAL_MAX, CHANGES_MAX, CONNECTIONS_PER_CLIENT_MAX, EXPORTS_MAX,
    EXPORTS_PER_PRINCIPAL_MAX, HEADERS_MAX, JSON_LEN_MAX, JSON_WEIGHT,
};
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const SETS: &str = "/v1/zones/example.org/rrsets";
/// Maximum time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn too_long_body_is_refused_before_it_is_read() {
    let scene = Scene::new();
    let long = vec![b' '; JSON_LEN_MAX + 1];
    let json = ["Content-Type: application/json"];
    scene.ask("PATCH", SETS, &scene.root, &json, &long).refused(413);
    let fields = ["Connection: close", json[0], "Content-Length: 99999999999"];
    let mut stream = scene.begin(&format!("PATCH {SETS}"), &scene.root, &fields);
    receive(&mut stream).expect("a reply").refused(413);
}

#[test]
fn changes_records_and_fields_have_maxima() {
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

/// A principal above its rate gets 429, is counted, and delays no other principal.
#[test]
fn each_principal_has_its_own_request_rate() {
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
    assert_eq!(ask(&other).status, 200, "another principal is not delayed");
    let told = scene.counters.status();
    assert!(told.requests["429"] >= 1 && told.requests["200"] >= 2, "{told:?}");
    assert!(told.connections_accepted >= 4, "{told:?}");
}

/// The latency of writes is measured; reads are not in it.
#[test]
fn latency_of_writes_is_measured() {
    let scene = Scene::new();
    let body = r#"{"ttl":60,"data":["192.0.2.1"]}"#;
    scene.put(&format!("{SETS}/a.example.org/A"), body).done();
    scene.put(&format!("{SETS}/b.example.org/A?wait=live"), body).done();
    scene.put(&format!("{SETS}/b.example.net/A"), body).refused(422);
    scene.get(SETS).done();
    let told = scene.counters.status();
    let count = |counters: &[u64]| counters.iter().sum::<u64>();
    assert_eq!((count(&told.durable.counts), count(&told.live.counts)), (3, 1), "{told:?}");
    assert_eq!(told.requests["422"], 1);
}

/// The memory of JSON is bounded too: a body holds its share until the request is done.
#[test]
fn memory_of_bodies_in_progress_is_bounded() {
    let scene = Scene::new();
    let len = format!("Content-Length: {JSON_LEN_MAX}");
    let fields = ["Connection: close", "Content-Type: application/json", &len];
    let part = vec![b' '; JSON_LEN_MAX - 1];
    let most = BODIES_LEN_MAX / (JSON_LEN_MAX * JSON_WEIGHT);
    let mut under_way: Vec<_> = (0..=most)
        .map(|_| {
            let mut stream = scene.begin(&format!("PATCH {SETS}"), &scene.root, &fields);
            // A request that is refused early still gets its response.
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

/// The number of connections that the server has not closed.
fn count_open(connections: &[TcpStream]) -> usize {
    let is_open = |connection: &&TcpStream| {
        connection.set_nonblocking(true).expect("a socket");
        let peeked = connection.peek(&mut [0; 1]);
        peeked.is_err_and(|why| why.kind() == ErrorKind::WouldBlock)
    };
    connections.iter().filter(is_open).count()
}

/// The response to a request on a connection that stays open.
fn get(stream: &mut TcpStream, token: &str) -> String {
    let head =
        format!("GET /v1/zones HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut reply = vec![0; 4096];
    let len = stream.read(&mut reply).expect("a reply");
    String::from_utf8_lossy(&reply[..len]).into_owned()
}

#[test]
fn idle_unauthenticated_connections_keep_no_client_out() {
    let scene = Scene::new();
    let mut earlier = scene.connect();
    assert!(get(&mut earlier, &scene.root).starts_with("HTTP/1.1 200 "));
    let flood: Vec<_> = (0..2 * CONNECTIONS_PER_CLIENT_MAX).map(|_| scene.connect()).collect();
    assert_eq!(scene.get("/v1/zones").status, 200, "a newcomer is answered");
    let reply = get(&mut earlier, &scene.root);
    assert!(reply.starts_with("HTTP/1.1 200 "), "it keeps its place: {reply}");
    let open = count_open(&flood);
    assert!(open < CONNECTIONS_PER_CLIENT_MAX, "{open} of {} stay", flood.len());
    assert!(scene.counters.status().connections_evicted > 0);
}

#[test]
fn unfinished_bodies_keep_no_other_principal_out() {
    let scene = Scene::new();
    let token = scene.token("ci", &["write *"]);
    let media = "Content-Type: application/json";
    let fields = ["Expect: 100-continue", media, "Content-Length: 100", "Connection: close"];
    let mut bodies = Vec::new();
    for number in 0..CONNECTIONS_PER_CLIENT_MAX {
        let mut stream = scene.begin(&format!("PATCH {SETS}"), &token, &fields);
        if number < BODIES_PER_PRINCIPAL_MAX {
            // The server waits for the body.
            let mut reply = *b"HTTP/1.1 100 Continue\r\n\r\n";
            stream.read_exact(&mut reply).expect("a reply");
            assert!(reply.starts_with(b"HTTP/1.1 100 "));
        } else {
            receive(&mut stream).expect("a reply").refused(429);
        }
        bodies.push(stream);
    }
    let body = r#"{"ttl":60,"data":["192.0.2.1"]}"#;
    scene.put(&format!("{SETS}/a.example.org/A"), body).done();
    let unfinished = &bodies[..BODIES_PER_PRINCIPAL_MAX];
    assert_eq!(count_open(unfinished), BODIES_PER_PRINCIPAL_MAX, "none of them is cut off");
}

/// Writes more into a zone than the sockets and queues of one response can hold.
fn fill(scene: &Scene) {
    let text = "a".repeat(60_000);
    for part in 0..3 {
        let changes = (0..120).map(|n| {
            let name = format!("n{part}-{n}.example.org");
            json!({ "name": name, "type": "TXT", "put": { "ttl": 60, "data": [text] } })
        });
        let changes: Vec<_> = changes.collect();
        scene.patch(SETS, &json!({ "changes": changes }).to_string()).done();
    }
}

/// An export whose response has begun, and is not read any further.
fn begin_export(scene: &Scene, token: &str) -> TcpStream {
    let mut stream = scene.begin("GET /v1/zones/example.org/export", token, &[]);
    let mut begin = [0; 15];
    stream.read_exact(&mut begin).expect("a reply");
    assert_eq!(&begin, b"HTTP/1.1 200 OK");
    stream
}

#[test]
fn exports_that_are_not_read_keep_no_other_principal_out() {
    let scene = Scene::new();
    fill(&scene);
    let ask = |token: &str| scene.ask("GET", "/v1/zones/example.net/export", token, &[], b"");
    let tokens = (0..EXPORTS_MAX / EXPORTS_PER_PRINCIPAL_MAX)
        .map(|n| scene.token(&format!("slow{n}"), &["read *"]));
    let tokens: Vec<_> = tokens.collect();
    let mut slow = Vec::new();
    for token in &tokens {
        // The principal is served although others have their maximum.
        ask(token).refused(404);
        let begun = (0..EXPORTS_PER_PRINCIPAL_MAX).map(|_| begin_export(&scene, token));
        slow.extend(begun.collect::<Vec<_>>());
        let refused = ask(token);
        assert_eq!(refused.field("retry-after"), Some("1"));
        refused.refused(429);
    }
    assert_eq!(slow.len(), EXPORTS_MAX);
    let refused = ask(&scene.root);
    assert!(String::from_utf8_lossy(&refused.body).contains("16 exports are in progress"));
    refused.refused(503);
    scene.get(SETS).done();
    // Clients that hang up free their permits.
    drop(slow);
    let until = Instant::now() + PATIENCE;
    while ask(&scene.root).status == 503 {
        assert!(Instant::now() < until, "the exports are still under way");
    }
    drop(begin_export(&scene, &tokens[0]));
}

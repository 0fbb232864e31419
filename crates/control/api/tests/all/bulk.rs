//! Import and export of whole zones.
use crate::scene::{PATIENCE, Scene, receive};
use api::limits::{IMPORT_BATCH_LEN, IMPORTS_MAX, LINE_LEN_MAX};
use serde_json::json;
use std::io::Write;
use std::time::Instant;
use wire::Rtype;

const IMPORT: &str = "/v1/zones/example.org/import";
const EXPORT: &str = "/v1/zones/example.org/export";
const NDJSON: &str = "Content-Type: application/x-ndjson";
const DNS: &str = "Content-Type: text/dns";

fn line(number: usize) -> String {
    let data = format!("10.0.{}.{}", number / 256, number % 256);
    json!({ "name": format!("n{number}.example.org."), "type": "A", "ttl": 5, "data": [data] })
        .to_string()
        + "\n"
}

fn import(scene: &Scene, media: &str, body: &str) -> crate::scene::Reply {
    scene.ask("POST", &format!("{IMPORT}?wait=live"), &scene.root, &[media], body.as_bytes())
}

#[test]
fn export_can_be_imported_in_both_forms() {
    let scene = Scene::new();
    let body: String = (0..2_500).map(line).collect();
    let told = import(&scene, NDJSON, &body).done();
    assert_eq!((&told["rrsets"], &told["records"]), (&json!(2_500), &json!(2_500)), "{told}");
    assert_eq!(scene.answered("example.org", "n2499.example.org", Rtype::A), [[10, 0, 9, 195]]);
    for (accept, media) in [("Accept: application/x-ndjson", NDJSON), ("Accept: text/dns", DNS)] {
        let exported = scene.ask("GET", EXPORT, &scene.root, &[accept], b"");
        assert_eq!(exported.field("content-type"), media.split(": ").nth(1));
        let exported_at = exported.field("etag").map(str::to_owned);
        let exported_at = exported_at.zip(exported.field("dunlin-revision").map(str::to_owned));
        let text = String::from_utf8(exported.body).expect("text");
        let revision = scene.get("/v1/zones/example.org").done()["revision"].to_string();
        assert_eq!(exported_at, Some((format!("\"{revision}\""), revision.clone())));
        let is_note = |line: &&str| line.starts_with(';');
        let notes: Vec<&str> = text.lines().filter(is_note).collect();
        let note = format!("; example.org. at revision {revision}");
        assert_eq!(notes, if media == DNS { vec![&*note] } else { vec![] });
        let text: String =
            text.lines().filter(|line| !is_note(line)).map(|line| format!("{line}\n")).collect();
        assert_eq!(text.lines().count(), 2_502, "an SOA, an NS, and the rest");
        assert!(text.lines().next().expect("a line").contains("SOA"), "{:.200}", text);
        let other = Scene::new();
        let told = import(&other, media, &text).done();
        assert_eq!(told["rrsets"], json!(2_502));
        let again = other.ask("GET", EXPORT, &other.root, &[accept], b"");
        let again = String::from_utf8(again.body).expect("text");
        let is_other = |line: &&str| !line.starts_with(';') && !line.contains("SOA");
        let without_soa =
            |text: &str| text.lines().filter(is_other).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(without_soa(&again), without_soa(&text), "but for the serial");
    }
}

#[test]
fn first_invalid_line_is_reported_with_what_was_written() {
    let scene = Scene::new();
    let mut body: String = (0..1_500).map(line).collect();
    body += "{\"name\":\"x.example.org\",\"type\":\"A\",\"ttl\":5,\"data\":[\"10.0.0\"]}\n";
    let reply = import(&scene, NDJSON, &body);
    let (field, rule) = reply.refused(422);
    let told = reply.json();
    assert_eq!((&*field, &*rule, &told["line"]), ("data[0]", "data", &json!(1_501)));
    assert_eq!(told["written"], json!(1_000), "whole thousands: {told}");
    scene.get("/v1/zones/example.org/rrsets/n999.example.org/A").done();
    scene.get("/v1/zones/example.org/rrsets/n1000.example.org/A").refused(404);
    let reply = import(
        &scene,
        NDJSON,
        "{\"name\":\"a.example.net\",\"type\":\"A\",\"ttl\":5,\"data\":[\"10.0.0.1\"]}\n",
    );
    assert_eq!(reply.refused(422).1, "out-of-zone");
    assert_eq!(reply.json()["line"], json!(1));
    import(&scene, NDJSON, "no JSON\n").refused(400);
    import(&scene, "Content-Type: text/csv", "").refused(415);
}

/// A batch that the record service refuses ends an import; later batches in progress are written
/// and reported.
#[test]
fn batches_written_after_a_refused_one_are_reported() {
    let scene = Scene::new();
    let mut lines: Vec<String> = (0..2_500).map(line).collect();
    let alias = json!({ "name": "example.org", "type": "CNAME", "ttl": 5, "data": ["a.example."] });
    lines[1_234] = alias.to_string() + "\n";
    let reply = import(&scene, NDJSON, &lines.concat());
    assert_eq!(reply.refused(422), ("name".into(), "cname-alone".into()));
    let told = reply.json();
    assert_eq!((&told["line"], &told["written"]), (&json!(1_235), &json!(1_500)), "{told}");
    scene.get("/v1/zones/example.org/rrsets/n1000.example.org/A").refused(404);
    scene.get("/v1/zones/example.org/rrsets/n2499.example.org/A").done();
}

/// A batch is bounded in bytes too: with long lines it has fewer sets.
#[test]
fn batch_of_long_lines_is_bounded_in_bytes() {
    let scene = Scene::new();
    let text: Vec<String> = (0..200).map(|n| format!("{n:0>250}")).collect();
    let line = |number: usize| {
        let name = format!("n{number}.example.org.");
        json!({ "name": name, "type": "TXT", "ttl": 5, "data": text }).to_string() + "\n"
    };
    let body: String = (0..50).map(line).collect();
    assert!(body.len() > 2 * IMPORT_BATCH_LEN);
    let told = import(&scene, NDJSON, &body).done();
    assert_eq!(told["rrsets"], json!(50), "{told}");
    let (mut batches, mut after) = (0, json!(0));
    while !after.is_null() {
        let path = format!("/v1/zones/example.org/journal?after={after}");
        let mut journal = scene.get(&path).done();
        batches += journal["entries"].as_array().expect("entries").len();
        after = journal["next"].take();
    }
    assert!(batches > 3, "{batches}: more than one, though far from a thousand sets");
}

/// A line is scanned once, however small its chunks are.
#[test]
fn line_in_chunks_of_one_byte_costs_no_more() {
    let scene = Scene::new();
    let piece = |byte: char| format!("1\r\n{byte}\r\n");
    let blanks = piece(' ').repeat(LINE_LEN_MAX / 4);
    let set = line(1).chars().map(piece).collect::<String>();
    let fields = [NDJSON, "Connection: close", "Transfer-Encoding: chunked"];
    let mut stream = scene.begin(&format!("POST {IMPORT}"), &scene.root, &fields);
    stream.write_all((blanks + &set + "0\r\n\r\n").as_bytes()).expect("sent");
    let told = receive(&mut stream).expect("a reply").done();
    assert_eq!(told["rrsets"], json!(1), "{told}");
}

#[test]
fn line_without_an_end_is_refused() {
    let scene = Scene::new();
    let reply = import(&scene, NDJSON, &" ".repeat(LINE_LEN_MAX + 1));
    assert_eq!(reply.refused(422), ("line".into(), "limit".into()));
}

#[test]
fn concurrent_imports_have_a_maximum() {
    let scene = Scene::new();
    let fields = [NDJSON, "Connection: close", "Content-Length: 1000"];
    let open = || scene.begin(&format!("POST {IMPORT}"), &scene.root, &fields);
    let mut under_way: Vec<_> = (0..IMPORTS_MAX).map(|_| open()).collect();
    // They are accepted in order, but the server may not have read all of them yet.
    let until = Instant::now() + PATIENCE;
    let refused = loop {
        let reply = import(&scene, NDJSON, &line(1));
        match reply.status {
            503 => break reply,
            _ => assert!(Instant::now() < until, "{reply:?}"),
        }
    };
    refused.refused(503);
    assert_eq!(refused.field("retry-after"), Some("1"));
    for stream in &mut under_way {
        stream.write_all(&[b' '; 1000]).expect("sent");
        receive(stream).expect("a reply").done();
    }
    import(&scene, NDJSON, &line(1)).done();
}

#[test]
fn zone_file_is_imported_and_its_errors_have_lines() {
    let scene = Scene::new();
    let text = "$TTL 60\nwww A 192.0.2.1\nmail A 192.0.2.3\nwww 30 A 192.0.2.2\n";
    let told = import(&scene, DNS, text).done();
    assert_eq!((&told["rrsets"], &told["records"]), (&json!(2), &json!(3)));
    let www = scene.get("/v1/zones/example.org/rrsets/www.example.org/A").done();
    assert_eq!((&www["ttl"], &www["data"]), (&json!(30), &json!(["192.0.2.1", "192.0.2.2"])));
    let reply = import(&scene, DNS, "$TTL 60\nwww A 192.0.2\n");
    assert_eq!((reply.refused(422).1, reply.json()["line"].clone()), ("data".into(), json!(2)));
    let reply = import(&scene, DNS, "$TTL 60\n$INCLUDE /etc/passwd\n");
    assert_eq!(reply.refused(422).1, "include", "no file of the server is read");
}

#[test]
fn zone_file_without_a_last_newline_is_held_until_accepted() {
    let scene = Scene::new();
    let text = "$TTL 60\nwww A 192.0.2.1\nmail A 192.0.2.2";
    let reply = import(&scene, DNS, text);
    reply.refused(409);
    let told = reply.json();
    assert_eq!((&told["type"], &told["line"]), (&json!("urn:dunlin:problem:held"), &json!(3)));
    scene.get("/v1/zones/example.org/rrsets/www.example.org/A").refused(404);
    let path = "/v1/zones/example.org/import?accept_loss=true";
    let told = scene.ask("POST", path, &scene.root, &[DNS], text.as_bytes()).done();
    assert_eq!(told["rrsets"], 2);
    // A line that was cut is not JSON.
    let reply = import(&scene, NDJSON, &line(1)[..20]);
    assert_eq!(reply.json()["line"], 1, "{:?}", reply.json());
    import(&scene, NDJSON, line(1).trim_end()).done();
}

#[test]
fn last_of_two_equal_sets_in_an_import_wins() {
    let scene = Scene::new();
    let one = "{\"name\":\"a.example.org\",\"type\":\"A\",\"ttl\":5,\"data\":[\"10.0.0.1\"]}\n";
    let body = one.to_owned() + &one.replace("10.0.0.1", "10.0.0.2");
    import(&scene, NDJSON, &body).done();
    assert_eq!(scene.answered("example.org", "a.example.org", Rtype::A), [[10, 0, 0, 2]]);
}

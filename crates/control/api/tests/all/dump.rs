//! Dumps of zones as they are served.
use crate::scene::{OF_FILE, Scene, name};
use wire::Rtype;

fn dump(scene: &Scene, zone: &str) -> String {
    let reply = scene.get(&format!("/v1/zones/{zone}/dump"));
    assert_eq!((reply.status, reply.field("content-type")), (200, Some("text/dns")), "{reply:?}");
    String::from_utf8(reply.body).expect("text")
}

#[test]
fn dump_has_what_is_served_of_any_zone_and_can_be_read_again() {
    let scene = Scene::new();
    assert_eq!(
        dump(&scene, OF_FILE),
        "; file.example. as served, serial 7\n\
         file.example. 60 IN SOA ns.file.example. admin.file.example. 7 1 1 1 1\n\
         file.example. 60 IN NS ns.file.example.\n\
         ns.file.example. 60 IN A 192.0.2.1\n"
    );
    let path = "/v1/zones/example.org/rrsets/a.example.org/TXT?wait=live";
    scene.put(path, r#"{"ttl":5,"data":["\"a \\\"quoted\\\" text; no comment\""]}"#).done();
    let dumped = dump(&scene, "Example.ORG");
    let (origin, mut records) = (name("example.org."), Vec::new());
    let read = zonefile::read_stream(&mut dumped.as_bytes(), origin.as_name(), &mut |record| {
        records.push((record.owner.to_string(), record.rtype, record.rdata.to_vec()));
        Ok(())
    });
    read.unwrap_or_else(|why| panic!("{why:?}"));
    assert_eq!(records[0].1, Rtype::SOA);
    let expected = scene.answered("example.org.", "a.example.org.", Rtype::TXT);
    let (owner, rtype, data) = records.last().expect("records");
    assert_eq!(
        (&**owner, *rtype, &[data.clone()][..]),
        ("a.example.org.", Rtype::TXT, &expected[..])
    );
}

#[test]
fn dump_needs_a_grant_for_the_whole_zone_and_a_zone() {
    let scene = Scene::new();
    let whole = scene.token("whole", &["read file.example"]);
    let part = scene.token("part", &["read file.example ns.file.example"]);
    let ask = |token: &str, zone: &str| {
        scene.ask("GET", &format!("/v1/zones/{zone}/dump"), token, &[], b"")
    };
    assert_eq!(ask(&whole, OF_FILE).status, 200);
    ask(&part, OF_FILE).refused(403);
    ask(&whole, "example.org").refused(403);
    ask(&scene.root, "www.example.org").refused(404);
}

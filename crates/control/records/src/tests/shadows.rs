//! Record sets that are not served.
use super::*;

#[test]
fn hidden_sets_are_reported_with_their_cause() {
    let scene = with_zone();
    let sets = [
        ("www.example.org.", Rtype::A, None),
        ("sub.example.org.", Rtype::NS, None),
        ("sub.example.org.", Rtype::TXT, Some("the delegation sub.example.org.")),
        ("www.sub.example.org.", Rtype::A, Some("the delegation sub.example.org.")),
        ("a.b.sub.example.org.", Rtype::TXT, Some("the delegation sub.example.org.")),
        ("ns.sub.example.org.", Rtype::A, None),
        ("ns.sub.example.org.", Rtype::TXT, Some("the delegation sub.example.org.")),
        ("in.sub.example.org.", Rtype::NS, Some("the delegation sub.example.org.")),
        ("x.in.sub.example.org.", Rtype::A, Some("the delegation sub.example.org.")),
        ("alias.example.org.", Rtype::DNAME, None),
        ("alias.example.org.", Rtype::A, None),
        ("deep.zone.example.org.", Rtype::A, Some("the zone zone.example.org.")),
        ("zone.example.org.", Rtype::TXT, Some("the zone zone.example.org.")),
        ("zone.example.org.", Rtype::NS, Some("the zone zone.example.org.")),
        ("zone.example.org.", Rtype::DS, None),
        ("subzone.example.org.", Rtype::A, None),
    ];
    let text = |name: &str, rtype| match (name, rtype) {
        (_, Rtype::A) => "10.0.0.1",
        ("sub.example.org.", Rtype::NS) => "NS.sub.example.org.",
        _ => "elsewhere.test.",
    };
    let edits = sets.iter().map(|(name, rtype, _)| put(name, *rtype, text(name, *rtype)));
    scene.write(edits.collect()).unwrap();
    scene.create("zone.example.org.").unwrap();
    let keys: Vec<_> = sets.iter().map(|(name, rtype, _)| key(name, *rtype)).collect();
    let found = scene.service.shadows(&keys);
    for ((name, rtype, expected), found) in sets.iter().zip(found) {
        let found = found.map(|shadow| shadow.to_string());
        assert_eq!(found.as_deref(), *expected, "{name} {rtype}");
    }
    let hidden = sets.iter().filter(|(.., expected)| expected.is_some()).count();
    let origin = name("example.org.");
    assert_eq!(scene.service.count_shadowed(origin.as_name()), hidden as u64);
    scene.write(vec![remove("sub.example.org.", Rtype::NS)]).unwrap();
    let www = scene.service.shadows(&[key("www.sub.example.org.", Rtype::A)]);
    assert_eq!(www, [None], "it is served once nothing hides it");
}

#[test]
fn file_zone_hides_sets_of_the_store_below_it() {
    let scene = with_zone();
    let www = "www.file.example.org.";
    scene.write(vec![put(www, Rtype::A, "10.0.0.1")]).unwrap();
    assert_eq!(scene.service.count_shadowed(name("example.org.").as_name()), 0);
    let key = Arc::clone(scene.publisher.image().key());
    let zone = Zone::unloaded(key, name("file.example.org.").as_name());
    scene.publish_of_file(zone);
    let found = scene.service.shadows(&[super::key(www, Rtype::A)]);
    let shown = found[0].as_ref().map(ToString::to_string);
    assert_eq!(shown.as_deref(), Some("the zone file.example.org."));
    assert_eq!(scene.service.count_shadowed(name("example.org.").as_name()), 1);
}

#[test]
fn record_below_a_dname_is_refused_and_changes_nothing() {
    let scene = with_zone();
    let at = |name: &str| put(name, Rtype::A, "10.0.0.1");
    let dname = || put("d.example.org.", Rtype::DNAME, "x.example.net.");
    scene.write(vec![at("d.example.org."), dname()]).expect("beside it");
    assert_eq!(rule(scene.write(vec![at("a.d.example.org.")])), "below-dname");
    assert_eq!(
        rule(scene.write(vec![at("e.example.org."), at("b.a.d.example.org.")])),
        "below-dname"
    );
    assert_eq!(scene.answered("e.example.org.", Rtype::A), None);
    // A DNAME record hides nothing that exists.
    scene.write(vec![at("a.e.example.org.")]).expect("a record");
    let other = put("e.example.org.", Rtype::DNAME, "x.example.net.");
    assert_eq!(rule(scene.write(vec![other.clone()])), "below-dname");
    let gone = remove("a.e.example.org.", Rtype::A);
    scene.write(vec![gone, other]).expect("nothing is below it any more");
    // Nor in a new zone.
    let edits = vec![
        put("example.net.", Rtype::NS, "ns.example.org."),
        put("d.example.net.", Rtype::DNAME, "x.example.org."),
        put("a.d.example.net.", Rtype::A, "10.0.0.1"),
    ];
    let refused = scene.service.create_zone(batch("example.net.", edits)).wait();
    assert_eq!(rule(refused.map(|written| written.revision)), "below-dname");
}

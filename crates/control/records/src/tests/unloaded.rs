//! Zones with unknown content (invariant I10).
use super::*;

#[test]
fn unloaded_zone_is_neither_empty_nor_writable() {
    // A zone of the store without SOA.
    let mut store = MemoryStore::default();
    let (zone, when) = (name("example.org."), SystemTime::now());
    let action = Action::Create(Vec::new());
    let by = "x".into();
    let damaged =
        PreparedWrite { zone, revision: Revision(1), when, by, offset: None, reason: None, action };
    store.commit_and_look_up(vec![damaged].into()).unwrap();
    let of_store = scene(store);
    let image = of_store.publisher.image();
    let answered = image.zone(name("example.org.").as_name()).expect("it answers SERVFAIL");
    assert_eq!(answered.serial(), None);
    let found = of_store.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]);
    assert_eq!(found, Err(Refused::Unloaded));
    // A zone of a file.
    let of_file = scene(MemoryStore::default());
    let key = Arc::clone(of_file.publisher.image().key());
    let zone = Zone::unloaded(key, name("example.org.").as_name());
    of_file.publish_of_file(zone);
    let origin = name("example.org.");
    let page = of_file.service.page(origin.as_name(), None, &SetFilter::default(), 9);
    assert_eq!(page.err(), Some(Refused::Unloaded));
    let set = of_file.service.set(&super::key("www.example.org.", Rtype::A));
    assert_eq!(set.err(), Some(Refused::Unloaded));
}

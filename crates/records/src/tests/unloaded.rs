//! Zones of which nobody knows what they hold (invariant I10).
use super::*;

#[test]
fn a_zone_that_was_never_loaded_is_neither_empty_nor_written() {
    // One of the store, as it would be if its SOA had been lost.
    let mut store = Memory::default();
    let (zone, when) = (name("example.org."), SystemTime::now());
    let action = Action::Create(Vec::new());
    let damaged = Prepared { zone, revision: Revision(1), when, by: "x".into(), action };
    store.commit(vec![damaged]).unwrap();
    let of_store = scene(store);
    let image = of_store.control.image();
    let answered = image.zone(name("example.org.").as_name()).expect("it answers SERVFAIL");
    assert_eq!(answered.serial(), None);
    let told = of_store.write(vec![put("www.example.org.", Rtype::A, "10.0.0.1")]);
    assert_eq!(told, Err(Refused::Unloaded));
    // One of a file.
    let of_file = scene(Memory::default());
    let key = Arc::clone(of_file.control.image().key());
    let zone = Zone::unloaded(key, name("example.org.").as_name());
    of_file.control.wait(of_file.control.put_zone(zone).unwrap()).unwrap();
    of_file.files.0.lock().unwrap().push(name("example.org."));
    let origin = name("example.org.");
    let page = of_file.desk.page(origin.as_name(), None, &Filter::default(), 9);
    assert_eq!(page.err(), Some(Refused::Unloaded));
    let set = of_file.desk.set(&super::key("www.example.org.", Rtype::A));
    assert_eq!(set.err(), Some(Refused::Unloaded));
}
